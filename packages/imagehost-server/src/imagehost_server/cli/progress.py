"""The progress bar of a check: on standard error, and only if that is a terminal."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import click

from imagehost_core.maintenance.check import CheckName, CheckProgress

_CLEAR_LINE = "\r\x1b[K"
"""Return to the start of the line, and erase it (ECMA-48, EL)."""


class CheckProgressBar:
    """A bar for the check of the images, and the name of each other check while it runs.

    Attributes:
        images: The number of images that were checked.
    """

    def __init__(self) -> None:
        self.images = 0
        self._is_visible = sys.stderr.isatty()
        self._bars = ExitStack()
        # `click.progressbar` returns a class that click does not export.
        self._bar: Any = None
        self._done = 0

    def report(self, progress: CheckProgress) -> None:
        """Show the progress."""
        if progress.check is CheckName.IMAGES:
            self.images = progress.done
        if not self._is_visible:
            return
        if progress.total is None:
            self._close()
            click.echo(f"{_CLEAR_LINE}checking {progress.check.value}", nl=False, err=True)
            return
        if self._bar is None:
            self.clear()
            bar = click.progressbar(
                length=progress.total,
                label=f"checking {progress.check.value}",
                file=sys.stderr,
                show_pos=True,
            )
            self._bar = self._bars.enter_context(bar)
        self._bar.update(progress.done - self._done)
        self._done = progress.done

    def clear(self) -> None:
        """Erase the line, before something else is printed."""
        if self._is_visible:
            click.echo(_CLEAR_LINE, nl=False, err=True)

    def __enter__(self) -> CheckProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()
        self.clear()

    def _close(self) -> None:
        self._bars.close()
        self._bar, self._done = None, 0
