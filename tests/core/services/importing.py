"""Imports into a host, and their results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from imagehost_core import ImageHost
from imagehost_core.maintenance.importers.service import (
    ImportOptions,
    ImportResult,
    ImportSource,
    ImportStatus,
)

IMPORTED, UNCHANGED, OMITTED, FAILED = ImportStatus


def imported(
    host: ImageHost,
    path: Path,
    source: ImportSource = ImportSource.FOLDER,
    files: Path | None = None,
    options: ImportOptions | None = None,
    owner: str = "admin",
) -> dict[str, ImportResult]:
    """Import a source; return the results by id."""
    results = host.imports.run(host.imports.read(source, path, files), owner=owner, options=options)
    return {result.source_id: result for result in results}


def statuses(results: Mapping[str, ImportResult]) -> dict[str, ImportStatus]:
    return {source_id: result.status for source_id, result in results.items()}
