"""Source images: opened files, whose pixels are decoded on request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import BytesIO

from attrs import evolve, field, frozen
from PIL import Image, ImageFile

from imagehost_core.formats import Format
from imagehost_core.headers.exif import UPRIGHT, read_orientation
from imagehost_core.pixels.composition import INFINITE, StoredFrame, compose
from imagehost_core.pixels.decoder_errors import decoder_errors
from imagehost_core.transform import Size

MIN_DRAFT_SCALE = 2
"""The minimum ratio of a JPEG scaled by its decoder to the target size, on either axis.

SSIMULACRA2 from 2725×2225 to 640 pixels: 45 for a ratio just above 1, 71 for 2, 76 for a full decode.
"""

MIN_DURATION, REPLACED_DURATION = 11, 100
"""Browsers show a frame of less than the first for the second; in milliseconds. Other viewers take a duration
literally."""

_TRANSPOSE_METHODS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""Pillow's transposition for each EXIF orientation (EXIF 2.32, tag 274)."""


@frozen
class SourceImage:
    """An opened file, whose pixels are decoded on request.

    Attributes:
        format: The format of the file.
        size: Width and height in pixels, before the orientation is applied.
        frame_count: The number of frames; 1 for a still image. Further images in a JPEG (a gain map, a
            preview) do not count, nor does the default image of an animated PNG that is not part of the
            animation.
        loop_count: How many times an animation is played; `INFINITE` for no end.
        exif: The EXIF block, or `None`.
        xmp: The XMP packet, or `None`.
        iptc: The data sets of IPTC in a JPEG, or `None`.
    """

    format: Format
    size: tuple[int, int]
    frame_count: int = 1
    loop_count: int = INFINITE
    exif: bytes | None = None
    xmp: bytes | None = None
    iptc: bytes | None = None

    @property
    def orientation(self) -> int:
        """The EXIF orientation, 1–8; 1 where it is missing or invalid."""
        return UPRIGHT if self.exif is None else read_orientation(self.exif)

    def shrink_on_load(self, target: Size) -> None:
        """Set the decoder to downscale while decoding, which has an effect on JPEG alone.

        Args:
            target: The size to which the whole image will be resized, in its stored orientation.
        """

    def first_frame(self) -> Image.Image:
        """Return the first frame, in any mode.

        Raises:
            ValidationError: The decoder rejects it.
        """
        with decoder_errors(self.format):
            return self._decode_first()

    def frames(self) -> Iterator[tuple[Image.Image, int]]:
        """Yield every frame, all of the same size, with its duration in milliseconds.

        Raises:
            ValidationError: The decoder rejects one.
        """
        if self.frame_count == 1:
            yield self.first_frame(), 0
            return
        decoded = self._decode_all()
        for _ in range(self.frame_count):
            with decoder_errors(self.format):
                frame, duration = next(decoded)
            yield frame, round(duration) if duration >= MIN_DURATION else REPLACED_DURATION

    def _decode_first(self) -> Image.Image:
        raise NotImplementedError

    def _decode_all(self) -> Iterator[tuple[Image.Image, float]]:
        """Yield the frames of an animation; no frame is kept that the caller has dropped."""
        raise NotImplementedError


@frozen
class PillowImage(SourceImage):
    """A file whose frames Pillow composes.

    Attributes:
        opened: Pillow's file.
    """

    opened: ImageFile.ImageFile = field(kw_only=True)

    def shrink_on_load(self, target: Size) -> None:
        """Set the decoder to downscale while decoding."""
        self.opened.draft(None, (MIN_DRAFT_SCALE * target.width, MIN_DRAFT_SCALE * target.height))

    def _decode_first(self) -> Image.Image:
        self.opened.load()
        return self.opened

    def _decode_all(self) -> Iterator[tuple[Image.Image, float]]:
        for index in range(self.frame_count):
            self.opened.seek(index)
            self.opened.load()
            # The opened file must not be passed on: it represents all of its frames.
            yield self.opened.copy(), float(self.opened.info.get("duration", 0))


@frozen
class ComposedImage(SourceImage):
    """A file whose frames are decoded one by one, and composed here.

    Attributes:
        stored: The frames as they are stored.
    """

    stored: Sequence[StoredFrame] = field(kw_only=True, repr=False)

    def _decode_first(self) -> Image.Image:
        first = self.stored[0]
        image = first.decode()
        if (first.left, first.top, *image.size) == (0, 0, *self.size):
            return image
        return next(compose(self.size, [evolve(first, decode=lambda: image)]))

    def _decode_all(self) -> Iterator[tuple[Image.Image, float]]:
        composed = compose(self.size, self.stored)
        for frame in self.stored:
            yield next(composed), frame.duration


def open_whole(data: bytes, name: str) -> ImageFile.ImageFile:
    """Open a file whose decoder gets it in one block.

    Pillow gives it 65,536 bytes at a time, and arithmetic coding of libjpeg-turbo cannot wait for more.

    Args:
        data: The file.
        name: The name of Pillow's plugin.
    """
    image = Image.open(BytesIO(data), formats=(name,))
    image.decodermaxblock = max(image.decodermaxblock, len(data))
    return image


def apply_orientation(image: Image.Image, orientation: int) -> Image.Image:
    """Return the image rotated and mirrored to upright."""
    method = _TRANSPOSE_METHODS.get(orientation)
    return image if method is None else image.transpose(method)
