"""The properties of an image according to its headers, and the limits of source images.

The limits protect decoders from decompression bombs. Such a bomb is a small file that costs its decoder
much memory or time. Pixels, sides and metadata cost memory; frames and scans cost time, because each frame
of a GIF and each scan of a progressive JPEG is a pass over the whole image, even if it changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from attrs import Factory, define, field, frozen
from attrs.validators import ge, instance_of

from imagehost_core.errors import FieldError, ValidationError
from imagehost_core.formats import FORMATS, Format
from imagehost_core.headers.further_images import NO_FURTHER_IMAGES, FurtherImages


class MetadataKind(StrEnum):
    """A kind of metadata in an image file."""

    EXIF = "exif"
    ICC = "icc"
    XMP = "xmp"
    IPTC = "iptc"


MetadataSpan = tuple[MetadataKind, int, int]
"""What a block of metadata contains, and the offsets in bytes of its first byte and of its end.

The block begins with the label of its kind, if the format has one.
"""
MAX_METADATA_BYTES = 4 * 2**20
"""The most metadata of an image that are read and stored, in bytes."""
MAX_SPANS = 64
"""The most blocks of a kind whose place in the file is recorded; a JPEG has XMP of 4 MB in so many."""


@frozen(kw_only=True)
class ImageHeader:
    """The properties of an image according to its file headers.

    Attributes:
        format: The format of the content.
        width: Stored width in pixels, before `orientation` is applied.
        height: Stored height in pixels.
        frames: Number of images that a decoder finds: 1 unless animated. The default image of an APNG counts
            even if it is not part of the animation; further images of a JPEG (MPO) do not, because they
            follow after the end.
        orientation: EXIF tag 0x0112, 1 to 8; 1 if it is missing or invalid.
        is_upright_in_browsers: Whether browsers apply that orientation when they show the file.
        has_alpha: Whether the image can have transparent pixels.
        end_offset: Offset in bytes of the end of the image and of the further images that belong to it; bytes
            after it are not part of the file.
        further_images: The further images of a JPEG.
        scans: Number of scans of a JPEG, else 0.
        is_displayable: Whether browsers display the file as it is; false for lossless and arithmetic JPEG.
        canvas_extent: Width and height in pixels that contain all frames. It differs from the size for a GIF
            with later frames beyond its canvas: decoders then enlarge the canvas to this.
        metadata: The kinds of metadata present.
        metadata_spans: The blocks of metadata, at most `MAX_SPANS` of each kind, by kind.
    """

    format: Format
    width: int
    height: int
    frames: int = 1
    orientation: int = 1
    is_upright_in_browsers: bool = True
    has_alpha: bool = False
    end_offset: int
    further_images: FurtherImages = NO_FURTHER_IMAGES
    scans: int = 0
    is_displayable: bool = True
    canvas_extent: tuple[int, int] = Factory(lambda self: (self.width, self.height), takes_self=True)
    metadata: frozenset[MetadataKind] = frozenset()
    metadata_spans: tuple[MetadataSpan, ...] = ()

    @property
    def frame_pixels(self) -> int:
        """Number of pixels of one frame as decoded, even if the frame covers only a part of the canvas."""
        return self.canvas_extent[0] * self.canvas_extent[1]

    @property
    def total_pixels(self) -> int:
        """Number of pixels of all frames."""
        return self.frame_pixels * self.frames


@define
class FoundMetadata:
    """The metadata found so far in a scan.

    Attributes:
        exif_span: Offsets of the first byte and of the end of the first EXIF block that is stored.
    """

    exif_span: tuple[int, int] | None = None
    _spans: dict[MetadataKind, list[MetadataSpan]] = field(factory=dict)

    @property
    def kinds(self) -> frozenset[MetadataKind]:
        """The kinds found."""
        return frozenset(self._spans)

    @property
    def spans(self) -> tuple[MetadataSpan, ...]:
        """The blocks found, by their kind and their order in the file."""
        return tuple(span for spans in self._spans.values() for span in spans)

    def add(self, kind: MetadataKind | None, start: int, end: int) -> None:
        """Add the block from `start` to before `end`, of a known kind or of another (`None`)."""
        if kind is None:
            return
        spans = self._spans.setdefault(kind, [])
        if len(spans) < MAX_SPANS:
            spans.append((kind, start, end))
        is_stored = end - start <= MAX_METADATA_BYTES
        if kind is MetadataKind.EXIF and self.exif_span is None and is_stored:
            self.exif_span = start, end


def _positive(default: int) -> int:
    attribute: int = field(default=default, validator=[instance_of(int), ge(1)])
    return attribute


@frozen(kw_only=True)
class SourceLimits:
    """Upper limits of an uploaded image.

    Attributes:
        frame_pixels: Pixels of one frame.
        total_pixels: Pixels of all frames.
        frames: Frames of an animation.
        side: Width or height, in pixels; less in formats that cannot hold as many.
        animation_side: Width or height of an animation, in pixels.
        jpeg_scans: Scans of a JPEG.
    """

    frame_pixels: int = _positive(100_000_000)
    total_pixels: int = _positive(150_000_000)
    frames: int = _positive(1_000)
    side: int = _positive(65_535)
    animation_side: int = _positive(16_384)
    jpeg_scans: int = _positive(100)


DEFAULT_LIMITS = SourceLimits()
"""The limits of a host."""


def _max_side(limits: SourceLimits, header: ImageHeader) -> int:
    """Return the largest side: decoders refuse more of a format than its encoders write."""
    most = FORMATS[header.format].max_side if header.frames == 1 else limits.animation_side
    return min(limits.side, most)


_LIMITS: tuple[tuple[Callable[[SourceLimits, ImageHeader], int], Callable[[ImageHeader], int], str], ...] = (
    (_max_side, lambda header: header.canvas_extent[0], "pixels of width"),
    (_max_side, lambda header: header.canvas_extent[1], "pixels of height"),
    (lambda limits, _: limits.frame_pixels, lambda header: header.frame_pixels, "pixels a frame"),
    (lambda limits, _: limits.frames, lambda header: header.frames, "frames"),
    (lambda limits, _: limits.total_pixels, lambda header: header.total_pixels, "pixels over all frames"),
    (lambda limits, _: limits.jpeg_scans, lambda header: header.scans, "JPEG scans"),
)
"""For each limit its value for a header, the value of the header to compare, and their unit."""


def require_within_limits(header: ImageHeader, limits: SourceLimits) -> None:
    """Raise ValidationError if an image exceeds a limit.

    Raises:
        ValidationError: With one field error for each limit that the image exceeds.
    """
    errors = [
        FieldError("image", f"at most {limit(limits, header):,} {unit}", f"{measure(header):,}")
        for limit, measure, unit in _LIMITS
        if measure(header) > limit(limits, header)
    ]
    if errors:
        raise ValidationError(errors=errors)
