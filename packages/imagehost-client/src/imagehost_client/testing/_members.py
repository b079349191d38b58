"""Parsing of JSON bodies: one function for each kind of member, and a table of them for each record."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any

from imagehost_client.errors import BadRequestError, UnsupportedMediaTypeError, ValidationError
from imagehost_client.models import rfc3339
from imagehost_client.testing._errors import ErrorCollector
from imagehost_client.testing._store import current_time

Parser = Callable[[str, object], object]
"""A function of a member's name and value that returns the parsed value, or raises ValidationError."""

MAX_DESCRIPTION = 2_000
"""The maximum length of a description, in characters."""
MAX_NAME = 100
"""The maximum length of the name of an album or a key, in characters."""
INTEGER = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)
"""A positive integer in canonical decimal form."""


def read_json(content_type: str, body: bytes) -> dict[str, Any]:
    """Return the object in a request's body.

    Raises:
        UnsupportedMediaTypeError: The content type is not JSON.
        BadRequestError: The body is not JSON.
        ValidationError: The JSON is not an object.
    """
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise UnsupportedMediaTypeError(
            f"expected application/json for the body but received {content_type!r}"
        )
    try:
        value = json.loads(body, parse_constant=_no_constant)
    except ValueError:
        raise BadRequestError("expected JSON for the body but received something else") from None
    if not isinstance(value, dict):
        raise ValidationError(f"expected an object for the body but received {value!r}")
    return value


def read_members(
    body: Mapping[str, object],
    parsers: Mapping[str, Parser],
    errors: ErrorCollector,
    *,
    required: Collection[str] = (),
) -> dict[str, Any]:
    """Return the parsed members of a body; errors are collected, and other members ignored.

    Args:
        body: The body.
        parsers: The parser of each member, by name.
        errors: The collector.
        required: The names of members that must be present.
    """
    members: dict[str, Any] = {}
    for name, parse in parsers.items():
        if name in body:
            members[name] = errors.attempt(parse, name, body[name])
        elif name in required:
            errors.add(ValidationError(f"expected a value for {name} but received none"))
    return members


def parse_text(name: str, value: object, *, minimum: int = 0, maximum: int = MAX_DESCRIPTION) -> str:
    """Return a text of `minimum` to `maximum` characters."""
    if not isinstance(value, str):
        raise ValidationError(f"expected text for {name} but received {value!r}")
    if not minimum <= len(value) <= maximum:
        bounds = f"{minimum} to {maximum}" if minimum else f"at most {maximum}"
        raise ValidationError(f"expected {bounds} characters for {name} but received {len(value)}")
    return value


def parse_name(name: str, value: object, *, minimum: int = 0) -> str:
    """Return a name of at most `MAX_NAME` characters, without leading and trailing whitespace."""
    text = value.strip() if isinstance(value, str) else value
    return parse_text(name, text, minimum=minimum, maximum=MAX_NAME)


def parse_boolean(name: str, value: object) -> bool:
    """Return a boolean; 0 and 1 are booleans too."""
    if type(value) not in {bool, int} or value not in {0, 1}:
        raise ValidationError(f"expected true, false, 0 or 1 for {name} but received {value!r}")
    return bool(value)


def parse_integer(name: str, value: object, *, minimum: int = 1, maximum: int = 2**63 - 1) -> int:
    """Return an integer from `minimum` to `maximum`."""
    if type(value) is not int or not minimum <= value <= maximum:
        raise ValidationError(
            f"expected an integer from {minimum} to {maximum} for {name} but received {value!r}"
        )
    return value


def parse_choice(name: str, value: object, *, choices: Collection[str]) -> str:
    """Return one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise ValidationError(f"expected one of {', '.join(choices)} for {name} but received {value!r}")
    return value


def parse_list(name: str, value: object, *, choices: Collection[str]) -> list[str]:
    """Return a list of which each item is one of `choices`."""
    if not isinstance(value, list) or not all(isinstance(item, str) and item in choices for item in value):
        raise ValidationError(f"expected some of {', '.join(choices)} for {name} but received {value!r}")
    return value


def parse_ids(name: str, value: object, *, maximum: int) -> list[str]:
    """Return a list of 1 to `maximum` ids, without repetitions."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValidationError(f"expected a list of ids for {name} but received {value!r}")
    ids = list(dict.fromkeys(value))
    if not 1 <= len(ids) <= maximum:
        raise ValidationError(f"expected 1 to {maximum} ids for {name} but received {len(ids)}")
    return ids


def parse_expiry(name: str, value: object) -> str | None:
    """Return a time in the future as RFC 3339, or `None` for no expiry."""
    if value is None:
        return None
    expiry = parse_time(value)
    if expiry is None or expiry <= current_time():
        raise ValidationError(f"expected a future time with a UTC offset for {name} but received {value!r}")
    return rfc3339(expiry)


def parse_time(value: object) -> datetime | None:
    """Return a time, given as RFC 3339, or `None` if the value is none."""
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return time if time is not None and time.tzinfo is not None else None


def _no_constant(text: str) -> object:
    """Reject `NaN` and `Infinity`, which Python accepts and JSON does not have (RFC 8259, section 6)."""
    raise ValueError(text)
