"""A host whose images are processed by the worker process of all such hosts of a test process."""

from __future__ import annotations

import os
from typing import Any

from imagehost_core import ImageHost
from imagehost_core.testing import shared_executor


def open_host(path: str | os.PathLike[str] = ":memory:", **options: Any) -> ImageHost:
    """Open a host as `ImageHost.open` does; starting a worker for each would take 0.3 s of CPU."""
    return ImageHost.open(path, executor=shared_executor(), **options)
