"""Addresses of pictures: one size, a `srcset` of several, and a `<picture>` that uses them.

Nothing here asks the host. A value that the processing route would refuse is refused here.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

from imagehost_client.models import Image, PublicImage

Params = int | str | None
"""A value of a processing parameter; `None` leaves it out."""

MAX_SIDE = 8192
"""The largest `w` or `h` that the processing route takes, in pixels."""

RANGES: dict[str, int] = {"w": MAX_SIDE, "h": MAX_SIDE, "q": 100}
"""The largest value of each numeric parameter; the smallest is 1."""

CHOICES: dict[str, tuple[str, ...]] = {
    "fit": ("cover", "contain", "fill", "inside", "outside"),
    "fm": ("jpg", "png", "webp", "avif", "auto"),
}
"""The values of each named parameter."""

DEFAULT_WIDTHS = (320, 640, 960, 1280, 1920, 2560)
"""The widths of a `srcset` that names none: phones to large screens, each step a half to a third more."""

MIME_TYPES: dict[str, str] = {
    "jpg": "image/jpeg",
    "png": "image/png",
    "webp": "image/webp",
    "avif": "image/avif",
}


def build_query(params: Mapping[str, Params]) -> dict[str, int | str]:
    """Return processing parameters as the route takes them, in the order w, h, q, fit, fm.

    Args:
        params: Values by name. `w` and `h` are pixels of the upright picture.

    Raises:
        ValueError: A value is out of its range.
        TypeError: There is no such parameter.
    """
    unknown = sorted(set(params) - set(RANGES) - set(CHOICES))
    if unknown:
        raise TypeError(f"expected w, h, q, fit or fm for a parameter but received {unknown[0]!r}")
    query: dict[str, int | str] = {}
    for name, maximum in RANGES.items():
        value = params.get(name)
        if value is None:
            continue
        if type(value) is not int or not 1 <= value <= maximum:
            raise ValueError(f"expected an integer from 1 to {maximum} for {name} but received {value!r}")
        query[name] = value
    for name, choices in CHOICES.items():
        value = params.get(name)
        if value is None:
            continue
        if value not in choices:
            raise ValueError(f"expected one of {', '.join(choices)} for {name} but received {value!r}")
        query[name] = str(value)
    return query


def image_url(image: str | Image | PublicImage, *, cdn_url: str = "", **params: Params) -> str:
    """Return the address of an image, resized or in another format.

    Args:
        image: The image, or its id.
        cdn_url: Where images are served; needed for an id alone.
        **params: `w` and `h` (pixels), `q` (1–100), `fit` and `fm`, as the processing route takes them.

    Raises:
        ValueError: A value is out of its range.
    """
    return _address(image, params, cdn_url)


def _address(image: str | Image | PublicImage, params: Mapping[str, Params], cdn_url: str = "") -> str:
    query = urlencode(build_query(params))
    if isinstance(image, str):
        if not image or "/" in image or not cdn_url:
            raise ValueError(f"expected an image or its id, and a cdn_url, for image but received {image!r}")
        return f"{cdn_url.rstrip('/')}/{quote(image, safe='')}" + (f"?{query}" if query else "")
    parts = urlsplit(image.url)
    return urlunsplit((parts.scheme, parts.netloc, parts.path, query, ""))


def srcset(image: Image | PublicImage, widths: Iterable[int] = DEFAULT_WIDTHS, **params: Params) -> str:
    """Return the value of a `srcset` attribute.

    No candidate is wider than the image: a wider one is replaced by the image's own width, for
    enlarging adds bytes and no detail.

    Args:
        image: The image.
        widths: Widths in pixels.
        **params: `q`, `fit` and `fm`; sizes are given by `widths` alone.

    Raises:
        ValueError: There is no width, or a value is out of its range.
    """
    if {"w", "h"} & set(params):
        raise TypeError("expected q, fit or fm for a parameter of srcset but received a size")
    candidates = effective_widths(image.width, widths)
    return ", ".join(f"{_address(image, {**params, 'w': width})} {width}w" for width in candidates)


def effective_widths(width: int, widths: Iterable[int]) -> list[int]:
    """Return `widths` in order, each once, none above `width` or what the route takes.

    Raises:
        ValueError: There is none, or one is not positive.
    """
    limit = min(width, MAX_SIDE)
    wanted = list(widths)
    if not wanted or any(type(wish) is not int or wish < 1 for wish in wanted):
        raise ValueError(f"expected positive integers for widths but received {wanted!r}")
    return sorted({min(wish, limit) for wish in wanted})


def picture_html(
    image: Image | PublicImage,
    widths: Iterable[int] = DEFAULT_WIDTHS,
    *,
    sizes: str = "100vw",
    alt: str | None = None,
    formats: Iterable[str] = ("avif", "webp"),
    lazy: bool = True,
    **params: Params,
) -> str:
    """Return a `<picture>` element: the best format and size for each viewer, and no jump on loading.

    It has the picture's width and height, its average colour as background until it is loaded, and its
    ThumbHash in `data-thumbhash` for scripts that draw one.

    Args:
        image: The image.
        widths: Widths in pixels; none is used that is above the image's own.
        sizes: The element's `sizes` attribute: how wide the picture is shown.
        alt: What the picture shows; the image's description by default.
        formats: Formats that are offered before the stored one, best first.
        lazy: Whether it is loaded only when it comes near the screen.
        **params: `q` and `fit` for every candidate.
    """
    from html import escape  # slow to import

    wanted = list(widths)
    sources = "".join(
        f'<source type="{_media_type(fm)}" srcset="{escape(srcset(image, wanted, fm=fm, **params))}" '
        f'sizes="{escape(sizes)}">'
        for fm in formats
    )
    largest = effective_widths(image.width, wanted)[-1]
    attributes = {
        "src": _address(image, {**params, "w": largest}),
        "srcset": srcset(image, wanted, **params),
        "sizes": sizes,
        "width": str(image.width),
        "height": str(image.height),
        "alt": image.description if alt is None else alt,
        "loading": "lazy" if lazy else None,
        "decoding": "async",
        "style": _background(image.placeholder),
        "data-thumbhash": image.placeholder or None,
    }
    shown = " ".join(f'{name}="{escape(value)}"' for name, value in attributes.items() if value is not None)
    return f"<picture>{sources}<img {shown}></picture>"


def average_colour(placeholder: str) -> tuple[int, int, int] | None:
    """Return the mean red, green and blue (0–255) of a ThumbHash, or `None` where it is not one.

    A ThumbHash begins with 24 bits, lowest first: 6 of mean lightness, 6 of mean yellow against blue,
    6 of mean red against green, 5 of scale, 1 of alpha. Lightness is the mean of the mean of red and
    green with blue thirds: `l = (r+g+b)/3`, `p = (r+g)/2 - b`, `q = r - g`
    (https://evanw.github.io/thumbhash/).
    """
    try:
        head = base64.b64decode(placeholder, validate=True)
    except (binascii.Error, ValueError):
        return None
    if len(head) < 5:
        return None
    bits = int.from_bytes(head[:3], "little")
    lightness = (bits & 63) / 63
    yellow = (bits >> 6 & 63) / 31.5 - 1
    red_green = (bits >> 12 & 63) / 31.5 - 1
    blue = lightness - 2 / 3 * yellow
    red = (3 * lightness - blue + red_green) / 2
    green = red - red_green
    return _byte(red), _byte(green), _byte(blue)


def _byte(share: float) -> int:
    return round(255 * min(1.0, max(0.0, share)))


def _background(placeholder: str) -> str | None:
    colour = average_colour(placeholder)
    return None if colour is None else "background-color:#{:02x}{:02x}{:02x}".format(*colour)


def _media_type(fm: str) -> str:
    if fm not in MIME_TYPES:
        raise ValueError(f"expected one of {', '.join(MIME_TYPES)} for formats but received {fm!r}")
    return MIME_TYPES[fm]
