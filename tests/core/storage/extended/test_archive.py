"""Damaged and hostile backups: refused, with nothing left of them."""

from __future__ import annotations

import io
import json
import sqlite3
import sys
import tarfile
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from attrs import evolve, frozen
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core import ImageHost, ValidationError, restore
from imagehost_core.installation import RECORD_NAME
from imagehost_core.testing import make_image, shared_executor

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

END = bytes(1_024)


@frozen
class Entry:
    """A member of a tar file, with a header that may lie."""

    name: str
    data: bytes
    type: bytes = tarfile.REGTYPE
    link: str = ""
    size: int | None = None

    def pack(self) -> bytes:
        header = tarfile.TarInfo(self.name)
        header.type, header.linkname = self.type, self.link
        header.size = len(self.data) if self.size is None else self.size
        return header.tobuf(tarfile.GNU_FORMAT) + self.data + bytes(-len(self.data) % 512)


def checksums(entries: list[Entry]) -> Entry:
    lines = [f"{sha256(entry.data).hexdigest()}  {entry.name}\n" for entry in entries]
    return Entry("SHA256SUMS", "".join(lines).encode())


def pack(entries: list[Entry], end: bytes = END) -> bytes:
    """Return an archive of these members, with the right checksums unless there are some."""
    if not any(entry.name == "SHA256SUMS" for entry in entries):
        entries = [*entries, checksums(entries)]
    return zstd.compress(b"".join(entry.pack() for entry in entries) + end)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A backup of a host with two images."""
    with ImageHost.open(tmp_path_factory.mktemp("source"), executor=shared_executor()) as host:
        for seed in range(2):
            host.upload(make_image(30, 20, seed=seed), owner="admin")
        stream = io.BytesIO()
        host.backups.write(stream)
    return stream.getvalue()


@pytest.fixture
def entries(archive: bytes) -> list[Entry]:
    """The members of the backup without its checksums."""
    with tarfile.open(fileobj=io.BytesIO(zstd.decompress(archive))) as tar:
        files = [(info.name, tar.extractfile(info)) for info in tar]
        found = [Entry(name, file.read()) for name, file in files if file is not None]
    return [entry for entry in found if entry.name != "SHA256SUMS"]


def require_refused(data: bytes) -> None:
    """Assert that a backup is refused, and that it has written nothing that remains."""
    with TemporaryDirectory() as directory:
        with pytest.raises(ValidationError):
            restore([io.BytesIO(data)], Path(directory) / "a" / "data")
        assert [path.name for path in Path(directory).rglob("*")] == ["a"]


def restored_files(data: bytes) -> dict[str, bytes]:
    """Return what a backup contains, without the record of the installation, whose incarnation is new."""
    with TemporaryDirectory() as directory:
        restore([io.BytesIO(data)], Path(directory) / "data")
        database = Path(directory) / "data" / "imagehost.sqlite3"
        with closing(sqlite3.connect(database)) as connection:
            dump = [line for line in connection.iterdump() if "installation" not in line]
        return {
            str(path.relative_to(directory)): path.read_bytes()
            for path in Path(directory).rglob("*")
            if path.is_file() and path.name not in {RECORD_NAME, database.name}
        } | {database.name: "\n".join(dump).encode()}


def test_the_archives_of_these_tests_are_accepted_before_they_are_changed(
    archive: bytes, entries: list[Entry]
) -> None:
    assert restored_files(pack(entries)) == restored_files(archive)


def test_common_tools_read_a_backup(archive: bytes, entries: list[Entry]) -> None:
    assert checksums(entries).data in zstd.decompress(archive)
    names = [entry.name for entry in entries]
    assert names[:3] == ["backup.json", "imagehost.sqlite3", "secret"]
    assert names[-1] == "skipped"
    assert [name for name in names if name.startswith("images/")] == sorted(names[3:-1])


@given(share=st.floats(0, 1, exclude_max=True))
def test_a_truncated_backup_is_refused(archive: bytes, share: float) -> None:
    require_refused(archive[: int(share * len(archive))])


@given(share=st.floats(0, 1, exclude_max=True))
def test_a_backup_whose_content_is_truncated_is_refused(archive: bytes, share: float) -> None:
    content = zstd.decompress(archive)
    require_refused(zstd.compress(content[: int(share * len(content))]))


@given(share=st.floats(0, 1, exclude_max=True), change=st.integers(1, 255))
def test_a_changed_byte_in_the_compressed_stream_is_refused_or_changes_nothing(
    archive: bytes, share: float, change: int
) -> None:
    position = int(share * len(archive))
    changed = bytearray(archive)
    changed[position] ^= change
    try:
        files = restored_files(bytes(changed))
    except ValidationError:
        return
    assert files == restored_files(archive)


@given(data=st.data(), change=st.integers(1, 255))
def test_a_changed_byte_in_the_content_of_a_member_is_refused(
    archive: bytes, data: st.DataObject, change: int
) -> None:
    content = bytearray(zstd.decompress(archive))
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        member = data.draw(st.sampled_from([info for info in tar if info.size]))
    content[member.offset_data + data.draw(st.integers(0, member.size - 1))] ^= change
    require_refused(zstd.compress(bytes(content)))


@given(data=st.binary(max_size=2_000))
def test_any_other_bytes_are_refused(data: bytes) -> None:
    require_refused(data)
    require_refused(zstd.compress(data))


@given(data=st.binary(min_size=1, max_size=2_000))
def test_bytes_after_a_backup_are_refused(archive: bytes, data: bytes) -> None:
    require_refused(archive + data)
    require_refused(archive + zstd.compress(data))


def test_an_empty_file_in_place_of_an_increment_is_refused(archive: bytes, tmp_path: Path) -> None:
    for empty in (b"", zstd.compress(b"")):
        with pytest.raises(ValidationError):
            restore([io.BytesIO(archive), io.BytesIO(empty)], tmp_path / "data")
        assert list(tmp_path.iterdir()) == []


IMAGE = "images/ab/abcdefghijklmnop/master"
HOSTILE_NAMES = (
    "../evil",
    "/tmp/evil",
    "images/../../evil",
    "images/ab/../../../evil",
    "images/ab/abcdefghijklmnop/../../../../evil",
    "images/ab/abcdefghijklmnop/evil",
    "images/ab/abcdefghijklmnop/master/x",
    "images/ab/abcdefghijklmnop/derivative-0512",
    "images/ab/abcdefghijklmnop/derivative-999999",
    "images/ab/abcdefghijklmnop/master\n",
    "images/xy/abcdefghijklmnop/master",
    "images/ab/abcdefghijklmno/master",
    "images/ab/abcdefghijklmn../master",
    "images/ab",
    "./" + IMAGE,
    "IMAGES/ab/abcdefghijklmnop/master",
    "imagehost.sqlite3-wal",
    "rate_limits",
    "locks/generations",
    "lock",
    "",
    "x" * 120,
)


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_a_member_with_another_name_is_refused(entries: list[Entry], name: str) -> None:
    for position in range(len(entries) + 1):
        require_refused(pack([*entries[:position], Entry(name, b"evil"), *entries[position:]]))


@pytest.mark.parametrize(
    "kind",
    [
        tarfile.LNKTYPE,
        tarfile.SYMTYPE,
        tarfile.CHRTYPE,
        tarfile.BLKTYPE,
        tarfile.DIRTYPE,
        tarfile.FIFOTYPE,
        tarfile.CONTTYPE,
        tarfile.GNUTYPE_SPARSE,
        tarfile.AREGTYPE,
        tarfile.XHDTYPE,
        tarfile.XGLTYPE,
        tarfile.GNUTYPE_LONGNAME,
        tarfile.GNUTYPE_LONGLINK,
        b"?",
    ],
)
def test_a_member_that_is_no_regular_file_is_refused(entries: list[Entry], kind: bytes) -> None:
    for position, entry in enumerate(entries):
        for data in (entry.data, b""):
            wrong = evolve(entry, type=kind, link="/etc/passwd", data=data)
            require_refused(pack([*entries[:position], wrong, *entries[position + 1 :]]))


def test_a_member_that_is_missing_repeated_or_at_another_place_is_refused(entries: list[Entry]) -> None:
    for position, entry in enumerate(entries):
        others = entries[:position] + entries[position + 1 :]
        require_refused(pack(others))
        require_refused(pack([*entries[:position], entry, *entries[position:]]))
        for place in range(len(entries)):
            if place != position:
                require_refused(pack([*others[:place], entry, *others[place:]]))


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("backup.json", 2**16 + 1),
        ("secret", 2**12 + 1),
        ("skipped", 2**28 + 1),
        ("imagehost.sqlite3", 2**60),
        ("imagehost.sqlite3", -1),
        ("images/", 2**30 + 1),
        ("images/", -512),
    ],
)
def test_a_size_that_no_backup_has_is_refused(entries: list[Entry], name: str, size: int) -> None:
    [position, *_] = [number for number, entry in enumerate(entries) if entry.name.startswith(name)]
    entries[position] = evolve(entries[position], size=size)
    require_refused(pack(entries))


def test_checksums_that_are_missing_wrong_or_of_other_members_are_refused(entries: list[Entry]) -> None:
    right = checksums(entries)
    require_refused(zstd.compress(b"".join(entry.pack() for entry in entries) + END))
    for data in (
        b"",
        right.data[:-66],
        right.data + right.data,
        right.data.upper(),
        right.data[66:] + right.data[:66],
    ):
        require_refused(pack([*entries, evolve(right, data=data)]))
    require_refused(pack([*entries, right, right]))


def test_an_archive_without_its_end_is_refused(entries: list[Entry]) -> None:
    for end in (b"", bytes(512), b"\1" * 1_024):
        require_refused(pack(entries, end))


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 2},
        {"format": None},
        {"created_at": "yesterday"},
        {"created_at": "2026-11-20T00:00:00"},
        {"created_at": 5},
        {"since": 5},
        {"since": "2026-11-20T00:00:00Z"},
        {"image_count": "many"},
    ],
    ids=str,
)
def test_a_time_that_no_backup_has_is_refused(entries: list[Entry], changes: dict[str, object]) -> None:
    data = json.dumps(json.loads(entries[0].data) | changes).encode()
    require_refused(pack([evolve(entries[0], data=data), *entries[1:]]))


@pytest.mark.parametrize("data", [b"", b"[]", b"[" * 60_000, b'"x"', b"{}", b"\xff"], ids=repr)
def test_a_time_that_is_no_json_object_is_refused(entries: list[Entry], data: bytes) -> None:
    require_refused(pack([evolve(entries[0], data=data), *entries[1:]]))


def test_a_short_secret_is_refused(entries: list[Entry]) -> None:
    require_refused(pack([*entries[:2], Entry("secret", b"short"), *entries[3:]]))


@pytest.fixture
def changed_database(entries: list[Entry], tmp_path: Path) -> Callable[[str], list[Entry]]:
    """Return a function that runs statements in the database of the backup."""

    def change(script: str) -> list[Entry]:
        path = tmp_path / "changed.sqlite3"
        path.write_bytes(entries[1].data)
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(script)
        return [entries[0], Entry("imagehost.sqlite3", path.read_bytes()), *entries[2:]]

    return change


@pytest.mark.parametrize(
    "script",
    [
        "CREATE TRIGGER evil AFTER DELETE ON sessions BEGIN UPDATE accounts SET role = 'operator'; END",
        "CREATE VIEW evil AS SELECT * FROM accounts",
        "CREATE TABLE evil (id)",
        "DROP TABLE sessions",
        "DROP TABLE _sqlite_migrations",
        "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES ('imagehost', 'newer', '')",
        "UPDATE images SET id = '../../../../../evil' WHERE number = (SELECT min(number) FROM images)",
        "UPDATE images SET id = x'00' WHERE number = (SELECT min(number) FROM images)",
        "UPDATE images SET id = 'abcdefghijklmnop' WHERE number = (SELECT min(number) FROM images)",
    ],
)
def test_a_database_that_no_host_has_is_refused(
    changed_database: Callable[[str], list[Entry]], script: str
) -> None:
    require_refused(pack(changed_database(script)))


@pytest.mark.parametrize("data", [b"", b"no database" * 1_000], ids=["empty", "other"])
def test_a_file_that_is_no_database_is_refused(entries: list[Entry], data: bytes) -> None:
    require_refused(pack([entries[0], Entry("imagehost.sqlite3", data), *entries[2:]]))


def test_a_database_with_damaged_pages_is_refused(entries: list[Entry]) -> None:
    data = entries[1].data
    damaged = data[: len(data) // 3] + b"\xff" * 8_192 + data[len(data) // 3 + 8_192 :]
    require_refused(pack([entries[0], Entry("imagehost.sqlite3", damaged), *entries[2:]]))


def test_ids_of_skipped_images_that_are_none_are_refused(entries: list[Entry]) -> None:
    require_refused(pack([*entries[:-1], Entry("skipped", b"../../evil\n")]))


@pytest.mark.parametrize("line", [b"\n", b"\0", b"a" * 16])
def test_a_list_of_skipped_images_is_refused_before_it_is_in_memory_whole(
    entries: list[Entry], line: bytes
) -> None:
    hostile = Entry("skipped", line * (2**21 // len(line)), size=2**28)
    truncated = zstd.compress(b"".join(entry.pack() for entry in [*entries[:-1], hostile]))
    with TemporaryDirectory() as directory, pytest.raises(ValidationError, match="ids of images"):
        restore([io.BytesIO(truncated)], Path(directory) / "data")


@pytest.mark.parametrize("text", [b"[", b"a = " + b"[" * 9_999, b"\xff"])
def test_settings_that_cannot_be_read_are_left_to_the_host_that_opens_them(
    entries: list[Entry], text: bytes
) -> None:
    files = restored_files(pack([*entries[:3], Entry("imagehost.toml", text), *entries[3:]]))
    assert files["data/imagehost.toml"] == text
