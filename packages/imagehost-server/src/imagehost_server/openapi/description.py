"""The API description as OpenAPI JSON and as an HTML page; made at the first request."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import msgspec
from litestar.handlers import HTTPRouteHandler

from imagehost_server.http.responses import JSON_HEADERS, RawResponse
from imagehost_server.openapi.docs_page import docs_page
from imagehost_server.openapi.document import document


class ApiDescription:
    """The responses of `/v1/openapi.json` and `/v1/docs`.

    Args:
        routes: The routes of the API.
        base_url: The base URL of the API, which ends in `/v1`.
        delivery_url: The base URL of images.
        registration: Whether accounts can be created without a token.
    """

    def __init__(
        self,
        routes: Iterable[HTTPRouteHandler],
        base_url: str,
        delivery_url: str,
        *,
        registration: bool = False,
    ) -> None:
        self._arguments = (tuple(routes), base_url, delivery_url)
        self._registration = registration

    @cached_property
    def document(self) -> RawResponse:
        """The OpenAPI document."""
        tree = document(*self._arguments, registration=self._registration)
        return RawResponse(200, msgspec.json.encode(tree), JSON_HEADERS)

    @cached_property
    def docs(self) -> RawResponse:
        """The HTML page."""
        return docs_page(*self._arguments[1:])
