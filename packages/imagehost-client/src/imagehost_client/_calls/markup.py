"""Operations that return markup with signed URLs: `srcset` and `<picture>`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Unpack
from urllib.parse import urlencode

from imagehost_client import _wire
from imagehost_client._calls.arguments import checked
from imagehost_client._calls.call import MAX_IMAGES, Call
from imagehost_client._types import PictureOptions, SrcsetParams, TransformParams
from imagehost_client.errors import ValidationError, fault
from imagehost_client.models import Image, PublicImage, SignedImageUrl
from imagehost_client.urls import DEFAULT_WIDTHS, build_query, format_srcset, plan_picture, srcset_variants


@checked
def signed_srcset(
    image: Image | PublicImage,
    widths: Iterable[int] = DEFAULT_WIDTHS,
    *,
    expires_in: int = 3600,
    **params: Unpack[SrcsetParams],
) -> Call[str]:
    """Return the value of a `srcset` attribute with signed URLs, for an image that may be private.

    Args:
        image: The image.
        widths: Widths in pixels, limited to the image's width.
        expires_in: The lifetime of the URLs in seconds, at most 365 days; an hour by default.
        **params: `h` (the height at the largest of `widths`), `q`, `fit` and `fm`.

    Raises:
        NotFoundError: You have no such image.
    """
    variants = srcset_variants(image, widths, params)
    return _signed(image, variants, expires_in, partial(format_srcset, variants))


@checked
def signed_picture(
    image: Image | PublicImage,
    widths: Iterable[int] = DEFAULT_WIDTHS,
    *,
    expires_in: int = 3600,
    **options: Unpack[PictureOptions],
) -> Call[str]:
    """Return a responsive `<picture>` element with signed URLs, for an image that may be private.

    Args:
        image: The image.
        widths: Widths in pixels, limited to the image's width.
        expires_in: The lifetime of the URLs in seconds, at most 365 days; an hour by default.
        **options: See `PictureOptions`.

    Raises:
        NotFoundError: You have no such image.
    """
    plan = plan_picture(image, widths, options)
    return _signed(image, plan.variants, expires_in, plan.html)


def _signed(
    image: Image | PublicImage,
    variants: Sequence[TransformParams],
    expires_in: int,
    build: Callable[[Sequence[str]], str],
) -> Call[str]:
    """Return the call that signs the URLs of variants, each once, and builds its result from them.

    Raises:
        ValidationError: The image has no id, or there are more variants than a request may have.
    """
    if not isinstance(image, Image | PublicImage):
        raise ValidationError(fault("image", "an Image or a PublicImage", image))
    queries = [build_query(variant) for variant in variants]
    items = {urlencode(query): query for query in queries}
    if len(items) > MAX_IMAGES:
        raise ValidationError(fault("widths", f"at most {MAX_IMAGES} URLs of all formats", len(items)))

    def decode(data: object) -> str:
        signed = _wire.decode_list(SignedImageUrl, "items", data).items
        urls = dict(zip(items, (item.url for item in signed), strict=True))
        return build([urls[urlencode(query)] for query in queries])

    return Call(
        method="POST",
        path="/signed-urls",
        decode=decode,
        body={
            "items": [{"image_id": image.id, **query} for query in items.values()],
            "expires_in": expires_in,
        },
    )
