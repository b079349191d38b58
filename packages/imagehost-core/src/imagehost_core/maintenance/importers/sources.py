"""What other image hosts offer to an import: their tables, and files with their metadata.

The tables are those of a SQLite database, or of an export of another one.
"""

from __future__ import annotations

import csv
import json
import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from attrs import field, frozen

from imagehost_core.errors import InternalError, ValidationError, quote_value

MAX_ALBUM_NAME = 100


@frozen(kw_only=True)
class ImportAlbum:
    """An album of a source.

    Attributes:
        name: Its name.
        description: Its description.
        is_public: Whether its images may be in the gallery; `None` if the source does not say.
    """

    name: str
    description: str = ""
    is_public: bool | None = None


@frozen(kw_only=True)
class ImportItem:
    """An image file of a source.

    Attributes:
        id: An id that is unique in the source, and the same when the source is read again.
        path: The file.
        filename: The original filename.
        username: The name of the user of the source to whom it belongs, or `None`.
        album: Its album, or `None`.
        description: Its description.
        is_public: Whether it is public; `None` if the source does not say.
        created_at: The time of its upload, or `None`.
        is_file_time: Whether that is only the time of the file, which the camera's takes precedence over.
    """

    id: str
    path: Path
    filename: str
    username: str | None = None
    album: ImportAlbum | None = None
    description: str = ""
    is_public: bool | None = None
    created_at: datetime | None = None
    is_file_time: bool = False


@frozen
class OmittedItem:
    """A file or record of a source that cannot be imported.

    Attributes:
        id: Its id in the source, or its path.
        reason: The reason.
    """

    id: str
    reason: str


SourceItem = ImportItem | OmittedItem


def parse_timestamp(value: object) -> datetime | None:
    """Return a time of a source; `None` for a value that is none.

    Args:
        value: ISO 8601 text, in UTC unless it has an offset, or milliseconds since 1970.
    """
    try:
        if isinstance(value, int) or (isinstance(value, str) and value.isdecimal()):
            return datetime.fromtimestamp(int(value) / 1_000, UTC)
        parsed = datetime.fromisoformat(str(value))
    except (ValueError, OverflowError, OSError):
        return None
    return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)


def find_file(root: Path, *candidates: str) -> Path | None:
    """Return the first of some relative paths that is a file below a directory, or `None`.

    A path that leads out of the directory, also by a symbolic link, is not returned.
    """
    base = root.resolve()
    for candidate in candidates:
        try:
            path = (base / candidate.lstrip("/")).resolve()
            if path.is_relative_to(base) and path.is_file():
                return path
        except (OSError, ValueError):
            continue
    return None


HEADER = b"SQLite format 3\0"
"""The first bytes of a database file (https://www.sqlite.org/fileformat.html, section 1.3)."""


def sqlite_table_names(path: Path) -> tuple[str, ...]:
    """Return the names of the tables of a database file.

    Raises:
        InternalError: The file cannot be read as a database.
    """
    sql = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"
    return tuple(str(row["name"]) for row in _rows(path, sql))


def sqlite_rows(path: Path, table: str) -> Iterator[Mapping[str, object]]:
    """Yield the rows of a table.

    Args:
        path: The database file.
        table: One of `sqlite_table_names`.

    Raises:
        InternalError: The file cannot be read as a database.
    """
    quoted = table.replace('"', '""')
    yield from _rows(path, f'SELECT * FROM "{quoted}"')  # noqa: S608 - quoted


def _rows(path: Path, sql: str) -> Iterator[Mapping[str, object]]:
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            yield from map(dict, connection.execute(sql))
    except sqlite3.Error as error:
        raise InternalError(f"expected a database at {str(path)!r} but received: {error}") from error


Row = Mapping[str, str | None]
"""The values of a row by column: text, or `None` for NULL."""

_NULLS = frozenset({"", "NULL", "\\N"})
"""NULL in CSV of PostgreSQL, and in the output of `mysql --batch` and of phpMyAdmin."""
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_UNESCAPED = {"n": "\n", "t": "\t", "0": "\0"}
"""Escape sequences of `mysql --batch`; any other escaped character stands for itself."""


