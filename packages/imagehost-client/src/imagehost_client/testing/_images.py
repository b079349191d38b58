"""The double's images: the contract's rules over records in memory."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import PurePath
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from imagehost_client.errors import BadRequestError, ImageHostError, NotFoundError, ValidationError
from imagehost_client.models import EventKind
from imagehost_client.testing import _forms, _pictures
from imagehost_client.testing._asked import Asked
from imagehost_client.testing._store import PLACEHOLDER, Grant, Record, Row, new_id, now
from imagehost_client.urls import query_of

if TYPE_CHECKING:
    from imagehost_client.testing._fake import FakeImageHost


def upload(asked: Asked) -> object:
    """Keep the files of an upload (contract 4)."""
    form = _forms.read_upload(asked.content_type, asked.body)
    _forms.check_options(form.fields)
    album = asked.album_id(form.fields.get("album_id"))
    images: list[Record] = []
    failures: list[tuple[ImageHostError, Record]] = []
    for index, part in enumerate(form.files):
        try:
            images.append(_stored(asked, part, form.fields, album))
        except ImageHostError as error:
            failure = {"index": index, "filename": part.filename, "code": error.code}
            failures.append((error, {**failure, "message": error.message, "details": error.details}))
    if not images:
        kinds = {type(error) for error, _ in failures}
        details = "; ".join(error.details for error, _ in failures)
        raise failures[0][0] if len(kinds) == 1 else ValidationError(details)
    return {"images": images, "errors": [shown for _, shown in failures]} if form.many else images[0]


def list_images(asked: Asked) -> object:
    """List images (contract 5)."""
    album = asked.query.get("album_id")
    if album is not None:
        asked.table("albums").get(asked.grant.account, album)
    return asked.table("images").page(
        asked.query,
        lambda row: row.owner == asked.grant.account and album in {None, str(row.record["album_id"])},
    )


def gallery(asked: Asked) -> object:
    """List public images, in the record that anyone may see."""
    names = [
        "id",
        "description",
        "width",
        "height",
        "is_animated",
        "placeholder",
        "url",
        "thumb_url",
        "created_at",
    ]
    page = asked.table("images").page(asked.query, lambda row: row.record["is_public"] is True)
    return {**page, "images": [{name: record[name] for name in names} for record in page["images"]]}


def get_image(asked: Asked) -> object:
    """Return an image's record."""
    return asked.row("images").record


def update_image(asked: Asked) -> object:
    """Change an image's record."""
    record, body = asked.row("images").record, asked.json()
    changes: Record = {
        "description": _forms.typed(body, "description", str, record["description"]),
        "is_public": _forms.typed(body, "is_public", bool, record["is_public"]),
        "filename": _forms.typed(body, "filename", str, record["filename"]),
        "album_id": asked.album_id(body["album_id"]) if "album_id" in body else record["album_id"],
    }
    record |= {**changes, "updated_at": now()}
    return record


def delete_image(asked: Asked) -> object:
    """Drop an image."""
    record = asked.table("images").remove(asked.grant.account, asked.ids[0]).record
    gone = {"id": record["id"], "album_id": record["album_id"], "deleted_at": now()}
    asked.host.emit(EventKind.IMAGE_DELETED, gone)
    return {"id": record["id"], "deleted": True}


def sign_url(asked: Asked) -> object:
    """Return an address that shows an image without a token."""
    record, body = asked.row("images").record, asked.json()
    seconds = _forms.typed(body, "expires_in", int, 0)
    if seconds < 1:
        raise ValidationError(f"expected seconds above 0 for expires_in but received {seconds}")
    try:
        query = query_of({name: value for name, value in body.items() if name != "expires_in"})
    except (ValueError, TypeError) as error:
        raise ValidationError(str(error)) from None
    expires = datetime.now(UTC) + timedelta(seconds=seconds)
    signature = asked.host.signature(f"{record['id']}{int(expires.timestamp())}")
    signed = urlencode({**query, "exp": int(expires.timestamp()), "sig": signature})
    return {"url": f"{record['url']}?{signed}", "expires_at": expires.isoformat().replace("+00:00", "Z")}


def deliver(host: FakeImageHost, name: str, query: Mapping[str, str], grant: Grant | None) -> Row:
    """Return the image that a delivery address shows (contract 7: private ones only to their owner).

    Raises:
        NotFoundError: There is none that this caller may see.
        BadRequestError: A parameter is wrong.
    """
    number, _, extension = name.partition(".")
    row = host.tables["images"].rows.get(number)
    signed = row is not None and host.is_signed(number, query)
    owner = row is not None and grant is not None and grant.account == row.owner
    if row is None or not (row.record["is_public"] or owner or signed):
        raise NotFoundError(f"expected the id of an image but received {number!r}")
    if extension not in {"", "jpg", "jpeg", "png", "webp", "avif", "gif", "auto"}:
        raise NotFoundError(f"expected the extension of an image but received {extension!r}")
    _check_params(query)
    return row


def _stored(asked: Asked, part: _forms.Part, fields: Mapping[str, str], album: int | None) -> Record:
    _forms.check_size(part)
    original = PurePath((part.filename or "").replace("\\", "/")).name or "image"
    facts = _pictures.read_facts(part.content, original)
    wanted = fields.get("format", "auto")
    kind = facts.format if wanted == "auto" else wanted
    number = new_id()
    url = f"{asked.host.cdn_url}/{number}.{_pictures.EXTENSIONS[kind]}"
    name = f"{new_id()}.{_pictures.EXTENSIONS[kind]}"
    record = {
        "id": number,
        "album_id": album,
        "filename": name if _forms.flag(fields, "auto_rename", default=False) else original,
        "original_filename": original,
        "description": fields.get("description", ""),
        "is_public": _forms.flag(fields, "is_public", default=True),
        "format": kind,
        "mime_type": _pictures.MEDIA_TYPES[kind],
        "size": len(part.content),
        "width": facts.width,
        "height": facts.height,
        "is_animated": facts.frames > 1,
        "frames": facts.frames,
        "has_alpha": facts.alpha,
        "sha256": hashlib.sha256(part.content).hexdigest(),
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
    asked.table("images").add(asked.grant.account, record, content=part.content)
    asked.host.emit(EventKind.IMAGE_UPLOADED, record)
    return record


def _check_params(query: Mapping[str, str]) -> None:
    numbers = {name: query[name] for name in ("w", "h", "q") if name in query}
    wrong = [name for name, text in numbers.items() if not re.fullmatch(r"[1-9][0-9]{0,4}", text, re.ASCII)]
    try:
        if wrong:
            raise ValueError(f"expected an integer for {wrong[0]} but received {numbers[wrong[0]]!r}")
        query_of({name: int(text) for name, text in numbers.items()})
        query_of({name: query[name] for name in ("fit", "fm") if name in query})
    except ValueError as error:
        raise BadRequestError(str(error)) from None
