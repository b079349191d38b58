"""Album routes: create, list, get, update, delete, and the images of an album."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from attrs import evolve, frozen
from litestar import Response
from litestar.params import JSONBody, PathParameter, QueryParameter
from msgspec import UNSET, UnsetType, json

from imagehost_core import ImageHost
from imagehost_core.authorization import authorize
from imagehost_core.errors import BadRequestError, ErrorCollector, FieldError, quote_value
from imagehost_core.ids import AlbumId
from imagehost_core.models import Account, Album, Scope
from imagehost_core.resources import AlbumRecord
from imagehost_core.services.albums import MAX_ALBUM_NAME, MAX_IMAGES_PER_REQUEST, MembershipResult
from imagehost_core.services.idempotency import IdempotentRequest
from imagehost_core.services.references import parse_image_ids
from imagehost_core.uploads import BOOLEANS
from imagehost_server.http.responses import RawResponse, Success, envelope, ok, success_response
from imagehost_server.routes.body import Description, IsPublic, JsonBody, member, set_fields
from imagehost_server.routes.handler import ApiRequest, operation
from imagehost_server.routes.idempotency import fingerprint, run_idempotent
from imagehost_server.routes.lists import Cursor, Page, Pagination, PerPage, pagination

AlbumIdPath = Annotated[str, PathParameter(description="The album's id: a positive integer.")]

DeleteImages = Annotated[
    str | None,
    QueryParameter(
        description="Whether to delete the album's images too; also requires the scope `images:delete`.",
        schema_extra={"type": "boolean", "default": False},
    ),
]

AlbumName = Annotated[str, member("1–100 characters, after trimming.", minLength=1, maxLength=MAX_ALBUM_NAME)]

ImageIds = Annotated[list[str], member("The ids of the images.", minItems=1, maxItems=MAX_IMAGES_PER_REQUEST)]


class NewAlbum(JsonBody, kw_only=True):
    """The body of `POST /albums`."""

    name: AlbumName
    description: Description = ""
    is_public: IsPublic = True

    @staticmethod
    def check(members: Mapping[str, Any], host: ImageHost, _owner: Account) -> None:
        """Raise the errors of the values."""
        host.albums.validate(members)


class AlbumChanges(JsonBody, kw_only=True):
    """The body of `PATCH /albums/{id}`; omitted members keep their values."""

    name: AlbumName | UnsetType = UNSET
    description: Description | UnsetType = UNSET
    is_public: IsPublic | UnsetType = UNSET

    @staticmethod
    def check(members: Mapping[str, Any], host: ImageHost, _owner: Account) -> None:
        """Raise the errors of the values."""
        host.albums.validate(members)


class AlbumMembers(JsonBody, kw_only=True):
    """The body of `PUT|DELETE /albums/{id}/images`."""

    image_ids: ImageIds

    @staticmethod
    def check(members: Mapping[str, Any], _host: ImageHost, _owner: Account) -> None:
        """Raise the errors of the ids."""
        if "image_ids" in members:
            parse_image_ids(members["image_ids"], MAX_IMAGES_PER_REQUEST)


@frozen(kw_only=True)
class AlbumList:
    """A page of an account's albums.

    Attributes:
        albums: The albums of the page.
        pagination: The position of the page.
    """

    albums: list[AlbumRecord]
    pagination: Pagination


ChangeMembers = Callable[..., tuple[Album, tuple[MembershipResult, ...]]]


@frozen
class DeletedAlbum:
    """The id of a deleted album.

    Attributes:
        id: Identifier.
        deleted: Always true.
    """

    id: AlbumId
    deleted: bool


@frozen(kw_only=True)
class MembershipResults:
    """The results of a membership request, in its order, and the album after it.

    Attributes:
        results: The result of each image, in the order of the request.
        album: The album after the change.
    """

    results: list[MembershipResult]
    album: AlbumRecord


@operation("POST /v1/albums", Scope.ALBUMS_WRITE, summary="Create an album.", status=201, idempotent=True)
async def create_album(request: ApiRequest, data: JSONBody[NewAlbum]) -> Response[Success[AlbumRecord]]:
    """Respond with 201, the record, and the album's URL in `Location`."""
    host = request.host

    async def create(idempotent: IdempotentRequest | None) -> RawResponse:
        album = await request.executors.database.run(
            host.albums.create,
            owner=request.account,
            name=data.name,
            description=data.description,
            is_public=data.is_public,
            idempotency=None if idempotent is None else idempotent.sub_operation(0),
        )
        return success_response(AlbumRecord.of(album), 201)

    response = await run_idempotent(request, fingerprint("albums", data), create)
    # From the body, since a replayed response is stored without headers.
    album_id = json.decode(response.body)["data"]["id"]
    location = f"{host.urls.base_url}/albums/{album_id}"
    return envelope(evolve(response, headers=(*response.headers, ("location", location))))


