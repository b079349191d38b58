"""Images: listed, shown, changed, deleted, and given signed addresses."""

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
    name="album_id", schema={"type": "integer", "minimum": 1}, summary="Only the images of this album."
)


@operation(
    "GET /v1/images",
    summary="List your images, newest first.",
    query=(*PAGING, ALBUM),
    response={"images": list[ImageRecord], "pagination": Pagination},
)
async def list_images(request: ApiRequest) -> Response[bytes]:
    """Answer a page of the caller's images."""
    host, page, album_id = request.host, request.page_request(), _album(request)
    found = await request.executors.database.run(
        host.images.list, owner=request.account, album_id=album_id, page=page
    )
    return ok(page_response("images", found, host.urls.image_record))


@operation("GET /v1/images/{image_id}", summary="Show one of your images.", response=ImageRecord)
async def get_image(request: ApiRequest, image_id: FromPath[str]) -> Response[bytes]:
    """Answer the record."""
    host = request.host
    image = await request.executors.database.run(host.images.get, image_id, owner=request.account)
    return ok(host.urls.image_record(image))


@operation(
    "PATCH /v1/images/{image_id}",
    summary="Change one of your images; what is left out stays as it is.",
    body=ImageChanges,
    response=ImageRecord,
)
async def update_image(request: ApiRequest, image_id: FromPath[str]) -> Response[bytes]:
    """Answer the changed record."""
    changes = set_fields(await request.json_body(ImageChanges))
    host = request.host
    update = partial(host.images.update, image_id, owner=request.account, **changes)  # type: ignore[arg-type]
    image = await request.executors.database.run(update)
    return ok(host.urls.image_record(image))


@operation(
    "DELETE /v1/images/{image_id}",
    summary="Delete one of your images and all its variants, for good.",
    response={"id": ImageId, "deleted": bool},
)
async def delete_image(request: ApiRequest, image_id: FromPath[str]) -> Response[bytes]:
    """Answer when every byte is gone."""
    gone = await request.executors.database.run(request.host.images.delete, image_id, owner=request.account)
    return ok({"id": gone.id, "deleted": True})


@operation(
    "POST /v1/images/{image_id}/signed-url",
    summary="Make a delivery address that shows an image to whoever holds it, for a while.",
    body=SignedUrlRequest,
    response={"url": str, "expires_at": datetime},
)
async def sign_image(request: ApiRequest, image_id: FromPath[str]) -> Response[bytes]:
    """Answer the address, with `exp` and `sig`."""
    members = set_fields(await request.json_body(SignedUrlRequest))
    lifetime = members.pop("expires_in")
    params = {name: str(value) for name, value in members.items()}
    try:
        url = await request.executors.database.run(
            request.host.images.signed_url,
            image_id,
            params,
            owner=request.account,
            expires_in=lifetime,  # type: ignore[arg-type]
        )
    except BadRequestError as error:
        # The parameters came in a body: contract 2 makes that a matter of data.
        raise ValidationError(error.details, errors=error.errors) from error
    expiry = parse_qs(urlsplit(url).query)["exp"][0]
    return ok({"url": url, "expires_at": datetime.fromtimestamp(int(expiry), UTC)})


ROUTES = (list_images, get_image, update_image, delete_image, sign_image)


def _album(request: ApiRequest) -> AlbumId | None:
    """Return the album that the query names.

    Raises:
        BadRequestError: It cannot be the id of an album (contract 2: *query parameters are wrong*).
    """
    text = request.query_param("album_id")
    if text is None:
        return None
    try:
        return parse_album_id(text)
    except ValidationError as error:
        raise BadRequestError(errors=error.errors) from None
