"""The integrity check of a data directory, and the repair of what it finds."""

from imagehost_core.maintenance.check.findings import (
    CheckName,
    CheckProgress,
    Finding,
    FindingKind,
    ProgressCallback,
)
from imagehost_core.maintenance.check.service import IntegrityService

__all__ = [
    "CheckName",
    "CheckProgress",
    "Finding",
    "FindingKind",
    "IntegrityService",
    "ProgressCallback",
]
