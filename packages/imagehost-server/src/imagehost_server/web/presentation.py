"""What templates show of images: URLs in several sizes, texts, facts, and the layout of grids.

A grid has rows of equal height, whose images fill the width, without a script. An image's share of its row
is proportional to its aspect ratio. The Content-Security-Policy of the pages forbids inline styles, so there
is a class for each ratio from 1:3 to 3:1 in steps of 0.02; the image covers the difference. Of an image
beyond these ratios, the middle fills a box of 1:2 or 3:1, so that no row is higher or lower for its sake.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from fractions import Fraction
from math import isqrt
from pathlib import PurePath

from attrs import evolve, fields, frozen

from imagehost_core import CameraData
from imagehost_core.formats import FORMATS, Format
from imagehost_core.ids import ImageId
from imagehost_core.models import THUMB_FRAMES, THUMB_SIDE, Image, Links, UrlBuilder
from imagehost_core.settings import DeliverySettings
from imagehost_core.transform import AUTO, MAX_OUTPUT_PIXELS, Size, Transform, plan
from imagehost_server.web.catalog import Texts

LINK_FORMATS = tuple(field.name for field in fields(Links))
"""The kinds of links to an image that pages offer to copy."""

ROW_HEIGHT = 230
"""The least height of a row on wide screens, in CSS pixels; `--row` in the style sheet is the same."""

MAX_ENLARGEMENT = 2.2
"""The most times that an image is enlarged to fill its box in a row of the least height. If it is somewhat
smaller than the box, a frame around it would stand out among photographs; icons would only be blurred."""

EXTREME_RATIO = 3
"""The ratio of its longer to its shorter side above which an image is tall or wide, and scrolls."""

_STEP = 2

_MIN, _MAX = 34, 300

_TALL_BOX = 50


def ratio_class(width: int, height: int) -> str:
    """Return the class of an image's box in a grid.

    Args:
        width: In pixels, at least 1.
        height: In pixels, at least 1.
    """
    return f"r{_hundredths(width, height)}"


def tile_width(width: int, height: int) -> int:
    """Return the least width of an image's box in a grid, in CSS pixels; the row may stretch it."""
    return round(_hundredths(width, height) * ROW_HEIGHT / 100)


def fills_tile(width: int, height: int) -> bool:
    """Return whether an image fills its box; a smaller one has a box of its own size."""
    return _tile_part(width, height).width * MAX_ENLARGEMENT >= tile_width(width, height)


def shape(width: int, height: int) -> str:
    """Return `tall`, `wide`, or "" for an image that is neither."""
    if height > EXTREME_RATIO * width:
        return "tall"
    return "wide" if width > EXTREME_RATIO * height else ""


def ratio_styles() -> str:
    """Return the style sheet of the classes."""
    return "".join(f".r{ratio}{{--ratio:{ratio / 100:g}}}\n" for ratio in range(_MIN, _MAX + 1, _STEP))


def accent_styles(color: str) -> str:
    """Return the style sheet of a colour of links and buttons.

    Its lightness is limited, so that text in it, and text on it, has a contrast of 4.5:1 in light and dark
    (WCAG 2.2, 1.4.3).
    """
    light, dark = (f":root{{--accent:oklch(from {color} {lightness} c h)}}" for lightness in _LIGHTNESS)
    return f"{light}@media (prefers-color-scheme:dark){{{dark}}}"


_LIGHTNESS = ("min(l,.5)", "max(l,.78)")


def _hundredths(width: int, height: int) -> int:
    if shape(width, height) == "tall":
        return _TALL_BOX
    ratio = round(100 * width / height / _STEP) * _STEP
    return min(max(ratio, _MIN), _MAX)


def _tile_part(width: int, height: int) -> Size:
    """Return the size of the part of an image that its box in a grid shows, in the image's pixels."""
    if not shape(width, height):
        return Size(width, height)
    return _part(width, height, _hundredths(width, height))


