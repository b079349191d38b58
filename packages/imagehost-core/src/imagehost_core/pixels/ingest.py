"""The upload recipe: an upload is decoded once, and everything that is stored is made of that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

from attrs import frozen
from PIL import Image, ImageFile, JpegImagePlugin

from imagehost_core.errors import FieldError, ValidationError
from imagehost_core.formats import FORMATS, Format
from imagehost_core.headers.exif import reset_orientation
from imagehost_core.jobs import IngestJob, IngestResult
from imagehost_core.pixels.animation import Animation, encode_animation, read_animation
from imagehost_core.pixels.colour import NormalizedImage, flatten_on_white, normalize, to_srgb
from imagehost_core.pixels.decode import (
    TRANSPOSED,
    apply_orientation,
    decoder_errors,
    first_frame,
    frame_count,
    image_orientation,
    open_image,
    suppress_warnings,
)
from imagehost_core.pixels.derivatives import make_derivatives
from imagehost_core.pixels.encode import NO_SETTINGS, Metadata, encode
from imagehost_core.pixels.source_quality import match_source_quality
from imagehost_core.pixels.strip_metadata import strip_metadata
from imagehost_core.pixels.thumbhash import thumbhash
from imagehost_core.transform.geometry import Size

MASTER_SETTINGS: dict[Format, Mapping[str, object]] = {Format.PNG: {"compress_level": 6}}
"""Where a master, which is made once and kept, is worth more time than a variant."""

MAX_LINE_ART_COLOURS = 4_096
"""With no more colours than this in `SAMPLE_SIDE`² samples, a picture may be line art."""
SAMPLE_SIDE = 256


@frozen
class DecodedUpload:
    """An upload, decoded.

    Attributes:
        data: Its bytes.
        format: What they are.
        animation: Its frames, upright, in RGB(A) of the source's profile; one where it stands still.
        profile: That profile, or `None`: sRGB.
        metadata: What it had beside its pixels, as it goes into a re-encoded master.
        orientation: The EXIF orientation that it had, 1–8.
        tables: What a JPEG takes to be encoded again with the same losses, or nothing.
        quality: What a still master gets where none is asked for.
    """

    data: bytes
    format: Format
    animation: Animation
    profile: bytes | None
    metadata: Metadata
    orientation: int
    tables: dict[str, object]
    quality: int

    @property
    def first(self) -> Image.Image:
        """The first frame."""
        return self.animation.frames[0]

    @property
    def animated(self) -> bool:
        """Whether there is more than one frame."""
        return len(self.animation.frames) > 1


def ingest(job: IngestJob, data: bytes) -> tuple[IngestResult, list[bytes]]:
    """Return what is stored of an upload.

    Args:
        job: What the bytes are, and what the uploader asked for.
        data: The upload, less anything after the image's end.

    Returns:
        The facts for the record; and the blobs: the master (empty where the upload's own bytes are
        kept), then the rungs in order.

    Raises:
        ValidationError: The decoder refuses the bytes, or the format that was asked for cannot hold
            the picture.
    """
    with suppress_warnings():
        source = _read(job, data)
        fmt, master = _master(job, source)
        still = source.animated and not _stays_animated(source, fmt)
        frames = source.animation.frames[:1] if still else source.animation.frames
        shown = to_srgb(NormalizedImage(source.first, source.profile))
        if not FORMATS[fmt].has_alpha:
            shown = flatten_on_white(shown)
        sides = job.derivative_sides if len(frames) == 1 else ()
        ladder = make_derivatives(shown, sides, len(master or data))
        ingested = IngestResult(
            format=fmt,
            size=Size(*source.first.size),
            frames=_frames_in(fmt, master or data) if len(frames) > 1 else 1,
            has_alpha=FORMATS[fmt].has_alpha and any(frame.mode == "RGBA" for frame in frames),
            placeholder=thumbhash(ladder.smallest),
            unchanged=master is None,
            derivatives=tuple(size for size, _ in ladder.derivatives),
        )
    return ingested, [master or b"", *(rung for _, rung in ladder.derivatives)]


def _read(job: IngestJob, data: bytes) -> DecodedUpload:
    image = open_image(job.format, data)
    with decoder_errors(image):
        image.seek(first_frame(image))
        image.load()
    orientation = image_orientation(image)
    profiles: list[bytes | None] = []

    def made(frame: Image.Image) -> Image.Image:
        picture = normalize(apply_orientation(frame, orientation))
        profiles.append(picture.profile)
        return picture.image

    info = dict(image.info)
    tables = _tables(image, orientation)
    quality = match_source_quality(image.quantization.get(0) if _is_jpeg(image) else None)
    animation = read_animation(image, made)
    metadata = Metadata(profiles[0], *(() if job.remove_exif else _exif_and_xmp(info)))
    return DecodedUpload(data, job.format, animation, profiles[0], metadata, orientation, tables, quality)


def _exif_and_xmp(info: Mapping[Any, object]) -> tuple[bytes | None, bytes | None]:
    """Return EXIF, its orientation set to 1, and XMP."""
    exif, xmp = info.get("exif"), info.get("xmp")
    return (
        reset_orientation(exif) if isinstance(exif, bytes) else None,
        xmp if isinstance(xmp, bytes) else None,
    )


def _is_jpeg(image: ImageFile.ImageFile) -> TypeGuard[JpegImagePlugin.JpegImageFile]:
    return isinstance(image, JpegImagePlugin.JpegImageFile)


def _tables(image: ImageFile.ImageFile, orientation: int) -> dict[str, object]:
    """Return the quantisation and chroma of a JPEG, turned with the picture."""
    if not _is_jpeg(image) or image.mode != "RGB":
        return {"subsampling": 0}
    tables = [list(table) for _, table in sorted(image.quantization.items())]
    sampling = JpegImagePlugin.get_sampling(image)
    if orientation in TRANSPOSED:
        tables = [[table[8 * column + row] for row in range(8) for column in range(8)] for table in tables]
        sampling = 0 if sampling == 1 else sampling
    # At 50, libjpeg takes tables as they are given; at others it scales them first.
    return {"quality": 50, "qtables": tables, "subsampling": max(0, sampling)}


def _stays_animated(source: DecodedUpload, fmt: Format) -> bool:
    """Contract 4: *asking for jpeg or png of an animated file keeps the first frame*."""
    return FORMATS[fmt].animated or fmt is source.format


def _master(job: IngestJob, source: DecodedUpload) -> tuple[Format, bytes | None]:
    """Return the master's format and bytes, or no bytes where the upload's own are kept.

    Contract 4: the format is *`format` if given and not `auto`; else WebP if `convertToWebP`; else
    the uploaded format*; `convertToWebP` *by default never makes a file larger*.
    """
    wanted = job.wanted or (Format.WEBP if job.convert_to_webp else job.format)
    quality = job.quality if FORMATS[wanted].has_quality else None
    if wanted is job.format and quality is None:
        return wanted, _original_or_stripped(job, source)
    if job.wanted is not None:
        return wanted, _encoded(source, wanted, quality)
    kept = _original_or_stripped(job, source)
    limit = len(source.data if kept is None else kept)
    for fmt in dict.fromkeys((wanted, job.format)):
        fits = max(source.first.size) <= FORMATS[fmt].max_side
        asked_for = fmt is wanted or (job.quality is not None and FORMATS[fmt].has_quality)
        candidate = _encoded(source, fmt, job.quality) if fits and asked_for else None
        if candidate is not None and len(candidate) < limit:
            return fmt, candidate
    return job.format, kept


def _original_or_stripped(job: IngestJob, source: DecodedUpload) -> bytes | None:
    """Return the upload in its own format, with no loss that can be avoided; `None`: as it came."""
    if not job.remove_exif:
        return None
    if source.orientation == 1:
        with decoder_errors(source.format):
            data = strip_metadata(source.format, source.data)
        return None if data == source.data else data
    # Without its EXIF the picture would lie on its side, so it is turned and encoded again.
    settings = source.tables if source.format is Format.JPEG else NO_SETTINGS
    return _encoded(source, source.format, 95, settings)


def _encoded(
    source: DecodedUpload, fmt: Format, quality: int | None, settings: Mapping[str, object] = NO_SETTINGS
) -> bytes:
    if max(source.first.size) > FORMATS[fmt].max_side:
        expected = f"sides of at most {FORMATS[fmt].max_side:,} pixels in {fmt.value}"
        raise ValidationError(errors=[FieldError("the image", expected, str(Size(*source.first.size)))])
    if source.animated and FORMATS[fmt].animated:
        more = {"allow_mixed": True} if fmt is Format.WEBP and source.format is not Format.WEBP else {}
        return encode_animation(fmt, source.animation, quality, metadata=source.metadata, settings=more)
    picture = to_srgb(NormalizedImage(source.first, source.profile)) if fmt is Format.GIF else source.first
    settings = {**MASTER_SETTINGS.get(fmt, NO_SETTINGS), **settings}
    quality = source.quality if quality is None else quality
    data = encode(fmt, picture, quality, metadata=source.metadata, settings=settings)
    if fmt is Format.WEBP and _may_be_line_art(source):
        exact = encode(fmt, picture, LOSSLESS_EFFORT, metadata=source.metadata, settings={"lossless": True})
        return min(data, exact, key=len)
    return data


LOSSLESS_EFFORT = 60
"""Of 100; the encoder's `quality` means effort where nothing is lost."""


def _may_be_line_art(source: DecodedUpload) -> bool:
    """Whether it is worth a try: *Line art and screenshots go lossless where that is smaller*.

    Only where the upload has lost nothing before, and a sample has few colours: to try it on a
    photograph would cost more than all the rest.
    """
    if source.format is Format.JPEG:
        return False
    sample = source.first.convert("RGB")
    sample.thumbnail((SAMPLE_SIDE, SAMPLE_SIDE), Image.Resampling.NEAREST)
    return sample.getcolors(MAX_LINE_ART_COLOURS) is not None


def _frames_in(fmt: Format, data: bytes) -> int:
    """Return how many frames were really written: encoders join equal neighbours."""
    return frame_count(open_image(fmt, data))
