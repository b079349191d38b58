"""Names of modules, classes and functions in docstrings and pages: each exists."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.meta.test_documentation import pages

import imagehost_client
import imagehost_core
import imagehost_server
from imagehost_client import Client, models
from imagehost_client.testing import FakeImageHost
from imagehost_core.events import EVENT_TYPES
from imagehost_core.services.delivery import ImageBlob
from imagehost_core.settings import resolve_settings
from imagehost_core.testing import FrozenClock
from imagehost_server.settings import ServerSettings

FULL_NAME = re.compile(
    r"`(?:(?:imagehost_)?(core|server|client)/|imagehost_(core|server|client)\.)([\w./]+?)/?(?:\(\))?`"
)
"""The name of a module or of what it defines, such as `core/formats.FORMATS`."""
MEMBER = re.compile(r"`([A-Z]\w+)\.(\w+)(?:\(\))?`")
"""The name of a member of a class."""
FILE = re.compile(r"(?:^|/)test_\w+\.py$|\.toml$")
"""The end of what is a file of the tests, or of texts, and no module."""


def source_of(kind: type) -> str:
    """Return the source of a class of the packages."""
    return inspect.getsource(kind) if kind.__module__.startswith("imagehost_") else ""


def has_member(owner: object, name: str) -> bool:
    """Return whether a module or class has a member, also one that only its instances have."""
    bases = getattr(owner, "__mro__", ())
    return (
        hasattr(owner, name)
        or any(name in getattr(base, "__annotations__", ()) for base in bases)
        or (inspect.isclass(owner) and any(f"self.{name}" in source_of(base) for base in bases))
    )


def exists(name: str) -> bool:
    """Return whether a dotted name is that of a module, or of a member of a module or class."""
    try:
        pkgutil.resolve_name(name)
    except (AttributeError, ModuleNotFoundError):
        owner, _, member = name.rpartition(".")
        return "." in owner and exists(owner) and has_member(pkgutil.resolve_name(owner), member)
    return True


@pytest.fixture(scope="module")
def classes(modules: list[Path]) -> dict[str, list[type]]:
    """Return the classes of the packages by their names."""
    found: dict[str, list[type]] = {}
    for path in modules:
        name = ".".join(path.with_suffix("").parts[path.parts.index("src") + 1 :]).removesuffix(".__init__")
        if not name.endswith("__main__"):
            for key, value in vars(importlib.import_module(name)).items():
                if inspect.isclass(value) and value.__module__.startswith("imagehost_"):
                    found.setdefault(key, []).append(value)
    return found


def test_every_full_name_of_the_packages_exists(tracked: list[Path], workspace: Path) -> None:
    named = {
        (
            str(path.relative_to(workspace)),
            f"imagehost_{match[1] or match[2]}.{match[3].removesuffix('.py').replace('/', '.')}",
        )
        for path in tracked
        if path.suffix in {".py", ".md"} and "findings" not in path.parts
        for match in FULL_NAME.finditer(path.read_text(encoding="utf-8"))
        if not FILE.search(match[3])
    }
    assert len(named) > 100
    assert sorted(each for each in named if not exists(each[1])) == []


def test_every_member_of_a_class_that_a_docstring_names_exists(
    modules: list[Path], classes: dict[str, list[type]]
) -> None:
    named = {
        (path.name, match[1], match[2])
        for path in modules
        for match in MEMBER.finditer(path.read_text(encoding="utf-8"))
        if match[1] in classes
    }
    assert len(named) > 30
    missing = [each for each in named if not any(has_member(kind, each[2]) for kind in classes[each[1]])]
    assert sorted(missing) == []


def test_a_name_that_does_not_exist_is_found() -> None:
    assert exists("imagehost_core.services.upload.UploadService.upload")
    assert not exists("imagehost_core.services.upload.UploadService.download")
    assert not exists("imagehost_core.services.download")


WORD = re.compile(r"[A-Za-z_][\w-]*")
SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
"""A text in backticks."""
FENCE = re.compile(r"^( *)(`{3,}|~~~).*?^\1\2", re.MULTILINE | re.DOTALL)
"""A block of code, whose words are checked by running it."""
PROSE = {".md", ".jpg", ".png", ".webp"}
"""Files whose words are no names."""
OF_OTHERS = {
    "SQL and PostgreSQL": """
        AGAINST CONCURRENTLY FATAL HOST1 HOST2 ILIKE NOTIFY default_transaction_read_only f_unaccent
        data-checksums p7 pg_checksums pg_dump pgpass query_wait_timeout remote_apply s1 s2 verify-full
    """,
    "object stores": """
        AWS_REGION AWS_SESSION_TOKEN AZURE_STORAGE_ACCOUNT_KEY AZURE_STORAGE_ACCOUNT_NAME CaUsedAsEndEntity
        GOOGLE_APPLICATION_CREDENTIALS GOOGLE_SERVICE_ACCOUNT
    """,
    "HTTP and CDNs": """
        Accept-Ranges AccessKey CDN-Tag CacheTag Fastly-Key Referrer-Policy Surrogate-Key edgeserverlist
        fastly ipv6 public-ip-list pullzone purgeCache purge_cache
    """,
    "systems and containers": """
        AmbientCapabilities CAP_NET_BIND_SERVICE CPUWeight FlushFileBuffers Local OnFailure WatchdogSec crt
        dmesg externalTrafficPolicy from-file from-literal generic imagehost-x IMAGEHOST_X_SERVICE_HOST
        journalctl mem_limit pki podman ps pull rollout imagehost-backup
    """,
    "Python and its packages": """
        FileExtensionValidator FileField ImageSpecField OTEL_TRACES_SAMPLER ResizeToFill
        WAGTAILIMAGES_RENDITION_STORAGE WagtailImageField all-groups cp311-abi3 delete_thumbnails
        opentelemetry-exporter-otlp-proto-grpc opentelemetry-instrument opentelemetry-instrumentation-psycopg
        imagehost_process_open_fds pipx respx sync_to_async traceidratio
    """,
    "other clients": """
        IMAGE_KIT_LOG IfNoneMatch OPENAI_LOG ResponseMetadata STRIPE_LOG StreamingBody StripeStreamResponse
        Stubber call_api raw_request raw_response_hook stream_to_file with_streaming_response write_to_file
    """,
    "editors and site generators": "keybindings pngpaste vscode wl-paste",
    "JavaScript": "ImageLoaderConfig NuxtPicture Provider chunkUploads ng prism",
    "values of examples": """
        Anna SHELL XWPeWs1dj181UZecyxbSN7dMUwhDAxn_xhEsc4E3_EA _1600x900_1QcSHQ before-share_links
        YJshRWwUI97RuC_0CV-ii7rYD-BJipAFK2h5utzOvk ZycCqmp3W2VQqOEcdCy2I5Y9RUOvlCF_KUjL0FG-Rfw
        dtKYDBetnrX0nNX70vCrZS5XZZuLw62oUsWmfJ9YZQM fCUYtBUrhvEKXg2yzBC7yNu9HTlAg-siji0wg0h8ncA fT0
        ihsig_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8 imperative is_x require_x technical
    """,
}
"""Words in backticks that nothing in the repository has, by whose they are."""
LISTED = {word for words in OF_OTHERS.values() for word in words.split()}


@pytest.fixture(scope="module")
def spans(workspace: Path) -> dict[str, list[str]]:
    """Return the texts in backticks of each page, without its blocks of code."""
    return {name: SPAN.findall(FENCE.sub("", text)) for name, text in pages(workspace).items()}


@pytest.fixture(scope="module")
def words(tracked: list[Path], workspace: Path) -> set[str]:
    """Return the words of all files but prose, their paths, the settings, and the blocks of pages."""
    found = {setting.variable for setting in resolve_settings([], ServerSettings)[1]}
    for path in tracked:
        name = path.relative_to(workspace)
        found.update(WORD.findall(str(name)), name.parts, [path.stem])
        if not {path.suffix} & PROSE and "findings" not in name.parts and path != Path(__file__):
            found.update(WORD.findall(path.read_text(encoding="utf-8", errors="replace")))
    for text in pages(workspace).values():
        for block in FENCE.finditer(text):
            found.update(WORD.findall(block[0]))
    return found


def unknown_words(text: str, words: set[str]) -> set[str]:
    """Return the words of a text that nothing in the repository has.

    A counter has no `_total` in the code, a part in capitals is the end of a setting, and what ends in `_` or
    `-` the beginning of names.
    """
    return {
        word
        for word in WORD.findall(text)
        if not {word, word.removesuffix("_total")} & words
        and not (word.isupper() and any(other.endswith(f"_{word.lstrip('_')}") for other in words))
        and not (word[-1] in "_-" and any(other.startswith(word) for other in words))
    }


def test_every_word_of_a_page_in_backticks_is_one_of_the_repository(
    spans: dict[str, list[str]], words: set[str]
) -> None:
    missing = {
        (page, span, word)
        for page, texts in spans.items()
        for span in texts
        for word in unknown_words(span, words)
    }
    assert sorted(each for each in missing if each[2] not in LISTED) == []
    assert sorted(LISTED - {each[2] for each in missing}) == []


def test_a_word_that_nothing_has_is_found(words: set[str]) -> None:
    assert unknown_words("images.uplaod(source, is_publik=True)", words) == {"uplaod", "is_publik"}
    assert not unknown_words("imagehost serve --data DIR", words)


GROUPS = ("images", "albums", "keys", "sessions", "webhooks", "accounts")
OWNERS: dict[str, tuple[type, ...]] = {
    "album": (imagehost_core.Album, models.Album),
    "blob": (ImageBlob,),
    "client": (Client,),
    "clock": (FrozenClock,),
    "delivery": (imagehost_core.models.WebhookDelivery, models.WebhookDelivery),
    "error": (imagehost_client.ImageHostError,),
    "host": (imagehost_core.ImageHost, FakeImageHost),
    "image": (imagehost_core.Image, models.Image),
    "key": (imagehost_core.ApiKey, models.ApiKey),
    "session": (imagehost_core.Session, models.Session),
    "webhook": (imagehost_core.Webhook, models.Webhook),
}
"""The classes of what a page names by a word."""
DOTTED = re.compile(rf"(?<![\w./-])({'|'.join([*OWNERS, *GROUPS])})\.([a-z_]\w*)(?:\.([a-z_]\w*))?")
OF_OPENTELEMETRY = {"client.address", "error.type"}
"""Attributes that begin like members."""
ENDINGS = {"json", "jsonl", "py", "webp"}
"""Of files whose names begin like members."""


@pytest.fixture(scope="module")
def groups() -> dict[str, list[object]]:
    """Return the verbs of each group of the core and the client."""
    host = FakeImageHost()
    return {
        name: [getattr(owner, name) for owner in (host.core, host.client())]
        + ([imagehost_client.webhooks] if name == "webhooks" else [])
        for name in GROUPS
    }


def is_member(names: Sequence[str], groups: dict[str, list[object]]) -> bool:
    """Return whether the second of two or three names is a member of the first, and the third of it."""
    owner, name, *rest = names
    if owner in groups:
        return any(hasattr(group, name) for group in groups[owner])
    if name in groups and rest:
        return is_member([name, *rest], groups)
    return any(has_member(kind, name) for kind in OWNERS[owner])


def test_every_member_that_a_page_names_exists(
    spans: dict[str, list[str]], groups: dict[str, list[object]]
) -> None:
    named = {
        (page, match[0])
        for page, texts in spans.items()
        for span in texts
        for match in DOTTED.finditer(span)
        if match[2] not in ENDINGS and match[0] not in {*OF_OPENTELEMETRY, *EVENT_TYPES, "webhook.test"}
    }
    assert len(named) > 100
    assert sorted(each for each in named if not is_member(each[1].split("."), groups)) == []


def test_a_member_that_does_not_exist_is_found(groups: dict[str, list[object]]) -> None:
    for name in ("error.field", "image.width_px", "client.images.fetch", "albums.share", "host.uploading"):
        assert not is_member(name.split("."), groups)


NOT_IMPORTED = {
    "cli": "an extra",
    "imagehost_fake": "a fixture",
    "picgo": "a program",
    "thumbhash": "a package of npm",
}
"""Names of functions that are not imported where pages say them, and what they are."""


def definitions(modules: list[Path]) -> tuple[dict[str, list[str]], set[str]]:
    """Return the modules of each function and class, and the names of members, parameters and texts."""
    defined: dict[str, list[str]] = {}
    others: set[str] = set()
    for path in modules:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        name = ".".join(path.with_suffix("").parts[path.parts.index("src") + 1 :]).removesuffix(".__init__")
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                defined.setdefault(node.name, []).append(name)
        for each in ast.walk(tree):
            if isinstance(each, ast.arg):
                others.add(each.arg)
            elif isinstance(each, ast.Constant) and isinstance(each.value, str):
                others.add(each.value)
            elif isinstance(each, ast.ClassDef):
                others |= {
                    getattr(one, "name", getattr(getattr(one, "target", 0), "id", "")) for one in each.body
                }
    return defined, others


def test_a_page_says_the_module_of_each_name_that_is_at_no_root(
    spans: dict[str, list[str]], modules: list[Path], workspace: Path
) -> None:
    defined, others = definitions(modules)
    others |= {*dir(imagehost_core), *dir(imagehost_client), *dir(imagehost_server), *NOT_IMPORTED}
    texts = pages(workspace)
    for page in (page for page in spans if re.match(r"docs/(?!decisions|reference)", page)):
        names = {match[1] for span in spans[page] if (match := re.fullmatch(r"(\w+)(?:\(.*\))?", span))}
        for name in sorted(names & defined.keys() - others):
            packages = {".".join(owner.split(".")[:2]) for owner in defined[name]}
            assert any(package in texts[page] for package in packages), f"{page}: {name} of {packages}"
