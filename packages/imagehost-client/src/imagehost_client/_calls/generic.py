"""Requests to endpoints that have no method of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from imagehost_client._calls._arguments import checked
from imagehost_client._calls._call import Call, query_pairs

RequestMethod = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
"""The HTTP method of a request."""


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
