"""Image URLs: a single URL, a `srcset`, and a `<picture>` element. No requests are sent.

Transform parameters are validated as the host does.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import accumulate, pairwise
from math import isqrt
from types import SimpleNamespace
from typing import Any, Literal, Unpack, cast, get_args
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

from attrs import frozen

from imagehost_client._types import BY_EXTENSION, DELIVERABLE, FORMATS, Fit
from imagehost_client._types import Attributes as Attributes
from imagehost_client._types import DisplayedImage as DisplayedImage
from imagehost_client._types import ImageRow as ImageRow
from imagehost_client._types import Loading as Loading
from imagehost_client._types import PictureOptions as PictureOptions
from imagehost_client._types import SourceFormat as SourceFormat
from imagehost_client._types import SrcsetParams as SrcsetParams
from imagehost_client._types import TransformParams as TransformParams
from imagehost_client.errors import BadRequestError, Check, ValidationError, fault, rule
from imagehost_client.models import Format, Image, PublicImage

MAX_SIDE = 8192
"""The maximum of `w` and `h`, in pixels."""
MAX_OUTPUT_PIXELS = 40_000_000
"""The maximum size of an image in a URL with parameters, in pixels."""

SYNONYMS = {name: info.extensions[0] for info in DELIVERABLE.values() for name in info.extensions[1:]}
"""Values that are accepted besides those in URLs."""

OUTPUT_FORMATS = (*(name for info in DELIVERABLE.values() for name in info.extensions), "auto")
"""The names of formats in which hosts deliver images."""


def integer(minimum: int, maximum: int | None = None) -> Check:
    """Return a check for integers in a range."""
    bounds = f"of at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
    return rule(
        f"an integer {bounds}",
        lambda value: type(value) is int and minimum <= value <= (value if maximum is None else maximum),
    )


def choice(*choices: str) -> Check:
    """Return a check for one of several strings."""
    return rule(f"one of {', '.join(choices)}", lambda value: isinstance(value, str) and value in choices)


TRANSFORM_CHECKS: dict[str, Check] = {
    "w": integer(1, MAX_SIDE),
    "h": integer(1, MAX_SIDE),
    "q": integer(1, 100),
    "fit": choice(*get_args(Fit)),
    "fm": choice(*OUTPUT_FORMATS),
}
"""The checks of transform parameters, in the order of URLs."""

DEFAULT_WIDTHS = (320, 640, 960, 1280, 1920, 2560)
"""The default widths of a `srcset`, from phones to large screens."""

PICTURE_DEFAULTS: PictureOptions = {
    "alt": None,
    "loading": "lazy",
    "sizes": "100vw",
    "formats": (),
    "attributes": None,
}
"""The options of a `<picture>` element beside its transform parameters."""

MIME_TYPES = {info.extensions[0]: info.media_type for info in DELIVERABLE.values()}
"""The media types of formats by their names in URLs."""

_ID_SEGMENT = re.compile(r"/([0-9A-Za-z]{16})(?:\.[0-9A-Za-z]+)?(?=/|$)")
"""An image id as a segment of a URL's path, with an extension or without."""
_FILE_NAME = re.compile(r"([0-9A-Za-z]{16})\.[0-9A-Za-z]+")
"""The last segment of a delivery URL."""


_ATTRIBUTE = re.compile(r"[^\s\"'<>/=\x00-\x1f\x7f]+")
"""The name of an HTML attribute."""


def parse_image_id(text: str) -> str | None:
    """Return the image id in a URL or a file name such as `<id>.webp`. Any other text is returned as it is.

    Args:
        text: A URL of delivery, of the API or of a page, which begins with `http://` or `https://`; a file
            name; or an id.

    Returns:
        `None` for a URL without an image id in its path.
    """
    if not text.lower().startswith(("http://", "https://")):
        name = _FILE_NAME.fullmatch(text)
        return name[1] if name else text
    ids = _ID_SEGMENT.findall(urlsplit(text).path)
    return str(ids[-1]) if ids else None


def build_query(params: Mapping[str, object], prefix: str = "") -> dict[str, int | str]:
    """Return the query of transform parameters, in the order w, h, q, fit, fm.

    Args:
        params: Values by name; `None` omits one. `w` and `h` are pixels after applying the EXIF orientation.
        prefix: What the names have in front in errors, if `params` is no keywords but a mapping.

    Raises:
        BadRequestError: Values or names of a mapping are not allowed; `details` names all values.
        TypeError: A keyword is unknown.
    """
    unknown = sorted(set(params) - set(TRANSFORM_CHECKS))
    if unknown and prefix:
        raise BadRequestError(fault(prefix.rstrip("."), f"only {', '.join(TRANSFORM_CHECKS)}", unknown[0]))
    if unknown:
        raise TypeError(f"expected w, h, q, fit or fm for a parameter but received {unknown[0]!r}")
    given = {name: params[name] for name in TRANSFORM_CHECKS if params.get(name) is not None}
    faults = [TRANSFORM_CHECKS[name](prefix + name, value) for name, value in given.items()]
    if any(faults):
        raise BadRequestError("; ".join(filter(None, faults)))
    return {name: SYNONYMS.get(plain(value), plain(value)) for name, value in given.items()}


