"""Parsing of query parameters; an invalid one is 400."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from imagehost_client.errors import BadRequestError
from imagehost_client.testing._forms import BOOLEANS
from imagehost_client.testing._members import INTEGER, parse_time

Query = Mapping[str, str]
"""The parameters of a query, by name."""


def parse_integer(query: Query, name: str, default: int, maximum: int) -> int:
    """Return an integer from 1 to `maximum`.

    Raises:
        BadRequestError: The value is not an integer in this range.
    """
    text = query.get(name, str(default))
    if not INTEGER.fullmatch(text) or int(text) > maximum:
        raise BadRequestError(f"expected an integer from 1 to {maximum} for {name} but received {text!r}")
    return int(text)


def parse_boolean(query: Query, name: str) -> bool | None:
    """Return a boolean, or `None` if it is absent.

    Raises:
        BadRequestError: The value is not a boolean.
    """
    text = query.get(name)
    if text is not None and text.lower() not in BOOLEANS:
        raise BadRequestError(f"expected true, false, 0 or 1 for {name} but received {text!r}")
    return None if text is None else BOOLEANS[text.lower()]


def parse_choice(query: Query, name: str, choices: Collection[str]) -> str | None:
    """Return one of `choices`, in lower case, or `None` if the parameter is absent.

    Raises:
        BadRequestError: The value is another one.
    """
    text = query.get(name)
    if text is None:
        return None
    value = text.lower()
    if value not in choices:
        raise BadRequestError(f"expected one of {', '.join(choices)} for {name} but received {text!r}")
    return value


def parse_timestamp(query: Query, name: str) -> datetime | None:
    """Return a time, or `None` if the parameter is absent.

    Raises:
        BadRequestError: The value is not RFC 3339 with a time zone.
    """
    text = query.get(name)
    time = parse_time(text) if text is not None and "T" in text.upper() else None
    if text is not None and time is None:
        raise BadRequestError(f"expected a time with a time zone for {name} but received {text!r}")
    return time
