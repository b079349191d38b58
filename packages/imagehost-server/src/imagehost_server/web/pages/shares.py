"""The pages of share links, `/s/{token}` and those below it: an album, its images, and its password."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from hmac import compare_digest
from typing import Any

from attrs import evolve
from litestar import Response
from litestar.params import FromPath

from imagehost_core.errors import (
    ForbiddenError,
    NotFoundError,
    RateLimitError,
)
from imagehost_core.limits import sign_in_keys
from imagehost_core.models import Album, AlbumShare, Image, Page
from imagehost_core.tokens import token_hash
from imagehost_server.auth.cookies import SHARE_COOKIE, cookie_value, share_cookie
from imagehost_server.auth.passwords import password_errors, verify_password
from imagehost_server.routes.sessions import password_attempt
from imagehost_server.web.page import page
from imagehost_server.web.pages.archives import archive_response, require_member
from imagehost_server.web.pages.images import IMAGES_PER_PAGE
from imagehost_server.web.pages.public import image_values, list_card_images
from imagehost_server.web.presentation import ImagePresenter
from imagehost_server.web.redirects import see_other
from imagehost_server.web.request import WebRequest


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
    keys = sign_in_keys(name, request.identity.ip_address)
    verify = partial(verify_password, password=password)
    try:
        async with password_attempt(request, name) as standing:
            if password_errors(password):
                raise ForbiddenError("expected the share's password but received another")
            share, _ = await request.executors.passwords.run(
                standing, keys, request.host.albums.get_shared, token, verify=verify
            )
    except RateLimitError as error:
        response = _ask_password(request, token, error.status, "throttled")
        response.headers["retry-after"] = str(error.retry_after)
        return response
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
    ids = (image.id for image in host.images.iter(owner=owner, album_id=album))
    return archive_response(
        request,
        album.name,
        ids,
        partial(host.albums.get_shared, token, verify=_cookie_verifier(request)),
        lambda image_id: require_member(host.images.get(image_id, owner=owner), album.id),
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
