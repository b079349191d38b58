"""Timestamps in requests and in arguments of the command line."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import msgspec
from msgspec import Meta, UnsetType

from imagehost_core.errors import FieldError, ValidationError, quote_value


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
