"""Lists of images of the in-memory host: your images, and the public gallery."""

from __future__ import annotations

from datetime import datetime

from imagehost_client.errors import BadRequestError, NotFoundError
from imagehost_client.testing import _query
from imagehost_client.testing._image_files import MEDIA_TYPES
from imagehost_client.testing._lists import NEWEST_FIRST, Order, paginate
from imagehost_client.testing._members import INTEGER
from imagehost_client.testing._request import FakeRequest
from imagehost_client.testing._search import is_found
from imagehost_client.testing._store import Record, Row

GALLERY_FIELDS = (
    "id",
    "description",
    "width",
    "height",
    "is_animated",
    "placeholder",
    "url",
    "thumb_url",
    "created_at",
)
"""The fields of an image that the public gallery shows."""

MAX_Q = 100
"""The maximum length of `q`, in characters."""

ORDERS: dict[str, Order] = {
    f"{sign}{name}": Order(member, descending=bool(sign))
    for name, member in {"created_at": None, "filename": "filename", "size": "size"}.items()
    for sign in ("", "-")
}
"""The values of `sort`."""


def list_images(request: FakeRequest) -> object:
    """List images."""
    query, attempt = request.query, request.errors.attempt
    album = attempt(_album_id, query)
    if album is not None:
        attempt(request.table("albums").get, request.grant.account, album)
    text = attempt(_search_text, query)
    is_public = attempt(_query.parse_boolean, query, "is_public")
    stored_format = attempt(_query.parse_choice, query, "format", tuple(MEDIA_TYPES))
    after = attempt(_query.parse_timestamp, query, "created_after")
    before = attempt(_query.parse_timestamp, query, "created_before")
    sort = attempt(_query.parse_choice, query, "sort", tuple(ORDERS))

    def matches(row: Row) -> bool:
        record = row.record
        created_at = datetime.fromisoformat(record["created_at"])
        return (
            row.owner == request.grant.account
            and album in {None, str(record["album_id"])}
            and is_public in {None, record["is_public"]}
            and stored_format in {None, record["format"]}
            and (after is None or created_at > after)
            and (before is None or created_at < before)
            and (not text or is_found(record, text))
        )

    return paginate(
        request,
        "images",
        matches,
        order=NEWEST_FIRST if sort is None else ORDERS[sort],
        filters=(album, text, is_public, stored_format, after, before),
        is_counted=not text and (stored_format, after, before) == (None, None, None),
    )


def gallery(request: FakeRequest) -> object:
    """List the public images of all accounts, or of one public album."""
    album_id = request.errors.attempt(_album_id, request.query)
    album = None
    if album_id is not None:
        album = request.errors.attempt(_public_album, request, album_id)
    private_albums = {
        row.record["id"] for row in request.table("albums").rows.values() if not row.record["is_public"]
    }

    def is_listed(row: Row) -> bool:
        record = row.record
        return (
            record["is_public"]
            and request.host.is_active(row.owner)
            and record["album_id"] not in private_albums
            and album_id in {None, str(record["album_id"])}
        )

    page = paginate(request, "images", is_listed, filters=(album_id,))
    images = [{name: record[name] for name in GALLERY_FIELDS} for record in page["images"]]
    return {**page, "images": images, **({} if album is None else {"album": album})}


def _public_album(request: FakeRequest, album_id: str) -> Record:
    """Return the public fields of a public album.

    Raises:
        NotFoundError: There is no public album with this id.
    """
    row = request.table("albums").rows.get(album_id)
    if row is None or not row.record["is_public"] or not request.host.is_active(row.owner):
        raise NotFoundError(f"expected the id of a public album but received {album_id!r}")
    images = [
        image.record
        for image in request.table("images").rows.values()
        if image.record["album_id"] == row.record["id"] and image.record["is_public"]
    ]
    cover = images[-1] if images else {"id": None, "thumb_url": None}
    return {
        "id": row.record["id"],
        "name": row.record["name"],
        "description": row.record["description"],
        "image_count": len(images),
        "cover_image_id": cover["id"],
        "cover_url": cover["thumb_url"],
    }


def _album_id(query: _query.Query) -> str | None:
    """Return the query's album id, or `None`.

    Raises:
        BadRequestError: It is not a positive integer.
    """
    text = query.get("album_id")
    if text is not None and not INTEGER.fullmatch(text):
        raise BadRequestError(f"expected a positive integer for album_id but received {text!r}")
    return text


def _search_text(query: _query.Query) -> str:
    """Return `q`, or an empty text if it is absent.

    Raises:
        BadRequestError: It is too long.
    """
    text = query.get("q", "").strip()
    if len(text) > MAX_Q:
        raise BadRequestError(f"expected at most {MAX_Q} characters for q but received {len(text)}")
    return text
