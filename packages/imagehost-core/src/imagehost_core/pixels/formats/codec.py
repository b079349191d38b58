"""The codec of a format: how its files are opened, corrected, encoded and rid of metadata."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from PIL import Image

from imagehost_core.formats import FORMATS, Format
from imagehost_core.headers.exif import PREFIX
from imagehost_core.headers.metadata_blocks import IPTC_RESOURCE
from imagehost_core.pixels.animation import Animation
from imagehost_core.pixels.colour import drop_opaque_alpha, flatten_on_white
from imagehost_core.pixels.composition import INFINITE
from imagehost_core.pixels.save import NO_OPTIONS, Metadata, save
from imagehost_core.pixels.source import PillowImage, SourceImage, open_whole

LARGE_PIXELS = 1_000_000
"""Larger JPEGs are not progressive: that would take more than twice the time of the encoder, 25 of 90 ms of a
variant of 1600×1200 from its derivative, for 3.5 % fewer bytes."""
SMALL_PIXELS = 160_000
"""A WebP of at most so many is encoded by method 4 instead of 2: that gains 1 point of SSIMULACRA2 at equal
bytes, and takes twice the time: 8 instead of 4 ms for 320×240 pixels."""
HUGE_PIXELS = 25_000_000
"""Images and animations of more pixels, over all frames, are encoded faster, so that photographs of 100
megapixels stay within the CPU time of a task. A still WebP keeps method 2: methods 0 and 1 fail for a
photograph of 96 megapixels, because the header of a frame may have at most 512 KiB."""

SHOWN, ICC, EXIF, FURTHER_IMAGES = b"", b"icc", b"exif", b"further images"
"""Kinds of parts of a file: what an image is shown by, metadata, and what follows a JPEG. The kinds of other
metadata are what a format tells them by: a marker, a label, a type, a keyword."""

MAX_LABEL = 80
"""The most bytes of a label of a segment, or of the keyword of a PNG's text."""

IsKept = Callable[[bytes, int], bool]
"""Returns whether a part is kept, by its kind and its size in bytes."""


