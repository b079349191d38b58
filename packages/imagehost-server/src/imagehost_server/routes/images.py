"""Image routes: list, get, update, delete and sign one or many images, and the gallery of public ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import Annotated, cast

from attrs import frozen
from litestar import Response
from litestar.params import JSONBody, PathParameter
from msgspec import UNSET, Raw, UnsetType

from imagehost_core.formats import MAX_QUALITY
from imagehost_core.image_url import DEFAULT_LIFETIME_SECONDS, MAX_LIFETIME_SECONDS
from imagehost_core.lists import LIST_PARAMETERS, MAX_SEARCH, STORED, ImageSort
from imagehost_core.models import (
    BulkResult,
    BulkStatus,
    Deleted,
    Image,
    Scope,
    SignedImageUrl,
    SignedUrl,
)
from imagehost_core.resources import ImageRecord, PublicAlbumRecord, PublicImageRecord
from imagehost_core.services.images import MAX_IMAGES as MAX_BULK_IMAGES
from imagehost_core.transform import (
    FORMAT_NAMES,
    MAX_SIDE,
    Fit,
)
from imagehost_core.uploads import MAX_FILENAME_BYTES
from imagehost_server.http.responses import Success, encode_record, ok, record_of
from imagehost_server.routes.body import KEEPS_PUBLIC, Description, IsPublic, JsonBody, member, set_fields
from imagehost_server.routes.handler import ApiRequest, operation
from imagehost_server.routes.lists import (
    GALLERY_PARAMETERS,
    Cursor,
    Page,
    Pagination,
    PerPage,
    is_short_read,
    list_keywords,
    pagination,
    query,
)

ImageIdPath = Annotated[str, PathParameter(description="The image's id: 16 letters and digits.")]

AlbumFilter = Annotated[str | None, query("List only the images of this album.", type="integer", minimum=1)]

PublicAlbumFilter = Annotated[
    str | None,
    query("List only the public images of this album, which must be public.", type="integer", minimum=1),
]

Search = Annotated[
    str | None,
    query(
        "List only images with all of these words in `filename` or `description`; the last word "
        "also matches the beginning of a word. Case and diacritics do not count.",
        type="string",
        maxLength=MAX_SEARCH,
    ),
]

IsPublicFilter = Annotated[
    str | None, query("List only public images, or only private ones.", type="boolean")
]

FormatFilter = Annotated[
    str | None, query("List only images with this stored format.", type="string", enum=list(STORED))
]

CreatedAfter = Annotated[
    str | None,
    query(
        "List only images that were uploaded after this time, not at it.", type="string", format="date-time"
    ),
]

CreatedBefore = Annotated[
    str | None,
    query(
        "List only images that were uploaded before this time, not at it.", type="string", format="date-time"
    ),
]

Sha256Filter = Annotated[
    str | None,
    query(
        "List only images whose uploaded bytes have this SHA-256, in hexadecimal; `sha256` of a record is "
        "that of the stored bytes.",
        type="string",
        pattern="^[0-9A-Fa-f]{64}$",
    ),
]

Sort = Annotated[
    str | None,
    query(
        "The order; a hyphen in front is for descending.",
        type="string",
        enum=[sort.value for sort in ImageSort],
        default=ImageSort.NEWEST.value,
    ),
]

_side: dict[str, object] = {"type": "integer", "minimum": 1, "maximum": MAX_SIDE}

AlbumReference = Annotated[
    int | str | UnsetType | None,
    member("The album's id; null removes the image from its album.", type=["integer", "null"], minimum=1),
]

Filename = Annotated[
    str,
    member("A new file name; its extension remains that of the stored format.", maxLength=MAX_FILENAME_BYTES),
]

BulkIds = Annotated[
    list[str],
    member(
        "The ids of the images. One that is given twice counts once.", minItems=1, maxItems=MAX_BULK_IMAGES
    ),
]

Width = Annotated[int, member("Width in pixels.", **_side)]

Height = Annotated[int, member("Height in pixels.", **_side)]

Quality = Annotated[
    int,
    member("Compression quality; ignored for PNG and GIF.", type="integer", minimum=1, maximum=MAX_QUALITY),
]

FitMode = Annotated[
    str,
    member(
        "How the image fits width and height, if both are given; by default `cover`.",
        enum=[fit.value for fit in Fit],
    ),
]

OutputFormat = Annotated[
    str, member("Output format; `auto` negotiates by `Accept`.", enum=list(FORMAT_NAMES))
]

Lifetime = Annotated[int, member("Seconds until the URL expires.", minimum=1, maximum=MAX_LIFETIME_SECONDS)]


class ImageChanges(JsonBody, kw_only=True):
    """The body of `PATCH /images/{id}`; omitted members keep their values."""

    album_id: AlbumReference = UNSET
    description: Description | UnsetType = UNSET
    is_public: IsPublic | UnsetType = UNSET
    filename: Filename | UnsetType = UNSET
    images_public: Annotated[bool, member(KEEPS_PUBLIC)] | UnsetType = UNSET


class BulkImageChanges(ImageChanges, kw_only=True):
    """The body of `PATCH /images`; omitted members keep their values."""

    image_ids: BulkIds


class BulkImageIds(JsonBody, kw_only=True):
    """The body of `DELETE /images` and `POST /images/delete`."""

    image_ids: BulkIds


class TransformMembers(JsonBody, kw_only=True):
    """The transform parameters of a signed URL."""

    w: Width | UnsetType = UNSET
    h: Height | UnsetType = UNSET
    q: Quality | UnsetType = UNSET
    fit: FitMode | UnsetType = UNSET
    fm: OutputFormat | UnsetType = UNSET


class SignedUrlRequest(TransformMembers, kw_only=True):
    """The body of `POST /images/{id}/signed-url`: transform parameters, and the lifetime in seconds."""

    expires_in: Lifetime = DEFAULT_LIFETIME_SECONDS


class SignedUrlItem(TransformMembers, kw_only=True):
    """An image and its transform parameters, in the body of `POST /signed-urls`."""

    image_id: Annotated[str, member("The image's id.")]


class SignedUrlsRequest(JsonBody, kw_only=True):
    """The body of `POST /signed-urls`: images with transform parameters, and the lifetime of all URLs."""

    items: Annotated[list[SignedUrlItem], member("The URLs to sign.", minItems=1, maxItems=MAX_BULK_IMAGES)]
    expires_in: Lifetime = DEFAULT_LIFETIME_SECONDS


@frozen(kw_only=True)
class ImageList:
    """A page of an account's images.

    Attributes:
        images: The images of the page.
        pagination: The position of the page.
    """

    images: list[ImageRecord]
    pagination: Pagination


@frozen(kw_only=True)
class PublicImageList:
    """A page of public images, and the album that was named by `album_id`.

    Attributes:
        images: The images of the page.
        pagination: The position of the page.
        album: The album that `album_id` names; absent without one.
    """

    images: list[PublicImageRecord]
    pagination: Pagination
    album: PublicAlbumRecord | UnsetType = UNSET


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
        made_private: True if the image has become private, as it has left a private album; else left out.
    """

    id: str
    status: BulkStatus
    error: ErrorRecord | UnsetType = UNSET
    made_private: bool | UnsetType = UNSET


