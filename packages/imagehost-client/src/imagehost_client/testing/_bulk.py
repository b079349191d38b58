"""Bulk routes of the in-memory host: change, delete and sign many images in one request."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from imagehost_client.errors import NotFoundError, ValidationError
from imagehost_client.models import BulkStatus
from imagehost_client.testing._delivery import DEFAULT_LIFETIME, LIFETIME, PARAMS, signed_url
from imagehost_client.testing._errors import ErrorCollector
from imagehost_client.testing._images import change_image, emit_deleted, image_members
from imagehost_client.testing._members import Parser, parse_ids
from imagehost_client.testing._request import FakeRequest, touch_albums
from imagehost_client.testing._store import Record

MAX_IMAGES = 100
"""The maximum number of images of a request."""

IMAGE_IDS: Parser = partial(parse_ids, maximum=MAX_IMAGES)


def update_images(request: FakeRequest) -> object:
    """Change images in the same way."""
    members = {"image_ids": IMAGE_IDS, **image_members(request)}
    changes = request.created(members, required={"image_ids"})
    request.count_ids(changes["image_ids"])
    results, albums = list[Record](), list[int]()
    for image_id in changes.pop("image_ids"):
        row = request.owned_row("images", image_id)
        if row is None:
            results.append(_missing(image_id))
            continue
        changed_albums = change_image(row, changes)
        status = BulkStatus.UNCHANGED if changed_albums is None else BulkStatus.UPDATED
        results.append({"id": image_id, "status": str(status)})
        albums += changed_albums or ()
    touch_albums(request, albums)
    return {"results": results}


def delete_images(request: FakeRequest) -> object:
    """Delete images."""
    ids, results = request.created({"image_ids": IMAGE_IDS}, required={"image_ids"})["image_ids"], []
    request.count_ids(ids)
    for image_id in ids:
        row = request.owned_row("images", image_id)
        if row is None:
            results.append(_missing(image_id))
            continue
        emit_deleted(request, request.table("images").remove(row.owner, image_id).record)
        results.append({"id": image_id, "status": str(BulkStatus.DELETED)})
    return {"results": results}


def sign_urls(request: FakeRequest) -> object:
    """Return signed delivery URLs of images."""
    members = request.members({"items": _parse_items, "expires_in": LIFETIME}, required={"items"})
    records = [
        _parse_item(request, f"items[{index}]", item) for index, item in enumerate(members.get("items") or ())
    ]
    request.errors.raise_all()
    seconds = members.get("expires_in", DEFAULT_LIFETIME)
    return {
        "items": [
            {"image_id": image["id"], **signed_url(request, image, params, seconds)}
            for image, params in records
        ]
    }


def _missing(image_id: str) -> Record:
    error = NotFoundError(f"expected the id of one of your images but received {image_id!r}")
    return {
        "id": image_id,
        "status": str(BulkStatus.NOT_FOUND),
        "error": {"code": error.code, "message": error.message, "details": error.details},
    }


def _parse_items(name: str, value: object) -> list[object]:
    if not isinstance(value, list):
        raise ValidationError(f"expected a list of objects for {name} but received {value!r}")
    if not 1 <= len(value) <= MAX_IMAGES:
        raise ValidationError(f"expected 1 to {MAX_IMAGES} objects for {name} but received {len(value)}")
    return value


def _parse_item(request: FakeRequest, name: str, item: object) -> tuple[Record, Record]:
    """Return the image and the parameters of an item; errors are collected under the item's name."""
    errors = request.errors
    if not isinstance(item, Mapping):
        errors.add(ValidationError(f"expected an object for {name} but received {item!r}"))
        return {}, {}
    image_id = item.get("image_id")
    row = request.owned_row("images", image_id) if isinstance(image_id, str) else None
    if row is None:
        kind = NotFoundError if isinstance(image_id, str) else ValidationError
        errors.add(
            kind(f"expected the id of one of your images for {name}.image_id but received {image_id!r}")
        )
    params = _parse_params(name, item, errors)
    return {} if row is None else row.record, params


def _parse_params(name: str, item: Mapping[str, object], errors: ErrorCollector) -> Record:
    params: Record = {}
    for parameter, parse in PARAMS.items():
        if parameter in item:
            params[parameter] = errors.attempt(parse, f"{name}.{parameter}", item[parameter])
    return params