class Codec:
    """What is done for the files of a format; a format overrides what is otherwise for it.

    Attributes:
        format: The format.
        plugin: The name of Pillow's plug-in. Files are opened with this plug-in only.
        options: Encoder options; `docs/decisions/0005` has the measurements.
        chroma_mode: For formats with 4:2:0 chroma: the mode of the image that is passed to the encoder after
            `subsample_420`. `None` for other formats.
        large_options: Encoder options of images with more than `LARGE_PIXELS`, beside the others.
        small_options: Encoder options of images with at most `SMALL_PIXELS`, beside the others.
        huge_options: Encoder options of images with more than `HUGE_PIXELS`, beside the others.
        master_options: Encoder options of masters: they are encoded once and stored, so they get more time
            than variants.
        max_master_pixels: The pixels up to which these are used.
        lossless_options: Encoder options of an encoding without loss, where it is a choice.
        line_art_options: Encoder options of line art that is encoded with loss.
        mixed_options: Encoder options that choose for each frame of an animation whether it loses.
        is_always_lossy: Whether every file is encoded with loss.
        keeps_profile: Whether masters keep the colour profile of the upload.
        keeps_large_derivatives: Whether derivatives of about the size of the master are made.
    """

    format: ClassVar[Format]
    plugin: ClassVar[str]
    options: ClassVar[Mapping[str, object]]
    chroma_mode: ClassVar[str | None] = None
    large_options: ClassVar[Mapping[str, object]] = NO_OPTIONS
    small_options: ClassVar[Mapping[str, object]] = NO_OPTIONS
    huge_options: ClassVar[Mapping[str, object]] = NO_OPTIONS
    master_options: ClassVar[Mapping[str, object]] = NO_OPTIONS
    max_master_pixels: ClassVar[int] = 0
    lossless_options: ClassVar[Mapping[str, object]] = NO_OPTIONS
    line_art_options: ClassVar[Mapping[str, object]] = NO_OPTIONS
    mixed_options: ClassVar[Mapping[str, object]] = NO_OPTIONS
    is_always_lossy: ClassVar[bool] = False
    keeps_profile: ClassVar[bool] = True
    keeps_large_derivatives: ClassVar[bool] = True

    def open(self, data: bytes) -> SourceImage:
        """Open a file without decoding its pixels; raises one of `DECODER_ERRORS`."""
        image = open_whole(data, self.plugin)
        blocks = (*map(image.info.get, ("exif", "xmp")), image.info.get("photoshop", {}).get(IPTC_RESOURCE))
        exif, xmp, iptc = (block if isinstance(block, bytes) else None for block in blocks)
        loop_count = int(image.info.get("loop", INFINITE))
        return PillowImage(self.format, image.size, 1, loop_count, exif, xmp, iptc, opened=image)

    def complete(self, data: bytes) -> bytes:
        """Return a file that decoders accept, which may lack its end or have wrong checksums."""
        return data

    def drop_malformed(self, data: bytes) -> bytes:
        """Return a file without metadata that browsers skip and strict readers refuse the whole file for.

        Raises:
            ValueError: The file is malformed.
            IndexError: The file is truncated.
        """
        return data

    def standardize(self, data: bytes) -> bytes:
        """Return a file that browsers show upright, and that claims nothing but what it contains."""
        return data

    def filter(self, data: bytes, is_kept: IsKept) -> bytes:
        """Return a file with the parts that are kept.

        Raises:
            ValueError: The file is malformed.
            IndexError: The file is truncated.
        """
        raise NotImplementedError

    def is_lossy(self, data: bytes) -> bool:
        """Return whether any frame was encoded with loss, so it is not line art."""
        return self.is_always_lossy

    def is_lossless(self, data: bytes) -> bool:
        """Return whether all frames of a file were encoded in the lossless mode of a lossy format."""
        return False

    def luminance_table(self, source: SourceImage) -> list[int] | None:
        """Return the divisors of the luminance of a file that is quantised by a table, or `None`."""
        return None

    def own_options(self, source: SourceImage) -> Mapping[str, object]:
        """Return encoder options that encode a decoded file again as it was, turned upright."""
        return NO_OPTIONS

    def options_for(self, pixels: int) -> Mapping[str, object]:
        """Return the encoder options of an image with that many pixels."""
        if pixels > HUGE_PIXELS:
            return {**self.options, **self.large_options, **self.huge_options}
        if pixels > LARGE_PIXELS:
            return {**self.options, **self.large_options}
        return {**self.options, **self.small_options} if pixels <= SMALL_PIXELS else self.options

    def quality_options(self, quality: int) -> Mapping[str, object]:
        """Return the encoder options of a quality, 1–100."""
        return {"quality": quality}

    def speed_options(self, speed: int | None) -> Mapping[str, object]:
        """Return the encoder options of a speed, where the encoder has one."""
        return NO_OPTIONS

    def metadata_options(self, metadata: Metadata) -> dict[str, object]:
        """Return the encoder options that embed metadata, as far as the format can."""
        exif = metadata.exif.removeprefix(PREFIX) if metadata.exif else None
        options = {"icc_profile": metadata.profile, "exif": exif, "xmp": metadata.xmp}
        return {name: value for name, value in options.items() if value}

    def prepare(self, image: Image.Image) -> tuple[Image.Image, Mapping[str, object]]:
        """Return the image in a mode that the encoder takes, and the options that are due to its pixels."""
        has_alpha = FORMATS[self.format].has_alpha
        return drop_opaque_alpha(image) if has_alpha else flatten_on_white(image), NO_OPTIONS

    def save(self, image: Image.Image, options: Mapping[str, object]) -> bytes:
        """Return the file of an image that `prepare` has returned."""
        return save([image], self.plugin, options)

    def encode_animation(
        self, animation: Animation, quality: int | None, metadata: Metadata, options: Mapping[str, object]
    ) -> bytes:
        """Encode an animation; arguments are those of `encode_animation`."""
        raise NotImplementedError