@frozen(kw_only=True)
class BulkResults:
    """The results of a bulk request, one for each distinct image, in its order.

    Attributes:
        results: The result of each image, in the order of the request.
        made_private_count: Of an update, how many images it made private, as they left a private album.
    """

    results: list[BulkResultRecord]
    made_private_count: int | UnsetType = UNSET


@frozen(kw_only=True)
class SignedUrls:
    """The signed URLs of several items, in their order.

    Attributes:
        items: The URL of each item, in the order of the request.
    """

    items: tuple[SignedImageUrl, ...]


# The core reads the parameters from the URL, repeated ones too; the annotations are for the OpenAPI document.
@operation(
    "GET /v1/images",
    Scope.IMAGES_READ,
    summary="List your images, by default the newest first.",
    errors=(404,),
)
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
    sha256: Sha256Filter = None,  # noqa: ARG001
    sort: Sort = None,  # noqa: ARG001
) -> Response[Success[ImageList]]:
    """Respond with a page of the caller's images."""
    host, parameters = request.host, list(request.query_params.multi_items())
    executor = request.executors.reads if is_short_read(parameters) else request.executors.database
    keywords = list_keywords(parameters, LIST_PARAMETERS)
    images = await executor.run(host.images.list, owner=request.account, **keywords)
    return ok(ImageList(images=image_records(images), pagination=pagination(images)))


