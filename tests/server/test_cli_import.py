"""The command `imagehost import`."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from tests.open_host import open_host
from tests.subcommands import subcommands

from imagehost_core.testing import make_image
from imagehost_server.cli.main import main

pytestmark = pytest.mark.usefixtures("shared_worker")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["import", *map(str, arguments)])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory."""
    open_host(tmp_path / "data").close()
    return tmp_path / "data"


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A directory with two images and a text."""
    path = tmp_path / "photos"
    path.mkdir()
    for seed in range(2):
        (path / f"{seed}.png").write_bytes(make_image(8, 8, seed=seed))
    (path / "notes.txt").write_text("no image", encoding="utf-8")
    return path


def test_a_directory_is_imported_and_what_is_not_taken_is_printed(
    data: Path, photos: Path, tmp_path: Path
) -> None:
    mapping = tmp_path / "mapping.csv"
    result = run(photos, "--data", data, "--public", "--mapping", mapping)
    assert result.stdout.splitlines() == [
        "omitted: photos/notes.txt: not a JPEG, PNG, WebP or GIF",
        "2 imported, 0 unchanged, 1 omitted, 0 failed",
    ]
    with open_host(data) as host:
        images = {image.id: image for image in host.images.iter(owner="admin")}
    with mapping.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["source"] for row in rows] == ["photos/0.png", "photos/1.png"]
    assert {row["image_id"] for row in rows} == images.keys()
    assert all(row["url"].endswith(f"/img/{row['image_id']}") for row in rows)
    assert all(image.is_public for image in images.values())
    again = run(photos, "--data", data)
    assert again.stdout.splitlines()[-1] == "0 imported, 2 unchanged, 1 omitted, 0 failed"


@pytest.mark.skipif(sys.platform != "linux", reason="NOT TESTED: other file systems have names of text only")
def test_any_filename_is_imported_and_printed_on_one_line(
    data: Path, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "utf-8:strict")  # of a terminal, as with LANG=de_DE.UTF-8
    (photos / "0.png").rename(photos / os.fsdecode(b"caf\xe9.png"))
    (photos / "notes.txt").rename(photos / os.fsdecode(b"caf\xe9\x1b[31m\n.txt"))
    mapping = tmp_path / "mapping.csv"
    command = [sys.executable, "-m", "imagehost_server", "import", str(photos), "--data", str(data)]
    result = subprocess.run(
        [*command, "--mapping", str(mapping)], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        "omitted: photos/caf??[31m?.txt: not a JPEG, PNG, WebP or GIF",
        "2 imported, 0 unchanged, 1 omitted, 0 failed",
    ]
    assert b"photos/caf\xe9.png," in mapping.read_bytes()


def test_json_has_an_object_per_file_and_the_counts(data: Path, photos: Path) -> None:
    (photos / "broken.png").write_bytes(make_image(8, 8)[:60])
    result = run(photos, "--data", data, "--json")
    assert result.exit_code == 1
    *entries, counts = map(json.loads, result.stdout.splitlines())
    assert counts == {"counts": {"imported": 2, "unchanged": 0, "omitted": 1, "failed": 1}}
    by_source = {entry["source"]: entry for entry in entries}
    assert by_source["photos/0.png"]["status"] == "imported"
    assert len(by_source["photos/0.png"]["image_id"]) == 16
    assert "reason" in by_source["photos/broken.png"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--from", "lsky"], "expected --files beside --from"),
        (["--files", "."], "expected --files only beside --from"),
        (["--user", "nobody"], "nobody"),
        (["missing"], "there is no missing"),
    ],
)
def test_wrong_arguments_are_explained(data: Path, photos: Path, arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(main, ["import", str(photos), "--data", str(data), *arguments])
    assert result.exit_code != 0
    assert message in result.output
    assert "Traceback" not in result.output


def test_a_full_quota_says_how_to_continue(data: Path, photos: Path) -> None:
    with open_host(data) as host:
        host.accounts.update("admin", quota_bytes=1)
    result = CliRunner().invoke(main, ["import", str(photos), "--data", str(data)])
    assert result.exit_code == 1
    assert "run the command again to continue" in result.output
    assert "0 imported" in result.output


def commands(group: click.Group, *path: str) -> list[tuple[str, ...]]:
    """Return the words of every command."""
    found: list[tuple[str, ...]] = []
    for name, command in subcommands(group).items():
        if isinstance(command, click.Group):
            found += commands(command, *path, name)
        else:
            found.append((*path, name))
    return found


@pytest.mark.parametrize("words", commands(main), ids=" ".join)
def test_no_help_shows_an_escape_sequence(words: tuple[str, ...]) -> None:
    assert "\\b" not in CliRunner().invoke(main, [*words, "--help"]).output
