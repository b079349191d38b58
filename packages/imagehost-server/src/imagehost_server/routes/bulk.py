"""Bulk routes: change, delete or sign many images in one request."""

from __future__ import annotations

from datetime import datetime
from functools import partial

from attrs import frozen
from litestar import Response
from litestar.params import JSONBody
from msgspec import UNSET, UnsetType

from imagehost_core import BulkResult, BulkStatus
from imagehost_core.ids import ImageId
from imagehost_server.api.body import set_fields
from imagehost_server.api.envelope import Success, ok
from imagehost_server.api.operation import operation
from imagehost_server.api.request import ApiRequest
from imagehost_server.api.schemas import BulkImageChanges, BulkImageIds, SignedUrlsRequest
from imagehost_server.api.throttle import bulk_admission
from imagehost_server.http.responses import error_dict
from imagehost_server.routes.images import expiry_of


@frozen(kw_only=True)
class ErrorRecord:
    """The error of one image of a bulk request.

    Attributes:
        code: The error code.
        message: A short summary.
        details: *expected … but received …* for every error.
    """

    code: str
    message: str
    details: str


@frozen(kw_only=True)
class BulkResultRecord:
    """The result of one image of a bulk request; `error` is left out where there is none.

    Attributes:
        id: The id of the image, as in the request.
        status: The result.
        error: Why the image was not found, or was not deleted completely yet.
    """

    id: str
    status: BulkStatus
    error: ErrorRecord | UnsetType = UNSET


@frozen(kw_only=True)
class BulkResults:
    """The results of a bulk request, one for each distinct image, in its order.

    Attributes:
        results: The result of each image, in the order of the request.
    """

    results: list[BulkResultRecord]


@frozen(kw_only=True)
class SignedUrlRecord:
    """An image URL with the parameters `exp` and `sig`, its image, and when it expires.

    Attributes:
        image_id: The id of the image, as in the request.
        url: The URL, with the parameters `exp` and `sig`.
        expires_at: When the URL expires.
    """

    image_id: ImageId
    url: str
    expires_at: datetime


@frozen(kw_only=True)
class SignedUrls:
    """The signed URLs of several items, in their order.

    Attributes:
        items: The URL of each item, in the order of the request.
    """

    items: list[SignedUrlRecord]


@operation(
    "PATCH /v1/images",
    summary="Update up to 100 of your images in the same way; omitted members keep their values.",
)
async def update_images(
    request: ApiRequest, data: JSONBody[BulkImageChanges]
) -> Response[Success[BulkResults]]:
    """Respond with a result for each image: `updated`, `unchanged` or `not_found`."""
    changes = set_fields(data)
    image_ids = changes.pop("image_ids")
    update = partial(
        request.host.images.update_many,
        image_ids,  # type: ignore[arg-type]
        owner=request.account,
        admit=bulk_admission(request),
        **changes,  # type: ignore[arg-type]
    )
    return _results(await request.executors.database.run(update))


@operation("DELETE /v1/images", summary="Delete up to 100 of your images and all their variants permanently.")
async def delete_images(request: ApiRequest, data: JSONBody[BulkImageIds]) -> Response[Success[BulkResults]]:
    """Respond with a result for each image: `deleted`, `not_found` or `failed`."""
    return await _delete(request, data)


@operation("POST /v1/images/delete", summary="The same as `DELETE /images`, for proxies that drop its body.")
async def post_delete_images(
    request: ApiRequest, data: JSONBody[BulkImageIds]
) -> Response[Success[BulkResults]]:
    """Respond with a result for each image: `deleted`, `not_found` or `failed`."""
    return await _delete(request, data)


@operation("POST /v1/signed-urls", summary="Create signed URLs of up to 100 items.", errors=(404,))
async def sign_images(
    request: ApiRequest, data: JSONBody[SignedUrlsRequest]
) -> Response[Success[SignedUrls]]:
    """Respond with the image URL of each item, in their order."""
    urls = await request.executors.database.run(
        request.host.images.signed_urls,
        list(map(set_fields, data.items)),
        owner=request.account,
        expires_in=data.expires_in,
    )
    return ok(
        SignedUrls(
            items=[
                SignedUrlRecord(image_id=ImageId(item.image_id), url=url, expires_at=expiry_of(url))
                for item, url in zip(data.items, urls, strict=True)
            ]
        )
    )


async def _delete(request: ApiRequest, body: BulkImageIds) -> Response[Success[BulkResults]]:
    results = await request.executors.upload_bodies.run(
        request.host.images.delete_many,
        body.image_ids,
        owner=request.account,
        admit=bulk_admission(request),
    )
    return _results(results)


def _results(results: tuple[BulkResult, ...]) -> Response[Success[BulkResults]]:
    return ok(BulkResults(results=list(map(_record, results))))


def _record(result: BulkResult) -> BulkResultRecord:
    error = UNSET if result.error is None else ErrorRecord(**error_dict(result.error))
    return BulkResultRecord(id=result.id, status=result.status, error=error)


ROUTES = (update_images, delete_images, post_delete_images, sign_images)
