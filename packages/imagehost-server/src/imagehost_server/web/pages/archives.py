"""The ZIP archives `images.zip` of albums, which are written while they are sent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from tempfile import SpooledTemporaryFile
from typing import Any

from litestar import Response
from litestar.params import FromPath
from litestar.response import Stream

from imagehost_core.delivery_responses import PIECE_BYTES, content_disposition
from imagehost_core.errors import (
    ForbiddenError,
    NotFoundError,
    UnauthorizedError,
)
from imagehost_core.ids import AlbumId, ImageId, is_image_id
from imagehost_core.models import Album, Image, PublicAlbum
from imagehost_core.services.delivery import Blob
from imagehost_core.transform import Transform
from imagehost_server.http.response_body import pieces_of
from imagehost_server.middleware.response_cut import cut_response
from imagehost_server.web.page import page
from imagehost_server.web.page_headers import page_headers
from imagehost_server.web.pages.public import iter_gallery, read_gallery
from imagehost_server.web.request import WebRequest
from imagehost_server.web.zip_archive import ArchiveNames, ZipWriter, portable_name

MAX_IDS_BYTES = 4 * 2**20
"""Bytes of the form with the ids of a selection: about 240,000."""


@page("/a/{album_id:str}/images.zip", public=True)
async def album_archive(request: WebRequest, album_id: FromPath[str]) -> Response[Any]:
    """Return the public images of a public album as a ZIP archive, the newest first."""
    host, settings, token = request.host, request.settings, request.identity.token

    def require_right() -> PublicAlbum:
        if settings.gallery.require_sign_in:
            host.authenticate(token)
        album = read_gallery(request, None, album_id, 1).album
        assert album is not None
        return album

    album = await request.executors.reads.run(require_right)
    return archive_response(
        request,
        album.name,
        (image.id for image in iter_gallery(request, album_id)),
        require_right,
        lambda image_id: require_member(host.images.get(image_id, public=True), album.id),
    )


@page("/albums/{album_id:str}/images.zip", sign_in=True)
async def own_album_archive(request: WebRequest, album_id: FromPath[str]) -> Response[Any]:
    """Return all images of an album of the account as a ZIP archive, the newest first."""
    host, account, token = request.host, request.account, request.identity.token

    def require_right() -> Album:
        return host.albums.get(album_id, owner=host.authenticate(token).account)

    album = await request.executors.database.run(require_right)
    return archive_response(
        request,
        album.name,
        (image.id for image in host.images.iter(owner=account, album_id=album)),
        require_right,
        lambda image_id: require_member(host.images.get(image_id, owner=account), album.id),
    )


@page("/selection.zip", method="POST", sign_in=True, max_form_bytes=MAX_IDS_BYTES)
async def selected_archive(request: WebRequest) -> Response[Any]:
    """Return images of the account, whose ids a field of the form has, as a ZIP archive."""
    host, account, token = request.host, request.account, request.identity.token
    ids = (ImageId(text) for text in request.fields.get("image_ids", "").split() if is_image_id(text))

    def require_right() -> None:
        host.authenticate(token)

    name = request.texts("library.title")
    return archive_response(
        request, name, ids, require_right, lambda image_id: host.images.get(image_id, owner=account)
    )


def require_member(image: Image, album_id: AlbumId) -> Image:
    """Return an image; raise NotFoundError unless it is in an album."""
    if image.album_id != album_id:
        raise NotFoundError("expected an image in the album")
    return image


def archive_response(
    request: WebRequest,
    name: str,
    ids: Iterator[ImageId],
    require_right: Callable[[], object],
    get_image: Callable[[ImageId], Image],
) -> Response[Any]:
    """Return the archive of an album or of a selection.

    Args:
        request: The request.
        name: The name of the album or the selection.
        ids: The ids of its images.
        require_right: Raises ForbiddenError, NotFoundError or UnauthorizedError once the client may not read
            the album.
        get_image: Returns the current record of an image; raises NotFoundError if it is none of them.
    """
    headers = page_headers(request.settings.delivery_url, request.viewer)
    # Litestar prefers the media type of the handler, which is that of pages, to the one of the response.
    headers["content-type"] = "application/zip"
    filename = portable_name(f"{name}.zip")
    headers["content-disposition"] = content_disposition(filename, "attachment").decode()
    return Stream(_archive_pieces(request, ids, require_right, get_image), headers=headers)


async def _archive_pieces(
    request: WebRequest,
    ids: Iterator[ImageId],
    require_right: Callable[[], object],
    get_image: Callable[[ImageId], Image],
) -> AsyncIterator[bytes]:
    """Yield an archive in small pieces, or end the response when the client's right to it has ended."""
    host, executors, names = request.host, request.executors, ArchiveNames()

    def open_next() -> tuple[Blob, bytes] | None:
        """Return the next image, and its header in the archive."""
        for image_id in ids:
            require_right()
            try:
                current = get_image(image_id)
                blob = host.delivery.open(host.delivery.build(current, Transform(), allow_master=True))
            except NotFoundError:
                continue
            name = names.add(current.filename, current.id)
            return blob, archive.add(name, current.created_at, blob.size, blob.checksum())
        return None

    with SpooledTemporaryFile(PIECE_BYTES, dir=str(host.path)) as directory:
        archive = ZipWriter(directory)
        try:
            # The image may have to be downloaded from an object store.
            while opened := await executors.masters.run(open_next):
                blob, header = opened
                with blob:
                    yield header
                    async for piece in pieces_of(blob, executors.files, 0, blob.size):
                        yield piece
        except (ForbiddenError, NotFoundError, UnauthorizedError):
            cut_response(request.scope)
        for piece in archive.end(PIECE_BYTES):
            yield piece
