"""Image routes of the in-memory host: upload, get, update and delete."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from imagehost_client.errors import ImageHostError, InsufficientStorageError, ValidationError
from imagehost_client.models import EventKind
from imagehost_client.testing import _filenames, _forms, _image_files
from imagehost_client.testing._accounts import usage_of
from imagehost_client.testing._links import embedding_links, thumbnail_url
from imagehost_client.testing._lsky import extend_image
from imagehost_client.testing._members import Parser, parse_boolean, parse_text
from imagehost_client.testing._request import FakeRequest, touch_albums
from imagehost_client.testing._store import PLACEHOLDER, Record, Row, new_id, now


def upload(request: FakeRequest) -> object:
    """Store the files of an upload."""
    form = request.upload_form(request.errors)
    for text in _forms.option_errors(form):
        request.errors.add(ValidationError(text))
    album = request.errors.attempt(request.parse_album_id, "album_id", form.fields.get("album_id"))
    request.errors.raise_all()
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
    if form.many:
        return {"images": images, "errors": [failure for _, failure in failures]}
    return extend_image(images[0]) if request.is_lsky else images[0]


def get_image(request: FakeRequest) -> object:
    """Return an image."""
    return request.row("images").record


def update_image(request: FakeRequest) -> object:
    """Change an image."""
    row, changes = request.changed("images", image_members(request))
    touch_albums(request, change_image(row, changes))
    return row.record


def image_members(request: FakeRequest) -> dict[str, Parser]:
    """Return the members of an image that a request may change."""
    return {
        "description": parse_text,
        "is_public": parse_boolean,
        "filename": parse_filename,
        "album_id": request.parse_album_id,
    }


def parse_filename(name: str, value: object) -> str:
    """Return a file name, without path components and control characters."""
    text = parse_text(name, value)
    if not text.strip():
        raise ValidationError(f"expected a name for {name} but received none")
    return _filenames.clean(text)


def change_image(row: Row, changes: Record) -> list[int] | None:
    """Change an image, and return the albums that it left or entered; `None` if nothing changed."""
    record = row.record
    if "filename" in changes:
        changes = {**changes, "filename": _filenames.with_extension(changes["filename"], record["format"])}
    previous = dict(record)
    record |= changes
    if record == previous:
        return None
    record["links"], record["updated_at"] = embedding_links(record), now()
    albums = (previous["album_id"], record["album_id"])
    return [album for album in albums if album is not None] if albums[0] != albums[1] else []


def delete_image(request: FakeRequest) -> object:
    """Delete an image."""
    record = request.table("images").remove(request.grant.account, request.ids[0]).record
    emit_deleted(request, record)
    return {"id": record["id"], "deleted": True}


def emit_deleted(request: FakeRequest, record: Record) -> None:
    """Emit the event of a deleted image."""
    data = {"id": record["id"], "album_id": record["album_id"], "deleted_at": now()}
    request.host.emit(EventKind.IMAGE_DELETED, data, request.grant.account)


def _store_image(
    request: FakeRequest, part: _forms.Part, fields: Mapping[str, str], album: int | None
) -> Record:
    _forms.require_size(part)
    original = _filenames.clean(part.filename)
    info = _image_files.read_image_info(part.content, original)
    content = part.content[: info.length] if info.content is None else info.content
    owner = request.grant.account
    quota, used = request.host.quota_of(owner), usage_of(request, owner)["bytes"]
    if quota is not None and used + len(content) > quota:
        raise InsufficientStorageError(
            f"expected at most {quota - used} more bytes for the quota of {quota} but received {len(content)}"
        )
    kind = _stored_format(info, fields)
    image_id = new_id()
    url = f"{request.host.cdn_url}/{image_id}.{_image_files.EXTENSIONS[kind]}"
    auto_rename = _forms.parse_bool(fields, "auto_rename", default=False)
    record: Record = {
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
    }
    record["thumb_url"] = thumbnail_url(record)
    record["links"] = embedding_links(record)
    record["created_at"] = record["updated_at"] = now()
    request.table("images").add(request.grant.account, record, content=content)
    request.host.emit(EventKind.IMAGE_UPLOADED, record, request.grant.account)
    return record


def _stored_format(info: _image_files.ImageInfo, fields: Mapping[str, str]) -> str:
    """Return the format of an upload's record: the requested one, else that of the file.

    A file that browsers do not display becomes WebP, or JPEG without `convertToWebP`.
    """
    requested_format = fields.get("format", "auto").lower()
    if requested_format != "auto":
        return requested_format
    if info.is_displayable:
        return info.format
    return "webp" if _forms.parse_bool(fields, "convertToWebP", default=True) else "jpeg"
