"""The seams of the driver of SQLite: what is executed, and the moment between a row and what is made of it.

A test can count the queries of an operation, and make a change after a query has read a row but before the
result of the query is put in a cache.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from attrs import define, field


@define
class SqliteHooks:
    """What the connections of a process do that were opened while the hooks were installed.

    Attributes:
        values: The values of the first execution of each statement.
        callers: The files and lines from which statements were executed, directly or not.
    """

    values: dict[str, Any] = field(factory=dict)
    callers: set[tuple[str, int]] = field(factory=set)
    _statements: list[str] = field(factory=list)
    _part: str = ""
    _action: Callable[[], object] | None = None

    def after_row(self, part: str, action: Callable[[], object]) -> None:
        """Call a function once: when a statement has read its first row, before the reader has it.

        The statement still has its snapshot of the database, which other connections can change. Statements
        of write transactions are left out, as nothing else can change the database meanwhile.

        Args:
            part: A part of the statement.
            action: The function.
        """
        self._part, self._action = part, action

    def clear(self) -> None:
        """Forget the function of `after_row`."""
        self._action = None

    @property
    def is_done(self) -> bool:
        """Whether the function of `after_row` was called."""
        return self._action is None

    @contextmanager
    def recording(self) -> Iterator[list[str]]:
        """Yield the statements that are executed in a block, with placeholders in place of values.

        Pragmas are left out: whether they are needed depends on the time and on earlier commits.
        """
        self._statements.clear()
        statements: list[str] = []
        yield statements
        statements += (text for text in self._statements if not text.startswith("PRAGMA"))

    def executed(self, statement: str, values: Any = ()) -> None:
        """Record a statement."""
        self._statements.append(statement)
        self.values.setdefault(statement, values)
        frame = sys._getframe(1)
        while (caller := frame.f_back) is not None:
            frame = caller
            self.callers.add((frame.f_code.co_filename, frame.f_lineno))

    def has_row(self, statement: str) -> None:
        """Call the function of `after_row`, if the statement is the one."""
        action = self._action
        if action is not None and self._part in statement:
            self._action = None
            action()


@contextmanager
def sqlite_hooks() -> Iterator[SqliteHooks]:
    """Install hooks into the connections to SQLite that are opened in a block."""
    hooks = SqliteHooks()

    class Connection(sqlite3.Connection):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self.row_factory = self._made_row
            self._statement = ""

        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            # The driver's own trace has the values instead of the placeholders.
            hooks.executed(sql, *parameters)
            self._statement = sql
            return super().execute(sql, *parameters)

        def _made_row(self, _: sqlite3.Cursor, row: tuple[Any, ...]) -> tuple[Any, ...]:
            if not self.in_transaction:
                hooks.has_row(self._statement)
            return row

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Connection))
        yield hooks
