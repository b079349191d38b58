"""PNG: palettes and line art, chunks of metadata, checksums, and the place of its EXIF."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from types import MappingProxyType

from PIL import Image, ImageChops, PngImagePlugin

from imagehost_core.formats import Format
from imagehost_core.headers.exif import standard_exif
from imagehost_core.pixels.formats.codec import EXIF, ICC, MAX_LABEL, SHOWN, Codec, IsKept
from imagehost_core.pixels.formats.malformed_png import drop_malformed_chunks
from imagehost_core.pixels.formats.png_file import (
    SIGNATURE_BYTES,
    iter_chunks,
    png_chunk,
    read_png,
    repair_checksums,
    with_exif,
)
from imagehost_core.pixels.line_art import is_line_art, sample_tiles
from imagehost_core.pixels.save import Metadata, save
from imagehost_core.pixels.source import ComposedImage, SourceImage

MAX_PALETTE_COLOURS, MAX_4_BIT_COLOURS = 256, 16
MAX_LINE_ART_PIXELS = 4_000_000
PALETTE_COMPRESSION, LINE_ART_COMPRESSION, UNFILTERED_COMPRESSION, SAMPLE_COMPRESSION = 9, 6, 5, 1
"""The zlib levels of a PNG with a palette, which has few bytes to compress, of line art with filters, of any
image without them, and of samples. Screenshots have 0.8 to 1.05 times the bytes without, in half the time."""
SAMPLE_SIDE = 16
"""The side of the tiles that tell whether an image has fewer bytes without filters, in pixels."""
_PNG_CHUNKS = frozenset(
    b"IHDR PLTE IDAT IEND tRNS acTL fcTL fdAT cICP iCCP sRGB gAMA cHRM mDCV cLLI sBIT bKGD pHYs".split()
)
"""The chunks that affect how the image is shown."""
_PNG_KINDS = {**dict.fromkeys(_PNG_CHUNKS, SHOWN), b"iCCP": ICC, b"eXIf": EXIF}
_PNG_TEXTS = (b"tEXt", b"zTXt", b"iTXt")
_COLOUR_TYPES = {3: 2, 4: 6}
"""RGB and RGBA by their channels (PNG, third edition, section 6.1)."""


class PngCodec(Codec):
    """Without loss, by a palette where that has the same pixels; each chunk has a checksum."""

    format = Format.PNG
    plugin = "PNG"
    options = MappingProxyType({"compress_level": 2})
    huge_options = MappingProxyType({"compress_level": 1})
    master_options = MappingProxyType({"compress_level": 6})
    max_master_pixels = 4_000_000
    """A photograph takes 0.66 s a megapixel with the options of masters, and 0.1 with the others, for 16 %
    more bytes."""

    def open(self, data: bytes) -> SourceImage:
        png = read_png(data)
        return ComposedImage(
            self.format, png.size, len(png.frames), png.loop_count, png.exif, png.xmp, stored=png.frames
        )

    def complete(self, data: bytes) -> bytes:
        return repair_checksums(data)

    def drop_malformed(self, data: bytes) -> bytes:
        return drop_malformed_chunks(data)

    def standardize(self, data: bytes) -> bytes:
        """Return a PNG whose orientation all browsers apply: that of its first EXIF, before the pixels."""
        has_pixels = False
        for kind, start, end in iter_chunks(data):
            has_pixels = has_pixels or kind == b"IDAT"
            if kind == b"eXIf":
                received = data[start + 8 : end - 4]
                exif = standard_exif(received)
                if exif is None or (exif == received and not has_pixels):
                    return data
                return with_exif(data, exif)
        return data

    def filter(self, data: bytes, is_kept: IsKept) -> bytes:
        # Neighbours are one span: a file can have 190,000 chunks.
        spans = [(0, SIGNATURE_BYTES)]
        for fourcc, start, end in iter_chunks(data):
            kind = _PNG_KINDS.get(fourcc, fourcc)
            if kind in _PNG_TEXTS:
                kind += data[start + 8 : min(end - 4, start + 8 + MAX_LABEL)].partition(b"\0")[0]
            if is_kept(kind, end - start):
                first, last = spans[-1]
                if last == start:
                    spans[-1] = (first, end)
                else:
                    spans.append((start, end))
        return b"".join(data[start:end] for start, end in spans)

    def metadata_options(self, metadata: Metadata) -> dict[str, object]:
        options = super().metadata_options(metadata)
        if options.pop("xmp", None) and metadata.xmp:
            text = PngImagePlugin.PngInfo()
            text.add_itxt("XML:com.adobe.xmp", metadata.xmp.decode("utf-8", "replace"))
            options["pnginfo"] = text
        return options

    def prepare(self, image: Image.Image) -> tuple[Image.Image, Mapping[str, object]]:
        image, options = super().prepare(image)
        if (palette := _with_palette(image)) is not None:
            return palette, {"compress_level": PALETTE_COMPRESSION}
        if image.width * image.height > MAX_LINE_ART_PIXELS:
            return image, options
        sample = sample_tiles(image, SAMPLE_SIDE)
        level = {"compress_level": SAMPLE_COMPRESSION}
        if len(_save_unfiltered(sample, level)) <= len(save([sample], self.plugin, level)):
            return image, {"compress_level": UNFILTERED_COMPRESSION, "filtered": False}
        return image, {"compress_level": LINE_ART_COMPRESSION} if is_line_art(image) else options

    def save(self, image: Image.Image, options: Mapping[str, object]) -> bytes:
        if options.get("filtered", True):
            return super().save(image, options)
        return _save_unfiltered(image, options)


def _save_unfiltered(image: Image.Image, options: Mapping[str, object]) -> bytes:
    """Return a PNG in which no row is filtered: Pillow filters none in mode `P`, as which it gets them."""
    channels = len(image.getbands())
    samples = Image.frombytes("P", (channels * image.width, image.height), image.tobytes())
    samples.putpalette(bytes(3 * MAX_PALETTE_COLOURS))
    data = save([samples], "PNG", options)
    header = struct.pack(">IIBB3x", *image.size, 8, _COLOUR_TYPES[channels])
    parts = [data[:SIGNATURE_BYTES], png_chunk(b"IHDR", header)]
    parts += [data[start:end] for kind, start, end in iter_chunks(data) if kind not in (b"IHDR", b"PLTE")]
    return b"".join(parts)


def _with_palette(image: Image.Image) -> Image.Image | None:
    """Return the same pixels in mode `P`, or `L` if they are grey; `None` if there are too many colours."""
    colours = image.getcolors(MAX_PALETTE_COLOURS)
    if colours is None:
        return None
    if len(colours) > MAX_4_BIT_COLOURS and all(len({*colour}) == 1 for _, colour in colours):  # type: ignore[misc]
        return image.getchannel(0)
    method = Image.Quantize.MEDIANCUT if image.mode == "RGB" else Image.Quantize.FASTOCTREE
    result = image.quantize(MAX_PALETTE_COLOURS, method)
    # An octree has empty entries.
    result = result.remap_palette([index for index, count in enumerate(result.histogram()) if count])
    difference = ImageChops.difference(result.convert(image.mode), image)
    return result if difference.getbbox(alpha_only=False) is None else None
