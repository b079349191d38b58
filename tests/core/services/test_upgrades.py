"""Upgrades: stored data of each format is migrated whole or not at all, and what two versions do at once.

`tests/stored_data/format-N` has a data directory and a backup that the version of format N has written, and
what was in them. They are files, so that no later change of the code can change them.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from tests.core.services.conftest import ONE_WORKER
from tests.open_host import open_host

import imagehost_core
from imagehost_core import ConflictError, ImageHost, NotFoundError, restore
from imagehost_core.context import HostContext
from imagehost_core.db.engines.sqlite_database import applied_migrations, migrate
from imagehost_core.db.lists.word_index import update_words
from imagehost_core.db.schema import postgres_migrations, sqlite_migrations
from imagehost_core.installation import FORMAT, parse_record
from imagehost_core.settings import SQLITE, Settings
from imagehost_core.testing import make_image

EACH_ENGINE = True
PNG = make_image(8, 8)
STORED = Path(__file__).parents[2] / "stored_data"
RELEASED = {
    "initial_schema": ("a3ff299bcd223021", "46aaf44dfea86acf"),
    "members": (None, "d42457cb44a8901c"),
    "postgres_secrets": (None, "b076778b9583bb24"),
    "postgres_rate_limits": (None, "92bb4bbcec800243"),
    "share_links": ("e2d2e39a23fe60b3", "1563a29272c888ed"),
    "public_words": ("8e81a1893e512e7d", "8e81a1893e512e7d"),
    "format_index": ("e837e000fe9ab8b6", "e837e000fe9ab8b6"),
    "taken_times": ("d3bccfeabd2d02dd", "bd29da27fcff5117"),
    "folded_words": ("4c1629b760385670", "fe5befc2f668946e"),
    "uploads": ("60663a14bb930b84", "0b61e2de612f262e"),
    "visibility_index": ("53b6128e67e0b3b9", "53b6128e67e0b3b9"),
}
"""The first digits of the SHA-256 of each released migration, for SQLite and for PostgreSQL."""
WITH_FORMAT_1 = 1
"""The migrations of SQLite that format 1 has."""


def digest(statements: tuple[str, ...] | None) -> str | None:
    return None if statements is None else hashlib.sha256("\0".join(statements).encode()).hexdigest()[:16]


def test_a_released_migration_is_never_edited() -> None:
    names = sqlite_migrations.keys() | postgres_migrations.keys()
    now = {
        name: (digest(sqlite_migrations.get(name)), digest(postgres_migrations.get(name))) for name in names
    }
    assert {name: now.get(name) for name in RELEASED} == RELEASED, "add a migration in place of the change"


def test_each_migration_raises_the_format_and_has_stored_data() -> None:
    assert len(sqlite_migrations) - WITH_FORMAT_1 + 1 == FORMAT
    assert {path.name for path in STORED.iterdir()} == {f"format-{number + 1}" for number in range(FORMAT)}


@pytest.fixture(params=sorted(path.name for path in STORED.iterdir()))
def stored(request: pytest.FixtureRequest) -> Path:
    return STORED / str(request.param)


def require_content(host: ImageHost, stored: Path) -> None:
    """Fail unless a host has what the version that has written it says."""
    expected: dict[str, Any] = json.loads((stored / "expected.json").read_text())
    owner = host.keys.authenticate(expected["token"]).account
    images = {image.id: image for image in host.images.iter(owner=owner)}
    assert {str(image_id) for image_id in images} == set(expected["images"])
    for image_id, image in images.items():
        values = expected["images"][image_id]
        assert {name: getattr(image, name) for name in values} == values
        if "uploads" in expected:
            assert host.images.list(owner=owner, sha256=expected["uploads"][image_id]).items == (image,)
        taken_at = expected.get("taken_at", {}).get(image_id)
        assert image.taken_at == (taken_at and datetime.fromisoformat(taken_at))
        assert hashlib.sha256(host.render(image, "").data).hexdigest() == values["sha256"]
        assert host.render(image, "w=50&fm=jpg").width == 50
    with pytest.raises(NotFoundError):
        host.images.get(expected["deleted"])
    assert host.accounts.usage(owner).bytes == expected["bytes"]
    albums = host.albums.list(owner=owner).items
    assert {album.id for album in albums} == set(expected["albums"])
    assert {album.image_count for album in albums} == {1}
    if "share" in expected:
        assert host.albums.get_shared(expected["share"])[1] in albums
    assert host.webhooks.get(expected["webhook"], owner=owner).is_active
    found = host.images.list(owner=owner, q="boats").items
    assert [image.filename for image in found] == ["beach photo.webp"]
    assert host.gallery(q="boats").items == found
    assert host.gallery(q="chart").items == ()
    assert host.upload(make_image(8, 8), owner=owner).width == 8
    assert list(host.check()) == []


def test_stored_data_of_each_format_is_opened_whole(stored: Path, tmp_path: Path) -> None:
    data = Path(shutil.copytree(stored / "data", tmp_path / "data"))
    with open_host(data, settings=ONE_WORKER) as host:
        require_content(host, stored)
    record = parse_record((data / "installation.json").read_bytes(), data)
    assert record.format == FORMAT
    assert parse_record((data / "images" / "installation.json").read_bytes(), data) == record


def test_a_backup_of_each_format_is_restored_whole(stored: Path, tmp_path: Path) -> None:
    with (stored / "backup.imagehost").open("rb") as file:
        restore([file], tmp_path / "data")
    with open_host(tmp_path / "data", settings=ONE_WORKER) as host:
        expected = json.loads((stored / "expected.json").read_text())
        assert {str(image.id) for image in host.images.iter(owner="ada")} == set(expected["images"])
        assert list(host.check()) == []


def test_the_migration_of_public_words_indexes_the_public_images(
    opened: Callable[..., ImageHost], stores: Callable[[ImageHost], HostContext]
) -> None:
    """Images as format 1 has them are indexed as this version indexes them."""
    host = opened()
    names = {"One x 1x": "", "": "日の入り", "x.png": "Málaga 1x12", "private": "secret"}
    for number in range(12):
        host.accounts.create(f"user{number}")
    for owner in ("admin", "user10"):
        for name, text in names.items():
            filename, is_public = f"{name}.png", name != "private"
            host.upload(PNG, owner=owner, filename=filename, description=text, is_public=is_public)
    database = stores(host).records.database
    migrations = postgres_migrations if database.dialect.is_shared else sqlite_migrations
    with database.transaction() as transaction:
        for owner in ("admin", "user10"):
            for image in host.images.list(owner=owner):
                update_words(transaction, evolve(image, is_public=False))
    assert host.gallery(q="webp").items == ()
    with database.transaction() as transaction:
        for statement in migrations["public_words"]:
            transaction.execute(statement, {})
    assert len(host.gallery(q="webp").items) == 6
    assert host.gallery(q="private").items == host.gallery(q="secret").items == ()
    assert list(host.check()) == []


UNFOLDED = {
    "Łódź Tromsø Ærø Œuvre Þórr Ħamrun Đà": "łodz tromsø ærø œuvre þorr ħamrun đa",
    "שָׁלוֹם": "שָׁלוֹם",
    "مُحَمَّد الأُردن": "مُحَمَّد الأُردن",
    "Straße 東京": "strasse 東 京",
}
"""Descriptions, and their words as the versions before `folded_words` stored them."""


def test_the_migration_of_folded_words_indexes_letters_and_marks_as_this_version(
    opened: Callable[..., ImageHost], stores: Callable[[ImageHost], HostContext]
) -> None:
    host = opened()
    image_ids = {text: host.upload(PNG, owner="admin", description=text).id for text in UNFOLDED}
    account, database = host.accounts.get("admin"), stores(host).records.database
    migrations = postgres_migrations if database.dialect.is_shared else sqlite_migrations
    with database.transaction() as transaction:
        for text, words in UNFOLDED.items():
            tokens = (f"{number}x{word}" for number in (account.id, 0) for word in words.split())
            transaction.execute(
                "UPDATE image_words SET description = :words "
                "WHERE rowid = (SELECT number FROM images WHERE id = :id)",
                {"words": " ".join(tokens), "id": image_ids[text]},
            )
    assert host.gallery(q="lodz").items == host.gallery(q="محمد").items == ()
    with database.transaction() as transaction:
        for statement in migrations["folded_words"]:
            transaction.execute(statement, {})
    for typed, text in zip(("lodz hamrun", "שלום", "محمد", "東京"), UNFOLDED, strict=True):
        assert [image.id for image in host.gallery(q=typed)] == [image_ids[text]]
        assert [image.id for image in host.images.list(owner="admin", q=typed)] == [image_ids[text]]
    assert list(host.check()) == []


def tables(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def test_a_migration_that_fails_leaves_the_old_state_and_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    with closing(sqlite3.connect(path)) as connection:
        migrate(connection, path)
        assert list(tmp_path.iterdir()) == [path]
        connection.execute("INSERT INTO counters VALUES ('before', 1)")
        connection.commit()
        applied, before = applied_migrations(connection), tables(connection)
        monkeypatch.setitem(sqlite_migrations, "second", ("CREATE TABLE second (id INTEGER)",))
        monkeypatch.setitem(
            sqlite_migrations, "third", ("CREATE TABLE third (id INTEGER)", "DROP TABLE none")
        )
        for _ in range(2):
            with pytest.raises(sqlite3.OperationalError, match="no such table: none"):
                migrate(connection, path)
            assert applied_migrations(connection) == applied
            assert tables(connection) == before
        monkeypatch.setitem(sqlite_migrations, "third", ())
        migrate(connection, path)
        assert applied_migrations(connection) == {*applied, "second", "third"}
    copy = tmp_path / "file.before-second"
    assert {file.name for file in tmp_path.iterdir()} == {path.name, copy.name}
    assert copy.stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(copy)) as connection:
        assert tables(connection) == before
        assert connection.execute("SELECT value FROM counters WHERE name = 'before'").fetchone() == (1,)


NEXT = """
import json, sys
import imagehost_core.installation, imagehost_core.db.schema as schema
from imagehost_core import ImageHost
from imagehost_core.settings import Settings
from imagehost_core.testing import make_image
assert "note" in schema.sqlite_migrations, schema.__file__
data, database = sys.argv[1:]
with ImageHost.open(data, settings=Settings(database=database)) as host:
    image = host.upload(make_image(16, 16), owner="admin", filename="next.png")
    host.images.delete(host.images.list(owner="admin", q="first").items[0])
    print(image.id)
