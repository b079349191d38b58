"""Uploads through worker processes."""

from __future__ import annotations

import io
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from imagehost_core.jobs import IngestJob, IngestResult
from imagehost_core.workers.executor import ImageExecutor


def ingest(
    executor: ImageExecutor, job: IngestJob, data: bytes, *, timeout_seconds: float = 60, **options: Any
) -> tuple[IngestResult, list[bytes]]:
    """Return the blobs to store for an upload."""
    with TemporaryDirectory() as directory:
        result, paths = executor.ingest(
            job, io.BytesIO(data), len(data), timeout_seconds=timeout_seconds, into=Path(directory), **options
        )
        return result, [path.read_bytes() for path in paths]
