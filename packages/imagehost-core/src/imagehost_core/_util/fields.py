"""Parsers for single field values: canonical integers and named choices.

Each parser appends a `FieldError` to a list instead of raising, so that a request's errors are reported
together.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import TypeGuard, TypeVar

from imagehost_core.errors import FieldError, quote_value

T = TypeVar("T")

_CANONICAL_INTEGER = re.compile(r"[1-9][0-9]{0,18}", re.ASCII)


def require_known(received: Iterable[str], known: Collection[str]) -> None:
    """Raise TypeError if a keyword is unknown, as Python does."""
    if unknown := sorted(set(received).difference(known)):
        raise TypeError(f"expected some of {', '.join(known)} but received {', '.join(unknown)}")


def is_within(value: object, maximum: int) -> TypeGuard[int]:
    """Return whether a value is an integer from 1 to `maximum`; a `bool` is not."""
    return type(value) is int and 1 <= value <= maximum


def parse_positive_int(value: object, maximum: int) -> int | None:
    """Return an integer, or the canonical decimal text of one, as an integer from 1 to `maximum`.

    Returns:
        The integer; `None` for anything else: another type, a sign, a leading zero, a digit that is not
        ASCII.
    """
    number = int(value) if isinstance(value, str) and _CANONICAL_INTEGER.fullmatch(value) else value
    return number if is_within(number, maximum) else None


def parse_int_field(name: str, value: object, maximum: int, errors: list[FieldError]) -> int | None:
    """Return a field's value as an integer from 1 to `maximum`, or `None` after appending an error."""
    number = parse_positive_int(value, maximum)
    if number is None:
        errors.append(range_error(name, maximum, value))
    return number


def parse_choice(
    name: str,
    value: object,
    choices: Mapping[str, T],
    errors: list[FieldError],
    *,
    ignore_case: bool = False,
) -> T | None:
    """Return the value of a named choice, or `None` after appending an error.

    Args:
        name: The field's name.
        value: The received name of a choice.
        choices: Every choice by its name; the names are lower case if `ignore_case` is set.
        errors: The list that an error is appended to.
        ignore_case: Whether upper case is accepted.
    """
    if isinstance(value, str):
        key = value.lower() if ignore_case else value
        if key in choices:
            return choices[key]
    errors.append(choice_error(name, choices, value))
    return None


def range_error(name: str, maximum: int, value: object) -> FieldError:
    """Return the error for a value that is not an integer from 1 to `maximum`."""
    return FieldError(name, f"an integer from 1 to {maximum}", quote_value(value))


def choice_error(name: str, choices: Iterable[str], value: object) -> FieldError:
    """Return the error for a value that is not one of the named choices."""
    return FieldError(name, f"one of {', '.join(choices)}", quote_value(value))