@frozen
class Tables:
    """Tables by name.

    Attributes:
        names: The names.
    """

    names: tuple[str, ...]
    _read: Callable[[str], Iterator[Row]] = field(repr=False)

    def rows(self, name: str) -> Iterator[Row]:
        """Yield the rows of a table; none, if there is no such table."""
        if name in self.names:
            yield from self._read(name)


def open_tables(path: Path) -> Tables:
    """Return the tables of a database file, of a directory of CSV or TSV files, or of a JSON export.

    Args:
        path: A SQLite database; a directory with files such as `images.csv` (with a header line) or
            `images.tsv` (the output of `mysql --batch`); or a JSON export of phpMyAdmin.

    Raises:
        ValidationError: The path is none of them.
        OSError: It cannot be read.
    """
    if path.is_dir():
        files = {file.stem: file for file in sorted(path.iterdir()) if file.suffix in _READERS}
        if files:
            return Tables(tuple(files), lambda name: _READERS[files[name].suffix](files[name]))
    else:
        with path.open("rb") as file:
            head = file.read(len(HEADER))
        if head == HEADER:
            return Tables(sqlite_table_names(path), lambda name: map(_to_text, sqlite_rows(path, name)))
        if head.lstrip()[:1] == b"[":
            return _phpmyadmin_tables(path)
    expected = "a SQLite database, a directory of .csv or .tsv files, or a JSON export of phpMyAdmin"
    raise ValidationError.of("PATH", expected, quote_value(str(path)))


