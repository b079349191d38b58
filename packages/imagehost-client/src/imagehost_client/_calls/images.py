"""The operations on images: upload, list, get, update, delete, and addresses."""

from __future__ import annotations

from functools import partial
from typing import Literal

from attrs import evolve

from imagehost_client import _wire
from imagehost_client._calls._call import (
    UNSET,
    Call,
    FilePart,
    Unset,
    drop_unset,
    paged,
    path_segment,
    query_pairs,
    single,
)
from imagehost_client._calls._refs import AlbumRef, ImageRef, album_id_of, image_id
from imagehost_client._multipart import Progress
from imagehost_client.files import Source
from imagehost_client.models import Deleted, Image, Page, PublicImage, Rendered, SignedUrl
from imagehost_client.urls import Params, build_query

UploadFormat = Literal["auto", "jpeg", "png", "webp"]


def upload(
    source: Source,
    *,
    filename: str | None = None,
    album_id: AlbumRef | None = None,
    description: str | None = None,
    quality: int | None = None,
    format: UploadFormat | None = None,  # noqa: A002 - the parameter's name on the wire
    remove_exif: bool | None = None,
    convert_to_webp: bool | None = None,
    auto_rename: bool | None = None,
    is_public: bool | None = None,
    checksum: bool = False,
    idempotency_key: str | None = None,
    progress: Progress | None = None,
) -> Call[Image]:
    """Upload one image; when this returns, it is stored for good.

    What is left out is left to the host: by default it converts to WebP where that is smaller, keeps
    EXIF, and shows the image in the public gallery.

    Args:
        source: A path, bytes, a binary file (sent from where it stands), or `(name, content)`.
        filename: The name to send instead of the source's own.
        album_id: The album to put the image into.
        description: A text about the image.
        quality: 1–100.
        format: The stored format; `auto` leaves it to `convert_to_webp`.
        remove_exif: Whether EXIF, XMP and IPTC are removed.
        convert_to_webp: Whether the image is stored as WebP.
        auto_rename: Whether the image gets a random name.
        is_public: Whether the public gallery shows it.
        checksum: Compare the record's SHA-256 with the bytes sent. The host re-encodes unless asked
            not to, so this goes only with `convert_to_webp=False` and without `format`, `quality`
            and `remove_exif`.
        idempotency_key: The key of this upload, to repeat it in another process; random by default.
        progress: Called as `progress(sent, total)` with bytes of the file while it is sent.

    Raises:
        ImageHostError: The host refused, or could not be reached.
        OSError: The file cannot be read.
    """
    re_encoded = (
        convert_to_webp is not False or format not in {None, "auto"} or quality is not None or remove_exif
    )
    if checksum and re_encoded:
        raise ValueError(
            "expected convert_to_webp=False, and no format, quality or remove_exif, for checksum=True "
            "but received options that let the host re-encode the image"
        )
    return Call(
        method="POST",
        path="/upload",
        decode=partial(_wire.decode, Image),
        fields=_fields(
            album_id=None if album_id is None else album_id_of(album_id),
            description=description,
            quality=quality,
            format=format,
            remove_exif=remove_exif,
            convertToWebP=convert_to_webp,
            auto_rename=auto_rename,
            is_public=is_public,
        ),
        file=FilePart(source=source, filename=filename, progress=progress, checksum=checksum),
        key=idempotency_key or "",
    )


def list_images(
    *, album_id: AlbumRef | None = None, page: int | None = None, per_page: int | None = None
) -> Call[Page[Image]]:
    """List your images, newest first.

    Args:
        album_id: Only the images of this album.
        page: The page to begin at, from 1.
        per_page: Records a request, 1–100; 20 by default.
    """
    query = query_pairs(
        album_id=None if album_id is None else album_id_of(album_id), page=page, per_page=per_page
    )
    return paged("/images", "images", Image, query)


def gallery(*, page: int | None = None, per_page: int | None = None) -> Call[Page[PublicImage]]:
    """List the public images of all accounts, newest first; this needs no token.

    Args:
        page: The page to begin at, from 1.
        per_page: Records a request, 1–100; 20 by default.
    """
    return paged("/gallery", "images", PublicImage, query_pairs(page=page, per_page=per_page))


def get_image(image: ImageRef) -> Call[Image]:
    """Return one image of yours.

    Args:
        image: The image, or its id.
    """
    return single("GET", Image, "images", image_id(image))


def update_image(
    image: ImageRef,
    *,
    album_id: AlbumRef | Unset | None = UNSET,
    description: str | Unset = UNSET,
    is_public: bool | Unset = UNSET,
    filename: str | Unset = UNSET,
) -> Call[Image]:
    """Change an image's record; what is left out stays as it is.

    Args:
        image: The image, or its id.
        album_id: The album to move it to; `None` takes it out of its album.
        description: A text about the image.
        is_public: Whether the public gallery shows it.
        filename: Its name.
    """
    album = album_id if album_id is None or album_id is UNSET else album_id_of(album_id)
    body = drop_unset(album_id=album, description=description, is_public=is_public, filename=filename)
    return single("PATCH", Image, "images", image_id(image), body=body)


def delete_image(image: ImageRef) -> Call[Deleted]:
    """Delete an image and everything made from it, for good.

    Args:
        image: The image, or its id.

    Raises:
        NotFoundError: There is no such image of yours. Where an earlier try of the same call may
            have deleted it, that is success.
    """
    number = image_id(image)
    return evolve(single("DELETE", Deleted, "images", number), on_not_found=Deleted(id=number))


def render_image(image: ImageRef, **params: Params) -> Call[Rendered]:
    """Fetch a picture, resized or in another format; without parameters, the stored bytes.

    The token goes along, so that your private images are shown to you.

    Args:
        image: The image, or its id.
        **params: `w`, `h`, `q`, `fit` and `fm`, as for `image_url`.

    Raises:
        ValueError: A value is out of its range.
        NotFoundError: There is no such image that you may see.
    """
    query = query_pairs(**build_query(params))
    path = f"/img/{path_segment(image_id(image))}"
    return Call(method="GET", path=path, query=query, decode=_wire.decode_image, binary=True)


def sign_image_url(image: ImageRef, *, expires_in: int = 3600, **params: Params) -> Call[SignedUrl]:
    """Return a delivery address that works without a token for a time, also for a private image.

    Args:
        image: The image, or its id.
        expires_in: Seconds for which it works, an hour by default.
        **params: `w`, `h`, `q`, `fit` and `fm`, as for `image_url`.
    """
    body: dict[str, object] = {**build_query(params), "expires_in": expires_in}
    return single("POST", SignedUrl, "images", image_id(image), "signed-url", body=body)


def _fields(**values: str | int | bool | None) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name, str(value).lower() if isinstance(value, bool) else str(value))
        for name, value in values.items()
        if value is not None
    )
