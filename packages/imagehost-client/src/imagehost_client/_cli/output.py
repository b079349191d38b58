"""Output of the command line: results on standard output, messages on standard error, and the clipboard.

On a terminal, lists are tables; in a pipe or a file they are lines with tabs between the columns.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Generic, TextIO, TypeVar

import click
from attrs import define, frozen

from imagehost_client.models import Result, rfc3339

if TYPE_CHECKING:
    import rich.console


T = TypeVar("T")

ROWS_AT_ONCE = 100
"""The number of rows by which a table on a terminal is printed, the size of a page of the host."""

NEWLINE = "\n"
"""The control character that messages may have."""

GAP = 2
"""The distance of columns, in characters."""
MIN_WIDTH = 8
"""The minimum width of a column that a table makes narrower, in characters."""

UNITS = ("B", "kB", "MB", "GB", "TB")
"""Decimal units of sizes."""


@frozen
class Column(Generic[T]):
    """A column of a list.

    Attributes:
        name: The heading in a table.
        value: The value of a record, as printed in a pipe.
        shown: The value as shown in a table, where it differs.
        is_flexible: Whether a table may shorten the values to fit the width of the terminal.
        is_in_table: Whether a table has the column, too.
    """

    name: str
    value: Callable[[T], object]
    shown: Callable[[T], str] | None = None
    is_flexible: bool = False
    is_in_table: bool = True


@define
class Console:
    """The standard streams of the command.

    Attributes:
        is_quiet: Whether to print errors only to standard error.
        live: The terminal with a progress bar, above which results are printed.
        has_waited: Whether the user knows that the command has to wait.
    """

    is_quiet: bool = False
    live: rich.console.Console | None = None
    has_waited: bool = False

    def print(self, text: str) -> None:
        """Write a line to standard output and flush it; control characters become `?`."""
        self._write(sys.stdout, printable(text, kept="\t\n"))

    def note(self, text: str) -> None:
        """Write a message to standard error, unless the user wants only errors."""
        if not self.is_quiet:
            self.error(text)

    def wait(self, text: str) -> None:
        """Write what the command waits for, once."""
        if not self.has_waited:
            self.has_waited = True
            self.note(text)

    def error(self, text: str) -> None:
        """Write a message on an error to standard error."""
        self._write(sys.stderr, f"imagehost-client: {printable(text, kept=NEWLINE)}")

    def _write(self, stream: TextIO, line: str) -> None:
        if self.live is not None and (stream is sys.stderr or stream.isatty()):
            self.live.print(line, markup=False, highlight=False, soft_wrap=True)
            return
        stream.write(f"{line}\n")
        stream.flush()

    def confirm(self, question: str, *, is_confirmed: bool) -> None:
        """Ask for confirmation, unless it is given already or standard input is not a terminal.

        Raises:
            click.Abort: The reply is not yes.
        """
        if is_confirmed or not sys.stdin.isatty():
            return
        sys.stderr.write(f"{printable(question)} [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
            raise click.Abort

    def print_record(self, record: Result) -> None:
        """Write a record as JSON."""
        self.print(record.to_json(indent=2))

    def print_list(
        self, records: Iterable[T], columns: tuple[Column[T], ...], *, limit: int | None, as_json: bool
    ) -> None:
        """Write records as a table on a terminal, else as lines; or as one JSON object per line.

        Args:
            records: The records, which are read as they are written.
            columns: The columns.
            limit: The maximum number of records.
            as_json: Whether to write JSON.
        """
        chosen = islice(records, limit)
        if as_json:
            for record in chosen:
                assert isinstance(record, Result)
                self.print(json.dumps(record.to_dict()))
        elif sys.stdout.isatty():
            print_table(chosen, tuple(column for column in columns if column.is_in_table))
        else:
            for record in chosen:
                self.print("\t".join(printable(str(column.value(record))) for column in columns))


def print_table(records: Iterable[T], columns: tuple[Column[T], ...]) -> None:
    """Write a table to the terminal, page by page, with the headings once."""
    from rich.console import Console as Terminal  # slow to import
    from rich.table import Table
    from rich.text import Text

    widths = [len(column.name) for column in columns]
    remaining, is_first = iter(records), True
    while (page := list(islice(remaining, ROWS_AT_ONCE))) or is_first:
        rows = [[Text(printable(_shown(record, column))) for column in columns] for record in page]
        widths = [max(width, 0, *(row[index].cell_len for row in rows)) for index, width in enumerate(widths)]
        terminal = Terminal(file=sys.stdout, highlight=False)
        fitted = fit_widths(widths, [column.is_flexible for column in columns], terminal.width)
        # A terminal that is too narrow for the columns of fixed width wraps the lines itself.
        terminal.width = max(terminal.width, sum(fitted) + GAP * (len(fitted) - 1))
        table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, show_header=is_first)
        for column, width in zip(columns, fitted, strict=True):
            table.add_column(column.name, no_wrap=True, overflow="ellipsis", min_width=width, max_width=width)
        for row in rows:
            table.add_row(*row)
        terminal.print(table)
        is_first = False


def fit_widths(widths: Sequence[int], flexible: Sequence[bool], total: int) -> list[int]:
    """Return the widths of a table's columns, of which the widest flexible ones are made narrower to fit.

    Args:
        widths: The widths that the values need, in characters.
        flexible: Whether a column may be narrower, at least `MIN_WIDTH`.
        total: The width of the terminal.
    """
    available = total - GAP * (len(widths) - 1)
    limit = max(
        (width for width, is_flexible in zip(widths, flexible, strict=True) if is_flexible), default=0
    )
    fitted = list(widths)
    while sum(fitted) > available and limit > MIN_WIDTH:
        limit -= 1
        fitted = [min(width, limit) if may else width for width, may in zip(widths, flexible, strict=True)]
    return fitted


def printable(text: str, *, kept: str = "") -> str:
    """Return `text` with `?` for control characters, which could change the terminal's state.

    Args:
        text: The text.
        kept: The control characters that remain.
    """
    return "".join(character if character.isprintable() or character in kept else "?" for character in text)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, such as `1 image` or `2 images`.

    Args:
        number: The number.
        noun: The noun in the singular, whose plural ends in `s`.
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def format_size(size: float) -> str:
    """Return a number of bytes with a decimal unit, such as `1.2 MB`."""
    unit = 0
    while size >= 999.95 and unit < len(UNITS) - 1:
        size /= 1000
        unit += 1
    return f"{size:.1f} {UNITS[unit]}" if unit else f"{size:.0f} B"


def time_column(name: str, time: Callable[[T], datetime]) -> Column[T]:
    """Return the column of a time: in RFC 3339, and in a table in the local time zone, to the minute."""

    def shown(record: T) -> str:
        return f"{time(record).astimezone():%Y-%m-%d %H:%M}"

    return Column(name, lambda record: rfc3339(time(record)), shown)


def _shown(record: T, column: Column[T]) -> str:
    return str(column.value(record)) if column.shown is None else column.shown(record)


CLIPBOARD_PROGRAMS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("darwin", "", ("pbcopy",)),
    ("win32", "", ("clip",)),
    ("linux", "WAYLAND_DISPLAY", ("wl-copy",)),
    ("linux", "DISPLAY", ("xclip", "-selection", "clipboard")),
    ("linux", "DISPLAY", ("xsel", "--clipboard", "--input")),
    ("linux", "TERMUX_VERSION", ("termux-clipboard-set",)),
)
"""Programs that copy standard input: platform, a variable that must be set, and the command."""

CLIPBOARD_TIMEOUT = 10
"""The maximum duration of such a program, in seconds."""


def copy_to_clipboard(
    text: str, *, environ: Mapping[str, str] = os.environ, platform: str = sys.platform
) -> bool:
    """Copy `text` to the clipboard, and return whether a program or the terminal took it.

    Without a program, such as in an SSH session, the terminal receives the escape sequence OSC 52; whether
    it obeys is its setting.

    Args:
        text: The text.
        environ: The environment variables.
        platform: The value of `sys.platform`.
    """
    for system, variable, command in CLIPBOARD_PROGRAMS:
        if system != platform or (variable and not environ.get(variable)) or not shutil.which(command[0]):
            continue
        try:
            subprocess.run(  # noqa: S603 - a command of the table
                command,
                input=text.encode(),
                check=True,
                timeout=CLIPBOARD_TIMEOUT,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        except (OSError, subprocess.SubprocessError):
            continue
        return True
    if not sys.stderr.isatty() or environ.get("TERM") == "dumb":
        return False
    sys.stderr.write(f"\x1b]52;c;{base64.b64encode(text.encode()).decode()}\x07")
    sys.stderr.flush()
    return True
