"""The double's images: the contract's rules over records in memory."""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from imagehost_client._wire import rfc3339
from imagehost_client.errors import BadRequestError, ImageHostError, NotFoundError, ValidationError
from imagehost_client.models import EventKind
from imagehost_client.testing import _forms, _names, _pictures
from imagehost_client.testing._request import FakeRequest
from imagehost_client.testing._store import PLACEHOLDER, Record, Row, TokenGrant, new_id, now
from imagehost_client.urls import build_query

if TYPE_CHECKING:
    from imagehost_client.testing._fake import FakeImageHost


MAX_LIFETIME = 365 * 86_400
"""The longest life of a signed address, in seconds."""


def upload(asked: FakeRequest) -> object:
    """Keep the files of an upload (contract 4)."""
    form = _forms.read_upload(asked.content_type, asked.body)
    _forms.check_options(form)
    album = asked.album_id(form.fields.get("album_id"))
    images: list[Record] = []
    failures: list[tuple[ImageHostError, Record]] = []
    for index, part in enumerate(form.files):
        try:
            images.append(_stored(asked, part, form.fields, album))
        except ImageHostError as error:
            failure = {"index": index, "filename": _names.clean(part.filename), "code": error.code}
            failures.append((error, {**failure, "message": error.message, "details": error.details}))
    if not images:
        kinds = {type(error) for error, _ in failures}
        details = "; ".join(error.details for error, _ in failures)
        raise kinds.pop()(details) if len(kinds) == 1 else ValidationError(details)
    return {"images": images, "errors": [shown for _, shown in failures]} if form.many else images[0]


def list_images(asked: FakeRequest) -> object:
    """List images (contract 5)."""
    album = asked.query.get("album_id")
    if album is not None:
        if not _forms.INTEGER.fullmatch(album):
            raise BadRequestError(f"expected a positive integer for album_id but received {album!r}")
        asked.table("albums").get(asked.grant.account, album)
    return asked.table("images").page(
        asked.query,
        lambda row: row.owner == asked.grant.account and album in {None, str(row.record["album_id"])},
    )


def gallery(asked: FakeRequest) -> object:
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


def get_image(asked: FakeRequest) -> object:
    """Return an image's record."""
    return asked.row("images").record


def update_image(asked: FakeRequest) -> object:
    """Change an image's record."""
    body, record = asked.json(), asked.row("images").record
    changes: Record = {
        "description": _forms.parse_description(body, record["description"]),
        "is_public": _forms.expect_type(body, "is_public", bool, record["is_public"]),
        "filename": _filename(body, record),
        "album_id": asked.album_id(body["album_id"]) if "album_id" in body else record["album_id"],
    }
    record |= {**changes, "updated_at": now()}
    return record


def delete_image(asked: FakeRequest) -> object:
    """Drop an image."""
    record = asked.table("images").remove(asked.grant.account, asked.ids[0]).record
    emit_deleted(asked, record)
    return {"id": record["id"], "deleted": True}


def emit_deleted(asked: FakeRequest, record: Record) -> None:
    """Note the event of an image that is gone."""
    gone = {"id": record["id"], "album_id": record["album_id"], "deleted_at": now()}
    asked.host.emit(EventKind.IMAGE_DELETED, gone, asked.grant.account)


def sign_url(asked: FakeRequest) -> object:
    """Return an address that shows an image without a token."""
    body, record = asked.json(), asked.row("images").record
    seconds = _forms.expect_type(body, "expires_in", int, 0)
    if not 1 <= seconds <= MAX_LIFETIME:
        raise ValidationError(f"expected 1 to {MAX_LIFETIME} seconds for expires_in but received {seconds}")
    try:
        query = build_query({name: value for name, value in body.items() if name != "expires_in"})
    except (ValueError, TypeError) as error:
        raise ValidationError(str(error)) from None
    expires = int(time.time()) + seconds
    signature = asked.host.signature(signed_text(record["id"], query, str(expires)))
    signed = urlencode({**query, "exp": expires, "sig": signature})
    return {"url": f"{record['url']}?{signed}", "expires_at": rfc3339(datetime.fromtimestamp(expires, UTC))}


