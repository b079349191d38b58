"""Options and types of arguments that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import click

from imagehost_client._types import UNSET, Unset
from imagehost_client.models import Format
from imagehost_client.urls import CHOICES, SYNONYMS

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

POSITIVE = click.IntRange(1)
"""A whole number above 0."""
QUALITY = click.IntRange(1, 100)
"""A quality of an encoder."""

STORED_FORMATS = (*(str(kind) for kind in Format if kind is not Format.AVIF), "jpg")
"""The formats in which images are stored; AVIF is a format of delivery only."""


def parse_limit(value: str | Unset) -> int | Unset | None:
    """Return a limit of an account: a whole number, or `None` for `default`, which means the host's."""
    if isinstance(value, Unset):
        return value
    if value == "default":
        return None
    if not (value.isascii() and value.isdecimal()):
        raise click.BadParameter(f"expected a whole number or `default` but received {value!r}")
    return int(value)


def parse_expiry(value: str) -> datetime:
    """Return an expiry: days (`90d`) or hours (`12h`) from now, or an ISO 8601 time with a UTC offset."""
    unit = {"d": "days", "h": "hours"}.get(value[-1:])
    try:
        if unit is not None and value[:-1].isdecimal() and int(value[:-1]) > 0:
            return datetime.now(UTC) + timedelta(**{unit: int(value[:-1])})
        expiry = datetime.fromisoformat(value)
    except (ValueError, OverflowError):
        expiry = None
    if expiry is None or expiry.tzinfo is None:
        raise click.BadParameter(
            f"expected days (90d), hours (12h) or a time with a UTC offset but received {value!r}"
        )
    return expiry


def parse_time(value: str) -> datetime:
    """Return a date or a time in ISO 8601; without a UTC offset it is local time."""
    try:
        return datetime.fromisoformat(value).astimezone()
    except (ValueError, OverflowError):
        raise click.BadParameter(f"expected a date or a time but received {value!r}") from None


def parse_widths(value: str) -> Sequence[int]:
    """Return widths in pixels, separated by commas."""
    widths = value.split(",")
    if not all(width.isascii() and width.isdecimal() and int(width) for width in widths):
        raise click.BadParameter(f"expected widths in pixels, such as 320,640, but received {value!r}")
    return [int(width) for width in widths]


def choices(names: Sequence[str]) -> click.Choice[str]:
    """Return a type for one of several names, in any case."""
    return click.Choice(names, case_sensitive=False)


def list_options(command: F) -> F:
    """Add the options of lists."""
    command = click.option("--json", "as_json", is_flag=True, help="Print one JSON record per line.")(command)
    return click.option("--limit", type=POSITIVE, metavar="N", help="Maximum number of records.")(command)


def confirm_option(command: F) -> F:
    """Add the option that confirms a deletion."""
    return click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")(command)


def visibility_options(command: F) -> F:
    """Add the options for public or private records."""
    return switch_options(
        "is_public", ("--public", "In the public gallery."), ("--private", "Only in your lists.")
    )(command)


def switch_options(name: str, on: tuple[str, str], off: tuple[str, str]) -> Callable[[F], F]:
    """Return a decorator that adds two options for one parameter, which is `None` without both.

    Args:
        name: The parameter.
        on: The option that sets it to True, and its help.
        off: The option that sets it to False, and its help.
    """

    def add(command: F) -> F:
        for option, text, value in ((*off, False), (*on, True)):
            command = click.option(option, name, type=bool, flag_value=value, default=None, help=text)(
                command
            )
        return command

    return add


def transform_options(command: F) -> F:
    """Add the processing parameters of image URLs."""
    for option in reversed(
        (
            click.option("--width", "-W", type=POSITIVE, metavar="PIXELS"),
            click.option("--height", "-H", type=POSITIVE, metavar="PIXELS"),
            click.option("--quality", "-q", type=QUALITY, metavar="N", help="1 to 100."),
            click.option("--fit", type=choices(CHOICES["fit"])),
            click.option("--format", "fm", type=choices((*CHOICES["fm"], *SYNONYMS))),
        )
    ):
        command = option(command)
    return command


def or_unset(value: T | None) -> T | Unset:
    """Return the value of an option, or `UNSET` where the option is absent."""
    return UNSET if value is None else value


def page_size(limit: int | None) -> int:
    """Return the page size for a list: no more than `--limit` shows."""
    return min(limit or 100, 100)