"""


@contextmanager
def next_version(directory: Path) -> Iterator[dict[str, str]]:
    """Make the core of a next version, with one more migration, and yield the environment that runs it."""
    package = Path(shutil.copytree(Path(imagehost_core.__file__).parent, directory / "imagehost_core"))
    schema = package / "db/schema.py"
    added = """
postgres_migrations["note"] = ("ALTER TABLE albums ADD COLUMN note TEXT NOT NULL DEFAULT ''",)
sqlite_migrations["note"] = postgres_migrations["note"]
"""
    schema.write_text(schema.read_text() + added)
    installation = package / "installation.py"
    text = installation.read_text().replace(f"FORMAT = {FORMAT}\n", f"FORMAT = {FORMAT + 1}\n")
    lowest = 'LOWEST_READER = LOWEST_WRITER = "'
    installation.write_text(text.replace(lowest, f"{lowest}99."))
    yield {"PYTHONPATH": str(directory)}


@pytest.fixture
def settings(engine: str, request: pytest.FixtureRequest) -> Settings:
    if engine == SQLITE:
        return ONE_WORKER
    return Settings(database=request.getfixturevalue("postgres_url"), rendering=ONE_WORKER.rendering)


def test_a_host_serves_while_the_next_version_migrates_and_is_then_not_started_again(
    settings: Settings, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    with open_host(data, settings=settings) as host, next_version(tmp_path / "next") as environment:
        host.upload(make_image(16, 16), owner="admin", filename="first.png")
        process = subprocess.run(
            [sys.executable, "-c", NEXT, str(data), settings.database],
            env=environment,
            capture_output=True,
            text=True,
        )
        assert process.returncode == 0, process.stderr
        third = host.upload(make_image(16, 16), owner="admin", filename="third.png")
        album = host.albums.create(owner="admin", name="After")
        assert host.images.update(third, owner="admin", album_id=album.id).album_id == album.id
        listed = {str(image.id) for image in host.images.iter(owner="admin")}
        assert listed == {str(third.id), process.stdout.strip()}
        assert list(host.check()) == []
    for record in (data / "installation.json", data / "images" / "installation.json"):
        assert parse_record(record.read_bytes(), record).format == FORMAT + 1
    with pytest.raises(ConflictError, match=r"install imagehost 99\.\d"):
        open_host(data, settings=settings)
