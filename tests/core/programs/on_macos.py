"""Upload an image with F_FULLFSYNC. Arguments: the data directory, the log, the error to fail with."""

from __future__ import annotations

import sys
from pathlib import Path

import other_system  # type: ignore[import-not-found]

other_system.become_macos(Path(sys.argv[2]), int(sys.argv[3]))

from imagehost_core import ImageHost  # noqa: E402
from imagehost_core.testing import make_image  # noqa: E402

with ImageHost.open(sys.argv[1]) as host:
    print(host.upload(make_image(), owner="admin").id)