@operation("GET /v1/images/{image_id}", Scope.IMAGES_READ, summary="Get one of your images.")
async def get_image(request: ApiRequest, image_id: ImageIdPath) -> Response[Success[ImageRecord]]:
    """Respond with the record."""
    host = request.host
    image = await request.executors.reads.run(host.images.get, image_id, owner=request.account)
    return ok(image_record(image))


@operation(
    "PATCH /v1/images/{image_id}",
    Scope.IMAGES_WRITE,
    summary="Update one of your images; omitted members keep their values.",
)
async def update_image(
    request: ApiRequest, image_id: ImageIdPath, data: JSONBody[ImageChanges]
) -> Response[Success[ImageRecord]]:
    """Respond with the updated record."""
    host, changes = request.host, set_fields(data)
    update = partial(host.images.update, image_id, owner=request.account, **changes)  # type: ignore[arg-type]
    image = await request.executors.database.run(update)
    return ok(ImageRecord.of(image))


@operation(
    "DELETE /v1/images/{image_id}",
    Scope.IMAGES_DELETE,
    summary="Delete one of your images and all its variants permanently.",
)
async def delete_image(request: ApiRequest, image_id: ImageIdPath) -> Response[Success[Deleted]]:
    """Respond once all bytes of the image are deleted."""
    return ok(await request.call(request.host.images.delete, image_id))


@operation(
    "POST /v1/images/{image_id}/signed-url",
    Scope.IMAGES_READ,
    summary="Create a signed URL of an image, which works without a token until it expires.",
)
async def sign_image(
    request: ApiRequest, image_id: ImageIdPath, data: JSONBody[SignedUrlRequest]
) -> Response[Success[SignedUrl]]:
    """Respond with the image URL, which has the parameters `exp` and `sig`."""
    params = set_fields(data)
    expires_in = params.pop("expires_in")
    transform = {name: str(value) for name, value in params.items()}
    signed = request.host.images.signed_url
    return ok(await request.call(signed, image_id, transform, expires_in=expires_in))


