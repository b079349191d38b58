"""Album routes: create, list, get, update, delete, and the images of an album."""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve, frozen
from litestar import Response
from litestar.params import FromPath
from msgspec import json

from imagehost_core import ImageHost
from imagehost_core.errors import BadRequestError, FieldError, quote_value
from imagehost_core.models import Account, Album, Scope
from imagehost_core.resources import AlbumRecord
from imagehost_core.services import IdempotentRequest, MembershipResult
from imagehost_core.tokens import require_scope
from imagehost_core.uploads import BOOLEANS
from imagehost_server.api.idempotency import fingerprint, run_idempotent
from imagehost_server.api.operation import PAGING, Parameter, operation
from imagehost_server.api.pagination import Pagination, page_response
from imagehost_server.api.request import ApiRequest, ok, to_litestar
from imagehost_server.api.schemas import AlbumChanges, AlbumMembers, NewAlbum, set_fields
from imagehost_server.http.responses import RawResponse, success_response

ChangeMembers = Callable[..., tuple[Album, tuple[MembershipResult, ...]]]


@frozen
class DeletedAlbum:
    """The id of a deleted album."""

    id: int
    deleted: bool = True


@operation(
    "POST /v1/albums",
    summary="Create an album.",
    body=NewAlbum,
    response=AlbumRecord,
    status=201,
    idempotent=True,
)
async def create_album(request: ApiRequest) -> Response[bytes]:
    """Respond with 201, the record, and the album's URL in `Location`."""
    body = await request.json_body(NewAlbum)
    response = await request.executors.database.run(
        _create_album, request.host, request.account, body, request.idempotency_key
    )
    return to_litestar(response)


def _create_album(host: ImageHost, account: Account, body: NewAlbum, key: str | None) -> RawResponse:
    def create(idempotent: IdempotentRequest | None) -> RawResponse:
        album = host.albums.create(
            owner=account,
            name=body.name,
            description=body.description,
            is_public=body.is_public,
            idempotency=None if idempotent is None else idempotent.sub_operation(0),
        )
        return success_response(host.urls.album_record(album), 201)

    response = run_idempotent(host, account, key, fingerprint("albums", body), create)
    # From the body, since a replayed response is stored without headers.
    album_id = json.decode(response.body)["data"]["id"]
    location = f"{host.urls.base_url}/albums/{album_id}"
    return evolve(response, headers=(*response.headers, ("location", location)))


@operation(
    "GET /v1/albums",
    summary="List your albums, newest first.",
    query=PAGING,
    response={"albums": list[AlbumRecord], "pagination": Pagination},
)
async def list_albums(request: ApiRequest) -> Response[bytes]:
    """Respond with a page of the caller's albums."""
    host = request.host
    page = await request.executors.database.run(
        host.albums.list, owner=request.account, page=request.page_request()
    )
    return ok(page_response("albums", page, host.urls.album_record))


@operation("GET /v1/albums/{album_id}", summary="Get an album.", response=AlbumRecord)
async def get_album(request: ApiRequest, album_id: FromPath[str]) -> Response[bytes]:
    """Respond with the record."""
    host = request.host
    album = await request.executors.database.run(host.albums.get, album_id, owner=request.account)
    return ok(host.urls.album_record(album))


@operation(
    "PATCH /v1/albums/{album_id}",
    summary="Update an album's name, description or visibility; omitted members keep their values.",
    body=AlbumChanges,
    response=AlbumRecord,
)
async def update_album(request: ApiRequest, album_id: FromPath[str]) -> Response[bytes]:
    """Respond with the updated record."""
    host, changes = request.host, set_fields(await request.json_body(AlbumChanges))
    album = await request.executors.database.run(
        host.albums.update,
        album_id,
        owner=request.account,
        **changes,  # type: ignore[arg-type]
    )
    return ok(host.urls.album_record(album))


@operation(
    "DELETE /v1/albums/{album_id}",
    summary="Delete an album, and its images on request.",
    query=(
        Parameter(
            name="delete_images",
            schema={"type": "boolean", "default": False},
            summary="Whether to delete its images too; also requires the scope `images:delete`.",
        ),
    ),
    response=DeletedAlbum,
)
async def delete_album(request: ApiRequest, album_id: FromPath[str]) -> Response[bytes]:
    """Respond with the id of the deleted album."""
    delete_images = _parse_boolean("delete_images", request.query_param("delete_images"))
    if delete_images:
        require_scope(request.auth, Scope.IMAGES_DELETE)
    albums, owner = request.host.albums, request.account
    album = await request.executors.database.run(albums.get, album_id, owner=owner)
    await request.executors.upload_bodies.run(
        albums.delete, album.id, owner=owner, delete_images=delete_images
    )
    return ok(DeletedAlbum(id=album.id))


@operation(
    "PUT /v1/albums/{album_id}/images",
    summary="Add images to an album.",
    body=AlbumMembers,
    response={"results": list[MembershipResult], "album": AlbumRecord},
)
async def add_images(request: ApiRequest, album_id: FromPath[str]) -> Response[bytes]:
    """Respond with the result of each image, and the album."""
    return await _change_members(request, request.host.albums.add_images, album_id)


@operation(
    "DELETE /v1/albums/{album_id}/images",
    summary="Remove images from an album, without deleting them.",
    body=AlbumMembers,
    response={"results": list[MembershipResult], "album": AlbumRecord},
)
async def remove_images(request: ApiRequest, album_id: FromPath[str]) -> Response[bytes]:
    """Respond with the result of each image, and the album."""
    return await _change_members(request, request.host.albums.remove_images, album_id)


async def _change_members(request: ApiRequest, change: ChangeMembers, album_id: str) -> Response[bytes]:
    body = await request.json_body(AlbumMembers)
    album, results = await request.executors.database.run(
        change, album_id, body.image_ids, owner=request.account
    )
    return ok({"results": results, "album": request.host.urls.album_record(album)})


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
