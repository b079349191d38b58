"""Arguments of operations: the ids of records, and checks before a request is sent.

A wrong argument raises the error that the host would respond with, and all of them are reported together.
Only rules that hold on every host are checked. Those that depend on the host or its version, such as scopes
and the kinds of events it knows, are the host's.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import update_wrapper
from typing import ParamSpec, TypeVar, get_args

from attrs import fields

from imagehost_client._types import (
    UNSET,
    AccountRef,
    AlbumRef,
    ImageRef,
    ImageSort,
    Loading,
    RequestMethod,
)
from imagehost_client.errors import BadRequestError, Check, ImageHostError, ValidationError, fault, rule
from imagehost_client.models import AccountLimits, Result, Role
from imagehost_client.urls import choice, integer, parse_image_id

P = ParamSpec("P")
T = TypeVar("T")


def album_id_of(album: AlbumRef) -> str:
    """Return the id of an album in decimal, given as the album, an integer or a decimal string.

    Raises:
        ValidationError: The id is not a positive integer.
    """
    return _decimal("album_id", album)


def account_id_of(account: AccountRef) -> str:
    """Return the id of an account in decimal, given as the account, an integer or a decimal string.

    Raises:
        ValidationError: The id is not a positive integer.
    """
    return _decimal("account", account)


def _decimal(name: str, record: object) -> str:
    number = _record_id(record)
    text = str(number) if isinstance(number, int | str) and not isinstance(number, bool) else ""
    if not (text.isascii() and text.isdecimal()) or text[0] == "0":
        raise ValidationError(fault(name, "a positive integer", number))
    return text


def image_id_of(image: ImageRef) -> str:
    """Return the id of an image, given as the image, its id, or any of its URLs.

    Raises:
        ValidationError: The argument is neither an image nor text, or a URL without an image id in its path.
    """
    return image_ids_of((image,), "image")[0]


def image_ids_of(images: object, name: str = "image_ids[{}]") -> list[str]:
    """Return the ids of one or more images, given as `image_id_of` takes them.

    Args:
        images: Images, ids or URLs; or one of them.
        name: The name of each in errors, with its index.

    Raises:
        ValidationError: There are none, or some are not images; `details` names all of them.
    """
    given = as_list(images)
    if not given:
        raise ValidationError(fault(name.partition("[")[0], "one or more images", images))
    ids, faults = [], []
    for index, image in enumerate(given):
        image_id = _record_id(image)
        if isinstance(image_id, str) and (found := parse_image_id(image_id)):
            ids.append(found)
        else:
            faults.append(fault(name.format(index), "an image, its id or its URL", image))
    raise_faults(faults)
    return ids


def as_list(images: object) -> list[object]:
    """Return one image or several as a list; an empty one for what is neither."""
    if isinstance(images, str | Result):
        return [images]
    return list(images) if isinstance(images, Iterable) and not isinstance(images, bytes) else []


def id_of(record: object) -> str:
    """Return the id of a record, given as the record or its id.

    Raises:
        ValidationError: The argument is neither a record nor text.
    """
    record_id = _record_id(record)
    if not isinstance(record_id, str):
        raise ValidationError(fault("id", "a record or its id", record))
    return record_id


def _record_id(record: object) -> object:
    return getattr(record, "id", record) if isinstance(record, Result) else record


MAX_DESCRIPTION = 2_000
"""The maximum length of a description, in characters."""
MAX_LIFETIME_SECONDS = 365 * 24 * 3600
"""The maximum lifetime of a signed URL, in seconds."""


def text(minimum: int = 0, maximum: int | None = None) -> Check:
    """Return a check for strings by their length in characters."""
    bounds = f"at least {minimum}" if maximum is None else f"{minimum} to {maximum}"
    return rule(
        f"text of {bounds} characters",
        lambda value: isinstance(value, str) and minimum <= len(value) <= (maximum or len(value)),
    )


def secret(name: str, value: object) -> str | None:
    """Return the fault of a password, which does not quote it."""
    return (
        None if isinstance(value, str) and value else f"expected text for {name} but received another value"
    )


def raise_faults(faults: Iterable[str | None], error: type[ImageHostError] = ValidationError) -> None:
    """Raise one error with all faults, if there are any."""
    if details := "; ".join(filter(None, faults)):
        raise error(details)


def is_time(value: object) -> bool:
    """Return whether a value is a time with a UTC offset, or its text in RFC 3339."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.upper())
        except ValueError:
            return False
    return isinstance(value, datetime) and value.tzinfo is not None


