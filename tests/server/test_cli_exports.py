"""The command `imagehost users export`, and the import of what it writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.open_host import open_host

from imagehost_core import ImageHost
from imagehost_core.testing import make_image
from imagehost_server.cli.main import main

pytestmark = pytest.mark.usefixtures("shared_worker")


def run(data: Path, *arguments: str, status: int = 0) -> str:
    result = CliRunner().invoke(main, [*arguments, "--data", str(data)])
    assert result.exit_code == status, result.output
    return result.output


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A host with an account that has a public and a private image, an album, a key and a share."""
    with open_host(tmp_path / "data") as host:
        host.accounts.create("anna")
        host.accounts.create("ben")
        album = host.albums.create(owner="anna", name="Rome", description="2026", is_public=False)
        host.upload(
            make_image(60, 40), owner="anna", filename="a.png", album_id=album.id, description="The Forum"
        )
        host.upload(make_image(50, 40, seed=2), owner="anna", filename="b.png", is_public=True)
        host.upload(make_image(seed=3), owner="ben")
        host.keys.create("phone", owner="anna")
        host.albums.create_share(album, owner="anna", password_hash="$argon2id$hash")
    return tmp_path / "data"


def contents(host: ImageHost, owner: str) -> list[tuple[object, ...]]:
    """Return what a person sees of the images of an account."""
    albums = {
        album.id: (album.name, album.description, album.is_public) for album in host.albums.list(owner=owner)
    }
    return [
        (
            image.sha256,
            image.original_filename,
            image.description,
            image.is_public,
            image.created_at,
            albums.get(image.album_id) if image.album_id else None,
        )
        for image in host.images.iter(owner=owner)
    ]


def test_an_export_has_all_of_the_account_and_nothing_of_others_and_no_secret(
    data: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "anna"
    assert "2 images, of which 2" in run(data, "users", "export", "anna", str(folder))
    assert sorted(path.name for path in folder.iterdir()) == [
        "account.json",
        "albums.json",
        "images",
        "images.jsonl",
    ]
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o077 for path in folder.glob("*.json*")} == {0}
    account = json.loads((folder / "account.json").read_bytes())
    assert (account["account"]["name"], [key["name"] for key in account["keys"]]) == ("anna", ["phone"])
    (album,) = json.loads((folder / "albums.json").read_bytes())
    assert (album["name"], len(album["shares"])) == ("Rome", 1)
    records = [json.loads(line) for line in (folder / "images.jsonl").read_text("utf-8").splitlines()]
    with open_host(data) as host:
        images = list(host.images.iter(owner="anna"))
    assert [record["id"] for record in records] == [image.id for image in images]
    assert {(folder / record["file"]).stat().st_size for record in records} == {
        image.size for image in images
    }
    text = "".join(path.read_text("utf-8") for path in folder.glob("*.json*"))
    assert "ihk_" not in text.replace(account["keys"][0]["prefix"], "")
    assert "argon2" not in text
    assert "ben" not in text


def test_an_export_is_repeated_with_what_is_missing_and_without_what_was_deleted(
    data: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "anna"
    run(data, "users", "export", "anna", str(folder))
    with open_host(data) as host:
        kept, deleted = host.images.iter(owner="anna")
        host.images.delete(deleted.id)
    (folder / "images.jsonl").unlink()
    (folder / "images" / f"{kept.id}.{kept.format}").write_bytes(b"half")
    assert "1 image, of which 1" in run(data, "users", "export", "anna", str(folder))
    assert "1 image, of which 0" in run(data, "users", "export", "anna", str(folder))
    assert [path.stat().st_size for path in (folder / "images").iterdir()] == [kept.size]


def test_nobody_else_reads_an_export_whatever_was_there_before(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "anna"
    folder.mkdir()
    folder.chmod(0o755)
    run(data, "users", "export", "anna", str(folder))
    for left in (folder, folder / "images", *(folder / "images").iterdir()):
        left.chmod(0o755)
    for name in (".account.json.part", ".albums.json.part", ".images.jsonl.part"):
        (folder / name).touch(mode=0o644)
    run(data, "users", "export", "anna", str(folder))
    assert {path.stat().st_mode & 0o077 for path in (folder, *folder.rglob("*"))} == {0}


def test_an_import_takes_an_export_back(data: Path, tmp_path: Path) -> None:
    folder, other = tmp_path / "anna", tmp_path / "other"
    run(data, "users", "export", "anna", str(folder))
    with open_host(data) as host:
        expected = contents(host, "anna")
    with open_host(other) as host:
        host.accounts.create("anna")
    assert "--from account" in run(other, "import", str(folder), "--user", "anna", status=2)
    flags = ("import", str(folder), "--from", "account", "--user", "anna")
    assert "2 imported, 0 unchanged" in run(other, *flags)
    assert "0 imported, 2 unchanged" in run(other, *flags)
    with open_host(other) as host:
        assert contents(host, "anna") == expected


def test_a_directory_with_other_files_or_of_another_account_is_refused(data: Path, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "letter.txt").write_text("dear", encoding="utf-8")
    assert "has other files" in run(data, "users", "export", "anna", str(tmp_path / "notes"), status=1)
    for text in ('{"account": []}', '{"account": null}', '{"account": {}}', "[]", "{"):
        (tmp_path / "notes" / "account.json").write_text(text, encoding="utf-8")
        assert "has other files" in run(data, "users", "export", "anna", str(tmp_path / "notes"), status=1)
    run(data, "users", "export", "ben", str(tmp_path / "ben"))
    assert "of ben" in run(data, "users", "export", "anna", str(tmp_path / "ben"), status=1)
    assert "an export of an account" in run(
        data, "import", str(tmp_path / "notes"), "--from", "account", status=1
    )
