"""A line of the table of `imagehost check`."""

from __future__ import annotations

from enum import StrEnum

from attrs import frozen


class State(StrEnum):
    """What a check has found."""

    OK = "ok"
    WARNING = "warning"
    """The host works, but slower, or with less protection."""
    FAILED = "failed"


@frozen
class Check:
    """A line of the table.

    Attributes:
        name: What was checked.
        state: Whether it can be used.
        found: What was found.
        advice: What to do, unless it is as it should be.
    """

    name: str
    state: State
    found: str
    advice: str = ""
