"""Image routes of the in-memory host."""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import urlencode

from imagehost_client._wire import rfc3339
from imagehost_client.errors import BadRequestError, ImageHostError, NotFoundError, ValidationError
from imagehost_client.models import EventKind
from imagehost_client.testing import _filenames, _forms, _image_files
from imagehost_client.testing._request import FakeRequest, touch
from imagehost_client.testing._state import HostState
from imagehost_client.testing._store import PLACEHOLDER, Record, Row, TokenGrant, new_id, now
from imagehost_client.urls import build_query

DEFAULT_LIFETIME = 3_600
"""The lifetime of a signed URL in seconds, unless another is given."""

MAX_LIFETIME = 365 * 86_400
"""The maximum lifetime of a signed URL, in seconds."""

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


def upload(request: FakeRequest) -> object:
    """Store the files of an upload."""
    form = _forms.read_upload(request.content_type, request.body)
    _forms.require_options(form)
    album = request.album_id(form.fields.get("album_id"))
    images: list[Record] = []
    failures: list[tuple[ImageHostError, Record]] = []
    for index, part in enumerate(form.files):
        try:
            images.append(_store_image(request, part, form.fields, album))
        except ImageHostError as error:
            failure = {"index": index, "filename": _filenames.clean(part.filename), "code": error.code}
            failures.append((error, {**failure, "message": error.message, "details": error.details}))
    if not images:
        kinds = {type(error) for error, _ in failures}
        details = "; ".join(error.details for error, _ in failures)
        raise kinds.pop()(details) if len(kinds) == 1 else ValidationError(details)
    return {"images": images, "errors": [failure for _, failure in failures]} if form.many else images[0]


def list_images(request: FakeRequest) -> object:
    """List images."""
    album = request.query.get("album_id")
    if album is not None:
        if not _forms.INTEGER.fullmatch(album):
            raise BadRequestError(f"expected a positive integer for album_id but received {album!r}")
        request.table("albums").get(request.grant.account, album)
    return request.table("images").page(
        request.query,
        lambda row: row.owner == request.grant.account and album in {None, str(row.record["album_id"])},
    )


def gallery(request: FakeRequest) -> object:
    """List the public images of all accounts."""
    page = request.table("images").page(request.query, lambda row: row.record["is_public"] is True)
    return {**page, "images": [{name: record[name] for name in GALLERY_FIELDS} for record in page["images"]]}


def get_image(request: FakeRequest) -> object:
    """Return an image."""
    return request.row("images").record


def update_image(request: FakeRequest) -> object:
    """Change an image."""
    body, record = request.json(), request.row("images").record
    previous = dict(record)
    record |= {
        "description": _forms.parse_description(body, record["description"]),
        "is_public": _forms.expect_bool(body, "is_public", default=record["is_public"]),
        "filename": _filename(body, record),
        "album_id": request.album_id(body["album_id"]) if "album_id" in body else record["album_id"],
    }
    if record != previous:
        record["updated_at"] = now()
    if record["album_id"] != previous["album_id"]:
        for album_id in filter(None, (previous["album_id"], record["album_id"])):
            touch(request, request.table("albums").get(request.grant.account, str(album_id)).record)
    return record


def delete_image(request: FakeRequest) -> object:
    """Delete an image."""
    record = request.table("images").remove(request.grant.account, request.ids[0]).record
    emit_deleted(request, record)
    return {"id": record["id"], "deleted": True}


def emit_deleted(request: FakeRequest, record: Record) -> None:
    """Emit the event of a deleted image."""
    data = {"id": record["id"], "album_id": record["album_id"], "deleted_at": now()}
    request.host.emit(EventKind.IMAGE_DELETED, data, request.grant.account)


def sign_url(request: FakeRequest) -> object:
    """Return a signed delivery URL of an image."""
    body, record = request.json(), request.row("images").record
    seconds = _forms.expect_type(body, "expires_in", int, DEFAULT_LIFETIME)
    if not 1 <= seconds <= MAX_LIFETIME:
        raise ValidationError(f"expected 1 to {MAX_LIFETIME} seconds for expires_in but received {seconds}")
    try:
        query = build_query({name: value for name, value in body.items() if name != "expires_in"})
    except (ValueError, TypeError) as error:
        raise ValidationError(str(error)) from None
    expires = int(time.time()) + seconds
    signature = request.host.signature(_string_to_sign(record["id"], query, str(expires)))
    signed_query = urlencode({**query, "exp": expires, "sig": signature})
    expires_at = rfc3339(datetime.fromtimestamp(expires, UTC))
    return {"url": f"{record['url']}?{signed_query}", "expires_at": expires_at}


