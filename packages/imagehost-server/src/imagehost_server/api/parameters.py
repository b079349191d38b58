"""Path and query parameters as annotations of handlers.

The core parses query parameters, since it has the rules and the texts of errors. So handlers receive them as
text, and the schemas here are for the OpenAPI document.
"""

from __future__ import annotations

from typing import Annotated

from litestar.params import PathParameter, QueryParameter

from imagehost_core.lists import DEFAULT_PER_PAGE, MAX_PAGE, MAX_PER_PAGE, MAX_SEARCH, STORED, ImageSort
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
        "items while others are added or deleted. With other filters or another order it is rejected.",
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
PublicAlbumFilter = Annotated[
    str | None,
    QueryParameter(
        description="List only the public images of this album, which must be public.",
        schema_extra={"type": "integer", "minimum": 1},
    ),
]
Search = Annotated[
    str | None,
    QueryParameter(
        description="List only images with all of these words in `filename` or `description`; the last word "
        "also matches the beginning of a word. Case and diacritics do not count.",
        schema_extra={"type": "string", "maxLength": MAX_SEARCH},
    ),
]
IsPublicFilter = Annotated[
    str | None,
    QueryParameter(
        description="List only public images, or only private ones.",
        schema_extra={"type": "boolean"},
    ),
]
FormatFilter = Annotated[
    str | None,
    QueryParameter(
        description="List only images with this stored format.",
        schema_extra={"type": "string", "enum": list(STORED)},
    ),
]
CreatedAfter = Annotated[
    str | None,
    QueryParameter(
        description="List only images that were uploaded after this time, not at it.",
        schema_extra={"type": "string", "format": "date-time"},
    ),
]
CreatedBefore = Annotated[
    str | None,
    QueryParameter(
        description="List only images that were uploaded before this time, not at it.",
        schema_extra={"type": "string", "format": "date-time"},
    ),
]
Sort = Annotated[
    str | None,
    QueryParameter(
        description="The order; a hyphen in front is for descending.",
        schema_extra={
            "type": "string",
            "enum": [sort.value for sort in ImageSort],
            "default": ImageSort.NEWEST.value,
        },
    ),
]
DeleteImages = Annotated[
    str | None,
    QueryParameter(
        description="Whether to delete the album's images too; also requires the scope `images:delete`.",
        schema_extra={"type": "boolean", "default": False},
    ),
]
