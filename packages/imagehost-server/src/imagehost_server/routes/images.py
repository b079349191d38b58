"""Image routes: list, get, update, delete, and signed URLs."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from urllib.parse import parse_qs, urlsplit

from attrs import frozen
from litestar import Response
from litestar.params import JSONBody

from imagehost_core.ids import ImageId
from imagehost_core.resources import ImageRecord
from imagehost_server.api.body import set_fields
from imagehost_server.api.envelope import Success, ok
from imagehost_server.api.operation import operation
from imagehost_server.api.pagination import ImageList, is_short_read, pagination
from imagehost_server.api.parameters import (
    AlbumFilter,
    CreatedAfter,
    CreatedBefore,
    Cursor,
    FormatFilter,
    ImageIdPath,
    IsPublicFilter,
    Page,
    PerPage,
    Search,
    Sort,
)
from imagehost_server.api.records import image_record, image_records
from imagehost_server.api.request import ApiRequest
from imagehost_server.api.schemas import ImageChanges, SignedUrlRequest


@frozen
class DeletedImage:
    """The id of a deleted image.

    Attributes:
        id: Identifier.
        deleted: Always true.
    """

    id: ImageId
    deleted: bool


@frozen(kw_only=True)
class SignedUrl:
    """An image URL with the parameters `exp` and `sig`, and when it expires.

    Attributes:
        url: The URL, with the parameters `exp` and `sig`.
        expires_at: When the URL expires.
    """

    url: str
    expires_at: datetime


# The core reads the parameters from the URL, repeated ones too; the annotations are for the OpenAPI document.
@operation("GET /v1/images", summary="List your images, by default the newest first.", errors=(404,))
async def list_images(
    request: ApiRequest,
    page: Page = None,  # noqa: ARG001
    per_page: PerPage = None,  # noqa: ARG001
    cursor: Cursor = None,  # noqa: ARG001
    album_id: AlbumFilter = None,  # noqa: ARG001
    q: Search = None,  # noqa: ARG001
    is_public: IsPublicFilter = None,  # noqa: ARG001
    format: FormatFilter = None,  # noqa: A002, ARG001
    created_after: CreatedAfter = None,  # noqa: ARG001
    created_before: CreatedBefore = None,  # noqa: ARG001
    sort: Sort = None,  # noqa: ARG001
) -> Response[Success[ImageList]]:
    """Respond with a page of the caller's images."""
    host, parameters = request.host, list(request.query_params.multi_items())
    executor = request.executors.reads if is_short_read(parameters) else request.executors.database
    images = await executor.run(host.images.list_by_parameters, parameters, owner=request.account)
    return ok(ImageList(images=image_records(host.urls, images), pagination=pagination(images)))


@operation("GET /v1/images/{image_id}", summary="Get one of your images.")
async def get_image(request: ApiRequest, image_id: ImageIdPath) -> Response[Success[ImageRecord]]:
    """Respond with the record."""
    host = request.host
    image = await request.executors.reads.run(host.images.get, image_id, owner=request.account)
    return ok(image_record(host.urls, image))


@operation(
    "PATCH /v1/images/{image_id}", summary="Update one of your images; omitted members keep their values."
)
async def update_image(
    request: ApiRequest, image_id: ImageIdPath, data: JSONBody[ImageChanges]
) -> Response[Success[ImageRecord]]:
    """Respond with the updated record."""
    host, changes = request.host, set_fields(data)
    update = partial(host.images.update, image_id, owner=request.account, **changes)  # type: ignore[arg-type]
    image = await request.executors.database.run(update)
    return ok(host.urls.image_record(image))


@operation(
    "DELETE /v1/images/{image_id}", summary="Delete one of your images and all its variants permanently."
)
async def delete_image(request: ApiRequest, image_id: ImageIdPath) -> Response[Success[DeletedImage]]:
    """Respond once all bytes of the image are deleted."""
    image = await request.executors.database.run(request.host.images.delete, image_id, owner=request.account)
    return ok(DeletedImage(image.id, deleted=True))


@operation(
    "POST /v1/images/{image_id}/signed-url",
    summary="Create a signed URL of an image, which works without a token until it expires.",
)
async def sign_image(
    request: ApiRequest, image_id: ImageIdPath, data: JSONBody[SignedUrlRequest]
) -> Response[Success[SignedUrl]]:
    """Respond with the image URL, which has the parameters `exp` and `sig`."""
    params = set_fields(data)
    expires_in = params.pop("expires_in")
    transform = {name: str(value) for name, value in params.items()}
    url = await request.executors.database.run(
        request.host.images.signed_url,
        image_id,
        transform,
        owner=request.account,
        expires_in=expires_in,  # type: ignore[arg-type]
    )
    return ok(SignedUrl(url=url, expires_at=expiry_of(url)))


def expiry_of(url: str) -> datetime:
    """Return the time at which a signed URL expires."""
    return datetime.fromtimestamp(int(parse_qs(urlsplit(url).query)["exp"][0]), UTC)


ROUTES = (list_images, get_image, update_image, delete_image, sign_image)
