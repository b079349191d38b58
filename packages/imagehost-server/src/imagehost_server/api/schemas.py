"""JSON request bodies: their classes, and decoding with all errors collected.

Response records are the core's (`imagehost_core.resources`). Only JSON types and required members are
checked here; ranges are the core's rules.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import FieldInfo, fields

from imagehost_core.errors import BadRequestError, FieldError, ValidationError, quote_value
from imagehost_core.transform import DEFAULT_LIFETIME_SECONDS

T = TypeVar("T")

SECRETS = frozenset({"password"})
"""Members whose values never appear in messages, not even if they have a wrong type."""
MAX_QUOTED = 60
"""Longest quotation of a received value in a message, in characters."""


class NewAlbum(Struct, kw_only=True):
    """The body of `POST /albums`."""

    name: str
    description: str = ""
    is_public: bool = True


class ImageChanges(Struct, kw_only=True):
    """The body of `PATCH /images/{id}`; omitted members keep their values."""

    album_id: int | str | UnsetType | None = UNSET
    description: str | UnsetType = UNSET
    is_public: bool | UnsetType = UNSET
    filename: str | UnsetType = UNSET


class AlbumChanges(Struct, kw_only=True):
    """The body of `PATCH /albums/{id}`; omitted members keep their values."""

    name: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    is_public: bool | UnsetType = UNSET


class AlbumMembers(Struct, kw_only=True):
    """The body of `PUT|DELETE /albums/{id}/images`."""

    image_ids: list[str]


class SignIn(Struct, kw_only=True):
    """The body of `POST /session`."""

    username: str
    password: str

    def __repr__(self) -> str:
        # Without the password, which must not be logged.
        return f"{type(self).__name__}(username={self.username!r})"


class NewAccount(SignIn, kw_only=True):
    """The body of `POST /accounts`."""


class NewKey(Struct, kw_only=True):
    """The body of `POST /keys`; without `scopes` the key has all."""

    name: str | UnsetType = UNSET
    scopes: list[str] | UnsetType = UNSET
    expires_at: str | UnsetType | None = UNSET


class KeyChanges(Struct, kw_only=True):
    """The body of `PATCH /keys/{id}`; omitted members keep their values."""

    name: str | UnsetType = UNSET
    scopes: list[str] | UnsetType = UNSET
    expires_at: str | UnsetType | None = UNSET


class NewWebhook(Struct, kw_only=True):
    """The body of `POST /webhooks`; without `events` it receives all."""

    url: str
    events: list[str] = []
    description: str = ""


class WebhookChanges(Struct, kw_only=True):
    """The body of `PATCH /webhooks/{id}`; omitted members keep their values."""

    url: str | UnsetType = UNSET
    events: list[str] | UnsetType = UNSET
    description: str | UnsetType = UNSET
    is_active: bool | UnsetType = UNSET


class SignedUrlRequest(Struct, kw_only=True):
    """The body of `POST /images/{id}/signed-url`: transform parameters, and the lifetime in seconds."""

    expires_in: int = DEFAULT_LIFETIME_SECONDS
    w: int | str | UnsetType = UNSET
    h: int | str | UnsetType = UNSET
    q: int | str | UnsetType = UNSET
    fit: str | UnsetType = UNSET
    fm: str | UnsetType = UNSET


def decode(kind: type[T], body: bytes) -> T:
    """Return a JSON body as a value of `kind`.

    Unknown members are ignored. Types are not converted, except 0 and 1 to booleans: `"1"` is not a number.

    Args:
        kind: One of the classes above.
        body: The received bytes.

    Raises:
        BadRequestError: The body is not JSON.
        ValidationError: The body is JSON of another shape; every wrong member is named.
    """
    try:
        tree = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequestError(f"expected JSON for the body but received something else: {error}") from None
    if not isinstance(tree, dict):
        raise ValidationError(errors=[FieldError("the body", "an object", _quote(tree))])
    members = {name: value for name, value in tree.items() if isinstance(name, str)}
    infos = fields(kind)  # type: ignore[arg-type]
    for info in infos:
        value = members.get(info.encode_name)
        if info.type in _BOOLEANS and type(value) is int and value in (0, 1):
            members[info.encode_name] = value == 1
    errors = [error for info in infos for error in _field_errors(info, members)]
    if errors:
        raise ValidationError(errors=errors)
    return msgspec.convert(members, kind)


def parse_timestamp(name: str, text: str | UnsetType | None) -> datetime | None:
    """Return an RFC 3339 timestamp as a datetime in UTC; `None` if there is no text.

    Args:
        name: The field's name, for the error.
        text: The timestamp, with its time zone.

    Raises:
        ValidationError: The text is not RFC 3339, or has no time zone.
    """
    if not isinstance(text, str):
        return None
    try:
        timestamp: datetime = msgspec.convert(text, Annotated[datetime, Meta(tz=True)])
        # The last hours of the year 9999, in zones west of UTC, overflow in UTC.
        return timestamp.astimezone(UTC)
    except (msgspec.ValidationError, OverflowError):
        error = FieldError(name, "a time of RFC 3339, with its zone,", quote_value(text))
        raise ValidationError(errors=[error]) from None


def set_fields(value: Struct) -> dict[str, object]:
    """Return the members that a body contained, by name."""
    members = {info.name: getattr(value, info.name) for info in fields(value)}
    return {name: member for name, member in members.items() if member is not UNSET}


def _field_errors(info: FieldInfo, members: dict[str, object]) -> list[FieldError]:
    if info.encode_name not in members:
        return [FieldError(info.encode_name, _EXPECTED[info.type], "nothing")] if info.required else []
    value = members[info.encode_name]
    try:
        msgspec.convert(value, info.type)
    except msgspec.ValidationError:
        received = "another type" if info.encode_name in SECRETS else _quote(value)
        return [FieldError(info.encode_name, _EXPECTED[info.type], received)]
    return []


def _quote(value: object) -> str:
    if isinstance(value, str):
        return quote_value(value)
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= MAX_QUOTED else f"{text[: MAX_QUOTED - 1]}…"


_BOOLEANS: tuple[object, ...] = (bool, bool | UnsetType)
"""The types of members that accept 0 and 1."""
_EXPECTED: dict[object, str] = {
    str: "text",
    str | UnsetType: "text",
    bool: "true, false, 0 or 1",
    bool | UnsetType: "true, false, 0 or 1",
    int: "an integer",
    int | str | UnsetType: "an integer",
    int | str | UnsetType | None: "a positive integer or null",
    list[str]: "a list of text",
    list[str] | UnsetType: "a list of text",
    str | UnsetType | None: "a time of RFC 3339 or null",
}
"""The description of each type in messages."""
