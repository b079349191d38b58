"""The pages `/albums` and `/albums/{id}`: create, change, share, download and delete albums.

`/s/{token}` and the pages below it are those of share links. The ZIP archives `images.zip` of albums are
written while they are sent.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterator
from datetime import timedelta
from functools import partial
from hmac import compare_digest
from pathlib import PurePath
from typing import Any
from urllib.parse import urlencode
from zipfile import ZIP_STORED, ZipFile, ZipInfo

from attrs import evolve
from litestar import Response
from litestar.params import FromPath
from litestar.response import Stream

from imagehost_core.errors import (
    ForbiddenError,
    ImageHostError,
    NotFoundError,
    RateLimitError,
    ValidationError,
)
from imagehost_core.limits import sign_in_keys
from imagehost_core.lists import ImageSort
from imagehost_core.models import Album, AlbumShare, Image, Page
from imagehost_core.services.albums import MAX_SHARES
from imagehost_core.services.delivery import Blob
from imagehost_core.tokens import token_hash
from imagehost_core.uploads import BOOLEANS
from imagehost_server.auth.cookies import SHARE_COOKIE, cookie_value, share_cookie
from imagehost_server.auth.passwords import password_errors, verify_password
from imagehost_server.delivery.route import content_disposition
from imagehost_server.routes.albums import ShareRecord, new_share
from imagehost_server.routes.sessions import throttle_password_attempt
from imagehost_server.web.page import (
    WebRequest,
    page,
    page_headers,
    see_other,
)
from imagehost_server.web.pages.images import IMAGES_PER_PAGE, LIFETIMES, own_tiles, read_albums
from imagehost_server.web.pages.public import image_values, iter_gallery, read_gallery
from imagehost_server.web.presentation import ImagePresenter, Tile

ALBUMS_PER_PAGE = 48
ORDERS = (ImageSort.NEWEST.value, ImageSort.OLDEST.value)
"""The orders of an album's images that the page offers: by date."""


@page("/albums", sign_in=True)
async def albums(request: WebRequest) -> Response[Any]:
    """Show the albums of the account."""
    return await _show_albums(request)


@page("/albums", method="POST", sign_in=True)
async def create_album(request: WebRequest) -> Response[Any]:
    """Create an album, and show it."""
    form = request.fields
    try:
        album = await request.call(
            request.host.albums.create,
            name=form.get("name", ""),
            description=form.get("description", ""),
            is_public=_is_public(form),
        )
    except ValidationError as error:
        return await _show_albums(request, failure=error)
    return see_other(request, f"/albums/{album.id}")


@page("/albums/{album_id:str}", sign_in=True)
async def own_album(request: WebRequest, album_id: FromPath[str]) -> Response[Any]:
    """Show an album of the account, with its images."""
    return await _show_album(request, album_id)


@page("/albums/{album_id:str}", method="POST", sign_in=True)
async def update_album(request: WebRequest, album_id: FromPath[str]) -> Response[Any]:
    """Change an album, and show it."""
    form = request.fields
    changes = {name: form[name] for name in ("name", "description") if name in form}
    try:
        await request.call(request.host.albums.update, album_id, is_public=_is_public(form), **changes)
    except ValidationError as error:
        return await _show_album(request, album_id, failure=error)
    return see_other(request, f"/albums/{album_id}", "saved")


@page("/albums/{album_id:str}/delete", method="POST", sign_in=True)
async def delete_album(request: WebRequest, album_id: FromPath[str]) -> Response[Any]:
    """Delete an album, with its images if the form says so, and show the others."""
    form = request.fields
    await request.call(request.host.albums.delete, album_id, delete_images=form.get("images") == "delete")
    return see_other(request, "/albums", "deleted")


@page("/albums/{album_id:str}/shares", method="POST", sign_in=True)
async def share_album(request: WebRequest, album_id: FromPath[str]) -> Response[Any]:
    """Create a share link of an album, and show it."""
    form = request.fields
    members: dict[str, object] = {"password": form["password"]} if form.get("password") else {}
    if (lifetime := form.get("expires_in", "")) in map(str, LIFETIMES):
        members["expires_at"] = request.host.now() + timedelta(seconds=int(lifetime))
    try:
        return await _show_album(request, album_id, share=await new_share(request, album_id, members))
    except ValidationError as error:
        return await _show_album(request, album_id, failure=error)


@page("/albums/{album_id:str}/shares/{share_id:str}/delete", method="POST", sign_in=True)
async def revoke_share(
    request: WebRequest, album_id: FromPath[str], share_id: FromPath[str]
) -> Response[Any]:
    """Revoke a share link of an album, and show the album."""
    await request.call(request.host.albums.delete_share, album_id, share_id)
    return see_other(request, f"/albums/{album_id}", "saved")


