"""The double's albums: the contract's rules over records in memory."""

from __future__ import annotations

from imagehost_client.errors import BadRequestError, ValidationError
from imagehost_client.models import EventKind
from imagehost_client.testing import _forms
from imagehost_client.testing._images import emit_deleted
from imagehost_client.testing._request import FakeRequest
from imagehost_client.testing._store import Record, now

MAX_MEMBERS = 1_000
"""How many images may join or leave an album in one request."""


def list_albums(asked: FakeRequest) -> object:
    """List albums."""
    page = asked.table("albums").page(asked.query, lambda row: row.owner == asked.grant.account)
    return {**page, "albums": [_counted(asked, record) for record in page["albums"]]}


def create_album(asked: FakeRequest) -> object:
    """Make an album (contract 6)."""
    body, albums, moment = asked.json(), asked.table("albums"), now()
    record = {
        "id": albums.count + 1,
        **_album_values(body, {"name": "", "description": "", "is_public": True}),
        "created_at": moment,
        "updated_at": moment,
    }
    shown = _counted(asked, albums.add(asked.grant.account, record).record)
    asked.host.emit(EventKind.ALBUM_CREATED, shown, asked.grant.account)
    return shown


def get_album(asked: FakeRequest) -> object:
    """Return an album's record."""
    return _counted(asked, asked.row("albums").record)


def update_album(asked: FakeRequest) -> object:
    """Change an album's record."""
    body, record = asked.json(), asked.row("albums").record
    record |= _album_values(body, record)
    return _album_updated(asked, record)


def delete_album(asked: FakeRequest) -> object:
    """Drop an album; its images stay unless they are to go."""
    with_images = asked.query.get("delete_images", "false").lower()
    if with_images not in _forms.BOOLEANS:
        raise BadRequestError(f"expected true, false, 0 or 1 for delete_images but received {with_images!r}")
    row = asked.table("albums").remove(asked.grant.account, asked.ids[0])
    images = asked.table("images").rows
    for number, image in list(images.items()):
        if image.record["album_id"] == row.record["id"]:
            if _forms.BOOLEANS[with_images]:
                emit_deleted(asked, images.pop(number).record)
            image.record["album_id"] = None
    return {"id": row.record["id"], "deleted": True}


def add_images(asked: FakeRequest) -> object:
    """Put images into an album."""
    return _members(asked, "added")


def remove_images(asked: FakeRequest) -> object:
    """Take images out of an album."""
    return _members(asked, "removed")


def _counted(asked: FakeRequest, record: Record) -> Record:
    members = [
        row.record for row in asked.table("images").rows.values() if row.record["album_id"] == record["id"]
    ]
    cover = members[-1] if members else {"id": None, "thumb_url": None}
    return {
        **record,
        "image_count": len(members),
        "cover_image_id": cover["id"],
        "cover_url": cover["thumb_url"],
    }


def _album_values(body: Record, record: Record) -> Record:
    return {
        "name": _forms.name_in({"name": record["name"], **body}),
        "description": _forms.parse_description(body, record["description"]),
        "is_public": _forms.expect_type(body, "is_public", bool, record["is_public"]),
    }


def _album_updated(asked: FakeRequest, record: Record) -> Record:
    record["updated_at"] = now()
    shown = _counted(asked, record)
    asked.host.emit(EventKind.ALBUM_UPDATED, shown, asked.grant.account)
    return shown


def _members(asked: FakeRequest, verb: str) -> object:
    ids, album = asked.json().get("image_ids"), asked.row("albums").record
    if not isinstance(ids, list) or not all(isinstance(number, str) for number in ids):
        raise ValidationError(f"expected a list of ids for image_ids but received {ids!r}")
    if not 1 <= len(set(ids)) <= MAX_MEMBERS:
        raise ValidationError(f"expected 1 to {MAX_MEMBERS} ids for image_ids but received {len(set(ids))}")
    target = album["id"] if verb == "added" else None
    results = []
    for number in dict.fromkeys(ids):
        row = asked.table("images").rows.get(number)
        if row is None or row.owner != asked.grant.account:
            results.append({"image_id": number, "status": "not_found"})
            continue
        changes = (
            row.record["album_id"] != album["id"]
            if verb == "added"
            else row.record["album_id"] == album["id"]
        )
        if changes:
            row.record |= {"album_id": target, "updated_at": now()}
        results.append({"image_id": number, "status": verb if changes else "unchanged"})
    changed = any(result["status"] == verb for result in results)
    shown = _album_updated(asked, album) if changed else _counted(asked, album)
    return {"results": results, "album": shown}