def plain(value: Any) -> Any:
    """Return a value; text as what it is: `str` of a member of an enumeration may be the member's name."""
    return str.__str__(value) if isinstance(value, str) else value


def image_url(
    image: str | Image | PublicImage | ImageRow, *, cdn_url: str = "", **params: Unpack[TransformParams]
) -> str:
    """Return the delivery URL of an image, resized or in another format.

    Args:
        image: The image, its id, any of its URLs, or a mapping with its `url`.
        cdn_url: The base URL of image delivery; required with an id or a URL.
        **params: `w` and `h` (pixels), `q` (1–100), `fit` and `fm`.

    Raises:
        BadRequestError: Values are out of their ranges.
    """
    if isinstance(image, Mapping) and image.get("url"):
        return _build_url(str(image["url"]), params)
    if not isinstance(image, str | Mapping):
        return _build_url(image.url, params)
    image_id = parse_image_id(image) if isinstance(image, str) else None
    if not image_id or "/" in image_id or not cdn_url:
        raise ValidationError(fault("image", "an image or its id, and a cdn_url,", image))
    return _build_url(f"{cdn_url.rstrip('/')}/{quote(image_id, safe='')}", params)


def _build_url(url: str, params: Mapping[str, object]) -> str:
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc, parts.path, urlencode(build_query(params)), ""))


SIGNING_KEY_PREFIX = "ihsig_"
"""The beginning of signing keys."""


def sign(
    image: str | Image | PublicImage | ImageRow,
    *,
    key: str,
    expires_at: datetime | int,
    cdn_url: str = "",
    **params: Unpack[TransformParams],
) -> str:
    """Return a signed delivery URL, which gives access without a token until it expires; sends no request.

    It is the URL that the host returns for the same parameters and time. All of them end when the key is
    renewed by `client.renew_signing_secret`, of whose result the key is.

    Args:
        image: The image, as for `image_url`.
        key: The `signing_key` of the account that owns the image.
        expires_at: The time, with a UTC offset, or as a Unix timestamp.
        cdn_url: The base URL of image delivery; required with an id or a URL.
        **params: `w`, `h`, `q`, `fit` and `fm`, as for `image_url`.

    Raises:
        BadRequestError: Values are out of their ranges.
        ValidationError: The key is not one, or the time has no UTC offset.
    """
    import hmac  # slow to import

    expires = expires_at
    if isinstance(expires_at, datetime) and expires_at.tzinfo is not None:
        expires = int(expires_at.timestamp())
    if type(expires) is not int or not 0 < expires < 10**12:
        raise ValidationError(
            fault("expires_at", "a time with a UTC offset, or a Unix timestamp,", expires_at)
        )
    query = build_query(params)
    if query.get("fit") == "cover":
        del query["fit"]
    parts = urlsplit(image_url(image, cdn_url=cdn_url))
    folder, _, name = parts.path.rpartition("/")
    image_id, _, extension = name.partition(".")
    fm = query.get("fm")
    kind = "" if fm is None else BY_EXTENSION.get(str(fm), str(fm))
    if isinstance(kind, Format):
        extension = FORMATS[kind].extensions[0]
    payload = f"{image_id}\n{urlencode(query)}\n{kind!s}\n{expires}"
    signature = _base64url(hmac.digest(_signing_key(key), payload.encode(), "sha256"))
    path = f"{folder}/{image_id}.{extension}" if extension else parts.path
    signed = urlencode({**query, "exp": expires, "sig": signature})
    return urlunsplit((parts.scheme, parts.netloc, path, signed, ""))


