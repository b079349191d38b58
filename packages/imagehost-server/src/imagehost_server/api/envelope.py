"""The success envelope of responses, typed for the OpenAPI document."""

from __future__ import annotations

from typing import Generic, Literal, TypeVar, cast

from litestar import Response
from msgspec import Struct

from imagehost_server.http.responses import Headers, RawResponse, success_response

T = TypeVar("T")


class Success(Struct, Generic[T]):
    """The body of a successful response: `{"success": true, "data": …}`."""

    success: Literal[True]
    data: T


def ok(data: T, status: int = 200, headers: Headers = ()) -> Response[Success[T]]:
    """Return the success envelope of `data` as a Litestar response.

    The body is encoded here, with the timestamps of this API, so the annotation serves the OpenAPI document.
    """
    return envelope(success_response(data, status, headers))


def envelope(response: RawResponse) -> Response[Success[T]]:
    """Return an encoded response with a success envelope as a Litestar response."""
    return cast("Response[Success[T]]", to_litestar(response))


def to_litestar(response: RawResponse) -> Response[bytes]:
    """Return a response as a Litestar response."""
    headers = dict(response.headers)
    media_type = headers.pop("content-type")
    return Response(response.body, status_code=response.status, headers=headers, media_type=media_type)
