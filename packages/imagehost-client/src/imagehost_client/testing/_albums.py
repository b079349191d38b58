"""Album routes of the in-memory host."""

from __future__ import annotations

from functools import partial

from imagehost_client.models import EventKind
from imagehost_client.testing import _query
from imagehost_client.testing._images import emit_deleted
from imagehost_client.testing._lists import paginate
from imagehost_client.testing._members import Parser, parse_boolean, parse_ids, parse_name, parse_text
from imagehost_client.testing._request import FakeRequest, require_scope, touch, touch_albums, with_count
from imagehost_client.testing._store import Record, now

MEMBERS: dict[str, Parser] = {
    "name": partial(parse_name, minimum=1),
    "description": parse_text,
    "is_public": parse_boolean,
}
"""The members of an album that a request may set."""

MAX_IMAGES_PER_REQUEST = 1_000
"""The maximum number of images to add or remove in one request."""

IMAGE_IDS: Parser = partial(parse_ids, maximum=MAX_IMAGES_PER_REQUEST)


def list_albums(request: FakeRequest) -> object:
    """List albums."""
    page = paginate(request, "albums", lambda row: row.owner == request.grant.account)
    return {**page, "albums": [with_count(request, record) for record in page["albums"]]}


def create_album(request: FakeRequest) -> object:
    """Create an album."""
    values = request.created(MEMBERS, required={"name"})
    albums, timestamp = request.table("albums"), now()
    record = {
        "id": albums.count + 1,
        "description": "",
        "is_public": True,
        **values,
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
    row, changes = request.changed("albums", MEMBERS)
    record = row.record
    if all(record[name] == value for name, value in changes.items()):
        return with_count(request, record)
    record |= changes
    return touch(request, record)


def delete_album(request: FakeRequest) -> object:
    """Delete an album, and its images if the query has `delete_images`."""
    with_images = request.errors.attempt(_query.parse_boolean, request.query, "delete_images")
    if with_images:
        require_scope(request.host, request.grant, "images:delete")
    row = request.errors.attempt(request.row, "albums")
    request.errors.raise_all()
    assert row is not None
    request.table("albums").remove(request.grant.account, request.ids[0])
    images = request.table("images").rows
    for image_id, image in list(images.items()):
        if image.record["album_id"] == row.record["id"]:
            if with_images:
                emit_deleted(request, images.pop(image_id).record)
            image.record["album_id"] = None
    return {"id": row.record["id"], "deleted": True}


def add_images(request: FakeRequest) -> object:
    """Add images to an album."""
    return _change_members(request, "added")


def remove_images(request: FakeRequest) -> object:
    """Remove images from an album."""
    return _change_members(request, "removed")


def _change_members(request: FakeRequest, status: str) -> object:
    """Add (`status="added"`) or remove (`"removed"`) the images that a request names."""
    row, members = request.changed("albums", {"image_ids": IMAGE_IDS}, required={"image_ids"})
    album, ids = row.record, members["image_ids"]
    target = album["id"] if status == "added" else None
    results, changed = list[Record](), list[int]()
    for image_id in ids:
        image = request.owned_row("images", image_id)
        if image is None:
            results.append({"image_id": image_id, "status": "not_found"})
            continue
        previous = image.record["album_id"]
        changes = (previous == album["id"]) == (status == "removed")
        if changes:
            changed += [album["id"]] if previous is None else [album["id"], previous]
            image.record |= {"album_id": target, "updated_at": now()}
        results.append({"image_id": image_id, "status": status if changes else "unchanged"})
    touch_albums(request, changed)
    return {"results": results, "album": with_count(request, album)}