def _signing_key(text: str) -> bytes:
    coded = text.removeprefix(SIGNING_KEY_PREFIX)
    try:
        key = base64.b64decode(coded + "=" * (-len(coded) % 4), altchars=b"-_", validate=True)
    except ValueError:
        key = b""
    if len(key) != 32 or coded == text:
        raise ValidationError(f"expected {SIGNING_KEY_PREFIX} and 43 characters for key but received others")
    return key


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def srcset(
    image: DisplayedImage | ImageRow,
    widths: Iterable[int] = DEFAULT_WIDTHS,
    **params: Unpack[SrcsetParams],
) -> str:
    """Return the value of a `srcset` attribute.

    A width above the image's, of more than 40 million pixels, or of a side that the format cannot hold (WebP:
    16,383 pixels), is replaced by the largest that the host renders.

    Args:
        image: The image.
        widths: Widths in pixels.
        **params: `h` (the height at the largest of `widths`), `q`, `fit` and `fm`.

    Raises:
        BadRequestError: There are no widths, a value is out of its range, or `fit` is `inside` or `outside`
            with `h`.
        TypeError: A parameter is unknown, or is a width.
    """
    image = require_displayed(image)
    variants = srcset_variants(image, widths, params)
    return format_srcset(variants, [_build_url(image.url, variant) for variant in variants])


def srcset_variants(
    image: DisplayedImage, widths: Iterable[int], params: Mapping[str, object]
) -> list[TransformParams]:
    """Return the transform parameters of each URL of a `srcset`; arguments and errors are its own."""
    require_displayed(image)
    if "w" in params:
        raise TypeError("expected h, q, fit or fm for a parameter of srcset but received w, a width")
    build_query(params)
    requested = list(widths)
    height = cast("int | None", params.get("h"))
    fm = cast("str | None", params.get("fm"))
    if height is None:
        variants = [{**params, "w": width} for width in effective_widths(image, requested, fm=fm)]
    else:
        if params.get("fit") in {"inside", "outside"}:
            raise BadRequestError(fault("fit", "cover, contain or fill, beside h,", params["fit"]))
        variants = [
            {**params, "w": width, "h": min(image.height, _scaled_height(width, max(requested), height))}
            for width in effective_widths(image, requested, height, fm)
        ]
    return cast("list[TransformParams]", variants)


