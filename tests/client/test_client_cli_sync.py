"""The command line: `sync`, which uploads what is new in a folder and deletes only what it has stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.client.conftest import Run, stored_images

from imagehost_client.testing import FakeImageHost, make_png


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two images, and one below it."""
    folder = tmp_path / "images"
    (folder / "sub").mkdir(parents=True)
    for number, name in enumerate(("a.png", "b.png", "sub/c.png"), 1):
        (folder / name).write_bytes(make_png(number, 1))
    (folder / "notes.txt").write_text("no image")
    return folder


@pytest.fixture
def arguments(folder: Path) -> tuple[object, ...]:
    return ("sync", folder, "--album", "Blog", "--manifest", folder.parent / "images.json")


def manifest(folder: Path) -> dict[str, Any]:
    images: dict[str, Any] = json.loads((folder.parent / "images.json").read_text())["images"]
    return images


def uploads(host: FakeImageHost) -> int:
    return host.requests.count(("POST", "/upload"))


pytestmark = pytest.mark.usefixtures("new_host")


def test_a_repeated_run_uploads_what_is_new_and_prints_all(
    run: Run, host: FakeImageHost, folder: Path, arguments: tuple[object, ...]
) -> None:
    status, lines, _ = run(*arguments)
    assert (status, [line.split("\t")[0] for line in lines]) == (0, ["a.png", "b.png", "sub/c.png"])
    first = manifest(folder)
    by_id = {image.id: image for image in stored_images(host)}
    for line, entry in zip(lines, first.values(), strict=True):
        image = by_id[entry["id"]]
        assert line.split("\t")[1:] == [image.id, image.url, f"{image.width}x1", image.placeholder]
    (folder / "d.png").write_bytes(make_png(4, 1))
    before = uploads(host)
    status, lines, _ = run(*arguments, "--json")
    assert (status, uploads(host) - before) == (0, 1)
    records = [json.loads(line) for line in lines]
    assert [record.pop("path") for record in records] == ["a.png", "b.png", "d.png", "sub/c.png"]
    assert {name: entry for name, entry in manifest(folder).items() if name != "d.png"} == first
    assert sorted(path.name for path in folder.parent.iterdir()) == ["images", "images.json"]


def test_delete_removes_what_has_gone_and_only_what_the_command_has_stored(
    run: Run, host: FakeImageHost, folder: Path, arguments: tuple[object, ...]
) -> None:
    assert run("upload", folder / "a.png", "--album", "Blog")[0] == 0
    (other,) = stored_images(host)
    assert run(*arguments)[0] == 0
    assert manifest(folder)["a.png"]["id"] == other.id
    (folder / "e.png").write_bytes((folder / "b.png").read_bytes())
    assert run(*arguments)[0] == 0
    kept = manifest(folder)["e.png"]["id"]
    for name in ("a.png", "b.png"):
        (folder / name).unlink()
    (folder / "sub" / "c.png").write_bytes(make_png(5, 1))
    assert run(*arguments)[0] == 0
    assert len(stored_images(host)) == 4
    assert run(*arguments, "--delete")[0] == 0
    left = {image.id for image in stored_images(host)}
    assert left == {other.id, kept, manifest(folder)["sub/c.png"]["id"]}
    (folder / "e.png").unlink()
    assert run(*arguments, "--delete")[0] == 0
    assert kept not in {image.id for image in stored_images(host)}


def test_what_was_deleted_on_the_host_or_has_other_options_is_uploaded_again(
    run: Run, host: FakeImageHost, folder: Path, arguments: tuple[object, ...]
) -> None:
    assert run(*arguments)[0] == 0
    gone = manifest(folder)["a.png"]["id"]
    assert run("rm", gone)[0] == 0
    assert run(*arguments)[0] == 0
    assert manifest(folder)["a.png"]["id"] != gone
    public = {image.id for image in stored_images(host)}
    assert run(*arguments, "--private", "--delete")[0] == 0
    assert not public & {image.id for image in stored_images(host)}
    assert not any(image.is_public for image in stored_images(host))


def test_a_run_that_failed_continues_and_its_images_are_its_own(
    run: Run, host: FakeImageHost, folder: Path, arguments: tuple[object, ...]
) -> None:
    (folder / "b.png").write_bytes(b"no image")
    status, lines, messages = run(*arguments)
    assert (status, len(lines), "b.png" in messages) == (6, 2, True)
    (folder / "b.png").write_bytes(make_png(2, 1))
    before = uploads(host)
    assert run(*arguments)[0] == 0
    assert uploads(host) - before == 1
    assert all(entry["is_made"] for entry in manifest(folder).values())


def test_a_file_that_is_no_manifest_of_this_host_is_refused(
    run: Run, host: FakeImageHost, folder: Path, arguments: tuple[object, ...]
) -> None:
    path = folder.parent / "images.json"
    other = {"version": 1, "base_url": "https://other.example/v1", "options": {}, "images": {}, "gone": []}
    for text in ("{}", "x", "[]", json.dumps(other), json.dumps({**other, "version": 2})):
        path.write_text(text)
        status, _, messages = run(*arguments)
        assert (status, "--manifest" in messages, path.read_text()) == (2, True, text)
    assert stored_images(host) == []
