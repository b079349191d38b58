"""HTML attributes and elements that show an image in several sizes and formats."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from html import escape
from math import isqrt
from typing import Literal, TypedDict, Unpack, cast
from urllib.parse import urlencode

from imagehost_core.errors import BadRequestError, ValidationError, quote_value
from imagehost_core.formats import FORMATS, Format
from imagehost_core.models import Image
from imagehost_core.transform import (
    AUTO,
    FORMAT_NAMES,
    MAX_OUTPUT_PIXELS,
    MAX_SIDE,
    TRANSFORM_PARAMETERS,
    FitName,
    OutputFormat,
    SourceFormat,
    TransformKeywords,
    parse_transform,
    transform_parameters,
)

DEFAULT_WIDTHS = (320, 640, 960, 1280, 1920, 2560)
"""The default widths of a `srcset`, from phones to large screens, in pixels."""

_ATTRIBUTE = re.compile(r"[^\s\"'<>/=\x00-\x1f\x7f]+")
_SOURCE_FORMATS = {name: fmt for name, fmt in FORMAT_NAMES.items() if isinstance(fmt, Format)}


class ShapeKeywords(TypedDict, total=False):
    """The parameters of a `<picture>` element's variants; `None` omits one.

    Attributes:
        h: The height at the largest width, 1–8192 pixels; at others it is scaled to the same aspect ratio.
        q: The quality, 1–100.
        fit: How the image is fitted into the size; with `h`, `cover`, `contain` or `fill`.
    """

    h: int | None
    q: int | None
    fit: FitName | None


class SrcsetKeywords(ShapeKeywords, total=False):
    """The parameters of the variants of a `srcset`, which sets their widths; `fm` is their format."""

    fm: OutputFormat | None


class PictureKeywords(ShapeKeywords, total=False):
    """The options of a `<picture>` element.

    Attributes:
        alt: The alternative text; by default the image's description.
        loading: `lazy`, the default, to load the image only when it is near the viewport, or `eager`.
        sizes: The `sizes` attribute: the display width; by default `100vw`.
        formats: Formats offered in `<source>` elements before `fm=auto`, in order of preference; by default
            none. With `avif` and `webp`, caches need not tell clients apart, but screenshots become AVIF.
        attributes: Attributes of `<img>`; `None` and `False` omit one, and `True` is one without a value.
    """

    alt: str | None
    loading: Literal["lazy", "eager"]
    sizes: str
    formats: Iterable[SourceFormat]
    attributes: Mapping[str, str | int | bool | None] | None


def variant_url(url: str, params: TransformKeywords) -> str:
    """Return the URL of a variant.

    Args:
        url: The URL of the image.
        params: The parameters of the variant; `None` omits one.

    Raises:
        BadRequestError: A parameter is not allowed.
    """
    given = cast("Mapping[str, object]", transform_parameters("", params))
    parse_transform(given)
    query = urlencode({name: given[name] for name in TRANSFORM_PARAMETERS if name in given})
    return f"{url}?{query}" if query else url


def srcset(image: Image, url: str, widths: Iterable[int], params: TransformKeywords) -> str:
    """Return the value of a `srcset` attribute; arguments and errors are those of `ImageHost.srcset`."""
    return _format(url, _variants(image, widths, params))


def picture(
    image: Image,
    url: str,
    widths: Iterable[int],
    *,
    alt: str | None = None,
    loading: str = "lazy",
    sizes: str = "100vw",
    formats: Iterable[SourceFormat] = (),
    attributes: Mapping[str, str | int | bool | None] | None = None,
    **params: Unpack[TransformKeywords],
) -> str:
    """Return a `<picture>` element; arguments and errors are those of `ImageHost.picture`."""
    widths = list(widths)
    if loading not in {"lazy", "eager"}:
        raise ValidationError.of("loading", "lazy or eager", quote_value(loading))
    offered = [_SOURCE_FORMATS.get("jpg" if fm == Format.JPEG else fm) or _refuse(fm) for fm in formats]
    own = _variants(image, widths, {**params, "fm": AUTO})
    sources = "".join(
        f"<source {_attributes({'type': FORMATS[fmt].media_type, 'srcset': candidates, 'sizes': sizes})}>"
        for fmt in offered
        for candidates in [
            _format(url, _variants(image, widths, {**params, "fm": cast("SourceFormat", fmt)}))
        ]
        if candidates
    )
    largest = own[-1]
    cropped = largest.get("h") is not None
    values: dict[str, str | int | bool | None] = {
        "src": variant_url(url, largest),
        "srcset": _format(url, own),
        "sizes": sizes,
        "width": largest["w"] if cropped else image.width,
        "height": largest["h"] if cropped else image.height,
        "alt": image.description if alt is None else alt,
        "loading": loading,
        "decoding": "async",
        "style": _background_colour(image.placeholder),
        "data-thumbhash": image.placeholder or None,
    }
    for name, value in (attributes or {}).items():
        if name.lower() in {"src", "srcset", "sizes"} or not _ATTRIBUTE.fullmatch(name):
            raise ValidationError.of("attributes", "the name of another attribute", quote_value(name))
        values[name.lower()] = value
    return f"<picture>{sources}<img {_attributes(values)}></picture>"


def _variants(image: Image, widths: Iterable[int], params: TransformKeywords) -> list[TransformKeywords]:
    """Return the parameters of each URL of a `srcset`.

    A width above the image's, or of a larger output than the host or the format allows, is replaced by the
    largest that the host renders.
    """
    if "w" in params:
        raise TypeError("expected h, q, fit or fm for a parameter of srcset but received w, a width")
    parse_transform(transform_parameters("", params))
    requested = list(widths)
    height = params.get("h")
    if not requested or any(type(width) is not int or width < 1 for width in requested):
        raise BadRequestError.of("widths", "positive integers", quote_value(requested))
    box_width, box_height = image.width, image.height
    limit = min(image.width, MAX_SIDE)
    if height is not None:
        if params.get("fit") in {"inside", "outside"}:
            raise BadRequestError.of("fit", "cover, contain or fill, beside h,", quote_value(params["fit"]))
        box_width, box_height = max(requested), height
        limit = min(limit, max(1, min(image.height, MAX_SIDE) * box_width // box_height))

    def scaled(width: int) -> int:
        return max(1, (2 * box_height * width + box_width) // (2 * box_width))

    limit = min(limit, max(1, isqrt(MAX_OUTPUT_PIXELS * box_width // box_height)))
    while limit > 1 and limit * scaled(limit) > MAX_OUTPUT_PIXELS:  # the height is rounded up
        limit -= 1
    if (fmt := _output_format(params)) is not None:
        side = FORMATS[fmt].max_side
        limit = min(limit, side, (box_width * (2 * side + 1) - 1) // (2 * box_height))
    if not limit:
        return []
    return [
        {**params, "w": width, "h": None if height is None else min(image.height, scaled(width))}
        for width in sorted({min(width, limit) for width in requested})
    ]


def _output_format(params: TransformKeywords) -> Format | None:
    """Return the requested format; `None` for the stored one and `AUTO`, which can hold any image."""
    fmt = parse_transform(transform_parameters("", params)).format
    return fmt if isinstance(fmt, Format) else None


def _format(url: str, variants: Iterable[TransformKeywords]) -> str:
    return ", ".join(f"{variant_url(url, variant)} {variant['w']}w" for variant in variants)


def _refuse(fm: object) -> Format:
    raise BadRequestError.of("formats", f"one of {', '.join(_SOURCE_FORMATS)}", quote_value(fm))


def _attributes(values: Mapping[str, str | int | bool | None]) -> str:
    return " ".join(
        name if value is True else f'{name}="{escape(str(value))}"'
        for name, value in values.items()
        if value is not None and value is not False
    )


def _background_colour(placeholder: str) -> str | None:
    """Return the CSS declaration of a ThumbHash's average colour, or `None` if it is invalid.

    A ThumbHash begins with 24 bits, lowest first: 6 of mean lightness, 6 of mean yellow against blue, 6 of
    mean red against green (https://evanw.github.io/thumbhash/).
    """
    try:
        head = base64.b64decode(placeholder, validate=True)
    except (binascii.Error, ValueError):
        return None
    if len(head) < 5:
        return None
    bits = int.from_bytes(head[:3], "little")
    lightness, yellow = (bits & 63) / 63, (bits >> 6 & 63) / 31.5 - 1
    red_green = (bits >> 12 & 63) / 31.5 - 1
    blue = lightness - 2 / 3 * yellow
    red = (3 * lightness - blue + red_green) / 2
    channels = (round(255 * min(1.0, max(0.0, value))) for value in (red, red - red_green, blue))
    return "background-color:#{:02x}{:02x}{:02x}".format(*channels)