def _read_csv(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        for row in csv.DictReader(file):
            yield {name: None if value in _NULLS else value for name, value in row.items()}


def _read_tsv(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8-sig", newline="\n") as file:
        lines = (line.rstrip("\n").split("\t") for line in file)
        names = next(lines, [])
        for values in lines:
            yield {
                name: None if value in _NULLS else _ESCAPE.sub(_unescape, value)
                for name, value in zip(names, values, strict=False)
            }


_READERS: dict[str, Callable[[Path], Iterator[Row]]] = {".csv": _read_csv, ".tsv": _read_tsv}


def _unescape(match: re.Match[str]) -> str:
    return _UNESCAPED.get(match[1], match[1])


def _phpmyadmin_tables(path: Path) -> Tables:
    try:
        entries = json.loads(path.read_bytes())
        tables: dict[str, list[dict[str, object]]] = {
            entry["name"]: entry["data"] for entry in entries if entry.get("type") == "table"
        }
    except (ValueError, KeyError, AttributeError) as error:
        raise ValidationError.of("PATH", "a JSON export of phpMyAdmin", quote_value(str(path))) from error
    return Tables(tuple(tables), lambda name: map(_to_text, tables[name]))


def _to_text(row: Mapping[str, object]) -> Row:
    return {name: None if value is None else str(value) for name, value in row.items()}


def read_folder(path: Path) -> Iterator[SourceItem]:
    """Yield the files of a directory, sorted by their paths, or a single file.

    The album of a file is its directory: `trips/rome` for `rome/1.jpg` in `/photos/trips`. A single file has
    no album. Hidden files and directories, and symbolic links, are omitted.

    Args:
        path: The directory or file.
    """
    root = path.resolve()
    if not root.is_dir():
        yield _item(root, root.name, None)
        return
    for directory, names, files in os.walk(root, onerror=_raise):
        here = Path(directory)
        label = "/".join((root.name, *here.relative_to(root).parts))
        for name in [name for name in names if name.startswith(".") or (here / name).is_symlink()]:
            names.remove(name)
            yield OmittedItem(f"{label}/{name}", _reason(here / name))
        names.sort()
        album = ImportAlbum(name=_album_name(label))
        for name in sorted(files):
            file = here / name
            if name.startswith(".") or file.is_symlink() or not file.is_file():
                yield OmittedItem(f"{label}/{name}", _reason(file))
            else:
                yield _item(file, f"{label}/{name}", album)


ALBUMS, IMAGES = "albums.json", "images.jsonl"
"""The files with the records of an export of an account (`imagehost users export`)."""


def read_account(path: Path) -> Iterator[SourceItem]:
    """Yield the images of an export of an account, the oldest first.

    Raises:
        ValidationError: The path is no such export.
    """
    try:
        albums = {album["id"]: album for album in json.loads((path / ALBUMS).read_bytes())}
        lines = (path / IMAGES).read_text(encoding="utf-8").splitlines()
        records = [json.loads(line) for line in reversed(lines)]
        items = [_exported_item(path, record, albums) for record in records]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValidationError.of("PATH", "an export of an account", quote_value(str(path))) from error
    yield from items


def _exported_item(
    path: Path, record: Mapping[str, Any], albums: Mapping[int, Mapping[str, Any]]
) -> SourceItem:
    album = albums.get(record["album_id"])
    file = find_file(path, record["file"])
    if file is None:
        return OmittedItem(record["id"], "the file is missing")
    return ImportItem(
        id=record["id"],
        path=file,
        filename=record["original_filename"],
        album=None
        if album is None
        else ImportAlbum(name=album["name"], description=album["description"], is_public=album["is_public"]),
        description=record["description"],
        is_public=record["is_public"],
        created_at=parse_timestamp(record["created_at"]),
    )


def _item(path: Path, item_id: str, album: ImportAlbum | None) -> ImportItem:
    modified_at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    return ImportItem(
        id=item_id,
        path=path,
        filename=path.name,
        album=album,
        created_at=modified_at,
        is_file_time=True,
    )


def _album_name(label: str) -> str:
    """Return a name of an album from the path of a directory: its end, if it is too long."""
    printable = "".join(character for character in label if character.isprintable()).strip()
    return printable if len(printable) <= MAX_ALBUM_NAME else f"…{printable[1 - MAX_ALBUM_NAME :]}"


def _reason(path: Path) -> str:
    if path.is_symlink():
        return "a symbolic link"
    return "hidden" if path.name.startswith(".") else "not a regular file"


def _raise(error: OSError) -> None:
    raise error


PUBLIC_ALBUM = "public"
"""The value of `album_privacy` of a public album."""
_IMAGES = "images"


def read_chevereto(tables: Tables, files: Path) -> Iterator[SourceItem]:
    """Yield the images of a Chevereto database.

    Args:
        tables: Its tables `images`, `albums` and `users`, with their prefix, such as `chv_images`.
        files: Its directory `images`.
    """
    prefix = _prefix(tables)
    albums = {
        row["album_id"]: ImportAlbum(
            name=row.get("album_name") or "",
            description=row.get("album_description") or "",
            is_public=row.get("album_privacy") == PUBLIC_ALBUM,
        )
        for row in tables.rows(f"{prefix}albums")
    }
    users = {row["user_id"]: row.get("user_username") for row in tables.rows(f"{prefix}users")}
    for row in tables.rows(f"{prefix}{_IMAGES}"):
        item_id, name = (
            f"chevereto:{row['image_id']}",
            f"{row.get('image_name')}.{row.get('image_extension')}",
        )
        if row.get("image_expiration_date_gmt"):
            yield OmittedItem(item_id, f"{name} expires at {row['image_expiration_date_gmt']}")
            continue
        path = find_file(files, *_candidates(row, name))
        if path is None:
            yield OmittedItem(item_id, f"no file {name} in the local storage")
            continue
        album = albums.get(row.get("image_album_id"))
        texts = (row.get("image_title"), row.get("image_description"))
        yield ImportItem(
            id=item_id,
            path=path,
            filename=row.get("image_original_filename") or name,
            username=users.get(row.get("image_user_id")),
            album=album,
            description="\n\n".join(filter(None, texts)),
            is_public=album is None or album.is_public,
            created_at=parse_timestamp(row.get("image_date_gmt")),
        )


def _prefix(tables: Tables) -> str:
    """Return the prefix of the tables: what is before `images` in the shortest name with it."""
    names = [name for name in tables.names if name.endswith(_IMAGES)]
    return min(names, key=len, default=_IMAGES).removesuffix(_IMAGES)


def _candidates(row: Row, name: str) -> tuple[str, ...]:
    """Return the possible places of a file, that of its storage mode first."""
    date = (row.get("image_date") or "")[:10].replace("-", "/")
    places = {"datefolder": f"{date}/{name}", "direct": name, "path": f"{row.get('image_path') or ''}/{name}"}
    mode = row.get("image_storage_mode") or "datefolder"
    first = places.get(mode, name)
    return (first, *(place for place in places.values() if place != first))


PUBLIC_PERMISSION = "1"
"""The value of `permission` of a public image."""


def read_lsky(tables: Tables, files: Path) -> Iterator[SourceItem]:
    """Yield the images of a Lsky Pro database.

    Args:
        tables: Its tables `images`, `albums` and `users`.
        files: The root of its storage.
    """
    albums = {
        row["id"]: ImportAlbum(name=row.get("name") or "", description=row.get("intro") or "")
        for row in tables.rows("albums")
    }
    users = {row["id"]: row.get("name") for row in tables.rows("users")}
    for row in tables.rows("images"):
        item_id, name = f"lsky:{row['id']}", row.get("name") or ""
        path = find_file(files, f"{row.get('path') or ''}/{name}")
        if path is None:
            yield OmittedItem(item_id, f"no file {row.get('path') or ''}/{name}")
            continue
        yield ImportItem(
            id=item_id,
            path=path,
            filename=row.get("origin_name") or name,
            username=users.get(row.get("user_id")),
            album=albums.get(row.get("album_id")),
            description=row.get("alias_name") or "",
            is_public=row.get("permission") == PUBLIC_PERMISSION,
            created_at=parse_timestamp(row.get("created_at")),
        )


_TRUE = frozenset({"1", "t", "true"})
"""True in SQLite, in CSV of PostgreSQL and in JSON."""
_EXPORT = {"File": "files", "Folder": "folders", "User": "users"}
"""The members of an export, by the table that they have the rows of."""


def open_export(path: Path) -> Tables:
    """Return the tables in an export of version 4.

    Raises:
        ValidationError: The file is no such export.
    """
    try:
        data: Mapping[str, list[Mapping[str, Any]]] = json.loads(path.read_bytes())["data"]
        tables = {table: list(data[member]) for table, member in _EXPORT.items()}
    except (ValueError, KeyError, TypeError) as error:
        raise ValidationError.of("PATH", "an export of Zipline 4", quote_value(str(path))) from error
    return Tables(tuple(tables), lambda name: map(_to_text, tables[name]))


def read_zipline(tables: Tables, files: Path) -> Iterator[SourceItem]:
    """Yield the images of a Zipline database.

    Args:
        tables: Its tables `File`, `Folder` and `User`.
        files: Its directory of uploads.
    """
    folders = {
        row["id"]: ImportAlbum(
            name=row.get("name") or "", is_public=(row.get("public") or "").lower() in _TRUE
        )
        for row in tables.rows("Folder")
    }
    users = {row["id"]: row.get("username") for row in tables.rows("User")}
    for row in tables.rows("File"):
        item_id, name = f"zipline:{row['id']}", row.get("name") or ""
        expires_at = row.get("deletesAt") or row.get("expiresAt")
        path = find_file(files, name)
        if expires_at:
            yield OmittedItem(item_id, f"{name} expires at {expires_at}")
        elif row.get("password"):
            yield OmittedItem(item_id, f"{name} has a password")
        elif path is None:
            yield OmittedItem(item_id, f"no file {name}")
        else:
            folder = folders.get(row.get("folderId"))
            yield ImportItem(
                id=item_id,
                path=path,
                filename=row.get("originalName") or name,
                username=users.get(row.get("userId")),
                album=folder,
                is_public=folder is not None and folder.is_public,
                created_at=parse_timestamp(row.get("createdAt")),
            )
