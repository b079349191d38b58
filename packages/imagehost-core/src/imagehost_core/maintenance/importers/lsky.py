"""Import from Lsky Pro 2 (https://github.com/lsky-org/lsky-pro), by the tables of its migrations.

Files of the local storage strategy are below its root, by default `storage/app/uploads`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from imagehost_core.maintenance.importers.items import (
    ImportAlbum,
    ImportItem,
    OmittedItem,
    SourceItem,
    find_file,
    parse_timestamp,
)
from imagehost_core.maintenance.importers.tables import Tables

PUBLIC = "1"
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
            is_public=row.get("permission") == PUBLIC,
            created_at=parse_timestamp(row.get("created_at")),
        )
