"""The success envelope of responses, typed for the OpenAPI document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from attrs import evolve
from litestar import Response
from msgspec import Struct

from imagehost_server.http.responses import Headers, RawResponse, success_response

if TYPE_CHECKING:
    from litestar.response.base import ASGIResponse
    from litestar.types import Receive, Scope, Send

T = TypeVar("T")


class Success(Struct, Generic[T]):
    """The body of a successful response: `{"success": true, "data": …}`.

    Attributes:
        success: Always true.
    """

    success: bool
    data: T


def ok(data: T, status: int = 200, headers: Headers = ()) -> Response[Success[T]]:
    """Return the success envelope of `data` as a Litestar response.

    The body is encoded here, with the timestamps of this API, so the annotation serves the OpenAPI document.
    """
    return envelope(success_response(data, status, headers))


def envelope(response: RawResponse) -> Response[Success[T]]:
    """Return an encoded response with a success envelope as a Litestar response."""
    return cast("Response[Success[T]]", to_litestar(response))


class EncodedResponse(Response[bytes]):
    """A response that is sent as it is: Litestar's would encode body and headers again.

    Args:
        response: The response.
    """

    __slots__ = ("_response",)

    def __init__(self, response: RawResponse) -> None:
        # Of Litestar's attributes it has only the cookies, which a handler may set: the others take a while.
        self._response = response
        self.cookies = []

    def to_asgi_response(self, *_arguments: Any, **_keywords: Any) -> ASGIResponse:
        """Return the ASGI application that sends the response."""
        return cast("ASGIResponse", self._send)

    # Litestar passes the arguments by name.
    async def _send(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        response = self._response
        if self.cookies:
            cookies = (cookie.to_encoded_header() for cookie in self.cookies)
            headers = ((name.decode(), value.decode("latin-1")) for name, value in cookies)
            response = evolve(response, headers=(*response.headers, *headers))
        await response.send(send)


def to_litestar(response: RawResponse) -> Response[bytes]:
    """Return a response as a Litestar response; handlers may add cookies to it, but no headers."""
    return EncodedResponse(response)