_BOOLEAN = rule("true or false", lambda value: isinstance(value, bool))
_STRINGS = rule(
    "a list of texts",
    lambda value: (
        isinstance(value, list | tuple | set | frozenset)
        and all(isinstance(item, str) and item for item in value)
    ),
)
_TIME = rule("a time with a UTC offset, or its text in RFC 3339,", is_time)
_KEY = rule(
    "1 to 255 printable ASCII characters",
    lambda value: (
        isinstance(value, str) and 1 <= len(value) <= 255 and value.isascii() and value.isprintable()
    ),
)
_MAPPING = rule(
    "a mapping",
    lambda value: isinstance(value, Mapping) and all(isinstance(key, str) and key for key in value),
)
_LIMIT = integer(0)

CHECKS: dict[str, Check] = {
    "page": integer(1),
    "per_page": integer(1, 100),
    "cursor": text(1),
    "sort": choice(*get_args(ImageSort)),
    "created_after": _TIME,
    "created_before": _TIME,
    "sha256": rule(
        "64 hexadecimal digits",
        lambda value: isinstance(value, str) and re.fullmatch("[0-9A-Fa-f]{64}", value) is not None,
    ),
    "filename": text(1),
    "description": text(0, MAX_DESCRIPTION),
    "quality": integer(1, 100),
    **dict.fromkeys(
        ("remove_exif", "convert_to_webp", "auto_rename", "is_public", "images_public", "is_active"), _BOOLEAN
    ),
    **dict.fromkeys(("suspended", "delete_images", "delete_url", "reuse", "checksum"), _BOOLEAN),
    "idempotency_key": _KEY,
    "if_none_match": _KEY,
    "method": choice(*get_args(RequestMethod)),
    "path": rule(
        "an escaped path that begins with /",
        lambda value: isinstance(value, str) and re.fullmatch(r"/[!$&-;=@A-Z_a-z~%]*", value) is not None,
    ),
    **dict.fromkeys(("json", "query", "attributes"), _MAPPING),
    "progress": rule("a function", callable),
    "target": rule(
        "a path or an open binary file",
        lambda value: value != "" and (isinstance(value, str | os.PathLike) or hasattr(value, "write")),
    ),
    "expires_in": integer(1, MAX_LIFETIME_SECONDS),
    "alt": text(),
    "loading": choice(*get_args(Loading)),
    "sizes": text(1),
    "expires_at": rule(
        "a time with a UTC offset", lambda value: isinstance(value, datetime) and is_time(value)
    ),
    "name": text(0, 100),
    "scopes": _STRINGS,
    "events": _STRINGS,
    "url": rule(
        "an absolute URL",
        lambda value: isinstance(value, str) and value.lower().startswith(("https://", "http://")),
    ),
    "username": text(1),
    **dict.fromkeys(("password", "current_password", "new_password"), secret),
    "role": choice(*Role),
    "quota_bytes": _LIMIT,
    **{limit.name: _LIMIT for limit in fields(AccountLimits)},
}
"""The checks of arguments by name; ids and transform parameters are checked where they are read."""

_UNCHECKED: tuple[Check, bool, bool] = (lambda _name, _value: None, False, False)


def checked(
    function: Callable[P, T],
    *,
    error: type[ImageHostError] = ValidationError,
    **own_checks: Check,
) -> Callable[P, T]:
    """Return `function` with checks of its arguments, whose faults are raised together.

    `None` and `UNSET` are accepted where the annotation of a parameter names them.

    Args:
        function: A function that builds calls.
        error: The class of the host's error: `BadRequestError` for parameters of a URL.
        **own_checks: The checks of parameters whose names mean something else in other functions.
    """
    signature = inspect.signature(function)
    known = {**CHECKS, **own_checks}
    annotations: dict[str, object] = {}
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            keywords = str(parameter.annotation).removeprefix("Unpack[").removesuffix("]")
            annotations |= vars(sys.modules[function.__module__])[keywords].__annotations__
        else:
            annotations[name] = parameter.annotation
    checks = {
        name: (known[name], "None" in str(annotation), "Unset" in str(annotation))
        for name, annotation in annotations.items()
        if name in known
    }

    def build(*args: P.args, **kwargs: P.kwargs) -> T:
        bound = signature.bind(*args, **kwargs)
        if unknown := sorted(bound.kwargs.keys() - annotations.keys()):
            raise TypeError(f"{function.__name__}() got an unexpected keyword argument {unknown[0]!r}")
        faults = []
        for name, value in {**bound.arguments, **bound.kwargs}.items():
            check, is_optional, is_settable = checks.get(name, _UNCHECKED)
            if not ((value is None and is_optional) or (value is UNSET and is_settable)):
                faults.append(check(name, value))
        if bound.kwargs.get("page") is not None and bound.kwargs.get("cursor") is not None:
            faults.append(fault("page", "no page number together with a cursor", bound.kwargs["page"]))
        try:
            call = function(*args, **kwargs)
        except (BadRequestError, ValidationError) as found:
            faults.append(found.details)
        except Exception:  # wrong arguments may break what is built of them
            if not any(faults):
                raise
        raise_faults(faults, error)
        return call

    return update_wrapper(build, function)
