"""What comes in as JSON: the shapes of bodies, and how text becomes one.

What goes out are the core's own records (`imagehost_core.resources`). Ranges are the core's to check;
here is only what JSON can say wrong: types, and what is missing.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import FieldInfo, fields

from imagehost_core.errors import BadRequestError, FieldError, ValidationError, quote_value

T = TypeVar("T")

SECRETS = frozenset({"password"})
"""Members whose values are shown nowhere, also where they are of a wrong type."""
MAX_QUOTED = 60
"""Characters of a wrong value that are shown in a message."""


class NewAlbum(Struct, kw_only=True):
    """The body of `POST /albums`."""

    name: str
    description: str = ""
    is_public: bool = True


class ImageChanges(Struct, kw_only=True):
    """The body of `PATCH /images/{id}`; what is left out stays as it is."""

    album_id: int | str | UnsetType | None = UNSET
    description: str | UnsetType = UNSET
    is_public: bool | UnsetType = UNSET
    filename: str | UnsetType = UNSET


class AlbumChanges(Struct, kw_only=True):
    """The body of `PATCH /albums/{id}`; what is left out stays as it is."""

    name: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    is_public: bool | UnsetType = UNSET


class AlbumMembers(Struct, kw_only=True):
    """The body of `PUT|DELETE /albums/{id}/images`."""

    image_ids: list[str]


class SignIn(Struct, kw_only=True):
    """The body of `POST /session`; its `repr` has no password."""

    username: str
    password: str

    def __repr__(self) -> str:
        return f"{type(self).__name__}(username={self.username!r})"


class NewAccount(SignIn, kw_only=True):
    """The body of `POST /accounts`."""


class NewKey(Struct, kw_only=True):
    """The body of `POST /keys`; without scopes it has all."""

    name: str | UnsetType = UNSET
    scopes: list[str] | UnsetType = UNSET
    expires_at: str | UnsetType | None = UNSET


class KeyChanges(Struct, kw_only=True):
    """The body of `PATCH /keys/{id}`; what is left out stays as it is."""

    name: str | UnsetType = UNSET
    scopes: list[str] | UnsetType = UNSET
    expires_at: str | UnsetType | None = UNSET


class NewWebhook(Struct, kw_only=True):
    """The body of `POST /webhooks`; without events it gets all."""

    url: str
    events: list[str] = []
    description: str = ""


class WebhookChanges(Struct, kw_only=True):
    """The body of `PATCH /webhooks/{id}`; what is left out stays as it is."""

    url: str | UnsetType = UNSET
    events: list[str] | UnsetType = UNSET
    description: str | UnsetType = UNSET
    is_active: bool | UnsetType = UNSET


class SignedUrlRequest(Struct, kw_only=True):
    """The body of `POST /images/{id}/signed-url`: the parameters of a variant, and seconds."""

    expires_in: int
    w: int | str | UnsetType = UNSET
    h: int | str | UnsetType = UNSET
    q: int | str | UnsetType = UNSET
    fit: str | UnsetType = UNSET
    fm: str | UnsetType = UNSET


def decode(kind: type[T], body: bytes) -> T:
    """Return a JSON body as a value of `kind`.

    Unknown members are ignored. Values are not converted: `"1"` is no number and `1` no boolean.

    Args:
        kind: One of the classes above.
        body: The bytes that came.

    Raises:
        BadRequestError: They are no JSON.
        ValidationError: They are, but not of this shape. Names every fault.
    """
    try:
        tree = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequestError(f"expected JSON for the body but received something else: {error}") from None
    if not isinstance(tree, dict):
        raise ValidationError(errors=[FieldError("the body", "an object", _received(tree))])
    found = {name: value for name, value in tree.items() if isinstance(name, str)}
    faults = [fault for info in fields(kind) for fault in _field_errors(info, found)]  # type: ignore[arg-type]
    if faults:
        raise ValidationError(errors=faults)
    return msgspec.convert(tree, kind)


def parse_timestamp(name: str, text: str | UnsetType | None) -> datetime | None:
    """Return a time that came as text, or `None`.

    Raises:
        ValidationError: It is none of RFC 3339, with its zone.
    """
    if not isinstance(text, str):
        return None
    try:
        found: datetime = msgspec.convert(text, Annotated[datetime, Meta(tz=True)])
        # The last hours of the year 9999 are none in UTC.
        return found.astimezone(UTC)
    except (msgspec.ValidationError, OverflowError):
        fault = FieldError(name, "a time of RFC 3339, with its zone,", quote_value(text))
        raise ValidationError(errors=[fault]) from None


def set_fields(value: Struct) -> dict[str, object]:
    """Return the members of a body that were in it, by name."""
    members = {info.name: getattr(value, info.name) for info in fields(value)}
    return {name: member for name, member in members.items() if member is not UNSET}


def _field_errors(info: FieldInfo, found: dict[str, object]) -> list[FieldError]:
    if info.encode_name not in found:
        return [FieldError(info.encode_name, _EXPECTED[info.type], "nothing")] if info.required else []
    value = found[info.encode_name]
    try:
        msgspec.convert(value, info.type)
    except msgspec.ValidationError:
        received = "another type" if info.encode_name in SECRETS else _received(value)
        return [FieldError(info.encode_name, _EXPECTED[info.type], received)]
    return []


def _received(value: object) -> str:
    if isinstance(value, str):
        return quote_value(value)
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= MAX_QUOTED else f"{text[: MAX_QUOTED - 1]}…"


_EXPECTED: dict[object, str] = {
    str: "text",
    str | UnsetType: "text",
    bool: "true or false",
    bool | UnsetType: "true or false",
    int: "an integer",
    int | str | UnsetType: "an integer",
    int | str | UnsetType | None: "a positive integer or null",
    list[str]: "a list of text",
    list[str] | UnsetType: "a list of text",
    str | UnsetType | None: "a time of RFC 3339 or null",
}
"""How each type is called in messages."""
