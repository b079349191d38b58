"""Progress bars of long commands: on standard error, if it is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import click


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function that shows the number of items that are done, of all items.

    Args:
        label: The text before the bar.
    """
    with ExitStack() as stack:
        advance: Callable[[int], None] | None = None
        shown = 0

        def show(done: int, total: int) -> None:
            nonlocal advance, shown
            # A smaller number belongs to the next part of the work, which gets a bar of its own.
            if advance is None or done <= shown:
                stack.close()
                bar = click.progressbar(length=total, label=label, file=sys.stderr, show_pos=True)
                advance, shown = stack.enter_context(bar).update, 0
            advance(done - shown)
            shown = done

        yield show if sys.stderr.isatty() else _ignore


def _ignore(_done: int, _total: int) -> None:
    pass
