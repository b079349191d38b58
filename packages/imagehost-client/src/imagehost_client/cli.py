"""Entry point of the command line `imagehost-client`, which needs the extra `imagehost-client[cli]`."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence

PACKAGES = ("click", "platformdirs", "rich")
"""The packages of the extra `cli`."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line, which ends the process with its exit status.

    Args:
        argv: The arguments; by default `sys.argv[1:]`.
    """
    try:
        from imagehost_client._cli.app import cli
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in PACKAGES:
            raise
        sys.stderr.write(
            f"imagehost-client: expected {', '.join(PACKAGES)} but {error.name} is not installed\n"
            "imagehost-client: pip install './packages/imagehost-client[cli]' in a clone installs them\n"
        )
        sys.exit(2)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    cli.main(None if argv is None else list(argv), prog_name="imagehost-client")