def _scaled_height(width: int, box_width: int, box_height: int) -> int:
    """Return the height of a box that is scaled to `width`, to the nearest pixel and at least 1."""
    return max(1, (2 * box_height * width + box_width) // (2 * box_width))


def require_displayed(image: object) -> DisplayedImage:
    """Return an image, or a mapping as one; raise ValidationError unless it has the attributes of one."""
    if isinstance(image, Mapping):
        image = SimpleNamespace(**{"description": None, "placeholder": None, **image})
    if not all(hasattr(image, name) for name in ("url", "width", "height", "description", "placeholder")):
        raise ValidationError(fault("image", "an image's record", image))
    return cast("DisplayedImage", image)


def format_srcset(variants: Sequence[TransformParams], urls: Sequence[str]) -> str:
    """Return a `srcset` of variants and their URLs."""
    return ", ".join(f"{url} {variant.get('w')}w" for variant, url in zip(variants, urls, strict=True))


def effective_widths(
    image: DisplayedImage, widths: Iterable[int], height: int | None = None, fm: str | None = None
) -> list[int]:
    """Return `widths` sorted, without duplicates, and limited to those that the host renders of an image.

    Args:
        image: The image, which is not enlarged.
        widths: Widths in pixels.
        height: The height at the largest of `widths`; by default that of the image's aspect ratio.
        fm: The format of the URLs. In one that cannot hold an image of one pixel's width, there are none.

    Raises:
        BadRequestError: There are no widths, or one is not a positive integer.
    """
    requested = list(widths)
    if not requested or any(type(value) is not int or value < 1 for value in requested):
        raise BadRequestError(fault("widths", "positive integers", requested))
    limit = min(image.width, MAX_SIDE)
    box_width, box_height = image.width, image.height
    if height is not None:
        box_width, box_height = max(requested), height
        limit = min(limit, max(1, min(image.height, MAX_SIDE) * box_width // box_height))
    limit = min(limit, max(1, isqrt(MAX_OUTPUT_PIXELS * box_width // box_height)))
    # The height is rounded up to half a pixel.
    while limit > 1 and limit * _scaled_height(limit, box_width, box_height) > MAX_OUTPUT_PIXELS:
        limit -= 1
    if fm in BY_EXTENSION:
        side = FORMATS[BY_EXTENSION[fm]].max_side
        limit = min(limit, side, (box_width * (2 * side + 1) - 1) // (2 * box_height))
    return sorted({min(value, limit) for value in requested if limit})


@frozen(kw_only=True)
class PicturePlan:
    """A `<picture>` element without its URLs.

    Attributes:
        variants: The transform parameters of all URLs: of `src`, of the `srcset` of `<img>`, and of each
            source.
        formats: The format of each source.
        counts: The numbers of URLs in the `srcset` of `<img>` and of each source.
        sizes: The `sizes` attribute.
        attributes: The other attributes of `<img>`; `True` stands for one without a value.
    """

    variants: tuple[TransformParams, ...]
    formats: tuple[str, ...]
    counts: tuple[int, ...]
    sizes: str
    attributes: Mapping[str, str | Literal[True]]

    def html(self, urls: Sequence[str]) -> str:
        """Return the element with the URLs of `variants`."""
        ends = list(accumulate(self.counts, initial=1))
        own, *others = (
            format_srcset(self.variants[start:end], urls[start:end]) for start, end in pairwise(ends)
        )
        sources = "".join(
            f"<source {_attributes({'type': MIME_TYPES[fm], 'srcset': srcset, 'sizes': self.sizes})}>"
            for fm, srcset in zip(self.formats, others, strict=True)
        )
        own_attributes = {"src": urls[0], "srcset": own, "sizes": self.sizes, **self.attributes}
        return f"<picture>{sources}<img {_attributes(own_attributes)}></picture>"


def picture(
    image: DisplayedImage | ImageRow,
    widths: Iterable[int] = DEFAULT_WIDTHS,
    **options: Unpack[PictureOptions],
) -> str:
    """Return a responsive `<picture>` element, in several sizes, without layout shift.

    The host selects the format that suits the image and the browser (`fm=auto`).

    It has the image's width and height, its average colour as background while loading, and its
    ThumbHash in `data-thumbhash` for scripts that render it.

    Args:
        image: The image.
        widths: Widths in pixels, limited to the image's width.
        **options: See `PictureOptions`. A crop to 16:9 is `picture(image, [640, 1280], h=720, fit="cover")`.

    Raises:
        BadRequestError: A value is out of its range, or `fit` is `inside` or `outside` with `h`.
        ValidationError: An attribute is one of the URLs', or has an invalid name.
    """
    image = require_displayed(image)
    plan = plan_picture(image, widths, options)
    return plan.html([_build_url(image.url, variant) for variant in plan.variants])


def plan_picture(image: DisplayedImage, widths: Iterable[int], options: PictureOptions) -> PicturePlan:
    """Return a `<picture>` element without its URLs; arguments and errors are those of `picture`."""
    require_displayed(image)
    given: dict[str, Any] = {**PICTURE_DEFAULTS, **options}
    alt, loading, sizes, formats, attributes = (given.pop(name) for name in PICTURE_DEFAULTS)
    if loading not in {"lazy", "eager"}:
        raise ValidationError(fault("loading", "lazy or eager", loading))
    offered = tuple(_source_format(fm) for fm in formats)
    requested = list(widths)
    own_variants, *others = (
        srcset_variants(image, requested, {**given, "fm": fm}) for fm in ("auto", *offered)
    )
    largest = own_variants[-1]
    sources = [(fm, variants) for fm, variants in zip(offered, others, strict=True) if variants]
    lists = [own_variants, *(variants for _, variants in sources)]
    cropped = largest.get("h") is not None
    own: dict[str, str | int | bool | None] = {
        "width": largest.get("w") if cropped else image.width,
        "height": largest.get("h") if cropped else image.height,
        "alt": (image.description or "") if alt is None else alt,
        "loading": loading,
        "decoding": "async",
        "style": background_colour(image.placeholder or ""),
        "data-thumbhash": image.placeholder or None,
    }
    for name, value in (attributes or {}).items():
        if name.lower() in {"src", "srcset", "sizes"} or not _ATTRIBUTE.fullmatch(name):
            raise ValidationError(fault("attributes", "the name of another attribute", name))
        own[name.lower()] = value
    return PicturePlan(
        variants=(largest, *(variant for variants in lists for variant in variants)),
        formats=tuple(fm for fm, _ in sources),
        counts=tuple(map(len, lists)),
        sizes=sizes,
        attributes={
            name: True if value is True else str(value)
            for name, value in own.items()
            if value is not None and value is not False
        },
    )


def _attributes(values: Mapping[str, str | Literal[True]]) -> str:
    from html import escape  # slow to import

    return " ".join(name if value is True else f'{name}="{escape(value)}"' for name, value in values.items())


def _source_format(fm: str) -> str:
    name = SYNONYMS.get(fm, str(fm))
    if name not in MIME_TYPES:
        raise BadRequestError(fault("formats", f"one of {', '.join(MIME_TYPES)}", fm))
    return name


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


def background_colour(placeholder: str) -> str | None:
    """Return the CSS declaration of a ThumbHash's average colour, or `None` if it is invalid."""
    colour = average_colour(placeholder)
    return None if colour is None else "background-color:#{:02x}{:02x}{:02x}".format(*colour)


def _byte(value: float) -> int:
    return round(255 * min(1.0, max(0.0, value)))
