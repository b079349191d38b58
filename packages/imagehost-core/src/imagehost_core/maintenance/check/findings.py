"""Findings of an integrity check: what is wrong in a data directory, and what was done about it."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

import attrs
from attrs import frozen


class FindingKind(StrEnum):
    """What can be wrong with a host."""

    DATABASE_CORRUPT = "database_corrupt"
    INVALID_RECORD = "invalid_record"
    BROKEN_REFERENCE = "broken_reference"
    DELIVERY_WITHOUT_EVENT = "delivery_without_event"
    MASTER_MISSING = "master_missing"
    MASTER_CORRUPT = "master_corrupt"
    DERIVATIVE_MISSING = "derivative_missing"
    DERIVATIVE_CORRUPT = "derivative_corrupt"
    ORPHAN = "orphan"
    UNKNOWN_FILE = "unknown_file"
    UNFINISHED_DELETION = "unfinished_deletion"
    VARIANT_WITHOUT_IMAGE = "variant_without_image"
    VARIANT_CORRUPT = "variant_corrupt"
    STALE_STAGING = "stale_staging"
    INDEX_MISMATCH = "index_mismatch"
    COUNTER_MISMATCH = "counter_mismatch"


@frozen
class Finding:
    """Something wrong in a data directory, confirmed while nothing could change it.

    Attributes:
        kind: The kind.
        id: What it concerns: the id of an image, its file as `<id>/<name>`, a path in the data directory, or
            a table, row and column.
        details: What was expected and received.
        repair: What repaired it; "" if nothing did.
        size: The bytes of the files, if they are files that nothing refers to.
    """

    kind: FindingKind
    id: str
    details: str
    repair: str = ""
    size: int = 0

    @property
    def is_repaired(self) -> bool:
        """Whether it was repaired."""
        return self.repair != ""

    def repaired(self, repair: str) -> Finding:
        """Return the finding as repaired."""
        return attrs.evolve(self, repair=repair)


class CheckName(StrEnum):
    """The checks, in the order in which they run."""

    STRUCTURE = "database"
    REFERENCES = "references"
    IMAGES = "images"
    ORPHANS = "orphans"
    UNKNOWN = "unknown files"
    DELETIONS = "deletions"
    VARIANTS = "variants"
    STAGING = "staging"
    INDEXES = "indexes"
    COUNTERS = "counters"
    CHECKSUMS = "checksums of variants"


@frozen
class CheckProgress:
    """The progress of an integrity check.

    Attributes:
        check: The check that runs.
        done: The number of images that it has checked.
        total: The number of images when it began; `None` if the check does not count.
    """

    check: CheckName
    done: int = 0
    total: int | None = None


ProgressCallback = Callable[[CheckProgress], object]
"""A function that is called with the progress of a check, about once per 1,000 images."""