def deliver(host: HostState, name: str, query: Mapping[str, str], grant: TokenGrant | None) -> Row:
    """Return the image of a delivery URL; a private one needs its owner's token or a signature.

    Args:
        host: The host's state.
        name: The last path segment: an id, with an extension or without.
        query: The query parameters.
        grant: The permissions of the caller's token, if there is one.

    Raises:
        NotFoundError: There is no such image that the caller may view.
        BadRequestError: A parameter is invalid.
    """
    image_id, _, extension = name.partition(".")
    row = host.tables["images"].rows.get(image_id)
    is_signed = row is not None and _is_signed(host, image_id, query)
    is_owner = row is not None and grant is not None and grant.account == row.owner
    if row is None or not (row.record["is_public"] or is_owner or is_signed):
        raise NotFoundError(f"expected the id of an image but received {image_id!r}")
    if extension not in {"", "jpg", "jpeg", "png", "webp", "avif", "gif", "auto"}:
        raise NotFoundError(f"expected the extension of an image but received {extension!r}")
    _require_params(query)
    return row


def _store_image(
    request: FakeRequest, part: _forms.Part, fields: Mapping[str, str], album: int | None
) -> Record:
    _forms.require_size(part)
    original = _filenames.clean(part.filename)
    info = _image_files.read_image_info(part.content, original)
    content = part.content[: info.length]
    requested_format = fields.get("format", "auto").lower()
    kind = info.format if requested_format == "auto" else requested_format
    image_id = new_id()
    url = f"{request.host.cdn_url}/{image_id}.{_image_files.EXTENSIONS[kind]}"
    auto_rename = _forms.parse_bool(fields, "auto_rename", default=False)
    record = {
        "id": image_id,
        "album_id": album,
        "filename": _filenames.with_extension(new_id() if auto_rename else original, kind),
        "original_filename": original,
        "description": fields.get("description", ""),
        "is_public": _forms.parse_bool(fields, "is_public", default=True),
        "format": kind,
        "mime_type": _image_files.MEDIA_TYPES[kind],
        "size": len(content),
        "width": info.width,
        "height": info.height,
        "is_animated": info.frames > 1,
        "frames": info.frames,
        "has_alpha": info.alpha,
        "sha256": hashlib.sha256(content).hexdigest(),
        "placeholder": PLACEHOLDER,
        "url": url,
        "thumb_url": f"{url}?w=320",
        "links": {
            "url": url,
            "html": f'<img src="{url}" alt="">',
            "markdown": f"![]({url})",
            "bbcode": f"[img]{url}[/img]",
        },
        "created_at": now(),
    }
    record["updated_at"] = record["created_at"]
    request.table("images").add(request.grant.account, record, content=content)
    request.host.emit(EventKind.IMAGE_UPLOADED, record, request.grant.account)
    return record


def _filename(body: Record, record: Record) -> str:
    name = _forms.expect_type(body, "filename", str, record["filename"])
    if not name.strip():
        raise ValidationError("expected a name for filename but received none")
    return _filenames.with_extension(_filenames.clean(name), record["format"])


def _string_to_sign(image_id: str, query: Mapping[str, object], expires: str) -> str:
    """Return the text under the signature of a delivery URL; defaults are left out of it."""
    params = {name: str(query[name]) for name in ("w", "h", "q", "fit", "fm") if name in query}
    if params.get("fit") == "cover":
        del params["fit"]
    return f"{image_id}\n{urlencode(params)}\n{expires}"


def _is_signed(host: HostState, image_id: str, query: Mapping[str, str]) -> bool:
    """Return whether a delivery URL has a valid signature that is not expired."""
    expires, signature = query.get("exp", ""), query.get("sig", "")
    expected = host.signature(_string_to_sign(image_id, query, expires))
    matches = hmac.compare_digest(expected.encode(), signature.encode("utf-8", "replace"))
    return matches and expires.isdecimal() and int(expires) > time.time()


def _require_params(query: Mapping[str, str]) -> None:
    """Raise BadRequestError unless the processing parameters of a query are valid."""
    numbers = {name: query[name] for name in ("w", "h", "q") if name in query}
    invalid = [name for name, text in numbers.items() if not re.fullmatch(r"[1-9][0-9]{0,4}", text, re.ASCII)]
    try:
        if invalid:
            raise ValueError(f"expected an integer for {invalid[0]} but received {numbers[invalid[0]]!r}")
        build_query({name: int(text) for name, text in numbers.items()})
        build_query({name: query[name] for name in ("fit", "fm") if name in query})
    except ValueError as error:
        raise BadRequestError(str(error)) from None
