"""What the command line shows: lines for scripts, notes for people, and a bar while files are sent."""

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
"""Characters of the bar."""


class Aborted(Exception):
    """Whoever was asked said no."""


@frozen
class Console:
    """Where a command writes.

    Attributes:
        results: What scripts read: standard output.
        notes: What people read: standard error.
        answers: Where a yes or no comes from: standard input.
    """

    results: TextIO
    notes: TextIO
    answers: TextIO

    def print(self, text: str) -> None:
        """Write a line of the result, at once; control characters of records do not reach a terminal."""
        shown = "".join(
            character if character.isprintable() or character in "\t\n" else "?" for character in text
        )
        self.results.write(f"{shown}\n")
        self.results.flush()

    def notify(self, text: str) -> None:
        """Write a line for people."""
        self.notes.write(f"imagehost-client: {text}\n")

    def confirm(self, question: str, agreed: bool) -> None:
        """Ask before what cannot be undone, where somebody is there to be asked.

        Raises:
            Declined: The answer is not yes.
        """
        if agreed or not self.answers.isatty():
            return
        self.notes.write(f"{question} [y/N] ")
        self.notes.flush()
        if self.answers.readline().strip().lower() not in {"y", "yes"}:
            raise Aborted


class ProgressBar:
    """A line on the terminal that says how far an upload has come; nothing where no terminal is.

    Args:
        out: Where it is drawn.
        shown: Whether it is drawn at all.
    """

    def __init__(self, out: Console, *, shown: bool = True) -> None:
        self._notes = out.notes
        self._shown = shown and out.notes.isatty()
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
            self._notes.write("\r\x1b[K")
            self._notes.flush()

    def progress(self, source: Source, sent: int, total: int) -> None:
        """Take note of a file that is being sent."""
        self._sizes[id(source)] = sent, total
        self._draw()

    def result(self, result: UploadResult) -> None:
        """Take note of a file that is done."""
        self._done += result.error is None
        self._failed += result.error is not None
        self._draw()

    def _draw(self) -> None:
        if not self._shown:
            return
        with self._lock:
            sent, total = (sum(pair[place] for pair in list(self._sizes.values())) for place in (0, 1))
            failed = f", {self._failed} failed" if self._failed else ""
            filled = WIDTH * sent // total if total else WIDTH
            bar = "█" * filled + "░" * (WIDTH - filled)
            text = f"\r{bar} {_megabytes(sent)} of {_megabytes(total)} MB, {self._done} done{failed}\x1b[K"
            if text != self._drawn:
                self._drawn = text
                self._notes.write(text)
                self._notes.flush()


def _megabytes(size: int) -> str:
    return f"{size / 1_000_000:.1f}"