@page("/s/{token:str}")
async def shared_album(request: WebRequest, token: FromPath[str]) -> Response[Any]:
    """Show the album of a share link, with all its images."""
    if isinstance(entered := await _enter(request, token), Response):
        return entered
    (share, album), cursor = entered, request.query_params.get("cursor")
    listed = await request.executors.reads.run(_read_shared, request, album, cursor)
    presenter = ImagePresenter(evolve(request.host.urls, share=share.id), request.settings.delivery)
    return request.render(
        "shared_album.html",
        album=album,
        cursor=cursor,
        next_cursor=listed.next_cursor,
        tiles=[evolve(presenter.tile(image), page=f"/s/{token}/{image.id}") for image in listed],
    )


@page("/s/{token:str}", method="POST")
async def enter_share(request: WebRequest, token: FromPath[str]) -> Response[Any]:
    """Check the password of a share link, and go on to its album."""
    password = request.fields.get("password", "")
    try:
        await request.executors.reads.run(request.host.albums.get_shared, token)
    except ForbiddenError:
        return await _enter_password(request, token, password)
    return see_other(request, f"/s/{token}")


async def _enter_password(request: WebRequest, token: str, password: str) -> Response[Any]:
    name = f"share:{token_hash(token)}"
    try:
        await throttle_password_attempt(request, name)
    except RateLimitError as error:
        response = _ask_password(request, token, error.status, "throttled")
        response.headers["retry-after"] = str(error.retry_after)
        return response
    if password_errors(password):
        return _ask_password(request, token, 403, "invalid")
    keys = sign_in_keys(name, request.identity.ip_address)
    verify = partial(verify_password, password=password)
    try:
        share, _ = await request.executors.passwords.run(
            keys, request.host.albums.get_shared, token, verify=verify
        )
    except ForbiddenError:
        return _ask_password(request, token, 403, "invalid")
    response = see_other(request, f"/s/{token}")
    if share.password_hash is not None:
        path = f"{request.settings.root_path}/s/{token}"
        response.set_cookie(share_cookie(share.password_hash, path))
    return response


@page("/s/{token:str}/{image_id:str}")
async def shared_image(request: WebRequest, token: FromPath[str], image_id: FromPath[str]) -> Response[Any]:
    """Show an image of the album of a share link."""
    if isinstance(entered := await _enter(request, token), Response):
        return entered
    share, album = entered
    image = await request.executors.reads.run(request.host.images.get, image_id)
    if image.album_id != album.id:
        raise NotFoundError("expected the id of an image in the album")
    values = await image_values(request, image, evolve(request.host.urls, share=share.id))
    return request.render("shared_image.html", **values, album=album, token=token)


@page("/s/{token:str}/images.zip")
async def shared_album_archive(request: WebRequest, token: FromPath[str]) -> Response[Any]:
    """Return all images of the album of a share link as a ZIP archive, the newest first."""
    if isinstance(entered := await _enter(request, token), Response):
        return entered
    share, album = entered
    owner = await request.executors.reads.run(request.host.accounts.get, album.account_id)
    images = request.host.images.iter(owner=owner, album_id=album)
    return _archive(request, album.name, images, f"share={share.id}")


async def _enter(request: WebRequest, token: str) -> tuple[AlbumShare, Album] | Response[Any]:
    """Return the share with a token and its album, or the form for its password if that was not entered.

    Raises:
        NotFoundError: There is no such share, or it has ended.
    """
    received = cookie_value(request.scope["headers"], SHARE_COOKIE) or ""

    def verify(password_hash: str) -> bool:
        expected = share_cookie(password_hash, "").value or ""
        return compare_digest(received.encode(), expected.encode())

    try:
        return await request.executors.reads.run(request.host.albums.get_shared, token, verify=verify)
    except ForbiddenError:
        return _ask_password(request, token, 403, "")


def _ask_password(request: WebRequest, token: str, status: int, problem: str) -> Response[Any]:
    return request.render("share_password.html", status=status, token=token, problem=problem)


def _read_shared(request: WebRequest, album: Album, cursor: str | None) -> Page[Image]:
    owner = request.host.accounts.get(album.account_id)
    return request.host.images.list(owner=owner, album_id=album, per_page=IMAGES_PER_PAGE, cursor=cursor)


def _is_public(form: dict[str, str]) -> bool:
    return BOOLEANS.get(form.get("is_public", "true").lower(), True)


async def _show_albums(request: WebRequest, *, failure: ImageHostError | None = None) -> Response[Any]:
    cursor = request.query_params.get("cursor")
    listed, covers = await request.executors.database.run(_read_albums, request, cursor)
    return request.render(
        "albums.html",
        albums=listed.items,
        covers=covers,
        cursor=cursor,
        failure=failure,
        next_cursor=listed.next_cursor,
    )


