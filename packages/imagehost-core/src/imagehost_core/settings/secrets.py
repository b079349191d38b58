"""Secrets in settings: which settings have them, and how these are shown.

A setting that can have a secret has the function that hides it in the metadata of its attribute. So the
output of `imagehost config`, and the errors of every setting, need to know none by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from attrs import Attribute

HIDDEN = "***"
MASK = "mask"
"""The member of an attribute's metadata."""

Mask = Callable[[str], str]
"""Returns a value with `***` in place of its secrets; a value without any is returned unchanged."""


def secret(mask: Mask = lambda _: HIDDEN) -> dict[str, Mask]:
    """Return the metadata of a setting that can have a secret.

    Args:
        mask: Hides the secrets of a value, by default all of it. `str` hides none: an allowed value has none,
            and an error does not repeat another.
    """
    return {MASK: mask}


def show_value(attribute: Attribute[Any], value: object) -> str:
    """Return a received value of a setting for an error: without secrets, which a wrong type can contain."""
    mask = attribute.metadata.get(MASK)
    if mask is None:
        return repr(value)
    return repr(mask(value)) if isinstance(value, str) and mask(value) != HIDDEN else "another value"


def mask_value(attribute: Attribute[Any], value: object) -> object:
    """Return an allowed value of a setting with `***` in place of its secrets."""
    mask = attribute.metadata.get(MASK)
    if mask is None or value is None:
        return value
    return tuple(map(mask, value)) if isinstance(value, tuple) else mask(str(value))


def redact_password(database: str) -> str:
    """Return the URL of a database with `***` in place of passwords, or the name of an engine."""
    # Up to the last `@`: a password may have any character.
    hidden = re.sub(r"(?s)//([^:@/]*):.*@", rf"//\1:{HIDDEN}@", database)
    return re.sub(r"([?&])([^=&]*)=([^&]*)", _redact_parameter, hidden)


def _redact_parameter(match: re.Match[str]) -> str:
    separator, name, value = match.groups()
    is_secret = re.search("password|secret|_key", unquote(name).lower()) is not None
    return f"{separator}{name}={HIDDEN if is_secret else value}"


def redact_url(url: str) -> str:
    """Return an http URL with `***` in place of the user and of the query, which can be secrets."""
    without_user = re.sub("(?s)^([A-Za-z+]*://)?.*@", rf"\1{HIDDEN}@", url)
    return re.sub(r"(?s)([?#]).+", rf"\1{HIDDEN}", without_user)


def redact_header(line: str) -> str:
    """Return a line like `Name: value` with `***` in place of its value."""
    name, separator, _ = line.partition(":")
    return f"{name}: {HIDDEN}" if separator else HIDDEN
