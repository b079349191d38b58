"""Uploads through worker processes."""

from __future__ import annotations

import io
from pathlib import Path
from tempfile import TemporaryDirectory

from imagehost_core.jobs import IngestJob, IngestResult
from imagehost_core.workers.costs import Cost
from imagehost_core.workers.executor import ImageExecutor
from imagehost_core.workers.lanes import Lane, WorkerRequest


def heavy(timeout_seconds: float = 60) -> WorkerRequest:
    """Return the request of a heavy task."""
    return Cost(Lane.HEAVY, 0).request(timeout_seconds)


def ingest(
    executor: ImageExecutor, job: IngestJob, data: bytes, request: WorkerRequest | None = None
) -> tuple[IngestResult, list[bytes]]:
    """Return the blobs to store for an upload."""
    with TemporaryDirectory() as directory:
        result, paths = executor.ingest(
            job, io.BytesIO(data), len(data), request or heavy(), into=Path(directory)
        )
        return result, [path.read_bytes() for path in paths]
