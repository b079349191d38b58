"""Path and query parameters as annotations of handlers.

The core parses query parameters, since it has the rules and the texts of errors. So handlers receive them as
text, and the schemas here are for the OpenAPI document.
"""

from __future__ import annotations

from typing import Annotated

from litestar.params import PathParameter, QueryParameter

from imagehost_core.pagination import DEFAULT_PER_PAGE, MAX_PAGE, MAX_PER_PAGE
from imagehost_server.integrations import INTEGRATIONS

ImageIdPath = Annotated[str, PathParameter(description="The image's id: 16 letters and digits.")]
AlbumIdPath = Annotated[str, PathParameter(description="The album's id: a positive integer.")]
KeyIdPath = Annotated[str, PathParameter(description="The API key's id.")]
AccountIdPath = Annotated[str, PathParameter(description="The account's id: a positive integer.")]
SessionIdPath = Annotated[str, PathParameter(description="The session's id.")]
WebhookIdPath = Annotated[str, PathParameter(description="The webhook's id.")]
DeliveryIdPath = Annotated[str, PathParameter(description="The delivery's id.")]
IntegrationPath = Annotated[
    str,
    PathParameter(description="The name of the file.", schema_extra={"enum": list(INTEGRATIONS)}),
]

Page = Annotated[
    str | None,
    QueryParameter(
        description="Page number. A page past the end is empty. Not together with `cursor`.",
        schema_extra={"type": "integer", "minimum": 1, "maximum": MAX_PAGE, "default": 1},
    ),
]
PerPage = Annotated[
    str | None,
    QueryParameter(
        description="Items per page.",
        schema_extra={"type": "integer", "minimum": 1, "maximum": MAX_PER_PAGE, "default": DEFAULT_PER_PAGE},
    ),
]
Cursor = Annotated[
    str | None,
    QueryParameter(
        description="The `next_cursor` of the previous page, instead of `page`. Neither skips nor repeats "
        "items while others are added or deleted.",
        schema_extra={"type": "string"},
    ),
]
AlbumFilter = Annotated[
    str | None,
    QueryParameter(
        description="List only the images of this album.",
        schema_extra={"type": "integer", "minimum": 1},
    ),
]
DeleteImages = Annotated[
    str | None,
    QueryParameter(
        description="Whether to delete the album's images too; also requires the scope `images:delete`.",
        schema_extra={"type": "boolean", "default": False},
    ),
]