@operation("GET /v1/albums", Scope.ALBUMS_READ, summary="List your albums, newest first.")
async def list_albums(
    request: ApiRequest, page: Page = None, per_page: PerPage = None, cursor: Cursor = None
) -> Response[Success[AlbumList]]:
    """Respond with a page of the caller's albums."""
    host = request.host
    albums = await request.executors.database.run(
        host.albums.list, owner=request.account, page=page, per_page=per_page, cursor=cursor
    )
    return ok(AlbumList(albums=list(map(AlbumRecord.of, albums)), pagination=pagination(albums)))


@operation("GET /v1/albums/{album_id}", Scope.ALBUMS_READ, summary="Get an album.")
async def get_album(request: ApiRequest, album_id: AlbumIdPath) -> Response[Success[AlbumRecord]]:
    """Respond with the record."""
    host = request.host
    album = await request.executors.database.run(host.albums.get, album_id, owner=request.account)
    return ok(AlbumRecord.of(album))


@operation(
    "PATCH /v1/albums/{album_id}",
    Scope.ALBUMS_WRITE,
    summary="Update an album's name, description or visibility; omitted members keep their values.",
)
async def update_album(
    request: ApiRequest, album_id: AlbumIdPath, data: JSONBody[AlbumChanges]
) -> Response[Success[AlbumRecord]]:
    """Respond with the updated record."""
    host, changes = request.host, set_fields(data)
    album = await request.executors.database.run(
        host.albums.update,
        album_id,
        owner=request.account,
        **changes,  # type: ignore[arg-type]
    )
    return ok(AlbumRecord.of(album))


@operation(
    "DELETE /v1/albums/{album_id}", Scope.ALBUMS_WRITE, summary="Delete an album, and its images on request."
)
async def delete_album(
    request: ApiRequest, album_id: AlbumIdPath, delete_images: DeleteImages = None
) -> Response[Success[DeletedAlbum]]:
    """Respond with the id of the deleted album."""
    albums, owner, errors = request.host.albums, request.account, ErrorCollector()
    with errors.catch():
        with_images = _parse_boolean("delete_images", delete_images)
        if with_images:
            owner = authorize(request.auth, Scope.ALBUMS_WRITE, Scope.IMAGES_DELETE)
    with errors.catch():
        album = await request.executors.database.run(albums.get, album_id, owner=owner)
    errors.raise_if_any()
    await request.executors.slow_writes.run(albums.delete, album.id, owner=owner, delete_images=with_images)
    return ok(DeletedAlbum(id=album.id, deleted=True))


@operation("PUT /v1/albums/{album_id}/images", Scope.ALBUMS_WRITE, summary="Add images to an album.")
async def add_images(
    request: ApiRequest, album_id: AlbumIdPath, data: JSONBody[AlbumMembers]
) -> Response[Success[MembershipResults]]:
    """Respond with the result of each image, and the album."""
    return await _change_members(request, request.host.albums.add_images, album_id, data)


@operation(
    "DELETE /v1/albums/{album_id}/images",
    Scope.ALBUMS_WRITE,
    summary="Remove images from an album, without deleting them.",
)
async def remove_images(
    request: ApiRequest, album_id: AlbumIdPath, data: JSONBody[AlbumMembers]
) -> Response[Success[MembershipResults]]:
    """Respond with the result of each image, and the album."""
    return await _change_members(request, request.host.albums.remove_images, album_id, data)


async def _change_members(
    request: ApiRequest, change: ChangeMembers, album_id: str, members: AlbumMembers
) -> Response[Success[MembershipResults]]:
    album, results = await request.executors.database.run(
        change, album_id, members.image_ids, owner=request.account
    )
    record = AlbumRecord.of(album)
    return ok(MembershipResults(results=list(results), album=record))


def _parse_boolean(name: str, text: str | None) -> bool:
    """Return the value of a boolean query parameter; absent is false.

    Raises:
        BadRequestError: The text is none of true, false, 1 and 0.
    """
    if text is not None and text.lower() not in BOOLEANS:
        raise BadRequestError(errors=[FieldError(name, f"one of {', '.join(BOOLEANS)}", quote_value(text))])
    return text is not None and BOOLEANS[text.lower()]


ROUTES = (
    create_album,
    list_albums,
    get_album,
    update_album,
    delete_album,
    add_images,
    remove_images,
)
