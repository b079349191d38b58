"""`Call`: a request as a value; and helpers of all operations to build one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from attrs import define, evolve, field, frozen

from imagehost_client import _wire
from imagehost_client._calls.arguments import checked
from imagehost_client._types import BY_EXTENSION, UNSET, Progress, RequestMethod, Source
from imagehost_client.errors import ValidationError, fault
from imagehost_client.models import Page, ResponseMeta, Result, ResultList
from imagehost_client.urls import plain

T = TypeVar("T")
R = TypeVar("R", bound=Result)


@frozen(kw_only=True)
class FilePart:
    """The file of an upload.

    Attributes:
        filename: The file name to send instead of the source's.
        progress: The progress callback.
        checksum: Whether to verify the checksum of the stored file.
    """

    source: Source = field(repr=False)
    filename: str | None = None
    progress: Progress | None = None
    checksum: bool = False


@define(eq=False)
class OpenResponse:
    """The response of a call whose body is read later, as it arrives.

    Attributes:
        response: The response of httpx2; `None` where its body was read, because it is an error.
    """

    response: object = field(default=None, repr=False)


@frozen(kw_only=True)
class Call(Generic[T]):
    """A request that is not yet sent.

    Attributes:
        method: The HTTP method.
        path: The escaped path below the base URL.
        decode: The function that builds the result from the response's data.
        query: The query parameters.
        body: The JSON body.
        fields: The text fields of an upload.
        files: The files of an upload.
        file_field: The name of the form's field for the files.
        idempotent: Whether sending the request twice has the same effect as sending it once.
        key: The idempotency key; `""` requests a random one, `None` sends none.
        on_not_found: The result if a retry gets 404, because an earlier attempt has deleted the resource.
        on_repeat: A function for the result of a retry, if an earlier attempt may have been processed.
        binary: Whether the response is an image instead of JSON.
        headers: Further headers.
        opened: Where the driver puts the response, if an image in it is to be read later.
    """

    method: str
    path: str
    decode: Callable[[object], T]
    query: tuple[tuple[str, str], ...] = ()
    body: Mapping[str, object] | None = field(default=None, repr=False)
    fields: tuple[tuple[str, str], ...] = ()
    files: tuple[FilePart, ...] = ()
    file_field: str = "image"
    idempotent: bool = True
    key: str | None = None
    on_not_found: T | None = None
    on_repeat: Callable[[T], T] | None = None
    binary: bool = False
    headers: Mapping[str, str] = field(factory=dict)
    opened: OpenResponse | None = None


def with_meta(result: T, meta: ResponseMeta) -> T:
    """Return a result, and the items of a page or list, with the response's metadata."""
    if isinstance(result, Page | ResultList):
        result = evolve(result, items=tuple(with_meta(item, meta) for item in result.items))
    return evolve(result, meta=meta) if isinstance(result, Result) else result


def next_page(call: Call[Page[T]], page: Page[T]) -> Call[Page[T]] | None:
    """Return the call for the page after `page`, or `None` after the last one.

    Pages are requested by cursor: no record is skipped or repeated while others are added or deleted.
    """
    if page.next_cursor is None:
        return None
    query = tuple((name, value) for name, value in call.query if name not in {"page", "cursor"})
    return evolve(call, query=(*query, ("cursor", page.next_cursor)))


def path_segment(text: str) -> str:
    """Return an id as an escaped path segment.

    Raises:
        ValidationError: The id would change the path.
    """
    if text in {"", ".", ".."}:
        raise ValidationError(fault("id", "an id", text))
    return quote(text, safe="")


def single(method: str, kind: type[R], *path: str, **attributes: Any) -> Call[R]:
    """Return a call whose result is one record.

    Args:
        method: The HTTP method.
        kind: The class of the record.
        *path: The unescaped path segments.
        **attributes: Other attributes of the call, such as the JSON body.
    """
    escaped = "/" + "/".join(path_segment(segment) for segment in path)
    return Call(method=method, path=escaped, decode=partial(_wire.decode, kind), **attributes)


def paged(path: str, name: str, kind: type[R], **query: str | int | None) -> Call[Page[R]]:
    """Return a call whose result is a page of records, which the response has in `name`."""
    return Call(
        method="GET", path=path, decode=partial(_wire.decode_page, kind, name), query=query_pairs(**query)
    )


MAX_IMAGES = 100
"""The maximum number of images in a request."""


def chunks(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield values in parts of at most `MAX_IMAGES`."""
    for start in range(0, len(values), MAX_IMAGES):
        yield values[start : start + MAX_IMAGES]


def string_list(values: Sequence[str] | None) -> list[str] | None:
    """Return a list of strings."""
    return None if values is None else [str(value) for value in values]


def drop_none(**values: object) -> dict[str, object]:
    """Return the values that are not `None`."""
    return {name: value for name, value in values.items() if value is not None}


def drop_unset(**values: object) -> dict[str, object]:
    """Return the values that are not `UNSET`."""
    return {name: value for name, value in values.items() if value is not UNSET}


def query_pairs(**values: str | int | None) -> tuple[tuple[str, str], ...]:
    """Return the values that are not `None`, as query parameters."""
    return tuple((name, str(plain(value))) for name, value in values.items() if value is not None)


@checked
def request(
    method: RequestMethod,
    path: str,
    *,
    json: Mapping[str, object] | None = None,
    query: Mapping[str, str | int] | None = None,
    idempotency_key: str | None = None,
) -> Call[object]:
    """Send a request to an endpoint that has no method of its own, such as one of a newer host.

    It is retried, paced and authenticated as other calls are. A `POST` or `PATCH` without an idempotency
    key is retried only if the host cannot have processed it.

    Args:
        method: The HTTP method.
        path: The escaped path below the base URL, such as `/images/0aZ0aZ0aZ0aZ0aZ0`.
        json: The members of the JSON body.
        query: The query parameters.
        idempotency_key: The idempotency key, for endpoints that accept one.

    Returns:
        The `data` of the response, as `json.loads` returns it.
    """
    return Call(
        method=method,
        path=path,
        decode=_same,
        query=query_pairs(**(query or {})),
        body=json,
        idempotent=method in {"GET", "PUT", "DELETE"} or idempotency_key is not None,
        key=idempotency_key,
    )


def _same(data: object) -> object:
    return data


def format_name(name: str | None) -> str | None:
    """Return a format as the API calls it."""
    return name if name is None else BY_EXTENSION.get(name, name)
