"""Decoding of an upload: all frames, upright, with the metadata that a re-encoded master needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import frozen
from PIL import Image

from imagehost_core.formats import Format
from imagehost_core.headers.exif import remove_thumbnail, reset_orientation
from imagehost_core.headers.xmp import xmp_of_new_pixels
from imagehost_core.jobs import IngestJob
from imagehost_core.pixels.animation import Animation, read_animation
from imagehost_core.pixels.codecs import CODECS
from imagehost_core.pixels.colour import NormalizedImage, normalize, to_srgb
from imagehost_core.pixels.decode import correct, open_image
from imagehost_core.pixels.save import Metadata
from imagehost_core.pixels.source import apply_orientation

# The default quality of a master: about that of the upload.
#
# Variants are rendered from the master, so its losses add to theirs: a JPEG variant of 1,280 pixels
# scores 73.6 points of SSIMULACRA2 from a WebP master of quality 80, and 76.1 from one of quality 90. An
# upload of low quality does not gain from a master of high quality.

MIN_QUALITY, MAX_QUALITY = 80, 98
"""Below the minimum the losses become visible; above the maximum there is no measurable gain."""

_STANDARD_SUM = 3_685
"""The sum of the luminance table that libjpeg scales by its quality (ITU-T T.81, table K.1)."""


def match_source_quality(luminance: Iterable[int] | None) -> int:
    """Return the quality for a master, `MIN_QUALITY` to `MAX_QUALITY`.

    Args:
        luminance: The 64 divisors of the uploaded JPEG's luminance table, or `None` for other formats.
    """
    if luminance is None:
        return MAX_QUALITY
    return min(MAX_QUALITY, max(MIN_QUALITY, round(_jpeg_quality(sum(luminance)))))


def _jpeg_quality(divisor_sum: int) -> float:
    """Return the libjpeg quality whose luminance table has a sum: the inverse of `jpeg_quality_scaling`."""
    percent = max(1.0, 100 * divisor_sum / _STANDARD_SUM)
    return (200 - percent) / 2 if percent <= 100 else 5_000 / percent


@frozen
class DecodedUpload:
    """A decoded upload.

    Attributes:
        data: The uploaded file, corrected.
        is_repaired: Whether `data` differs from the uploaded bytes.
        format: The format of the uploaded file.
        animation: The upright frames in mode `RGB` or `RGBA`: several in sRGB, one in the colour profile of
            the upload.
        profile: The ICC profile of the frames, or `None` for sRGB.
        metadata: The metadata for a re-encoded master.
        orientation: The EXIF orientation of the uploaded file, 1–8.
        own_options: Encoder options that re-encode it as it was, such as a JPEG with its own quantisation.
        quality: The default quality of a re-encoded still master, 1–100.
    """

    data: bytes
    is_repaired: bool
    format: Format
    animation: Animation
    profile: bytes | None
    metadata: Metadata
    orientation: int
    own_options: Mapping[str, object]
    quality: int

    @property
    def first(self) -> Image.Image:
        """The first frame."""
        return self.animation.frames[0]

    @property
    def pixels(self) -> int:
        """The pixels of a frame."""
        return self.first.width * self.first.height

    @property
    def is_animated(self) -> bool:
        """Whether there is more than one frame."""
        return len(self.animation.frames) > 1

    def first_in_srgb(self) -> Image.Image:
        """Return the first frame converted to sRGB."""
        return to_srgb(NormalizedImage(self.first, self.profile))


def decode_upload(job: IngestJob, data: bytes) -> DecodedUpload:
    """Decode all frames of an upload.

    Raises:
        ValidationError: The decoder rejects the file.
    """
    uploaded, data = data, correct(job.format, data)
    source = open_image(job.format, data)
    orientation = source.orientation
    profiles: list[bytes | None] = []

    def normalize_frame(frame: Image.Image) -> Image.Image:
        normalized = normalize(apply_orientation(frame, orientation))
        # Chromium ignores the profile of an animated WebP.
        keeps_profile = source.frame_count == 1
        profiles.append(normalized.profile if keeps_profile else None)
        return normalized.image if keeps_profile else to_srgb(normalized)

    animation = read_animation(source, normalize_frame)
    quality = match_source_quality(CODECS[job.format].luminance_table(source))
    exif, xmp, iptc = (None, None, None) if job.remove_exif else (source.exif, source.xmp, source.iptc)
    exif = exif and remove_thumbnail(reset_orientation(exif))
    xmp = xmp and xmp_of_new_pixels(xmp)
    metadata = Metadata(profiles[0], exif, xmp, iptc)
    return DecodedUpload(
        data=data,
        is_repaired=data != uploaded,
        format=job.format,
        animation=animation,
        profile=profiles[0],
        metadata=metadata,
        orientation=orientation,
        own_options=CODECS[job.format].own_options(source),
        quality=quality,
    )
