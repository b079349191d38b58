"""Albums: made and listed."""

from __future__ import annotations

from litestar import Response

from imagehost_core.records import AlbumRecord
from imagehost_server.listing import Pagination, listed
from imagehost_server.operations import PAGING, operation
from imagehost_server.requests import ApiRequest, answer
from imagehost_server.schemas import NewAlbum


@operation("POST /v1/albums", summary="Make an album.", body=NewAlbum, answer=AlbumRecord, status=201)
async def create_album(request: ApiRequest) -> Response[bytes]:
    """Answer 201 with the record, and its address in `Location`."""
    wanted = await request.read(NewAlbum)
    host = request.host
    album = await request.rooms.catalog.run(
        host.albums.create,
        owner=request.account,
        name=wanted.name,
        description=wanted.description,
        is_public=wanted.is_public,
    )
    location = f"{host.addresses.base_url}/albums/{album.id}"
    return answer(host.addresses.album_record(album), 201, (("location", location),))


@operation(
    "GET /v1/albums",
    summary="List your albums, newest first.",
    query=PAGING,
    answer={"albums": list[AlbumRecord], "pagination": Pagination},
)
async def list_albums(request: ApiRequest) -> Response[bytes]:
    """Answer a page of the caller's albums."""
    host, page = request.host, request.page()
    found = await request.rooms.catalog.run(host.albums.list, owner=request.account, page=page)
    return answer(listed("albums", found, host.addresses.album_record))


ROUTES = (create_album, list_albums)
