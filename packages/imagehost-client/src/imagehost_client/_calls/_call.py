"""A call: one request as a value, and what all operations share in making one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Final, Generic, TypeVar
from urllib.parse import quote

from attrs import evolve, field, frozen

from imagehost_client import _wire
from imagehost_client._multipart import Progress
from imagehost_client.files import Source
from imagehost_client.models import Page, ResponseMeta, Result

T = TypeVar("T")
R = TypeVar("R", bound=Result)


class Unset(Enum):
    """The kind of `UNSET`."""

    UNSET = "unset"

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset.UNSET
"""A value that is left as it is; `None` is a value of its own (no album, no expiry)."""


@frozen(kw_only=True)
class FilePart:
    """The file of an upload.

    Attributes:
        source: What is sent.
        filename: Its name, if not the source's own.
        progress: Who is told how far sending has come.
        checksum: Whether the record's checksum must be the file's.
    """

    source: Source = field(repr=False)
    filename: str | None = None
    progress: Progress | None = None
    checksum: bool = False


@frozen(kw_only=True)
class Call(Generic[T]):
    """One request, not yet sent.

    Attributes:
        method: The HTTP method.
        path: Below the base address, escaped.
        decode: Makes the result of the answer's data.
        query: Names and values after `?`.
        body: What is sent as JSON.
        fields: The text fields of an upload.
        file: The file of an upload.
        repeatable: Whether sending it twice is the same as sending it once.
        key: The idempotency key; `""` asks for a new one, `None` is for calls that take none.
        gone: The result when another try finds that the resource is gone: an earlier try did it.
        picture: Whether the answer is a picture; else it is JSON.
    """

    method: str
    path: str
    decode: Callable[[object], T]
    query: tuple[tuple[str, str], ...] = ()
    body: Mapping[str, object] | None = field(default=None, repr=False)
    fields: tuple[tuple[str, str], ...] = ()
    file: FilePart | None = None
    idempotent: bool = True
    key: str | None = None
    on_not_found: T | None = None
    binary: bool = False


def with_meta(result: T, meta: ResponseMeta) -> T:
    """Return a result that carries what its answer says beside its data, as do the records of a page."""
    if isinstance(result, Page):
        result = evolve(result, items=tuple(with_meta(item, meta) for item in result.items))
    return evolve(result, meta=meta) if isinstance(result, Result) else result


def next_page(call: Call[Page[T]], page: Page[T]) -> Call[Page[T]] | None:
    """Return the call for the page after `page`, or `None` after the last one.

    It asks by cursor, so nothing is skipped or repeated while records are added or deleted.
    """
    if page.next_cursor is None:
        return None
    kept = tuple((name, value) for name, value in call.query if name not in {"page", "cursor"})
    return evolve(call, query=(*kept, ("cursor", page.next_cursor)))


def path_segment(text: str) -> str:
    """Return an id as a path segment; one that would address something else is refused."""
    if text in {"", ".", ".."}:
        raise ValueError(f"expected an id but received {text!r}")
    return quote(text, safe="")


def single(method: str, kind: type[R], *path: str, body: Mapping[str, object] | None = None) -> Call[R]:
    """Return the call whose answer is one record.

    Args:
        method: The HTTP method.
        kind: The record's class.
        *path: The path's segments, unescaped.
        body: What is sent as JSON.
    """
    address = "/" + "/".join(path_segment(part) for part in path)
    return Call(method=method, path=address, decode=partial(_wire.decode, kind), body=body)


def paged(path: str, name: str, kind: type[R], query: tuple[tuple[str, str], ...]) -> Call[Page[R]]:
    """Return the call whose answer is a page of records, under `name`."""
    return Call(method="GET", path=path, decode=partial(_wire.decode_page, kind, name), query=query)


def string_list(values: Sequence[str] | None) -> list[str] | None:
    """Return a list of texts as JSON has it; a single text is refused, for its letters are no list."""
    if isinstance(values, str):
        raise TypeError(f"expected a list of texts but received {values!r}")
    return None if values is None else [str(value) for value in values]


def drop_none(**values: object) -> dict[str, object]:
    """Return the values that are not `None`."""
    return {name: value for name, value in values.items() if value is not None}


def drop_unset(**values: object) -> dict[str, object]:
    """Return the values that are not `UNSET`."""
    return {name: value for name, value in values.items() if value is not UNSET}


def query_pairs(**values: str | int | None) -> tuple[tuple[str, str], ...]:
    """Return the values that are not `None`, as a query has them."""
    return tuple((name, str(value)) for name, value in values.items() if value is not None)
