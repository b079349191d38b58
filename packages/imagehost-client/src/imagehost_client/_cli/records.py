"""Helpers of all commands: flags as arguments of the client, and records as lines or JSON."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TypeVar

from imagehost_client import _wire
from imagehost_client._calls import UNSET, Unset
from imagehost_client._cli.output import Console

T = TypeVar("T")


class CommandError(Exception):
    """A part of a command failed, and its error has been printed."""


def or_unset(value: T | None) -> T | Unset:
    """Return the value of a flag, or `UNSET` where the flag is absent."""
    return UNSET if value is None else value


def page_size(args: Namespace) -> int:
    """Return the page size for a list: no more than `--limit` shows."""
    return min(args.limit or 100, 100)


def print_table(
    console: Console, args: Namespace, records: Iterable[T], row: Callable[[T], Iterable[object]]
) -> None:
    """Print a line for each record, or a JSON object with `--json`."""
    for record in islice(records, args.limit):
        console.print(json.dumps(_wire.encode(record)) if args.json else "\t".join(map(str, row(record))))


def print_record(console: Console, record: object) -> None:
    """Print a record as JSON."""
    console.print(json.dumps(_wire.encode(record), indent=2, ensure_ascii=False))
