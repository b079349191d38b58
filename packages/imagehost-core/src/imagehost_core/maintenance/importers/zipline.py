"""Import from Zipline 3 and 4 (https://github.com/diced/zipline): its database, or the export of version 4.

Files of the local datasource are in one directory, by default `uploads`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from imagehost_core.errors import FieldError, ValidationError, quote_value
from imagehost_core.maintenance.importers.items import (
    ImportAlbum,
    ImportItem,
    OmittedItem,
    SourceItem,
    find_file,
    parse_timestamp,
)
from imagehost_core.maintenance.importers.tables import Tables

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
        expected = "an export of Zipline 4"
        raise ValidationError(errors=[FieldError("PATH", expected, quote_value(str(path)))]) from error
    return Tables(
        tuple(tables),
        lambda name: (
            {column: None if value is None else str(value) for column, value in row.items()}
            for row in tables[name]
        ),
    )


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
