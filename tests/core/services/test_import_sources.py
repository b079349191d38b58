"""What is read from the data of other image hosts.

The records that it becomes are those of every import, which test_imports.py tests on each engine.
"""

from __future__ import annotations

import csv
import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.services.importing import FAILED, IMPORTED, OMITTED, UNCHANGED, imported, statuses

from imagehost_core import ImageHost, ValidationError
from imagehost_core.maintenance.importers.service import ImportOptions, ImportSource
from imagehost_core.maintenance.importers.sources import find_file, parse_timestamp
from imagehost_core.testing import make_image

Write = Callable[[Path, Mapping[str, list[dict[str, object]]]], Path]


@pytest.fixture
def host(opened: Callable[..., ImageHost]) -> ImageHost:
    """A host of its own for each test."""
    return opened()


def write_sqlite(path: Path, tables: Mapping[str, list[dict[str, object]]]) -> Path:
    with closing(sqlite3.connect(path)) as database:
        for name, rows in tables.items():
            columns = list(rows[0])
            database.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
            marks = ", ".join("?" for _ in columns)
            database.executemany(
                f"INSERT INTO {name} VALUES ({marks})", [tuple(row.values()) for row in rows]
            )
        database.commit()
    return path


def write_csv(path: Path, tables: Mapping[str, list[dict[str, object]]]) -> Path:
    path.mkdir()
    for name, rows in tables.items():
        with (path / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    return path


def write_tsv(path: Path, tables: Mapping[str, list[dict[str, object]]]) -> Path:
    """Write what `mysql --batch` prints."""

    def escaped(value: object) -> str:
        text = "NULL" if value is None else str(value)
        return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")

    path.mkdir()
    for name, rows in tables.items():
        lines = ["\t".join(rows[0]), *("\t".join(map(escaped, row.values())) for row in rows)]
        (path / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_phpmyadmin(path: Path, tables: Mapping[str, list[dict[str, object]]]) -> Path:
    entries: list[dict[str, object]] = [{"type": "header"}, {"type": "database", "name": "host"}]
    entries += [
        {
            "type": "table",
            "name": name,
            "data": [
                {key: None if value is None else str(value) for key, value in row.items()} for row in rows
            ],
        }
        for name, rows in tables.items()
    ]
    path.write_text(json.dumps(entries), encoding="utf-8")
    return path


FORMATS = pytest.mark.parametrize("write", [write_sqlite, write_csv, write_tsv, write_phpmyadmin])


def store(root: Path, names: Iterable[str]) -> Path:
    for seed, name in enumerate(names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(make_image(8, 8, seed=seed))
    return root


@FORMATS
def test_lsky_pro_images_keep_album_visibility_name_and_time(
    host: ImageHost, tmp_path: Path, write: Write
) -> None:
    columns = ("id", "user_id", "album_id", "path", "name", "origin_name", "alias_name", "permission")
    records = [
        (1, 7, 3, "2024/01/02", "x.png", "cat\tand\ndog.png", "A\\B", 1),
        (2, None, None, "2024/01/02", "y.png", "", "", 0),
        (3, 7, None, "2024", "missing.png", "", "", 1),
        (4, 7, None, "../..", "secret.png", "", "", 1),
    ]
    tables: dict[str, list[dict[str, object]]] = {
        "images": [
            {**dict(zip(columns, row, strict=True)), "created_at": "2024-01-02 03:04:05"} for row in records
        ],
        "albums": [{"id": 3, "user_id": 7, "name": "Pets", "intro": "Animals"}],
        "users": [{"id": 7, "name": "eve"}],
    }
    (tmp_path / "secret.png").write_bytes(make_image(8, 8))
    files = store(tmp_path / "storage" / "uploads", ["2024/01/02/x.png", "2024/01/02/y.png"])
    source = write(tmp_path / "lsky", tables)
    results = imported(host, source, ImportSource.LSKY, files)
    assert statuses(results) == {
        "lsky:1": IMPORTED,
        "lsky:2": IMPORTED,
        "lsky:3": OMITTED,
        "lsky:4": OMITTED,
    }
    first, second = (host.images.get(results[f"lsky:{number}"].image_id or "") for number in (1, 2))
    assert (first.original_filename, first.description) == ("catanddog.png", "A\\B")
    assert (first.is_public, second.is_public, second.original_filename) == (True, False, "y.png")
    assert first.created_at == datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
    (album,) = host.albums.list(owner="admin")
    assert (album.id, album.name, album.description) == (first.album_id, "Pets", "Animals")
    assert set(statuses(imported(host, source, ImportSource.LSKY, files)).values()) == {UNCHANGED, OMITTED}


@FORMATS
def test_chevereto_images_are_found_by_their_storage_mode(
    host: ImageHost, tmp_path: Path, write: Write
) -> None:
    def image(number: int, **values: object) -> dict[str, object]:
        return {
            "image_id": number,
            "image_name": f"n{number}",
            "image_extension": "png",
            "image_date": "2023-05-06 23:30:00",
            "image_date_gmt": "2023-05-07 01:30:00",
            "image_title": "Title",
            "image_description": None,
            "image_user_id": 1,
            "image_album_id": None,
            "image_storage_mode": "datefolder",
            "image_path": None,
            "image_original_filename": f"original {number}.png",
            "image_expiration_date_gmt": None,
            **values,
        }

    tables: dict[str, list[dict[str, object]]] = {
        "my_images": [
            image(1, image_album_id=5, image_description="Text"),
            image(2, image_storage_mode="direct", image_album_id=6),
            image(3, image_storage_mode="path", image_path="a/b"),
            image(4, image_expiration_date_gmt="2030-01-01 00:00:00"),
            image(5),
        ],
        "my_albums": [
            {"album_id": 5, "album_name": "Open", "album_privacy": "public", "album_description": None},
            {"album_id": 6, "album_name": "Closed", "album_privacy": "password", "album_description": "d"},
        ],
        "my_users": [{"user_id": 1, "user_username": "eve"}],
        "my_storages_of_images": [{"a": 1}],
    }
    files = store(tmp_path / "images", ["2023/05/06/n1.png", "n2.png", "a/b/n3.png", "n4.png"])
    source = write(tmp_path / "chevereto", tables)
    results = imported(host, source, ImportSource.CHEVERETO, files, ImportOptions(by_user=True))
    assert list(statuses(results).values()) == [IMPORTED, IMPORTED, IMPORTED, OMITTED, OMITTED]
    images = [
        host.images.get(results[f"chevereto:{number}"].image_id or "", owner="eve") for number in (1, 2, 3)
    ]
    assert [image.is_public for image in images] == [True, False, True]
    assert [image.description for image in images] == ["Title\n\nText", "Title", "Title"]
    assert images[0].original_filename == "original 1.png"
    assert images[0].created_at == datetime(2023, 5, 7, 1, 30, tzinfo=UTC)
    albums = {album.name: album.is_public for album in host.albums.list(owner="eve")}
    assert albums == {"Open": True, "Closed": False}


ZIPLINE_FILES: list[dict[str, object]] = [
    {"name": "1.png", "folderId": "f", "userId": "u", "originalName": "cat.png"},
    {"name": "2.png", "folderId": "g", "userId": "u", "originalName": None},
    {"name": "3.png", "folderId": None, "userId": None, "originalName": None},
    {"name": "4.png", "folderId": None, "userId": None, "originalName": None, "password": "hash"},
    {"name": "5.png", "folderId": None, "userId": None, "originalName": None, "deletesAt": "2030-01-01"},
    {"name": "6.png", "folderId": None, "userId": None, "originalName": None},
]


def zipline_tables(created_at: object) -> dict[str, list[dict[str, object]]]:
    defaults: dict[str, object] = {"createdAt": created_at, "password": None, "deletesAt": None}
    return {
        "File": [{"id": str(n), **defaults, **file} for n, file in enumerate(ZIPLINE_FILES, 1)],
        "Folder": [
            {"id": "f", "name": "Public", "public": True},
            {"id": "g", "name": "Own", "public": False},
        ],
        "User": [{"id": "u", "username": "eve"}],
    }


def write_zipline_export(path: Path, tables: Mapping[str, list[dict[str, object]]]) -> Path:
    members = {"files": tables["File"], "folders": tables["Folder"], "users": tables["User"]}
    export = path.with_suffix(".json")
    export.write_text(json.dumps({"versions": {"export": "4"}, "data": members}), encoding="utf-8")
    return export


@pytest.mark.parametrize(
    ("write", "created_at"),
    [
        (write_zipline_export, "2024-01-02T03:04:05.000Z"),
        (write_csv, "2024-01-02 03:04:05"),
        (write_sqlite, 1_704_164_645_000),
    ],
)
def test_zipline_folders_become_albums_and_only_public_ones_are_public(
    host: ImageHost, tmp_path: Path, write: Write, created_at: object
) -> None:
    source = write(tmp_path / "zipline", zipline_tables(created_at))
    files = store(tmp_path / "uploads", [f"{number}.png" for number in range(1, 6)])
    results = imported(host, source, ImportSource.ZIPLINE, files)
    assert list(statuses(results).values()) == [IMPORTED] * 3 + [OMITTED] * 3
    first, second, third = (host.images.get(results[f"zipline:{n}"].image_id or "") for n in (1, 2, 3))
    assert [each.is_public for each in (first, second, third)] == [True, False, False]
    assert first.created_at == datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert (first.original_filename, second.original_filename) == ("cat.png", "2.png")
    assert {album.name: album.is_public for album in host.albums.list(owner="admin")} == {
        "Public": True,
        "Own": False,
    }


@pytest.mark.parametrize("source", [ImportSource.LSKY, ImportSource.CHEVERETO, ImportSource.ZIPLINE])
@pytest.mark.parametrize("content", [b"", b"no database", b"[1]", b"{}", b'[{"type": "table"}]'])
def test_a_file_that_is_no_database_or_export_is_an_error(
    host: ImageHost, tmp_path: Path, source: ImportSource, content: bytes
) -> None:
    path = tmp_path / "export.json"
    path.write_bytes(content)
    with pytest.raises(ValidationError):
        host.imports.read(source, path, tmp_path)


def test_another_image_host_needs_the_directory_of_its_files(host: ImageHost, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="the directory of the files beside source='lsky'"):
        host.imports.read(ImportSource.LSKY, tmp_path)


def test_a_user_whose_name_no_account_can_have_is_reported(host: ImageHost, tmp_path: Path) -> None:
    tables = zipline_tables("2024-01-02")
    tables["User"][0]["username"] = "a b"
    files = store(tmp_path / "uploads", ["1.png"])
    source = write_csv(tmp_path / "zipline", tables)
    results = imported(host, source, ImportSource.ZIPLINE, files, ImportOptions(by_user=True))
    assert results["zipline:1"].status is FAILED
    assert "a b" in (results["zipline:1"].reason or "")


def test_a_corrupt_database_is_an_error(host: ImageHost, tmp_path: Path) -> None:
    path = write_sqlite(tmp_path / "lsky", {"images": [{"id": 1}]})
    path.write_bytes(path.read_bytes()[:100] + bytes(5_000))
    with pytest.raises(Exception, match="expected a database at"):
        imported(host, path, ImportSource.LSKY, tmp_path)


@given(st.text(), st.text())
def test_no_path_of_a_source_leads_out_of_the_directory_of_files(
    tmp_path_factory: pytest.TempPathFactory, first: str, second: str
) -> None:
    root = tmp_path_factory.getbasetemp()
    found = find_file(root, f"{first}/{second}", f"../{second}", f"{first}/../../{second}", "/etc/passwd")
    assert found is None or found.is_relative_to(root)


@given(st.one_of(st.none(), st.integers(), st.text(), st.floats()))
def test_a_timestamp_is_in_utc_or_missing(value: object) -> None:
    parsed = parse_timestamp(value)
    assert parsed is None or parsed.utcoffset() is not None
