"""Album routes of the in-memory host."""

from __future__ import annotations

from imagehost_client.errors import BadRequestError, ValidationError
from imagehost_client.models import EventKind
from imagehost_client.testing import _forms
from imagehost_client.testing._images import emit_deleted
from imagehost_client.testing._request import FakeRequest, touch, with_count
from imagehost_client.testing._store import Record, now

MAX_IMAGES_PER_REQUEST = 1_000
"""The maximum number of images to add or remove in one request."""


def list_albums(request: FakeRequest) -> object:
    """List albums."""
    page = request.table("albums").page(request.query, lambda row: row.owner == request.grant.account)
    return {**page, "albums": [with_count(request, record) for record in page["albums"]]}


def create_album(request: FakeRequest) -> object:
    """Create an album."""
    body, albums, timestamp = request.json(), request.table("albums"), now()
    record = {
        "id": albums.count + 1,
        **_album_values(body, {"name": "", "description": "", "is_public": True}),
        "created_at": timestamp,
        "updated_at": timestamp,
    }
    album = with_count(request, albums.add(request.grant.account, record).record)
    request.host.emit(EventKind.ALBUM_CREATED, album, request.grant.account)
    return album


def get_album(request: FakeRequest) -> object:
    """Return an album."""
    return with_count(request, request.row("albums").record)


def update_album(request: FakeRequest) -> object:
    """Change an album."""
    body, record = request.json(), request.row("albums").record
    values = _album_values(body, record)
    if all(record[name] == value for name, value in values.items()):
        return with_count(request, record)
    record |= values
    return touch(request, record)


def delete_album(request: FakeRequest) -> object:
    """Delete an album, and its images if the query has `delete_images`."""
    with_images = request.query.get("delete_images", "false").lower()
    if with_images not in _forms.BOOLEANS:
        raise BadRequestError(f"expected true, false, 0 or 1 for delete_images but received {with_images!r}")
    row = request.table("albums").remove(request.grant.account, request.ids[0])
    images = request.table("images").rows
    for image_id, image in list(images.items()):
        if image.record["album_id"] == row.record["id"]:
            if _forms.BOOLEANS[with_images]:
                emit_deleted(request, images.pop(image_id).record)
            image.record["album_id"] = None
    return {"id": row.record["id"], "deleted": True}


def add_images(request: FakeRequest) -> object:
    """Add images to an album."""
    return _change_members(request, "added")


def remove_images(request: FakeRequest) -> object:
    """Remove images from an album."""
    return _change_members(request, "removed")


def _album_values(body: Record, record: Record) -> Record:
    return {
        "name": _forms.parse_name({"name": record["name"], **body}),
        "description": _forms.parse_description(body, record["description"]),
        "is_public": _forms.expect_bool(body, "is_public", default=record["is_public"]),
    }


def _change_members(request: FakeRequest, status: str) -> object:
    """Add (`status="added"`) or remove (`"removed"`) the images that a request names."""
    ids, album = request.json().get("image_ids"), request.row("albums").record
    if not isinstance(ids, list) or not all(isinstance(image_id, str) for image_id in ids):
        raise ValidationError(f"expected a list of ids for image_ids but received {ids!r}")
    if not 1 <= len(set(ids)) <= MAX_IMAGES_PER_REQUEST:
        raise ValidationError(
            f"expected 1 to {MAX_IMAGES_PER_REQUEST} ids for image_ids but received {len(set(ids))}"
        )
    target = album["id"] if status == "added" else None
    results, changed = [], dict[str, None]()
    for image_id in dict.fromkeys(ids):
        row = request.table("images").rows.get(image_id)
        if row is None or row.owner != request.grant.account:
            results.append({"image_id": image_id, "status": "not_found"})
            continue
        is_member = row.record["album_id"] == album["id"]
        changes = is_member == (status == "removed")
        if changes:
            changed |= dict.fromkeys(str(each) for each in (album["id"], row.record["album_id"]) if each)
            row.record |= {"album_id": target, "updated_at": now()}
        results.append({"image_id": image_id, "status": status if changes else "unchanged"})
    for album_id in changed:
        touch(request, request.table("albums").get(request.grant.account, album_id).record)
    return {"results": results, "album": with_count(request, album)}
