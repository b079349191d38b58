"""The texts of types of literals and enumerations."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, cast, get_args


def literals(kind: Any) -> set[str]:
    """Return the strings of a type of literals and enumerations."""
    if isinstance(kind, type):
        return {str(member) for member in cast("type[StrEnum]", kind)}
    return {str(kind)}.union(*map(literals, get_args(kind))) - ({str(kind)} if get_args(kind) else set())
