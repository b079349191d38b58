"""Running programs of others, and how long they may take."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

RUN_SECONDS = 200


def run(
    command: Sequence[str | Path],
    directory: Path,
    variables: Mapping[str, str] | None = None,
    *,
    seconds: float = RUN_SECONDS,
) -> subprocess.CompletedProcess[str]:
    """Run a program in a directory, and return its status and output.

    Args:
        command: The program and its arguments.
        directory: The working directory.
        variables: Environment variables besides those of this process.
        seconds: The maximum duration.
    """
    return subprocess.run(
        list(map(str, command)),
        cwd=directory,
        env={**os.environ, **(variables or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=seconds,
    )
