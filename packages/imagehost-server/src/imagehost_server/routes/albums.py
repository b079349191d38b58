"""Albums: made, listed, changed, filled and deleted."""

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
from imagehost_core.uploads.options import BOOLEANS
from imagehost_server.api.idempotency import fingerprint, run_idempotent
from imagehost_server.api.operation import PAGING, Parameter, operation
from imagehost_server.api.pagination import Pagination, page_response
from imagehost_server.api.request import ApiRequest, ok, to_litestar
from imagehost_server.api.schemas import AlbumChanges, AlbumMembers, NewAlbum, set_fields
from imagehost_server.http.responses import RawResponse, success

ChangeMembers = Callable[..., tuple[Album, tuple[MembershipResult, ...]]]


@frozen
class DeletedAlbum:
    """What is said of an album that is gone."""

    id: int
    deleted: bool = True


@operation(
    "POST /v1/albums",
    summary="Make an album.",
    body=NewAlbum,
    response=AlbumRecord,
    status=201,
    idempotent=True,
)
async def create_album(request: ApiRequest) -> Response[bytes]:
    """Answer 201 with the record, and its address in `Location`."""
    wanted = await request.json_body(NewAlbum)
    key = request.idempotency_key
    return to_litestar(
        await request.executors.database.run(_create, request.host, request.account, wanted, key)
    )


def _create(host: ImageHost, account: Account, wanted: NewAlbum, key: str | None) -> RawResponse:
    def act(claim: IdempotentRequest | None) -> RawResponse:
        album = host.albums.create(
            owner=account,
            name=wanted.name,
            description=wanted.description,
            is_public=wanted.is_public,
            idempotency=None if claim is None else claim.sub_operation(0),
        )
        return success(host.urls.album_record(album), 201)

    reply = run_idempotent(host, account, key, fingerprint("albums", wanted), act)
    number = json.decode(reply.body)["data"]["id"]
    location = f"{host.urls.base_url}/albums/{number}"
    return evolve(reply, headers=(*reply.headers, ("location", location)))


@operation(
    "GET /v1/albums",
    summary="List your albums, newest first.",
    query=PAGING,
    response={"albums": list[AlbumRecord], "pagination": Pagination},
)
async def list_albums(request: ApiRequest) -> Response[bytes]:
    """Answer a page of the caller's albums."""
    host, page = request.host, request.page_request()
    found = await request.executors.database.run(host.albums.list, owner=request.account, page=page)
    return ok(page_response("albums", found, host.urls.album_record))


@operation("GET /v1/albums/{album_id}", summary="Show an album.", response=AlbumRecord)
async def get_album(request: ApiRequest, album_id: FromPath[str]) -> Response[bytes]:
    """Answer the record."""
    host = request.host
    album = await request.executors.database.run(host.albums.get, album_id, owner=request.account)
    return ok(host.urls.album_record(album))


@operation(
    "PATCH /v1/albums/{album_id}",
    summary="Change an album's name, description or visibility.",
    body=AlbumChanges,
    response=AlbumRecord,
)
async def update_album(request: ApiRequest, album_id: FromPath[str]) -> Response[bytes]:
    """Answer the record as it is now."""
    host, changes = request.host, set_fields(await request.json_body(AlbumChanges))
    update = host.albums.update
    album = await request.executors.database.run(update, album_id, owner=request.account, **changes)  # type: ignore[arg-type]
    return ok(host.urls.album_record(album))


@operation(
    "DELETE /v1/albums/{album_id}",
    summary="Delete an album. Its images stay, unless they are to go too.",
    query=(
        Parameter(
            name="delete_images",
            schema={"type": "boolean", "default": False},
            summary="Its images too, for good; needs the scope `images:delete` as well.",
        ),
    ),
    response=DeletedAlbum,
)
async def delete_album(request: ApiRequest, album_id: FromPath[str]) -> Response[bytes]:
    """Answer what is gone. What deletes images needs the scope for that as well."""
    with_images = _boolean("delete_images", request.query_param("delete_images"))
    if with_images:
        require_scope(request.auth, Scope.IMAGES_DELETE)
    album = await request.executors.database.run(request.host.albums.get, album_id, owner=request.account)
    delete = request.host.albums.delete
    await request.executors.upload_bodies.run(
        delete, album.id, owner=request.account, delete_images=with_images
    )
    return ok(DeletedAlbum(id=album.id))


@operation(
    "PUT /v1/albums/{album_id}/images",
    summary="Put images into an album.",
    body=AlbumMembers,
    response={"results": list[MembershipResult], "album": AlbumRecord},
)
async def add_images(request: ApiRequest, album_id: FromPath[str]) -> Response[bytes]:
    """Answer what came of each image, and the album."""
    return await _change_members(request, request.host.albums.add_images, album_id)


@operation(
    "DELETE /v1/albums/{album_id}/images",
    summary="Take images out of an album; they stay, in no album.",
    body=AlbumMembers,
    response={"results": list[MembershipResult], "album": AlbumRecord},
)
async def remove_images(request: ApiRequest, album_id: FromPath[str]) -> Response[bytes]:
    """Answer what came of each image, and the album."""
    return await _change_members(request, request.host.albums.remove_images, album_id)


async def _change_members(request: ApiRequest, change: ChangeMembers, album_id: str) -> Response[bytes]:
    wanted = await request.json_body(AlbumMembers)
    album, results = await request.executors.database.run(
        change, album_id, wanted.image_ids, owner=request.account
    )
    return ok({"results": results, "album": request.host.urls.album_record(album)})


def _boolean(name: str, text: str | None) -> bool:
    """Return a query parameter that is true or false.

    Raises:
        BadRequestError: It is neither.
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
