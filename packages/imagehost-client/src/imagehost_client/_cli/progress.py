"""Progress bars of uploads and downloads that never run backwards."""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING

from attrs import define, field

from imagehost_client._batches import UploadResult, known_size
from imagehost_client._cli.output import Console
from imagehost_client._types import Source

if TYPE_CHECKING:
    from typing import Self

    from rich.progress import Progress, TaskID


@define
class UploadProgress:
    """The progress of several files in bytes.

    A retry sends a file again from its start, and a failed file is never sent completely. So the bytes of a
    file are the most that any attempt has sent, and all of them once it has a result.

    Attributes:
        total: The sizes of all files.
    """

    total: int = 0
    _sent: dict[int, int] = field(factory=dict)
    _finished: int = 0
    _completed: int = 0
    _lock: threading.Lock = field(factory=threading.Lock)

    def send(self, source: Source, sent: int) -> int:
        """Count the bytes sent of a file, and return those of all files."""
        with self._lock:
            self._sent[id(source)] = max(sent, self._sent.get(id(source), 0))
            return self._update()

    def finish(self, source: Source) -> int:
        """Count a file with a result, and return the bytes of all files."""
        with self._lock:
            self._sent.pop(id(source), None)
            self._finished += size_of(source)
            return self._update()

    def _update(self) -> int:
        completed = min(self._finished + sum(self._sent.values()), self.total)
        self._completed = max(self._completed, completed)
        return self._completed


class _Bar:
    """A bar on standard error, above which results and messages are printed; none without a terminal."""

    def __init__(self, console: Console, total: int = 0, *, enabled: bool = True) -> None:
        self._console = console
        self._total = total
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        is_terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._is_enabled = enabled and is_terminal and not console.is_quiet

    def __enter__(self) -> Self:
        if self._is_enabled:
            self._bar = _create_bar()
            self._task = self._bar.add_task(self._text(), total=self._total or None)
            self._bar.start()
            self._console.live = self._bar.console
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._console.live = None
        if self._bar is not None:
            self._bar.stop()

    def _text(self) -> str:
        """Return the description in front of the bar."""
        raise NotImplementedError

    def _show(self, completed: int, total: int) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=completed, total=total or None, description=self._text())


class ProgressBar(_Bar):
    """The progress of uploads.

    Args:
        console: Where results and messages are printed.
        sources: The files.
        enabled: Whether the bar is drawn at all.
    """

    def __init__(self, console: Console, sources: Iterable[Source], *, enabled: bool = True) -> None:
        sizes = [size_of(source) for source in sources]
        super().__init__(console, sum(sizes), enabled=enabled)
        self._progress = UploadProgress(sum(sizes))
        self._files = len(sizes)
        self._stored = self._failed = 0
        self._is_waiting = False

    def progress(self, source: Source, sent: int, total: int) -> None:  # noqa: ARG002 - the callback's signature
        """Show the bytes sent of one file."""
        self._show(self._progress.send(source, sent), self._total)

    def wait(self, text: str) -> None:
        """Show that the uploads wait, until the next result."""
        self._console.wait(text)
        self._is_waiting = True
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=self._text())

    def result(self, result: UploadResult) -> None:
        """Count the result of one file."""
        self._is_waiting = False
        self._stored += result.error is None
        self._failed += result.error is not None
        self._show(self._progress.finish(result.source), self._total)

    def _text(self) -> str:
        failed = f", {self._failed} failed" if self._failed else ""
        waiting = ", waiting" if self._is_waiting else ""
        return f"{self._stored} of {self._files} stored{failed}{waiting}"


class DownloadBar(_Bar):
    """The progress of downloads, one after another.

    Args:
        console: Where results and messages are printed.
        files: The number of files.
    """

    def __init__(self, console: Console, files: int) -> None:
        super().__init__(console)
        self._files = files
        self._finished = 0

    def progress(self, received: int, total: int) -> None:
        """Show the bytes received of one file."""
        self._show(received, total)

    def finish(self) -> None:
        """Count a file, and begin with the next one at 0 bytes."""
        self._finished += 1
        if self._bar is not None and self._task is not None:
            self._bar.reset(self._task, description=self._text())

    def _text(self) -> str:
        return f"{self._finished} of {self._files} written"


def size_of(source: Source) -> int:
    """Return the size of a source in bytes; 0 if it is unknown."""
    content = source[1] if isinstance(source, tuple) else source
    with suppress(OSError):
        if not isinstance(content, io.IOBase):
            return known_size(source) or 0
        position = content.tell()
        size = content.seek(0, os.SEEK_END) - position
        content.seek(position)
        return max(size, 0)
    return 0


def _create_bar() -> Progress:
    from rich.console import Console as Terminal  # slow to import
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(compact=True),
        console=Terminal(file=sys.stderr),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
