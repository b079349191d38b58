"""Derivatives: downscaled copies of an upload, stored beside its master, from which variants render faster.

The smallest derivative is encoded first. Its bytes predict those of the next larger one, so that each is
encoded once, at the best quality that is expected to fit the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import exp, log

from attrs import field, frozen
from PIL import Image

from imagehost_core.formats import FORMATS, Format
from imagehost_core.jobs import COPY_QUALITY
from imagehost_core.pixels.colour import NormalizedImage, to_srgb
from imagehost_core.pixels.encode import MAX_SUBSAMPLED_PIXELS, encode
from imagehost_core.pixels.quantisation import DERIVATIVE_LUMA, quality_options
from imagehost_core.pixels.resize import resize_to
from imagehost_core.pixels.save import NO_OPTIONS
from imagehost_core.transform import Size

TARGET_PERCENT = 48
"""All derivatives of an image together should have at most this percentage of the uploaded bytes. It is the
same for small and large masters: quality is about a logarithm of the bytes, so bytes moved from one image to
another would lose more in the one than they gain in the other."""
LIMIT_PERCENT, MIN_LIMIT_PERCENT = 148, 50
"""Master and derivatives together must have at most the first percentage of the uploaded bytes, or the
derivatives at most the second of the master's, where that is more: so that an upload that is stored unchanged
has derivatives."""

GROWTH = 0.85
"""The exponent by which the bytes of derivatives grow with their pixels at equal quality."""
PREDICTION_MARGIN = 1.1
"""The factor by which a file is expected to differ from its prediction at most. The largest derivatives of 29
of 32 photographs had 0.84 to 1.15 times the predicted bytes, the others up to 1.34 times."""


@frozen
class DerivativeEncoding:
    """The encoding of derivatives.

    Attributes:
        format: The format of the file.
        options: Encoder options.
        relative_bytes: The allowed qualities, best first, and the bytes at each compared with the best.
        quality_options: Maps a quality to encoder options, beside those of the codec.
        smallest_quality: The quality of the smallest derivative, before any bytes are known.
        max_pixels: A derivative has at most this share of the image's pixels: a larger one would save
            little time in this format.
    """

    format: Format
    options: Mapping[str, object] = field(repr=False)
    relative_bytes: Mapping[int, float]
    smallest_quality: int
    quality_options: Callable[[int], Mapping[str, object]] = lambda _quality: NO_OPTIONS
    max_pixels: float = 1.0

    def encode(self, image: Image.Image, quality: int) -> bytes:
        """Encode a derivative at one of the allowed qualities."""
        options = {**self.options, **self.quality_options(quality)}
        subsample = image.width * image.height <= MAX_SUBSAMPLED_PIXELS
        return encode(self.format, image, quality, options=options, subsample=subsample)


JPEG = DerivativeEncoding(
    Format.JPEG,
    {"progressive": False, "optimize": False},
    {90: 1.0, 87: 0.85, 84: 0.74, 81: 0.66, 78: 0.6, 74: 0.54, 70: 0.49, 66: 0.46},
    smallest_quality=87,
    quality_options=partial(quality_options, luma=DERIVATIVE_LUMA),
)
"""For opaque images: JPEG is decoded in a third of the time of AVIF and WebP. Optimised Huffman tables would
take twice the time for 1 % of the bytes. The bytes are means over 20 photographs.

