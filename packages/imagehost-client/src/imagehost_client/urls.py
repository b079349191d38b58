"""Image URLs: a single URL, a `srcset`, and a `<picture>` element. No requests are sent.

Processing parameters are validated as the host does.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

from imagehost_client.models import Image, PublicImage

Params = int | str | None
"""The value of a processing parameter; `None` omits it."""

MAX_SIDE = 8192
"""The maximum of `w` and `h`, in pixels."""

RANGES: dict[str, int] = {"w": MAX_SIDE, "h": MAX_SIDE, "q": 100}
"""The maximum of each numeric parameter; the minimum is 1."""

CHOICES: dict[str, tuple[str, ...]] = {
    "fit": ("cover", "contain", "fill", "inside", "outside"),
    "fm": ("jpg", "png", "webp", "avif", "auto"),
}
"""The allowed values of the other parameters."""

DEFAULT_WIDTHS = (320, 640, 960, 1280, 1920, 2560)
"""The default widths of a `srcset`, from phones to large screens."""

MIME_TYPES: dict[str, str] = {
    "jpg": "image/jpeg",
    "png": "image/png",
    "webp": "image/webp",
    "avif": "image/avif",
}

_ID_SEGMENT = re.compile(r"/([0-9A-Za-z]{16})(?:\.[0-9A-Za-z]+)?(?=/|$)")
"""An image id as a segment of a URL's path, with an extension or without."""


def parse_image_id(text: str) -> str:
    """Return the image id in a URL: of delivery, of the API, or of a page. Any other text is returned as is.

    Args:
        text: A URL that begins with `http://` or `https://`, or an id.

    Raises:
        ValueError: The URL has no image id in its path.
    """
    if not text.lower().startswith(("http://", "https://")):
        return text
    ids = _ID_SEGMENT.findall(urlsplit(text).path)
    if not ids:
        raise ValueError(f"expected an image id or an image's URL for image but received {text!r}")
    return str(ids[-1])


def build_query(params: Mapping[str, Params]) -> dict[str, int | str]:
    """Return the query of processing parameters, in the order w, h, q, fit, fm.

    Args:
        params: Values by name. `w` and `h` are pixels after applying the EXIF orientation.

    Raises:
        ValueError: A value is out of its range.
        TypeError: A parameter is unknown.
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
    """Return the delivery URL of an image, resized or in another format.

    Args:
        image: The image, its id, or any of its URLs.
        cdn_url: The base URL of image delivery; required with an id or a URL.
        **params: `w` and `h` (pixels), `q` (1–100), `fit` and `fm`.

    Raises:
        ValueError: A value is out of its range.
    """
    return _build_url(image, params, cdn_url)


def _build_url(image: str | Image | PublicImage, params: Mapping[str, Params], cdn_url: str = "") -> str:
    query = urlencode(build_query(params))
    if isinstance(image, str):
        image_id = parse_image_id(image)
        if not image_id or "/" in image_id or not cdn_url:
            raise ValueError(f"expected an image or its id, and a cdn_url, for image but received {image!r}")
        return f"{cdn_url.rstrip('/')}/{quote(image_id, safe='')}" + (f"?{query}" if query else "")
    parts = urlsplit(image.url)
    return urlunsplit((parts.scheme, parts.netloc, parts.path, query, ""))


def srcset(image: Image | PublicImage, widths: Iterable[int] = DEFAULT_WIDTHS, **params: Params) -> str:
    """Return the value of a `srcset` attribute.

    A width above the image's is replaced by the image's width, because upscaling adds no detail.

    Args:
        image: The image.
        widths: Widths in pixels.
        **params: `q`, `fit` and `fm`.

    Raises:
        ValueError: There are no widths, or a value is out of its range.
        TypeError: A parameter is unknown, or is a size.
    """
    if {"w", "h"} & set(params):
        raise TypeError("expected q, fit or fm for a parameter of srcset but received a size")
    candidates = effective_widths(image.width, widths)
    return ", ".join(f"{_build_url(image, {**params, 'w': width})} {width}w" for width in candidates)


def effective_widths(width: int, widths: Iterable[int]) -> list[int]:
    """Return `widths` sorted, without duplicates, and limited to `width` and `MAX_SIDE`.

    Raises:
        ValueError: There are no widths, or one is not a positive integer.
    """
    limit = min(width, MAX_SIDE)
    requested = list(widths)
    if not requested or any(type(value) is not int or value < 1 for value in requested):
        raise ValueError(f"expected positive integers for widths but received {requested!r}")
    return sorted({min(value, limit) for value in requested})


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
    """Return a responsive `<picture>` element, with several formats and sizes and no layout shift.

    It has the image's width and height, its average colour as background while loading, and its
    ThumbHash in `data-thumbhash` for scripts that render it.

    Args:
        image: The image.
        widths: Widths in pixels, limited to the image's width.
        sizes: The `sizes` attribute: the display width.
        alt: The alternative text; by default the image's description.
        formats: Formats offered before the stored one, in order of preference.
        lazy: Whether to load the image only when it is near the viewport.
        **params: `q` and `fit` of every URL.
    """
    from html import escape  # slow to import

    requested = list(widths)
    sources = "".join(
        f'<source type="{_media_type(fm)}" srcset="{escape(srcset(image, requested, fm=fm, **params))}" '
        f'sizes="{escape(sizes)}">'
        for fm in formats
    )
    largest = effective_widths(image.width, requested)[-1]
    attributes = {
        "src": _build_url(image, {**params, "w": largest}),
        "srcset": srcset(image, requested, **params),
        "sizes": sizes,
        "width": str(image.width),
        "height": str(image.height),
        "alt": image.description if alt is None else alt,
        "loading": "lazy" if lazy else None,
        "decoding": "async",
        "style": _background(image.placeholder),
        "data-thumbhash": image.placeholder or None,
    }
    text = " ".join(f'{name}="{escape(value)}"' for name, value in attributes.items() if value is not None)
    return f"<picture>{sources}<img {text}></picture>"


def average_colour(placeholder: str) -> tuple[int, int, int] | None:
    """Return the average red, green and blue (0–255) of a ThumbHash, or `None` if it is invalid.

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


def _byte(value: float) -> int:
    return round(255 * min(1.0, max(0.0, value)))


def _background(placeholder: str) -> str | None:
    colour = average_colour(placeholder)
    return None if colour is None else "background-color:#{:02x}{:02x}{:02x}".format(*colour)


def _media_type(fm: str) -> str:
    if fm not in MIME_TYPES:
        raise ValueError(f"expected one of {', '.join(MIME_TYPES)} for formats but received {fm!r}")
    return MIME_TYPES[fm]
