"""Operations that return the bytes of images: in memory, as a stream, or in a file."""

from __future__ import annotations

from functools import partial
from typing import Unpack

from attrs import evolve, field, frozen

from imagehost_client import _wire
from imagehost_client._calls.arguments import checked, image_id_of
from imagehost_client._calls.call import Call, OpenResponse, path_segment, query_pairs
from imagehost_client._types import ImageRef, Progress, Target, TransformParams
from imagehost_client.errors import BadRequestError
from imagehost_client.models import Image, ImageHead, Rendered
from imagehost_client.urls import build_query


@partial(checked, error=BadRequestError)
def render_image(
    image: ImageRef, *, if_none_match: str | None = None, **params: Unpack[TransformParams]
) -> Call[Rendered]:
    """Return the bytes of an image, resized or in another format; without parameters, the stored file.

    The request is authenticated, so your private images can be rendered.

    Args:
        image: The image, its id, or any of its URLs.
        if_none_match: The `etag` of an earlier result with the same parameters: if it still holds, the
            result is `not_modified`, and its `data` is empty.
        **params: `w`, `h`, `q`, `fit` and `fm`, as for `image_url`.

    Raises:
        BadRequestError: Values are out of their ranges.
        NotFoundError: There is no such image that you may view.
    """
    query = query_pairs(**build_query(params))
    path = f"/img/{path_segment(image_id_of(image))}"
    headers = {"If-None-Match": if_none_match} if if_none_match else {}
    return Call(
        method="GET",
        path=path,
        query=query,
        decode=partial(_wire.of_kind, Rendered),
        binary=True,
        headers=headers,
    )


@frozen(kw_only=True)
class ImageDownload:
    """A request for the bytes of an image that is not yet sent.

    Attributes:
        call: The request.
        image_id: The id of the image, for names of files.
        sha256: The SHA-256 of all bytes in hexadecimal, where it is known.
        target: Where the bytes are written; `None` for a stream.
        progress: The progress callback.
    """

    call: Call[ImageHead]
    image_id: str
    sha256: str | None = None
    target: Target | None = field(default=None, repr=False)
    progress: Progress | None = None


@partial(checked, error=BadRequestError)
def stream_image(
    image: ImageRef, *, if_none_match: str | None = None, **params: Unpack[TransformParams]
) -> ImageDownload:
    """Return the bytes of an image in chunks as they arrive, for files that do not fit into memory.

    The result is used in `with`, with `AsyncClient` in `async with`, where the request is sent, and is
    iterated over once. If the connection breaks, the rest is requested, and no byte is lost or repeated; the
    stream ends with an error after more than `max_retries` failures in succession. At the end, the length is
    checked, and for an `Image` without parameters also its SHA-256.

    Args:
        image: The image, its id, or any of its URLs.
        if_none_match: The `etag` of an earlier result with the same parameters: if it still holds, the
            result is `not_modified`, and has no bytes.
        **params: `w`, `h`, `q`, `fit` and `fm`, as for `image_url`.

    Raises:
        BadRequestError: Values are out of their ranges.
        NotFoundError: There is no such image that you may view.
        APIConnectionError: The connection broke, and the rest cannot be requested.
        ChecksumError: The bytes are not those of the image; raised after the last chunk.
    """
    call = render_image(image, if_none_match=if_none_match, **params)
    return ImageDownload(
        call=Call(
            method="GET",
            path=call.path,
            query=call.query,
            headers={**call.headers, "Accept-Encoding": "identity"},
            decode=partial(_wire.of_kind, ImageHead),
            binary=True,
            opened=OpenResponse(),
        ),
        image_id=call.path.rpartition("/")[2],
        sha256=image.sha256 if isinstance(image, Image) and not call.query else None,
    )


@partial(checked, error=BadRequestError)
def download_image(
    image: ImageRef,
    target: Target,
    *,
    progress: Progress | None = None,
    if_none_match: str | None = None,
    **params: Unpack[TransformParams],
) -> ImageDownload:
    """Write the bytes of an image to a file, resized or in another format, with little memory.

    The bytes arrive and are checked as those of `stream`. A file is written completely or not at all: its new
    content replaces the old one after the last byte.

    Args:
        image: The image, its id, or any of its URLs.
        target: The path of the file; or of an existing directory, in which the file is named by the image's
            id; or an open binary file, which after an error has a part of the bytes.
        progress: A callback `progress(received, total)` with bytes; `total` is 0 if the host does not tell.
        if_none_match: The `etag` of an earlier result with the same parameters: if it still holds, the
            result is `not_modified`, and nothing is written.
        **params: `w`, `h`, `q`, `fit` and `fm`, as for `image_url`.

    Raises:
        OSError: The file cannot be written.
        BadRequestError: Values are out of their ranges.
        NotFoundError: There is no such image that you may view.
        APIConnectionError: The connection broke, and the rest cannot be requested.
        ChecksumError: The bytes are not those of the image.
    """
    download = stream_image(image, if_none_match=if_none_match, **params)
    return evolve(download, target=target, progress=progress)
