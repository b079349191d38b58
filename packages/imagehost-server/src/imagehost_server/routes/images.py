"""Image routes: list, get, update, delete, and signed URLs."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from urllib.parse import parse_qs, urlsplit

from litestar import Response
from litestar.params import FromPath

from imagehost_core.errors import BadRequestError, ValidationError
from imagehost_core.ids import AlbumId, ImageId, parse_album_id
from imagehost_core.resources import ImageRecord
from imagehost_server.api.operation import PAGING, Parameter, operation
from imagehost_server.api.pagination import Pagination, page_response
from imagehost_server.api.request import ApiRequest, ok
from imagehost_server.api.schemas import ImageChanges, SignedUrlRequest, set_fields

ALBUM = Parameter(
    name="album_id", schema={"type": "integer", "minimum": 1}, summary="List only the images of this album."
)


@operation(
    "GET /v1/images",
    summary="List your images, newest first.",
    query=(*PAGING, ALBUM),
    response={"images": list[ImageRecord], "pagination": Pagination},
)
async def list_images(request: ApiRequest) -> Response[bytes]:
    """Respond with a page of the caller's images."""
    host, page_request, album_id = request.host, request.page_request(), _album_id(request)
    page = await request.executors.database.run(
        host.images.list, owner=request.account, album_id=album_id, page=page_request
    )
    return ok(page_response("images", page, host.urls.image_record))


@operation("GET /v1/images/{image_id}", summary="Get one of your images.", response=ImageRecord)
async def get_image(request: ApiRequest, image_id: FromPath[str]) -> Response[bytes]:
    """Respond with the record."""
    host = request.host
    image = await request.executors.database.run(host.images.get, image_id, owner=request.account)
    return ok(host.urls.image_record(image))


@operation(
    "PATCH /v1/images/{image_id}",
    summary="Update one of your images; omitted members keep their values.",
    body=ImageChanges,
    response=ImageRecord,
)
async def update_image(request: ApiRequest, image_id: FromPath[str]) -> Response[bytes]:
    """Respond with the updated record."""
    changes = set_fields(await request.json_body(ImageChanges))
    host = request.host
    update = partial(host.images.update, image_id, owner=request.account, **changes)  # type: ignore[arg-type]
    image = await request.executors.database.run(update)
    return ok(host.urls.image_record(image))


@operation(
    "DELETE /v1/images/{image_id}",
    summary="Delete one of your images and all its variants permanently.",
    response={"id": ImageId, "deleted": bool},
)
async def delete_image(request: ApiRequest, image_id: FromPath[str]) -> Response[bytes]:
    """Respond once all bytes of the image are deleted."""
    image = await request.executors.database.run(request.host.images.delete, image_id, owner=request.account)
    return ok({"id": image.id, "deleted": True})


@operation(
    "POST /v1/images/{image_id}/signed-url",
    summary="Create a signed URL of an image, which works without a token until it expires.",
    body=SignedUrlRequest,
    response={"url": str, "expires_at": datetime},
)
async def sign_image(request: ApiRequest, image_id: FromPath[str]) -> Response[bytes]:
    """Respond with the image URL, which has the parameters `exp` and `sig`."""
    params = set_fields(await request.json_body(SignedUrlRequest))
    expires_in = params.pop("expires_in")
    transform = {name: str(value) for name, value in params.items()}
    try:
        url = await request.executors.database.run(
            request.host.images.signed_url,
            image_id,
            transform,
            owner=request.account,
            expires_in=expires_in,  # type: ignore[arg-type]
        )
    except BadRequestError as error:
        # In a body, a parameter that is not allowed is 422; in a URL it is 400.
        raise ValidationError(error.details, errors=error.errors) from error
    expires_at = datetime.fromtimestamp(int(parse_qs(urlsplit(url).query)["exp"][0]), UTC)
    return ok({"url": url, "expires_at": expires_at})


ROUTES = (list_images, get_image, update_image, delete_image, sign_image)


def _album_id(request: ApiRequest) -> AlbumId | None:
    """Return the query parameter `album_id`, or `None`.

    Raises:
        BadRequestError: It is not an album id.
    """
    text = request.query_param("album_id")
    if text is None:
        return None
    try:
        return parse_album_id(text)
    except ValidationError as error:
        raise BadRequestError(errors=error.errors) from None
