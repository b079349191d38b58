"""The pages `/albums` and `/albums/{id}`: create, change, share, download and delete albums.

`/s/{token}` and the pages below it are those of share links. The ZIP archives `images.zip` of albums are
written while they are sent.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from functools import partial
from hmac import compare_digest
from tempfile import SpooledTemporaryFile
from typing import Any
from urllib.parse import urlencode

from attrs import evolve
from litestar import Response
from litestar.params import FromPath
from litestar.response import Stream

from imagehost_core.errors import (
    ForbiddenError,
    ImageHostError,
    NotFoundError,
    RateLimitError,
    UnauthorizedError,
    ValidationError,
)
from imagehost_core.ids import AlbumId, ImageId
from imagehost_core.limits import sign_in_keys
from imagehost_core.lists import ImageSort
from imagehost_core.models import Album, AlbumShare, Image, Page, PublicAlbum
from imagehost_core.services.albums import MAX_SHARES
from imagehost_core.services.delivery import Blob
from imagehost_core.tokens import token_hash
from imagehost_core.transform import Transform
from imagehost_core.uploads import BOOLEANS
from imagehost_server.auth.cookies import SHARE_COOKIE, cookie_value, share_cookie
from imagehost_server.auth.passwords import password_errors, verify_password
from imagehost_server.delivery.route import content_disposition
from imagehost_server.http.response_body import PIECE_BYTES, pieces_of
from imagehost_server.middleware.response_cut import cut_response
from imagehost_server.routes.albums import ShareRecord, new_share
from imagehost_server.routes.sessions import throttle_password_attempt
from imagehost_server.web.page import (
    WebRequest,
    page,
    page_headers,
    see_other,
)
from imagehost_server.web.pages.images import IMAGES_PER_PAGE, LIFETIMES, own_tiles, read_albums
from imagehost_server.web.pages.public import (
    image_values,
    iter_gallery,
    list_card_images,
    read_gallery,
)
from imagehost_server.web.presentation import ImagePresenter, Tile
from imagehost_server.web.zip_archive import ArchiveNames, ZipWriter, portable_name

ALBUMS_PER_PAGE = 48
ORDERS = (ImageSort.NEWEST.value, ImageSort.OLDEST.value, ImageSort.TAKEN_FIRST.value)
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
            is_public=_boolean(form.get("is_public") or "true"),
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
    changes: dict[str, Any] = {name: form[name] for name in ("name", "description") if name in form}
    if form.get("is_public"):
        changes["is_public"] = _boolean(form["is_public"])
    if form.get("images_public"):
        changes["images_public"] = _boolean(form["images_public"])
    try:
        await request.call(request.host.albums.update, album_id, **changes)
    except ValidationError as error:
        return await _show_album(request, album_id, failure=error)
    return see_other(request, f"/albums/{album_id}", "saved")


@page("/albums/{album_id:str}/delete", method="POST", sign_in=True)
async def delete_album(request: WebRequest, album_id: FromPath[str]) -> Response[Any]:
    """Delete an album, with its images if the form says so, and show the others."""
    choice = request.fields.get("images")
    await request.call(
        request.host.albums.delete,
        album_id,
        delete_images=choice == "delete",
        images_public=choice == "publish",
    )
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
        card_images=list_card_images(presenter, listed),
        cursor=cursor,
        next_cursor=listed.next_cursor,
        tiles=[evolve(presenter.tile(image), page=f"/s/{token}/{image.id}") for image in listed],
        url=f"{request.settings.site_url}/s/{token}",
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
    urls = evolve(request.host.urls, share=share.id)
    values = await image_values(request, image, urls)
    return request.render(
        "shared_image.html",
        **values,
        album=album,
        card_images=ImagePresenter(urls, request.settings.delivery).card_images(image),
        token=token,
        url=f"{request.settings.site_url}/s/{token}/{image.id}",
    )


@page("/s/{token:str}/images.zip")
async def shared_album_archive(request: WebRequest, token: FromPath[str]) -> Response[Any]:
    """Return all images of the album of a share link as a ZIP archive, the newest first."""
    if isinstance(entered := await _enter(request, token), Response):
        return entered
    _, album = entered
    host = request.host
    owner = await request.executors.reads.run(host.accounts.get, album.account_id)
    images = host.images.iter(owner=owner, album_id=album)
    return _archive(
        request,
        album.name,
        images,
        partial(host.albums.get_shared, token, verify=_cookie_verifier(request)),
        lambda image_id: _require_member(host.images.get(image_id, owner=owner), album.id),
    )


async def _enter(request: WebRequest, token: str) -> tuple[AlbumShare, Album] | Response[Any]:
    """Return the share with a token and its album, or the form for its password if that was not entered.

    Raises:
        NotFoundError: There is no such share, or it has ended.
    """
    verify = _cookie_verifier(request)
    try:
        return await request.executors.reads.run(request.host.albums.get_shared, token, verify=verify)
    except ForbiddenError:
        return _ask_password(request, token, 403, "")


def _cookie_verifier(request: WebRequest) -> Callable[[str], bool]:
    """Return a function that tells whether the client has entered the password with a hash."""
    received = cookie_value(request.scope["headers"], SHARE_COOKIE) or ""

    def verify(password_hash: str) -> bool:
        expected = share_cookie(password_hash, "").value or ""
        return compare_digest(received.encode(), expected.encode())

    return verify


def _ask_password(request: WebRequest, token: str, status: int, problem: str) -> Response[Any]:
    return request.render("share_password.html", status=status, token=token, problem=problem)


def _read_shared(request: WebRequest, album: Album, cursor: str | None) -> Page[Image]:
    owner = request.host.accounts.get(album.account_id)
    return request.host.images.list(owner=owner, album_id=album, per_page=IMAGES_PER_PAGE, cursor=cursor)


def _boolean(text: str) -> bool | str:
    """Return the value of a boolean field; another text is an error of the core."""
    return BOOLEANS.get(text.lower(), text)


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
    cursor = request.query_params.get("cursor")
    order = request.query_params.get("sort", "")
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
    host, settings, token = request.host, request.settings, request.identity.token

    def require_right() -> PublicAlbum:
        if settings.gallery.require_sign_in:
            host.authenticate(token)
        album = read_gallery(request, None, album_id, 1).album
        assert album is not None
        return album

    album = await request.executors.reads.run(require_right)
    return _archive(
        request,
        album.name,
        iter_gallery(request, album_id),
        require_right,
        lambda image_id: _require_member(host.images.get(image_id, public=True), album.id),
    )


@page("/albums/{album_id:str}/images.zip", sign_in=True)
async def own_album_archive(request: WebRequest, album_id: FromPath[str]) -> Response[Any]:
    """Return all images of an album of the account as a ZIP archive, the newest first."""
    host, account, token = request.host, request.account, request.identity.token

    def require_right() -> Album:
        return host.albums.get(album_id, owner=host.authenticate(token).account)

    album = await request.executors.database.run(require_right)
    return _archive(
        request,
        album.name,
        host.images.iter(owner=account, album_id=album),
        require_right,
        lambda image_id: _require_member(host.images.get(image_id, owner=account), album.id),
    )


def _require_member(image: Image, album_id: AlbumId) -> Image:
    """Return an image; raise NotFoundError unless it is in an album."""
    if image.album_id != album_id:
        raise NotFoundError("expected an image in the album")
    return image


def _archive(
    request: WebRequest,
    name: str,
    images: Iterator[Image],
    require_right: Callable[[], object],
    get_image: Callable[[ImageId], Image],
) -> Response[Any]:
    """Return the archive of an album.

    Args:
        request: The request.
        name: The name of the album.
        images: Its images.
        require_right: Raises ForbiddenError, NotFoundError or UnauthorizedError once the client may not read
            the album.
        get_image: Returns the current record of an image; raises NotFoundError if it is none of the album.
    """
    headers = page_headers(request.settings.delivery_url, request.viewer)
    # Litestar prefers the media type of the handler, which is that of pages, to the one of the response.
    headers["content-type"] = "application/zip"
    filename = portable_name(f"{name}.zip")
    headers["content-disposition"] = content_disposition(filename, "attachment").decode()
    return Stream(_archive_pieces(request, images, require_right, get_image), headers=headers)


async def _archive_pieces(
    request: WebRequest,
    images: Iterator[Image],
    require_right: Callable[[], object],
    get_image: Callable[[ImageId], Image],
) -> AsyncIterator[bytes]:
    """Yield an archive in small pieces, or end the response when the client's right to it has ended."""
    host, executors, names = request.host, request.executors, ArchiveNames()

    def open_next() -> tuple[Blob, bytes] | None:
        """Return the next image, and its header in the archive."""
        for image in images:
            require_right()
            try:
                current = get_image(image.id)
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
