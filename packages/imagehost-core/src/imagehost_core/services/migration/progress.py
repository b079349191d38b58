"""The progress of a migration."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from attrs import frozen


class MigrationStage(StrEnum):
    """The part of a migration that is running."""

    FILES = "files"
    RECORDS = "records"


@frozen
class MigrationProgress:
    """How far a migration is.

    Attributes:
        stage: The part that is running.
        done: The number of images whose files are copied, or of copied records.
        total: The number of all.
        bytes_done: The bytes of the masters of these images; 0 for records.
        bytes_total: The bytes of all masters; 0 for records.
    """

    stage: MigrationStage
    done: int
    total: int
    bytes_done: int = 0
    bytes_total: int = 0


MigrationCallback = Callable[[MigrationProgress], object]
"""A callback with the progress, called in the thread of the migration."""
