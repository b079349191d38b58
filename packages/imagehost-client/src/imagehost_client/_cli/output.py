"""Output of the command line: results on standard output, messages and a progress bar on standard error."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from attrs import frozen

from imagehost_client.files import Source

if TYPE_CHECKING:
    from typing import Self

    from imagehost_client._many import UploadResult

WIDTH = 30
"""The width of the progress bar, in characters."""


class Aborted(Exception):
    """The user declined a confirmation."""


@frozen
class Console:
    """The streams of a command.

    Attributes:
        stdout: Results.
        stderr: Messages and prompts.
        stdin: Replies to prompts.
    """

    stdout: TextIO
    stderr: TextIO
    stdin: TextIO

    def print(self, text: str) -> None:
        """Write a line to standard output and flush it; control characters become `?`."""
        printable = "".join(
            character if character.isprintable() or character in "\t\n" else "?" for character in text
        )
        self.stdout.write(f"{printable}\n")
        self.stdout.flush()

    def notify(self, text: str) -> None:
        """Write a message to standard error."""
        self.stderr.write(f"imagehost-client: {text}\n")

    def confirm(self, question: str, confirmed: bool) -> None:
        """Prompt for confirmation, unless already confirmed or standard input is not a terminal.

        Raises:
            Aborted: The reply is not yes.
        """
        if confirmed or not self.stdin.isatty():
            return
        self.stderr.write(f"{question} [y/N] ")
        self.stderr.flush()
        if self.stdin.readline().strip().lower() not in {"y", "yes"}:
            raise Aborted


class ProgressBar:
    """A progress bar on standard error, drawn only on a terminal.

    Args:
        console: The streams.
        enabled: Whether the bar is drawn at all.
    """

    def __init__(self, console: Console, *, enabled: bool = True) -> None:
        self._stderr = console.stderr
        self._enabled = enabled and console.stderr.isatty()
        self._lock = threading.Lock()
        self._sizes: dict[int, tuple[int, int]] = {}
        self._done = self._failed = 0
        self._drawn = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._drawn:
            self._stderr.write("\r\x1b[K")
            self._stderr.flush()

    def progress(self, source: Source, sent: int, total: int) -> None:
        """Update the bytes sent of one file."""
        self._sizes[id(source)] = sent, total
        self._draw()

    def result(self, result: UploadResult) -> None:
        """Count the result of one file."""
        self._done += result.error is None
        self._failed += result.error is not None
        self._draw()

    def _draw(self) -> None:
        if not self._enabled:
            return
        with self._lock:
            sent, total = (sum(pair[index] for pair in list(self._sizes.values())) for index in (0, 1))
            failed = f", {self._failed} failed" if self._failed else ""
            filled = WIDTH * sent // total if total else WIDTH
            bar = "█" * filled + "░" * (WIDTH - filled)
            text = f"\r{bar} {_megabytes(sent)} of {_megabytes(total)} MB, {self._done} done{failed}\x1b[K"
            if text != self._drawn:
                self._drawn = text
                self._stderr.write(text)
                self._stderr.flush()


def _megabytes(size: int) -> str:
    return f"{size / 1_000_000:.1f}"