def _read_albums(request: WebRequest, cursor: str | None) -> tuple[Page[Album], dict[int, Tile]]:
    listed = request.host.albums.list(owner=request.account, per_page=ALBUMS_PER_PAGE, cursor=cursor)
    covers = [album.cover for album in listed if album.cover is not None]
    tiles = {image.id: tile for tile, image in own_tiles(request, covers)}
    return listed, {album.id: tiles[album.cover.id] for album in listed if album.cover is not None}


async def _show_album(
    request: WebRequest,
    album_id: str,
    *,
    failure: ImageHostError | None = None,
    share: ShareRecord | None = None,
) -> Response[Any]:
    cursor, order = request.query_params.get("cursor"), request.query_params.get("sort", "")
    order = order if order in ORDERS else ORDERS[0]
    album, listed, shares = await request.executors.database.run(
        _read_album, request, album_id, cursor, order
    )
    database, after = request.executors.database, {"cursor": cursor} if cursor else {}
    return request.render(
        "own_album.html",
        album=album,
        albums=await database.run(read_albums, request),
        api_query=urlencode({"album_id": album.id, "sort": order, **after}),
        cursor=cursor,
        failure=failure,
        images=await database.run(own_tiles, request, listed),
        lifetimes=LIFETIMES,
        link="" if order == ORDERS[0] else f"sort={order}",
        next_cursor=listed.next_cursor,
        order=order,
        orders=ORDERS,
        path=f"/albums/{album.id}",
        share=share,
        shares=shares,
        share_url=f"{request.settings.site_url}/a/{album.id}",
    )


def _read_album(
    request: WebRequest, album_id: str, cursor: str | None, order: str
) -> tuple[Album, Page[Image], Page[AlbumShare]]:
    host, account = request.host, request.account
    album = host.albums.get(album_id, owner=account)
    listed = host.images.list(
        owner=account, album_id=album, sort=order, per_page=IMAGES_PER_PAGE, cursor=cursor
    )
    return album, listed, host.albums.list_shares(album, owner=account, per_page=MAX_SHARES)


@page("/a/{album_id:str}/images.zip", public=True)
async def album_archive(request: WebRequest, album_id: FromPath[str]) -> Response[Any]:
    """Return the public images of a public album as a ZIP archive, the newest first."""
    listed = await request.executors.reads.run(read_gallery, request, None, album_id, 1)
    assert listed.album is not None
    return _archive(request, listed.album.name, iter_gallery(request, album_id))


@page("/albums/{album_id:str}/images.zip", sign_in=True)
async def own_album_archive(request: WebRequest, album_id: FromPath[str]) -> Response[Any]:
    """Return all images of an album of the account as a ZIP archive, the newest first."""
    host, account = request.host, request.account
    album = await request.call(host.albums.get, album_id)
    return _archive(request, album.name, host.images.iter(owner=account, album_id=album))


def _archive(request: WebRequest, name: str, images: Iterator[Image], query: str = "") -> Response[Any]:
    delivery, viewer = request.host.delivery, request.viewer

    def open_image(image: Image) -> Blob:
        return delivery.open(delivery.resolve(str(image.id), query, viewer=viewer))

    pieces = zip_pieces(images, open_image)

    async def stream() -> AsyncIterator[bytes]:
        try:
            # The image may have to be downloaded from an object store.
            while piece := await request.executors.masters.run(next, pieces, b""):
                yield piece
        finally:
            pieces.close()

    headers = page_headers(request.settings.delivery_url, viewer)
    # Litestar prefers the media type of the handler, which is that of pages, to the one of the response.
    headers["content-type"] = "application/zip"
    headers["content-disposition"] = content_disposition(f"{name.replace('/', '_')}.zip").decode()
    return Stream(stream(), headers=headers)


def zip_pieces(images: Iterator[Image], open_image: Callable[[Image], Blob]) -> Generator[bytes, None, None]:
    """Yield the pieces of a ZIP archive of images, about 1 MiB at most, as it is written.

    Nothing is compressed, because images are already. Of two images of one file name, which Windows and macOS
    compare without regard to case, the second has its id in the name. An image that is deleted meanwhile is
    left out.

    Args:
        images: The images.
        open_image: Opens an image; raises NotFoundError if there is none any more.
    """
    sink, names = _Sink(), set[str]()
    with ZipFile(sink, "w", ZIP_STORED) as archive:  # type: ignore[call-overload]
        for image in images:
            name = PurePath(image.filename)
            if image.filename.casefold() in names:
                name = name.with_stem(f"{name.stem}-{image.id}")
            try:
                blob = open_image(image)
            except NotFoundError:
                continue
            names.add(str(name).casefold())
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
