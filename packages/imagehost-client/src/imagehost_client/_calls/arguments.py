"""Arguments of operations: the ids of records, and checks by type and value before a request is sent.

Only rules that hold on every host are checked. Those that depend on the host or its version, such as scopes
and the kinds of events it knows, are the host's.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import update_wrapper
from typing import ParamSpec, TypeVar

from attrs import fields

from imagehost_client._types import (
    UNSET,
    AccountRef,
    AlbumRef,
    DeliveryRef,
    ImageRef,
    KeyRef,
    SessionRef,
    WebhookRef,
)
from imagehost_client.models import (
    AccountLimits,
    Album,
    ApiKey,
    Image,
    ManagedAccount,
    PublicImage,
    Role,
    Session,
    Webhook,
    WebhookDelivery,
)
from imagehost_client.urls import parse_image_id

P = ParamSpec("P")
T = TypeVar("T")


def album_id_of(album: AlbumRef) -> str:
    """Return the id of an album in decimal, given as the album, an integer or a decimal string.

    Raises:
        ValueError: The id is not a positive integer.
    """
    return _decimal("album_id", album.id if isinstance(album, Album) else album)


def account_id_of(account: AccountRef) -> str:
    """Return the id of an account in decimal, given as the account, an integer or a decimal string.

    Raises:
        ValueError: The id is not a positive integer.
    """
    return _decimal("account", account.id if isinstance(account, ManagedAccount) else account)


def _decimal(name: str, number: int | str) -> str:
    if not isinstance(number, (int, str)):
        raise TypeError(f"expected a positive integer for {name} but received {number!r}")
    text = str(number)
    if isinstance(number, bool) or not (text.isascii() and text.isdecimal()) or text[0] == "0":
        raise ValueError(f"expected a positive integer for {name} but received {text!r}")
    return text


def image_id_of(image: ImageRef) -> str:
    """Return the id of an image, given as the image, its id, or any of its URLs.

    Raises:
        TypeError: The argument is neither an image nor a string.
        ValueError: The string is empty, or a URL without an image id in its path.
    """
    if isinstance(image, Image | PublicImage):
        return image.id
    if not isinstance(image, str):
        raise TypeError(f"expected an image, its id or its URL for image but received {image!r}")
    if not image:
        raise ValueError("expected an id or a URL for image but received an empty string")
    return parse_image_id(image)


def id_of(record: KeyRef | SessionRef | WebhookRef | DeliveryRef) -> str:
    """Return the id of a record, given as the record or its id.

    Raises:
        TypeError: The argument is neither a record nor a string.
    """
    if isinstance(record, ApiKey | Session | Webhook | WebhookDelivery):
        return record.id
    if not isinstance(record, str):
        raise TypeError(f"expected a record or its id but received {record!r}")
    return record


Check = Callable[[str, object], None]
"""A function that raises TypeError or ValueError for a wrong argument, by its name and value."""

MAX_DESCRIPTION = 2_000
"""The maximum length of a description, in characters."""
MAX_LIFETIME_SECONDS = 365 * 24 * 3600
"""The maximum lifetime of a signed URL, in seconds."""


def require_integer(name: str, value: object, minimum: int, maximum: int | None = None) -> None:
    """Raise TypeError unless `value` is an integer, and ValueError unless it is in its range."""
    if type(value) is not int:
        raise TypeError(f"expected an integer for {name} but received {value!r}")
    if value < minimum or (maximum is not None and value > maximum):
        bounds = f"of at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
        raise ValueError(f"expected an integer {bounds} for {name} but received {value}")


def integer(minimum: int, maximum: int | None = None) -> Check:
    """Return a check for integers in a range."""
    return lambda name, value: require_integer(name, value, minimum, maximum)


def text(minimum: int = 0, maximum: int | None = None, *, is_secret: bool = False) -> Check:
    """Return a check for strings by their length in characters; a secret is not in the error."""

    def check(name: str, value: object) -> None:
        if not isinstance(value, str):
            raise TypeError(f"expected a string for {name} but received {type(value).__name__}")
        if len(value) < minimum or (maximum is not None and len(value) > maximum):
            bounds = f"at least {minimum}" if maximum is None else f"{minimum} to {maximum}"
            received = "another number" if is_secret else len(value)
            raise ValueError(f"expected {bounds} characters for {name} but received {received}")

    return check


def choice(*choices: str) -> Check:
    """Return a check for one of several strings."""

    def check(name: str, value: object) -> None:
        if not isinstance(value, str):
            raise TypeError(f"expected a string for {name} but received {value!r}")
        if value not in choices:
            raise ValueError(f"expected one of {', '.join(choices)} for {name} but received {value!r}")

    return check


def _boolean(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"expected True or False for {name} but received {value!r}")


def _strings(name: str, value: object) -> None:
    if not isinstance(value, (list, tuple, set, frozenset)):
        raise TypeError(f"expected a list of strings for {name} but received {value!r}")
    for item in value:
        text(1)(name, item)


def _url(name: str, value: object) -> None:
    text(1)(name, value)
    if not str(value).lower().startswith(("https://", "http://")):
        raise ValueError(f"expected an absolute URL for {name} but received {value!r}")


def _datetime(name: str, value: object) -> None:
    if not isinstance(value, datetime):
        raise TypeError(f"expected a datetime for {name} but received {value!r}")
    if value.tzinfo is None:
        raise ValueError(f"expected a time with a UTC offset for {name} but received {value.isoformat()}")


def _time(name: str, value: object) -> None:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.upper())
        except ValueError:
            raise ValueError(f"expected a time in RFC 3339 for {name} but received {value!r}") from None
    _datetime(name, value)


def _idempotency_key(name: str, value: object) -> None:
    text(1, 255)(name, value)
    if not (str(value).isascii() and str(value).isprintable()):
        raise ValueError(f"expected printable ASCII for {name} but received other characters")


def _path(name: str, value: object) -> None:
    text(1)(name, value)
    if not re.fullmatch(r"/[!$&-;=@A-Z_a-z~%]*", str(value)):
        raise ValueError(f"expected an escaped path that begins with / for {name} but received {value!r}")


def _callable(name: str, value: object) -> None:
    if not callable(value):
        raise TypeError(f"expected a function for {name} but received {value!r}")


def _target(name: str, value: object) -> None:
    if not (isinstance(value, (str, os.PathLike)) or hasattr(value, "write")):
        raise TypeError(f"expected a path or an open binary file for {name} but received {value!r}")
    if value == "":
        raise ValueError(f"expected a path for {name} but received an empty string")


def _mapping(name: str, value: object) -> None:
    if not isinstance(value, Mapping):
        raise TypeError(f"expected a mapping for {name} but received {value!r}")
    for key in value:
        text(1)(name, key)


CHECKS: dict[str, Check] = {
    "page": integer(1),
    "per_page": integer(1, 100),
    "cursor": text(1),
    "q": text(0, 100),
    "sort": choice(*(f"{sign}{name}" for name in ("created_at", "filename", "size") for sign in ("", "-"))),
    "created_after": _time,
    "created_before": _time,
    "filename": text(1),
    "description": text(0, MAX_DESCRIPTION),
    "quality": integer(1, 100),
    "remove_exif": _boolean,
    "convert_to_webp": _boolean,
    "auto_rename": _boolean,
    "is_public": _boolean,
    "is_active": _boolean,
    "suspended": _boolean,
    "delete_images": _boolean,
    "checksum": _boolean,
    "idempotency_key": _idempotency_key,
    "if_none_match": _idempotency_key,
    "method": choice("GET", "POST", "PUT", "PATCH", "DELETE"),
    "path": _path,
    "json": _mapping,
    "query": _mapping,
    "progress": _callable,
    "target": _target,
    "expires_in": integer(1, MAX_LIFETIME_SECONDS),
    "alt": text(),
    "loading": choice("lazy", "eager"),
    "sizes": text(1),
    "attributes": _mapping,
    "expires_at": _datetime,
    "name": text(1, 100),
    "scopes": _strings,
    "events": _strings,
    "url": _url,
    "username": text(1),
    "password": text(1, is_secret=True),
    "current_password": text(1, is_secret=True),
    "new_password": text(1, is_secret=True),
    "role": choice(*Role),
    "quota_bytes": integer(0),
    **{limit.name: integer(0) for limit in fields(AccountLimits)},
}
"""The checks of arguments by name; images, albums and other records are checked where their ids are read."""


def checked(
    function: Callable[P, T], *, options: type[object] | None = None, **own_checks: Check
) -> Callable[P, T]:
    """Return `function` with checks of its arguments.

    `None` and `UNSET` are accepted where the annotation of a parameter names them.

    Args:
        function: A function that builds calls.
        options: The typed dictionary of its further keyword arguments, where these are checked here.
        **own_checks: The checks of parameters whose names mean something else in other functions.
    """
    signature = inspect.signature(function)
    known = {**CHECKS, **own_checks}
    named = {
        name: parameter.annotation
        for name, parameter in signature.parameters.items()
        if parameter.kind is not parameter.VAR_KEYWORD
    }
    further: dict[str, object] = {} if options is None else options.__annotations__
    checks = {
        name: (known[name], "None" in str(annotation), "Unset" in str(annotation))
        for name, annotation in {**named, **further}.items()
        if name in known
    }

    def build(*args: P.args, **kwargs: P.kwargs) -> T:
        bound = signature.bind(*args, **kwargs)
        for name, value in {**bound.arguments, **bound.kwargs}.items():
            if options is not None and not (name in further or name in signature.parameters):
                raise TypeError(f"{function.__name__}() got an unexpected keyword argument {name!r}")
            if name in checks:
                check, is_optional, is_settable = checks[name]
                if not ((value is None and is_optional) or (value is UNSET and is_settable)):
                    check(name, value)
        return function(*args, **kwargs)

    return update_wrapper(build, function)