A smallest one of 90 gains 0.2 points of SSIMULACRA2 at 640 pixels, and loses 0.1 at 1,600, for 1 % more of
the uploaded bytes."""
MIN_COPY_QUALITY = 81
"""The lowest quality of a copy in the size of the image. JPEG variants of 1,920 pixels from copies of 2,048
score 0.9 points of SSIMULACRA2 less than from the master if the copy has `COPY_QUALITY`, 3.1 less at 78, and
6.9 less at the quality that meets the target."""

AVIF = DerivativeEncoding(
    Format.AVIF,
    {"speed": 10},
    {70: 1.0, 60: 0.7},
    smallest_quality=70,
    max_pixels=1 / 3,
)
"""For images with alpha, which JPEG does not support."""


@frozen
class Derivatives:
    """The derivatives of an image.

    Attributes:
        derivatives: The size and the bytes of each, largest first.
        smallest: The smallest downscaled image, even if its file exceeded the budget; the image itself if it
            was not downscaled.
    """

    derivatives: Sequence[tuple[Size, bytes]]
    smallest: Image.Image


@frozen
class EncodedDerivative:
    """An encoded derivative.

    Attributes:
        size: Its size, in pixels.
        data: The file.
        relative_bytes: The bytes at its quality compared with those at the best.
    """

    size: Size
    data: bytes = field(repr=False)
    relative_bytes: float

    @property
    def best_bytes(self) -> float:
        """The expected bytes at the best quality."""
        return len(self.data) / self.relative_bytes


@frozen
class ByteBudget:
    """The bytes of all derivatives together.

    Attributes:
        target: The quality is chosen so that they are expected to have at most so many.
        limit: They never have more. What exceeds the target at the lowest quality is stored up to here, and
            so is a copy of the image of up to `COPY_QUALITY`.
    """

    target: int
    limit: int

    @classmethod
    def of(cls, upload: int, master: int) -> ByteBudget:
        """Return the budget of an image.

        Args:
            upload: The size of the uploaded file, in bytes.
            master: The size of the master, in bytes.
        """
        return cls(
            upload * TARGET_PERCENT // 100,
            max(upload * LIMIT_PERCENT - 100 * master, MIN_LIMIT_PERCENT * master) // 100,
        )

    def share(self, size: Size, larger: Sequence[Size]) -> ByteBudget:
        """Return the budget of a derivative: its target is in proportion to its width.

        So smaller ones, from which more variants start, have more bytes for each pixel.
        """
        total = size.width + sum(other.width for other in larger)
        return ByteBudget(self.target * size.width // total, self.limit)

    def after(self, data: bytes) -> ByteBudget:
        """Return what remains after a derivative."""
        return ByteBudget(self.target - len(data), self.limit - len(data))


def make_derivatives(
    image: Image.Image, sizes: Sequence[Size], budget: ByteBudget, profile: bytes | None = None
) -> Derivatives:
    """Downscale an image and encode its derivatives.

    A derivative that exceeds the limit is encoded again once, at a lower quality; if that is not enough, it
    is left out with all larger ones.

    Args:
        image: The upright image, in mode `RGB` or `RGBA`.
        sizes: The sizes of the derivatives, largest first.
        budget: The bytes of all derivatives together.
        profile: The ICC profile of the image, or `None` for sRGB, which derivatives have.
    """
    encoding = AVIF if image.mode == "RGBA" else JPEG
    source = NormalizedImage(image, profile)
    downscaled: list[Image.Image] = []
    for size in sizes:
        can_be_read = max(size.width, size.height) <= FORMATS[encoding.format].max_side
        if can_be_read and size.pixels <= image.width * image.height * encoding.max_pixels:
            source = NormalizedImage(to_srgb(source, partial(resize_to, size=size)), None)
            downscaled.append(source.image)
    has_copy = bool(downscaled) and downscaled[0].size == image.size
    larger = [Size(*smaller.size) for smaller in downscaled]
    encoded: list[EncodedDerivative] = []
    for smaller in reversed(downscaled):
        share = budget.share(larger.pop(), larger)
        is_copy = smaller.size == image.size
        derivative = _encode_within(smaller, encoding, encoded, share, is_copy=is_copy, has_copy=has_copy)
        if derivative is None:
            break
        budget = budget.after(derivative.data)
        encoded.append(derivative)
    return Derivatives([(item.size, item.data) for item in reversed(encoded)], to_srgb(source))


def _predict_bytes(size: Size, smaller: EncodedDerivative) -> float:
    """Return the expected bytes of a derivative at the best quality.

    Args:
        size: The size of the derivative.
        smaller: The next smaller derivative.
    """
    return smaller.best_bytes * exp(GROWTH * log(size.pixels / smaller.size.pixels))


def _encode_within(
    image: Image.Image,
    encoding: DerivativeEncoding,
    encoded: Sequence[EncodedDerivative],
    budget: ByteBudget,
    *,
    is_copy: bool = False,
    has_copy: bool = False,
) -> EncodedDerivative | None:
    """Encode a derivative at the predicted quality; again once if it exceeds the limit.

    Args:
        image: The downscaled image.
        encoding: The encoding.
        encoded: The smaller derivatives, smallest first. Without any, the first attempt has a fixed quality.
        budget: The remaining budget.
        is_copy: Whether it has the size of the whole image.
        has_copy: Whether it or a larger derivative has that size.

    Returns:
        `None` if no quality fits the limit.
    """
    quality: int | None = COPY_QUALITY if has_copy else encoding.smallest_quality
    if encoded:
        quality = _choose_quality(encoding, _predict_bytes(Size(*image.size), encoded[-1]), budget, is_copy)
    for _ in range(2):
        if quality is None:
            return None
        data = encoding.encode(image, quality)
        derivative = EncodedDerivative(Size(*image.size), data, encoding.relative_bytes[quality])
        if len(data) <= budget.limit:
            return derivative
        quality = _choose_quality(encoding, derivative.best_bytes, budget, is_copy)
    return None


def _choose_quality(
    encoding: DerivativeEncoding, best_bytes: float, budget: ByteBudget, is_copy: bool
) -> int | None:
    """Return the best quality that meets the target, else the lowest if it may fit the limit.

    Of a copy in the size of the image, qualities of up to `COPY_QUALITY` need only meet the limit, and those
    below `MIN_COPY_QUALITY` are not chosen.

    Args:
        encoding: The encoding, with its qualities.
        best_bytes: The expected bytes at the best quality.
        budget: The remaining budget.
        is_copy: Whether the derivative is such a copy.
    """
    qualities = encoding.relative_bytes
    lowest = min(qualities)
    for quality, share in qualities.items():
        if is_copy and quality < MIN_COPY_QUALITY:
            return None
        allowed = budget.limit if is_copy and quality <= COPY_QUALITY else budget.target
        if best_bytes * PREDICTION_MARGIN * share <= allowed:
            return quality
    return lowest if best_bytes / PREDICTION_MARGIN * qualities[lowest] <= budget.limit else None
