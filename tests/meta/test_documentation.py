"""The documentation agrees with the code."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import attrs
import pytest
from tests.shipped_files import shipped

from imagehost_core.errors import BY_CODE
from imagehost_core.headers.header import SourceLimits
from imagehost_core.limits import MAX_FILE_BYTES, MAX_FILES_PER_REQUEST
from imagehost_core.lists import MAX_PER_PAGE
from imagehost_core.models import Links, Page
from imagehost_core.pixels.decoded_upload import MAX_QUALITY, MIN_QUALITY
from imagehost_core.resources import AlbumRecord, ImageRecord, PublicImageRecord
from imagehost_core.settings import LimitSettings, resolve_settings, variable_name
from imagehost_core.transform import MAX_OUTPUT_PIXELS, MAX_SIDE
from imagehost_core.uploads import MAX_DESCRIPTION
from imagehost_server.settings import ServerSettings


def page(workspace: Path, name: str) -> str:
    return (workspace / "docs" / name).read_text(encoding="utf-8")


def pages(workspace: Path) -> dict[str, str]:
    """Return every page for readers by its path: the site, and the files beside it in the repository."""
    patterns = ("*.md", "bench/*.md", "docs/**/*.md", "packages/*/README.md")
    paths = sorted(path for pattern in patterns for path in workspace.glob(pattern))
    return {str(path.relative_to(workspace)): path.read_text(encoding="utf-8") for path in paths}


@pytest.mark.parametrize("code", sorted(BY_CODE))
def test_every_error_code_is_documented_with_its_status_and_class(code: str, workspace: Path) -> None:
    kind = BY_CODE[code]
    row = f"| {kind.status} | `{code}` | `{kind.__name__}` |"
    assert row in page(workspace, "http.md")


def test_no_error_code_is_documented_that_does_not_exist(workspace: Path) -> None:
    rows = re.findall(r"^\| \d{3} \| `([A-Z_]+)` \|", page(workspace, "http.md"), re.MULTILINE)
    assert sorted(rows) == sorted(BY_CODE)


def documented(value: object) -> str:
    """Return a default as the table has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_every_setting_is_documented_with_its_default(workspace: Path) -> None:
    rows = dict(
        re.findall(r"^\| `(IMAGEHOST_\w+)` \| (.+?) \|", page(workspace, "settings.md"), re.MULTILINE)
    )
    _, resolved = resolve_settings([], ServerSettings)
    defaults = {
        setting.variable: "not set" if setting.value in (None, ()) else f"`{documented(setting.value)}`"
        for setting in resolved
    }
    defaults[variable_name("rendering.processes")] = "the available cores"
    defaults[variable_name("rendering.memory_budget_bytes")] = "half of the memory"
    defaults[variable_name("cors_origins")] = "`*`"
    assert rows == defaults


def test_every_limit_is_documented_with_its_value(workspace: Path) -> None:
    limits = [*attrs.asdict(SourceLimits()).values(), *(window.limit for window in LimitSettings().uploads)]
    limits += [
        MAX_FILE_BYTES,
        MAX_FILES_PER_REQUEST,
        MAX_SIDE,
        MAX_OUTPUT_PIXELS,
        MAX_PER_PAGE,
        MAX_DESCRIPTION,
    ]
    text = page(workspace, "limits.md")
    assert [limit for limit in limits if not re.search(rf"(?<![\d,]){limit:,}(?![\d,])", text)] == []


def test_the_quality_of_masters_is_documented_on_one_page(workspace: Path) -> None:
    assert f"at least {MIN_QUALITY} and at most {MAX_QUALITY}" in page(workspace, "http.md")
    ranges = re.compile(rf"\b(?:{MIN_QUALITY}|90)(?:–|-| to | and )(?:9\d)\b")
    named = [name for name, text in pages(workspace).items() if ranges.search(text)]
    assert named == []


@pytest.mark.parametrize("record", [ImageRecord, PublicImageRecord, AlbumRecord, Links, Page])
def test_every_member_of_a_record_is_documented(record: type[attrs.AttrsInstance], workspace: Path) -> None:
    named = set(re.findall(r"`(\w+)`", page(workspace, "records.md")))
    assert {attribute.name for attribute in attrs.fields(record)} - named <= {"items"}


def test_every_page_can_be_reached_from_the_navigation(workspace: Path) -> None:
    navigation = (workspace / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1]
    listed = re.findall(r"[\w/-]+\.md", navigation)
    written = [str(path.relative_to(workspace / "docs")) for path in (workspace / "docs").rglob("*.md")]
    assert sorted(listed) == sorted(written)