@operation(
    "PATCH /v1/images",
    Scope.IMAGES_WRITE,
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
    results = await request.executors.database.run(update)
    request.log(images=_changed(results))
    count = sum(result.made_private for result in results)
    return ok(BulkResults(results=list(map(_record, results)), made_private_count=count))


@operation(
    "DELETE /v1/images",
    Scope.IMAGES_DELETE,
    summary="Delete up to 100 of your images and all their variants permanently.",
)
async def delete_images(request: ApiRequest, data: JSONBody[BulkImageIds]) -> Response[Success[BulkResults]]:
    """Respond with a result for each image: `deleted`, `not_found` or `failed`."""
    return await _delete(request, data)


@operation(
    "POST /v1/images/delete",
    Scope.IMAGES_DELETE,
    summary="The same as `DELETE /images`, for proxies that drop its body.",
)
async def post_delete_images(
    request: ApiRequest, data: JSONBody[BulkImageIds]
) -> Response[Success[BulkResults]]:
    """Respond with a result for each image: `deleted`, `not_found` or `failed`."""
    return await _delete(request, data)


@operation(
    "POST /v1/signed-urls", Scope.IMAGES_READ, summary="Create signed URLs of up to 100 items.", errors=(404,)
)
async def sign_images(
    request: ApiRequest, data: JSONBody[SignedUrlsRequest]
) -> Response[Success[SignedUrls]]:
    """Respond with the image URL of each item, in their order."""
    urls = await request.call(
        request.host.images.signed_urls, list(map(set_fields, data.items)), expires_in=data.expires_in
    )
    return ok(SignedUrls(items=urls))


async def _delete(request: ApiRequest, body: BulkImageIds) -> Response[Success[BulkResults]]:
    results = await request.executors.slow_writes.run(
        request.host.images.delete_many,
        body.image_ids,
        owner=request.account,
        admit=bulk_admission(request),
    )
    request.log(images=_changed(results))
    return ok(BulkResults(results=list(map(_record, results))))


def _changed(results: Iterable[BulkResult]) -> str:
    """Return the ids of the images that a bulk request has changed or deleted, for the access line."""
    return " ".join(result.id for result in results if result.status in ("updated", "deleted"))


def _record(result: BulkResult) -> BulkResultRecord:
    error = UNSET if result.error is None else record_of(ErrorRecord, result.error)
    return BulkResultRecord(
        id=result.id, status=BulkStatus(result.status), error=error, made_private=result.made_private or UNSET
    )


def bulk_admission(request: ApiRequest) -> Callable[[int], None]:
    """Return a function that counts the image ids of a bulk request, or raises RateLimitError.

    The response's rate limit headers then describe this window, if it is tighter than the API's.

    Args:
        request: The request, which is counted as one API request besides.
    """

    def admit(ids: int) -> None:
        request.apply(request.host.rate_limiter.admit_bulk(request.account, ids), request.account.name)

    return admit


# The core reads the parameters from the URL, repeated ones too; the annotations are for the OpenAPI document.
@operation(
    "GET /v1/gallery",
    None,
    summary="List the public images of all accounts, newest first.",
    errors=(401, 404),
)
async def list_gallery(
    request: ApiRequest,
    page: Page = None,  # noqa: ARG001
    per_page: PerPage = None,  # noqa: ARG001
    cursor: Cursor = None,  # noqa: ARG001
    album_id: PublicAlbumFilter = None,  # noqa: ARG001
    q: Search = None,  # noqa: ARG001
) -> Response[Success[PublicImageList]]:
    """Respond with a page of public image records, and the album if one is given.

    An image in a private album is not listed. A setting of the host can require a token.
    """
    if request.settings.gallery.require_sign_in:
        request.identity.require_principal()
    host, parameters = request.host, list(request.query_params.multi_items())
    executor = request.executors.reads if is_short_read(parameters) else request.executors.database
    images = await executor.run(host.gallery, **list_keywords(parameters, GALLERY_PARAMETERS))
    album = UNSET if images.album is None else PublicAlbumRecord.of(images.album)
    records = public_records(images)
    return ok(PublicImageList(images=records, pagination=pagination(images), album=album))


RECORDS_IN_MEMORY = 2_000
"""Encoded records of each kind, per process; each takes about 1 KB."""


def image_record(image: Image) -> ImageRecord:
    """Return the encoded record of an image for its owner, to be passed to `ok` as the record itself."""
    return cast("ImageRecord", Raw(_image_record(image)))


def image_records(images: Iterable[Image]) -> list[ImageRecord]:
    """Return the encoded records of images for their owner, to be passed to `ok` as the list itself."""
    return cast("list[ImageRecord]", _to_array(_image_record(image) for image in images))


def public_records(images: Iterable[Image]) -> list[PublicImageRecord]:
    """Return the encoded records of images for the gallery, likewise."""
    return cast("list[PublicImageRecord]", _to_array(_public_record(image) for image in images))


@lru_cache(RECORDS_IN_MEMORY)
def _image_record(image: Image) -> bytes:
    return encode_record(ImageRecord.of(image))


@lru_cache(RECORDS_IN_MEMORY)
def _public_record(image: Image) -> bytes:
    return encode_record(PublicImageRecord.of(image))


def _to_array(records: Iterable[bytes]) -> Raw:
    return Raw(b"[%b]" % b",".join(records))
