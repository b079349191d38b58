"""ZIP archives of albums, written while they are sent: `/a/{id}/images.zip` and `/albums/{id}/images.zip`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterator
from pathlib import PurePath
from typing import Any
from zipfile import ZIP_STORED, ZipFile, ZipInfo

from litestar import Response
from litestar.params import FromPath
from litestar.response import Stream

from imagehost_core.errors import NotFoundError
from imagehost_core.models import Image
from imagehost_core.services.delivery import Blob
from imagehost_server.delivery.route import content_disposition
from imagehost_server.web.page import WebRequest, page, page_headers, sign_in_if_closed
from imagehost_server.web.pages.public import iter_gallery, read_gallery


@page("/a/{album_id:str}/images.zip", public=True)
async def album_archive(request: WebRequest, album_id: FromPath[str]) -> Response[Any]:
    """Return the public images of a public album as a ZIP archive, the newest first."""
    if closed := sign_in_if_closed(request):
        return closed
    listed = await request.executors.reads.run(read_gallery, request, None, album_id, 1)
    assert listed.album is not None
    return _archive(request, listed.album.name, iter_gallery(request, album_id))


@page("/albums/{album_id:str}/images.zip", sign_in=True)
async def own_album_archive(request: WebRequest, album_id: FromPath[str]) -> Response[Any]:
    """Return all images of an album of the account as a ZIP archive, the newest first."""
    host, account = request.host, request.account
    album = await request.executors.database.run(host.albums.get, album_id, owner=account)
    return _archive(request, album.name, host.images.iter(owner=account, album_id=album))


def _archive(request: WebRequest, name: str, images: Iterator[Image]) -> Response[Any]:
    delivery, viewer = request.host.delivery, request.viewer
    pieces = zip_pieces(images, lambda image: delivery.open(delivery.resolve(str(image.id), viewer=viewer)))

    async def stream() -> AsyncIterator[bytes]:
        try:
            # The image may have to be downloaded from an object store.
            while piece := await request.executors.masters.run(next, pieces, b""):
                yield piece
        finally:
            pieces.close()

    headers = page_headers(request.settings.delivery_url, viewer, listed=False)
    # Litestar prefers the media type of the handler, which is that of pages, to the one of the response.
    headers["content-type"] = "application/zip"
    headers["content-disposition"] = content_disposition(f"{name.replace('/', '_')}.zip").decode()
    return Stream(stream(), headers=headers)


def zip_pieces(images: Iterator[Image], open_image: Callable[[Image], Blob]) -> Generator[bytes, None, None]:
    """Yield the pieces of a ZIP archive of images, about 1 MiB at most, as it is written.

    Nothing is compressed, because images are already. Of two images of one file name, the second has its id
    in the name. An image that is deleted meanwhile is left out.

    Args:
        images: The images.
        open_image: Opens an image; raises NotFoundError if there is none any more.
    """
    sink, names = _Sink(), set[str]()
    with ZipFile(sink, "w", ZIP_STORED) as archive:  # type: ignore[call-overload]
        for image in images:
            name = PurePath(image.filename)
            if image.filename in names:
                name = name.with_stem(f"{name.stem}-{image.id}")
            try:
                blob = open_image(image)
            except NotFoundError:
                continue
            names.add(str(name))
            entry = ZipInfo(str(name), image.created_at.timetuple()[:6])
            entry.external_attr = 0o644 << 16
            entry.file_size = blob.size
            with blob, archive.open(entry, "w") as file:
                for chunk in blob.chunks():
                    file.write(chunk)
                    yield sink.take()
    yield sink.take()


class _Sink:
    """A file for `ZipFile` that cannot seek; what was written is taken from it."""

    def __init__(self) -> None:
        self._written = bytearray()

    def write(self, data: bytes) -> int:
        """Append bytes."""
        self._written += data
        return len(data)

    def flush(self) -> None:
        """Do nothing; `ZipFile` calls it."""

    def take(self) -> bytes:
        """Return what was written since the last call."""
        taken = bytes(self._written)
        self._written.clear()
        return taken


HANDLERS = (album_archive, own_album_archive)