def records(workspace: Path) -> list[Path]:
    """Return the decision records."""
    return sorted((workspace / "docs" / "decisions").glob("[0-9]*.md"))


def test_every_decision_record_is_listed(workspace: Path) -> None:
    listed = re.findall(r"\]\((\d[\w-]+\.md)\)", page(workspace, "decisions/index.md"))
    assert listed == [path.name for path in records(workspace)]


def test_decision_records_are_few_short_and_of_one_form(workspace: Path) -> None:
    assert len(records(workspace)) <= 13
    for path in records(workspace):
        text = path.read_text(encoding="utf-8")
        assert text.startswith(f"# {path.name[:4]} ")
        assert len(text.splitlines()) <= 60
        headings = re.findall(r"^## (\w+)", text, re.MULTILINE)
        assert headings == ["Context", "Decision", "Consequences"]


def test_readme_is_short(workspace: Path) -> None:
    assert len((workspace / "README.md").read_text(encoding="utf-8").splitlines()) <= 90


def test_every_link_within_the_repository_leads_somewhere(workspace: Path) -> None:
    links = [
        (name, target)
        for name, text in pages(workspace).items()
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[\w-]+)?\)", text)
        if not re.match(r"[a-z]+:", target)
    ]
    assert [link for link in links if not (workspace / link[0]).parent.joinpath(link[1]).exists()] == []


def test_every_example_is_included_in_a_page_and_every_included_example_exists(workspace: Path) -> None:
    snippet = re.compile(r'--8<-- "([\w.]+)[":]')
    included = {name for text in pages(workspace).values() for name in snippet.findall(text)}
    assert included == {path.name for path in (workspace / "docs" / "examples").iterdir() if path.is_file()}


def test_every_benchmark_is_listed(workspace: Path) -> None:
    text = (workspace / "bench" / "README.md").read_text(encoding="utf-8")
    started = re.compile(r"^    python (?:bench/(\w+)\.py|-m bench\.(\w+))", re.MULTILINE)
    programs = {
        path.name
        for path in (workspace / "bench").glob("*.py")
        for names in started.findall(path.read_text(encoding="utf-8"))
        if path.stem in names
    }
    assert set(re.findall(r"^\| `(\w+\.py)` \|", text, re.MULTILINE)) == programs


def test_readme_shows_the_first_example_word_for_word(workspace: Path) -> None:
    example = shipped("docs/examples/embed_start.py")
    assert f"```python\n{example}```" in (workspace / "README.md").read_text(encoding="utf-8")


def test_the_site_loads_no_fonts_from_another_host(workspace: Path) -> None:
    assert re.search(r"^  font: false$", (workspace / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)


def test_every_page_begins_with_its_title(workspace: Path) -> None:
    assert [name for name, text in pages(workspace).items() if not text.startswith("# ")] == []


def test_every_file_of_the_deployment_is_documented(workspace: Path) -> None:
    text = page(workspace, "deploy.md")
    names = sorted(path.name for path in (workspace / "deploy").iterdir() if path.is_file())
    assert len(names) >= 6
    assert [name for name in names if f"`deploy/{name}`" not in text] == []


CACHE = r"\b(LRU|Read|Generation)Cache(\[.*\])?\(|class (Blob|Variant)Cache\b|lru_cache\([A-Z]"


@pytest.mark.parametrize(
    ("name", "pattern"), [("unavailable.md", r"\bUnavailableError\("), ("caches.md", CACHE)]
)
def test_a_page_names_each_module_with_a_503_or_a_cache_and_the_values_of_its_constants(
    name: str, pattern: str, workspace: Path
) -> None:
    lines = [line.split("|") for line in page(workspace, name).splitlines() if "| `imagehost_" in line]
    rows = [(cells[2].strip(" `"), cells[4]) for cells in lines]
    defining = {"imagehost_core.errors", "imagehost_core._util.lru", "imagehost_core.db.engines.database"}
    found = {
        ".".join(path.with_suffix("").parts[path.parts.index("src") + 1 :])
        for package in ("core", "server")
        for path in workspace.glob(f"packages/imagehost-{package}/src/**/*.py")
        if re.search(pattern, path.read_text(encoding="utf-8"))
    }
    assert {module for module, _ in rows} == found - defining
    for module, cell in rows:
        for constant, value in re.findall(r"`([A-Z_]+)` = ([\d,]+)", cell):
            assert getattr(import_module(module), constant) == int(value.replace(",", "")), (module, constant)
