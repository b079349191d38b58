"""Migrations of a host onto other engines."""

from imagehost_core.services.migration.locations import HostLocation, parse_host_location
from imagehost_core.services.migration.progress import MigrationCallback, MigrationProgress, MigrationStage
from imagehost_core.services.migration.service import MigrationResult, migrate

__all__ = [
    "HostLocation",
    "MigrationCallback",
    "MigrationProgress",
    "MigrationResult",
    "MigrationStage",
    "migrate",
    "parse_host_location",
]