def _part(width: int, height: int, hundredths: int) -> Size:
    """Return the size of the largest part of an image with an aspect ratio."""
    return Size(
        max(1, min(width, height * hundredths // 100)), max(1, min(height, width * 100 // hundredths))
    )


WIDTHS = (320, 640, 1280, 1920)
"""Widths of variants on pages, in pixels: those that are rendered fastest from derivatives."""

TILE_WIDTHS = (320, 640, 960)
"""Widths of variants in grids: a row of 230 CSS pixels on displays of density 1 and 2."""

MIN_CARD_SIDE, MAX_CARD_SIDE = 200, 1280
"""The sides of the image of a link card, in pixels: sites show no smaller ones, and no larger ones faster."""
MAX_CARD_ANIMATION_SIDE = 400
"""The longest side of a GIF there, in pixels: one frame of random pixels has at most `CARD_BYTES`."""

COVER_RATIO = 133
"""The aspect ratio of the cover of an album, in hundredths."""

_COLUMNS = "min(100vw, 1800px) - 408px", "100vw - 2rem"
"""The widths of the image's column on its page: beside the details, and in narrow windows."""

OFFERED_FORMATS = (Format.AVIF, Format.WEBP, Format.JPEG, Format.PNG)
"""Formats that the page of an image offers; an animation is offered as WebP and GIF."""

ANIMATED_FORMATS = (Format.WEBP, Format.GIF)


@frozen(kw_only=True)
class Tile:
    """An image in a grid.

    Attributes:
        id: The image's id.
        alt: The alternative text.
        title: The text that is shown over it.
        page: The path of its page.
        src: The URL of its thumbnail; of an animation, the first frame; of a tall or wide image, its middle.
        srcset: URLs of larger variants, for `srcset`; "" where the host restricts variants.
        sizes: The width of the box, for `sizes` of an image that is loaded lazily.
        cover: URLs of variants that fill the cover of an album, for `srcset`; "" where there is no `srcset`.
        width: The width of the image in pixels.
        height: The height of the image in pixels.
        box: The classes of the box.
        placeholder: The ThumbHash, base64.
        animation: The URL of the animation that `src` is the first frame of; "" if it is none.
        is_signed: Whether `src` is a signed URL, because the browser has no access otherwise.
    """

    id: ImageId
    alt: str
    title: str
    page: str
    src: str
    srcset: str
    sizes: str
    cover: str
    width: int
    height: int
    box: str
    placeholder: str
    animation: str = ""
    is_signed: bool = False


@frozen
class Download:
    """A size and format of an image to copy.

    Attributes:
        label: The format, such as `WebP`.
        url: The URL.
        width: The width in pixels.
        height: The height in pixels.
    """

    label: str
    url: str
    width: int
    height: int


@frozen
class CardImage:
    """An image that other sites show for a link to a page.

    Attributes:
        url: The URL.
        width: The width in pixels.
        height: The height in pixels.
        format: The format.
    """

    url: str
    width: int
    height: int
    format: Format

    @property
    def media_type(self) -> str:
        """The media type, such as `image/jpeg`."""
        return FORMATS[self.format].media_type


@frozen
class ImagePresenter:
    """The presentation of images by the URLs and settings of a host."""

    _urls: UrlBuilder
    _delivery: DeliverySettings

    @property
    def has_variants(self) -> bool:
        """Whether any URL of a variant is allowed without a signature."""
        return not (self._delivery.require_signed or self._delivery.allowed_sizes)

    def tile(self, image: Image) -> Tile:
        """Return an image as a grid shows it.

        An animation does not play there: WCAG 2.2, 2.2.2 asks for a way to pause each of them. Where the host
        restricts variants, its thumbnail plays.
        """
        box_width = tile_width(image.width, image.height)
        is_small = not fills_tile(image.width, image.height)
        is_cropped = self.has_variants and not is_small and shape(image.width, image.height) != ""
        part = _tile_part(image.width, image.height) if is_cropped else None
        still = still_format(image) if self.has_variants else None
        return Tile(
            id=image.id,
            alt=alt_text(image),
            title=title_text(image),
            page=f"/i/{image.id}",
            src=self.variant(image, min((part or image).width, TILE_WIDTHS[0]), still, part)
            if still or part
            else self._urls.thumb(image),
            srcset=self.srcset(image, TILE_WIDTHS, still, part),
            sizes=("" if is_small else "auto,") + f"(max-width:{box_width}px) 100vw,{box_width}px",
            cover=self.srcset(image, TILE_WIDTHS, still, _part(image.width, image.height, COVER_RATIO)),
            width=image.width,
            height=image.height,
            box=ratio_class(image.width, image.height) + (" small" if is_small else ""),
            placeholder=image.placeholder,
            animation=self.large(image) if still else "",
        )

    def srcset(
        self,
        image: Image,
        widths: tuple[int, ...] = WIDTHS,
        fmt: Format | None = None,
        part: Size | None = None,
    ) -> str:
        """Return URLs of variants for `srcset`.

        Args:
            image: The image.
            widths: Their widths in pixels; an image that is smaller has its own instead.
            fmt: The format; by default the browser's `Accept` decides.
            part: The size of the middle of the image that they show; by default they show all of it.
        """
        if not self.has_variants:
            return ""
        shown = {*_below(part or image, widths)}
        if part is None and shape(image.width, image.height) == "wide":
            shown.add(image.width)  # its box may be wider than any window
        return ", ".join(f"{self.variant(image, width, fmt, part)} {width}w" for width in sorted(shown))

    def sizes(self, image: Image) -> str:
        """Return the width of the image on its page, for `sizes`.

        It is limited by the column beside the details or, in narrow windows, by the window; and by the height
        of the window. A tall image is limited by the column only, and a wide one by the height only.
        """
        kind, height = shape(image.width, image.height), "max(20rem, 100vh - 10rem)"
        own = [f"{image.width}px"]
        if kind != "tall":
            own.append(f"{height} * {image.width / image.height:.5g}")
        if kind == "wide":
            return f"min({', '.join(own)})"
        beside, below = (f"min({', '.join([column, *own])})" for column in _COLUMNS)
        return f"(min-width: 960px) {beside}, {below}"

    def still(self, image: Image) -> str:
        """Return URLs of the first frame of an animation, for `srcset`; "" for other images."""
        fmt = still_format(image)
        return self.srcset(image, WIDTHS, fmt) if fmt else ""

    def variant(self, image: Image, width: int, fmt: Format | None = None, part: Size | None = None) -> str:
        """Return the URL of an image in a width.

        Args:
            image: The image.
            width: In pixels.
            fmt: The format; by default the browser's `Accept` decides.
            part: The size of the middle of the image that is shown; by default it is shown as a whole.
        """
        if part is None:
            transform = Transform(width=None if width == image.width else width, format=fmt or AUTO)
        else:
            transform = Transform(width=width, height=_height(part, width), format=fmt or AUTO)
        return self._urls.image(image, transform.to_query(), FORMATS[fmt].extensions[0] if fmt else None)

    def large(self, image: Image) -> str:
        """Return the URL for the page of an image: the variant in the largest width, or the master."""
        widths = tuple(_below(image, WIDTHS))
        return self.variant(image, widths[-1]) if self.has_variants else self._urls.image(image)

    def card_images(
        self, image: Image, max_width: int | None = None, max_height: int | None = None
    ) -> tuple[CardImage, ...]:
        """Return the images that other sites show for a link to a page; the last is a still.

        That is a JPEG. Before it comes, for an animation, a GIF, which chat programs play. Where the host
        restricts variants, there is the thumbnail only.

        Args:
            image: The image.
            max_width: The largest width in pixels.
            max_height: The largest height in pixels.
        """
        if not self.has_variants:
            scale = min(1.0, THUMB_SIDE / max(image.width, image.height))
            width, height = (max(1, round(side * scale)) for side in (image.width, image.height))
            fmt = Format.WEBP if image.frames <= THUMB_FRAMES else Format.JPEG
            return (CardImage(self._urls.thumb(image), width, height, fmt),)
        limit = Size(max_width or MAX_CARD_SIDE, max_height or MAX_CARD_SIDE)
        still = self._card_image(image, limit, MAX_CARD_SIDE, Format.JPEG)
        if not image.is_animated:
            return (still,)
        return self._card_image(image, limit, MAX_CARD_ANIMATION_SIDE, Format.GIF), still

    def _card_image(self, image: Image, limit: Size, max_side: int, fmt: Format) -> CardImage:
        """Return an image within limits, cropped where a side would be shorter than `MIN_CARD_SIDE`."""
        size = Size(image.width, image.height)
        limit = Size(min(limit.width, max_side), min(limit.height, max_side))
        shortest = min(MIN_CARD_SIDE, limit.width, limit.height)
        scale = min(1.0, limit.width / size.width, limit.height / size.height)
        width, height = (
            min(longest, max(round(side * scale), shortest))
            for side, longest in ((size.width, limit.width), (size.height, limit.height))
        )
        transform = Transform(width, height, format=fmt, card=True)
        output = plan(size, transform, enlarge=self._delivery.enlarge).output
        query = evolve(transform, format=None).to_query()
        url = self._urls.image(image, query, FORMATS[fmt].extensions[0])
        return CardImage(url, output.width, output.height, fmt)

    def _download(self, image: Image, width: int, fmt: Format) -> Download:
        return Download(FORMATS[fmt].label, self.variant(image, width, fmt), width, _height(image, width))

    def downloads(self, image: Image) -> tuple[Download, ...]:
        """Return the sizes and formats that the page of an image offers; the master is not among them."""
        if not self.has_variants:
            return ()
        formats = ANIMATED_FORMATS if image.is_animated else OFFERED_FORMATS
        return tuple(
            self._download(image, width, fmt)
            for width in _below(image, WIDTHS)
            for fmt in formats
            if width <= _largest_width(image, width, fmt) or fmt is image.format
        )


def still_format(image: Image) -> Format | None:
    """Return the format of an animation's first frame; `None` if the image is not animated."""
    if not image.is_animated:
        return None
    return Format.PNG if image.has_alpha else Format.JPEG


def alt_text(image: Image) -> str:
    """Return the alternative text of an image: its description, else its file name."""
    return " ".join(image.description.split()) or image.filename


def title_text(image: Image) -> str:
    """Return the title of an image: its description, else its file name without the suffix."""
    stem = PurePath(image.filename).stem.replace("_", " ").strip()
    return " ".join(image.description.split()) or stem or image.filename


def size_text(size: int, texts: Texts) -> str:
    """Return a number of bytes with a unit, such as `1.4 MB`."""
    value = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            break
        value /= 1000
    return f"{texts.number(value, 0 if unit == 'B' or value >= 100 else 1)} {unit}"


PUBLIC_FACTS = ("taken_at", "camera", "lens", "exposure", "aperture", "iso", "focal_length")
"""What everyone sees of a photograph's metadata: no places, programs or names of people."""


def camera_facts(
    camera: CameraData, texts: Texts, names: Container[str] | None = None
) -> tuple[tuple[str, str], ...]:
    """Return what metadata says about a photograph: label and value of each fact that it has.

    Args:
        camera: The metadata.
        texts: The texts of the labels.
        names: The facts to return; `None` for all.
    """
    exposure = camera.exposure_seconds
    taken_at = camera.taken_at.isoformat(" ") if camera.taken_at else ""
    position = f"{camera.latitude:.5f}, {camera.longitude:.5f}" if camera.latitude is not None else ""
    facts = {
        "place": " · ".join(filter(None, (camera.place, position))),
        "taken_at": taken_at,
        "camera": camera.camera,
        "lens": camera.lens,
        "exposure": _exposure_text(exposure) if exposure else "",
        "aperture": f"f/{float(camera.aperture):.2g}" if camera.aperture else "",
        "iso": str(camera.iso or ""),
        "focal_length": f"{float(camera.focal_length):.4g} mm" if camera.focal_length else "",
        "software": camera.software,
        "author": camera.author,
        "copyright": camera.copyright,
    }
    return tuple(
        (texts(f"camera.{name}"), value)
        for name, value in facts.items()
        if value and (names is None or name in names)
    )


def _exposure_text(seconds: Fraction) -> str:
    """Return an exposure time as cameras show it, such as `1/250 s`."""
    return f"1/{round(1 / seconds)} s" if seconds < Fraction(1, 3) else f"{float(seconds):.3g} s"


def _below(image: Image | Size, widths: tuple[int, ...]) -> Iterator[int]:
    """Yield the widths that do not enlarge an image; a smaller image has its own."""
    smaller = [width for width in widths if width < image.width]
    # What needs no new pixels is not limited.
    yield from (width for width in smaller if width * _height(image, width) <= MAX_OUTPUT_PIXELS)
    if len(smaller) < len(widths):
        yield image.width


def _largest_width(image: Image, width: int, fmt: Format) -> int:
    """Return the largest width up to another in which the host renders an image in a format; 0 for none."""
    side = FORMATS[fmt].max_side
    by_pixels = isqrt(MAX_OUTPUT_PIXELS * image.width // image.height)
    return min(width, side, side * image.width // image.height, by_pixels)


def _height(image: Image | Size, width: int) -> int:
    return max(1, round(image.height * width / image.width))