def deliver(host: FakeImageHost, name: str, query: Mapping[str, str], grant: TokenGrant | None) -> Row:
    """Return the image that a delivery address shows (contract 7: private ones only to their owner).

    Raises:
        NotFoundError: There is none that this caller may see.
        BadRequestError: A parameter is wrong.
    """
    number, _, extension = name.partition(".")
    row = host.tables["images"].rows.get(number)
    signed = row is not None and _is_signed(host, number, query)
    owner = row is not None and grant is not None and grant.account == row.owner
    if row is None or not (row.record["is_public"] or owner or signed):
        raise NotFoundError(f"expected the id of an image but received {number!r}")
    if extension not in {"", "jpg", "jpeg", "png", "webp", "avif", "gif", "auto"}:
        raise NotFoundError(f"expected the extension of an image but received {extension!r}")
    _check_params(query)
    return row


def _stored(asked: FakeRequest, part: _forms.Part, fields: Mapping[str, str], album: int | None) -> Record:
    _forms.check_size(part)
    original = _names.clean(part.filename)
    facts = _pictures.read_image_info(part.content, original)
    content = part.content[: facts.length]
    wanted = fields.get("format", "auto")
    kind = facts.format if wanted == "auto" else wanted
    number = new_id()
    url = f"{asked.host.cdn_url}/{number}.{_pictures.EXTENSIONS[kind]}"
    renamed = _forms.parse_bool(fields, "auto_rename", default=False)
    record = {
        "id": number,
        "album_id": album,
        "filename": _names.with_extension(new_id() if renamed else original, kind),
        "original_filename": original,
        "description": fields.get("description", ""),
        "is_public": _forms.parse_bool(fields, "is_public", default=True),
        "format": kind,
        "mime_type": _pictures.MEDIA_TYPES[kind],
        "size": len(content),
        "width": facts.width,
        "height": facts.height,
        "is_animated": facts.frames > 1,
        "frames": facts.frames,
        "has_alpha": facts.alpha,
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
    asked.table("images").add(asked.grant.account, record, content=content)
    asked.host.emit(EventKind.IMAGE_UPLOADED, record, asked.grant.account)
    return record


def _filename(body: Record, record: Record) -> str:
    name = _forms.expect_type(body, "filename", str, record["filename"])
    if not name.strip():
        raise ValidationError("expected a name for filename but received none")
    return _names.with_extension(_names.clean(name), record["format"])


def signed_text(number: str, query: Mapping[str, object], expires: str) -> str:
    """Return what a signature of a delivery address is made over: what is meant, however it is spelled."""
    meant = {name: str(query[name]) for name in ("w", "h", "q", "fit", "fm") if name in query}
    if meant.get("fit") == "cover":
        del meant["fit"]
    return f"{number}\n{urlencode(meant)}\n{expires}"


def _is_signed(host: FakeImageHost, number: str, query: Mapping[str, str]) -> bool:
    """Say whether a delivery address is signed, and not expired."""
    expires, given = query.get("exp", ""), query.get("sig", "")
    right = host.signature(signed_text(number, query, expires))
    alike = hmac.compare_digest(right.encode(), given.encode("utf-8", "replace"))
    return alike and expires.isdecimal() and int(expires) > time.time()


def _check_params(query: Mapping[str, str]) -> None:
    numbers = {name: query[name] for name in ("w", "h", "q") if name in query}
    wrong = [name for name, text in numbers.items() if not re.fullmatch(r"[1-9][0-9]{0,4}", text, re.ASCII)]
    try:
        if wrong:
            raise ValueError(f"expected an integer for {wrong[0]} but received {numbers[wrong[0]]!r}")
        build_query({name: int(text) for name, text in numbers.items()})
        build_query({name: query[name] for name in ("fit", "fm") if name in query})
    except ValueError as error:
        raise BadRequestError(str(error)) from None
