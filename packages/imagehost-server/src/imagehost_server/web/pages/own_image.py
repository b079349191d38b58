"""The page `/images/{id}`: one image of the account, to edit, delete, sign and resize."""

from __future__ import annotations

from typing import Any

from litestar import Response
from litestar.params import FromPath

from imagehost_core import CameraData
from imagehost_core.errors import BadRequestError, ImageHostError, NotFoundError, ValidationError
from imagehost_core.models import Image
from imagehost_core.transform import Fit
from imagehost_core.uploads import BOOLEANS
from imagehost_server.http.responses import log_cause, to_api_error
from imagehost_server.web.forms import read_form
from imagehost_server.web.page import PageRequest, page, see_other
from imagehost_server.web.pages.lists import own_tiles, read_albums
from imagehost_server.web.presentation import ImagePresenter, camera_facts, format_label, size_text

BUILDER_FORMATS = ("auto", "avif", "webp", "jpeg", "png")
PARAMETERS = ("w", "h", "fit", "fm", "q")
"""The parameters of a variant, as the form of the size builder and the delivery route have them."""
LIFETIMES = (3_600, 86_400, 604_800, 2_592_000)
"""Seconds that the form for signed URLs offers: an hour, a day, a week and 30 days."""


@page("/images/{image_id:str}", sign_in=True)
async def own_image(request: PageRequest, image_id: FromPath[str]) -> Response[Any]:
    """Show an image of the account."""
    image = await request.executors.database.run(request.host.images.get, image_id, owner=request.account)
    return await _show(request, image)


@page("/images/{image_id:str}", method="POST", sign_in=True)
async def update_image(request: PageRequest, image_id: FromPath[str]) -> Response[Any]:
    """Change the fields of an image, and show it."""
    form = await read_form(request)
    changes: dict[str, Any] = {name: form[name] for name in ("filename", "description") if name in form}
    if "album_id" in form:
        changes["album_id"] = form["album_id"] or None
    if form.get("is_public", "").lower() in BOOLEANS:
        changes["is_public"] = BOOLEANS[form["is_public"].lower()]
    database, host = request.executors.database, request.host
    try:
        await database.run(lambda: host.images.update(image_id, owner=request.account, **changes))
    except ValidationError as error:
        image = await database.run(host.images.get, image_id, owner=request.account)
        return await _show(request, image, status=422, failure=error)
    return see_other(f"/images/{image_id}", "saved")


@page("/images/{image_id:str}/delete", method="POST", sign_in=True)
async def delete_image(request: PageRequest, image_id: FromPath[str]) -> Response[Any]:
    """Delete an image for good, and show the others."""
    await read_form(request)
    await request.executors.database.run(request.host.images.delete, image_id, owner=request.account)
    return see_other("/images", "deleted")


@page("/images/{image_id:str}/sign", method="POST", sign_in=True)
async def sign_image(request: PageRequest, image_id: FromPath[str]) -> Response[Any]:
    """Show a signed URL of an image, or of a variant of it, which gives access until it expires."""
    form = await read_form(request)
    database, host = request.executors.database, request.host
    text = form.get("expires_in", "")
    seconds = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
    parameters = {name: form[name] for name in PARAMETERS if form.get(name)}
    image = await database.run(host.images.get, image_id, owner=request.account)
    try:
        signed = await database.run(
            host.images.signed_url, image_id, parameters, owner=request.account, expires_in=seconds
        )
    except (BadRequestError, ValidationError) as error:
        return await _show(request, image, status=error.status, failure=error)
    return await _show(request, image, signed_url=signed)


async def _show(
    request: PageRequest,
    image: Image,
    *,
    status: int = 200,
    failure: ImageHostError | None = None,
    signed_url: str = "",
) -> Response[Any]:
    albums = await request.executors.database.run(read_albums, request)
    presenter = ImagePresenter(request.host.urls, request.settings.delivery)
    ((tile, _),) = await request.executors.database.run(own_tiles, request, [image])
    camera = await request.executors.database.run(_read_camera_data, request, image)
    urls = request.host.urls
    return request.render(
        "own_image.html",
        status=status,
        albums=albums,
        builder_formats=BUILDER_FORMATS,
        camera=camera,
        camera_facts=camera_facts(camera, request.texts) if camera else (),
        failure=failure,
        fits=[fit.value for fit in Fit],
        format=format_label(image.format),
        has_variants=presenter.has_variants and not tile.is_signed,
        image=image,
        large=(tile.animation or tile.src) if tile.is_signed else presenter.large(image),
        lifetimes=LIFETIMES,
        links=urls.links(image),
        master=urls.image(image),
        signed_url=signed_url,
        size=size_text(image.size, request.texts),
        srcset="" if tile.is_signed else presenter.srcset(image),
        still=(tile.src if tile.animation else "") if tile.is_signed else presenter.still(image),
        tile=tile,
    )


def _read_camera_data(request: PageRequest, image: Image) -> CameraData | None:
    """Return what the image's metadata says, or `None` if its file cannot be read now."""
    try:
        return request.host.camera_data(image, owner=request.account)
    except NotFoundError:
        raise
    except ImageHostError as error:
        log_cause(to_api_error(error), error, request.id)
        return None


HANDLERS = (own_image, update_image, delete_image, sign_image)
