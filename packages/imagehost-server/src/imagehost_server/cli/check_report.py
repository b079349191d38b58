"""The report of a check: lines for people, or one JSON object for programs; and the exit status."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from enum import IntEnum
from pathlib import Path

import click

from imagehost_core import Finding
from imagehost_core.maintenance.check import FindingKind
from imagehost_server.cli.common import counted


class ExitStatus(IntEnum):
    """Exit statuses, which add up, as those of e2fsck(8)."""

    CLEAN = 0
    REPAIRED = 1
    LEFT = 4
    FAILED = 8
    INTERRUPTED = 32


NEEDS_BACKUP = frozenset(
    {FindingKind.DATABASE_CORRUPT, FindingKind.MASTER_MISSING, FindingKind.MASTER_CORRUPT}
)
"""The kinds of findings whose data can only come back from a backup."""


class CheckReport(ABC):
    """The report of a check. Findings are printed one by one, so that memory does not grow with them.

    Args:
        data: The data directory.
        repair: Whether findings are repaired.
        quick: Whether files are not read.

    Attributes:
        images: The number of images that were checked.
    """

    def __init__(self, data: Path, *, repair: bool, quick: bool) -> None:
        self.images = 0
        self._data, self._repair, self._quick = data, repair, quick
        self._found: Counter[FindingKind] = Counter()
        self._repaired: Counter[FindingKind] = Counter()

    def add(self, finding: Finding) -> None:
        """Print and count a finding."""
        is_first = not self._found
        self._found[finding.kind] += 1
        self._repaired[finding.kind] += finding.is_repaired
        self._print(finding, is_first=is_first)

    def finish(self, status: ExitStatus, error: str) -> int:
        """Print the end of the report, and return the exit status.

        Args:
            status: The status of the check itself.
            error: Why it ended early; "" if it did not.
        """
        total = int(status)
        if self._repaired.total():
            total += ExitStatus.REPAIRED
        if self._left:
            total += ExitStatus.LEFT
        self._print_end(total, error)
        return total

    @property
    def _left(self) -> int:
        return self._found.total() - self._repaired.total()

    @abstractmethod
    def _print(self, finding: Finding, *, is_first: bool) -> None: ...

    @abstractmethod
    def _print_end(self, status: int, error: str) -> None: ...


class TextReport(CheckReport):
    """A line for each finding, and a summary."""

    def _print(self, finding: Finding, *, is_first: bool) -> None:  # noqa: ARG002 - all lines are alike
        repair = f" [repaired: {finding.repair}]" if finding.is_repaired else ""
        click.echo(f"{finding.kind.value}: {finding.id}: {finding.details}{repair}")

    def _print_end(self, status: int, error: str) -> None:  # noqa: ARG002 - the shell has it
        if error:
            click.echo(f"Error: {error}", err=True)
        checked = f"Checked {counted(self.images, 'image')} in {self._data}"
        if not self._found:
            click.echo(f"{checked}: nothing is wrong" if not error else checked)
            return
        click.echo(f"{checked}: {counted(self._found.total(), 'finding')}, {self._repaired.total()} repaired")
        left = [kind for kind in self._found if self._found[kind] > self._repaired[kind]]
        if NEEDS_BACKUP.intersection(left):
            click.echo("Missing and corrupt masters and tables can only come back from a backup.")
        if left and not self._repair:
            click.echo("`imagehost fsck --repair` repairs what can be repaired.")


class JsonReport(CheckReport):
    """One JSON object; each finding is a line of it."""

    def _print(self, finding: Finding, *, is_first: bool) -> None:
        value = {
            "kind": finding.kind.value,
            "id": finding.id,
            "details": finding.details,
            "repair": finding.repair or None,
        }
        start = '{"findings": [\n' if is_first else ",\n"
        click.echo(start + json.dumps(value), nl=False)

    def _print_end(self, status: int, error: str) -> None:
        click.echo('{"findings": [' if not self._found else "\n", nl=False)
        counts = {
            kind.value: {"found": self._found[kind], "repaired": self._repaired[kind]} for kind in FindingKind
        }
        end = {
            "counts": counts,
            "data": str(self._data),
            "repair": self._repair,
            "quick": self._quick,
            "images": self.images,
            "found": self._found.total(),
            "repaired": self._repaired.total(),
            "left": self._left,
            "error": error or None,
            "status": status,
        }
        click.echo("], " + json.dumps(end)[1:])
