"""Import from Chevereto 3 and 4 (https://github.com/chevereto/chevereto), by the tables of its schemas.

Files of the local storage are below `images/`, in directories by date, by path or in none.
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
from imagehost_core.maintenance.importers.tables import Row, Tables

PUBLIC = "public"
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
            is_public=row.get("album_privacy") == PUBLIC,
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
