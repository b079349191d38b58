"""PNG: the chunks of a file, and its frames, each as a file of its own that Pillow decodes.

Pillow gets the chunks of the pixels only. It rejects a file for metadata that libpng skips, compares
transparent colours with pixels of another bit depth, and ignores the chunks of colours.

Source: Portable Network Graphics, third edition (W3C).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from functools import partial, reduce
from io import BytesIO

from attrs import frozen
from PIL import Image, ImageChops

from imagehost_core.errors import ValidationError
from imagehost_core.headers.metadata_blocks import png_text
from imagehost_core.pixels.composition import Disposal, StoredFrame
from imagehost_core.pixels.formats.png_colour import PngColour, read_colour

SIGNATURE_BYTES = 8
_ANCILLARY_BIT = 0x20
"""The bit of a chunk type's first byte that tells ancillary chunks from critical ones (section 5.4)."""
_PIXEL_CHUNKS = frozenset({b"tRNS", b"acTL", b"fcTL", b"fdAT"})
"""The ancillary chunks that are a part of the pixels: transparency and the frames of an animation."""
_GREY, _RGB, _PALETTE, _GREY_ALPHA = 0, 2, 3, 4
_NARROW = {_GREY: _GREY_ALPHA, _GREY_ALPHA: 6}
"""Grey of 16 bits, without and with alpha, and the colour type of 8 bits with the same bytes a pixel."""
_DISPOSALS = (Disposal.KEEP, Disposal.CLEAR, Disposal.RESTORE)
_STRIP_PIXELS = 1 << 20
XMP_KEYWORD = b"XML:com.adobe.xmp\0"


@frozen
class PngFile:
    """The frames and the metadata of a PNG.

    Attributes:
        size: Width and height in pixels.
        frames: The frames of the animation; the image alone if it is none, at least one.
        loop_count: How many times the animation is played; 0 for no end.
        exif: A TIFF structure, or `None`.
        xmp: An XMP packet, or `None`.
    """

    size: tuple[int, int]
    frames: list[StoredFrame]
    loop_count: int
    exif: bytes | None
    xmp: bytes | None


@frozen
class _Pixels:
    """What decoding a frame needs beside its data.

    Attributes:
        depth: Bits of a sample.
        colour_type: The colour type (section 6.1).
        methods: The last bytes of IHDR: compression, filter and interlace method.
        palette: PLTE, and tRNS of a palette, as chunks.
        transparent: The samples of the transparent colour, at the depth of the file; empty for none.
        colour: What the samples mean.
    """

    depth: int
    colour_type: int
    methods: bytes
    palette: tuple[bytes, ...]
    transparent: tuple[int, ...]
    colour: PngColour


def iter_chunks(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yield the type of each chunk up to IEND, and the offsets of its first byte and of its end."""
    offset = SIGNATURE_BYTES
    while offset + 12 <= len(data):
        end = offset + 12 + int.from_bytes(data[offset : offset + 4], "big")
        if end > len(data):
            return
        kind = data[offset + 4 : offset + 8]
        yield kind, offset, end
        offset = end
        if kind == b"IEND":
            return


def repair_checksums(data: bytes) -> bytes:
    """Return a PNG with valid checksums in all chunks; `data` itself if they are valid.

    An ancillary chunk with a bad checksum is dropped, as libpng does; one that is a part of the pixels gets a
    valid checksum instead. Decoders then check its content.

    Args:
        data: A whole file whose structure the header scan has accepted.

    Raises:
        ValidationError: A critical chunk (IHDR, PLTE, IDAT, IEND) has a bad checksum.
    """
    parts: list[bytes] = []
    view, unchanged_from = memoryview(data), 0
    for kind, offset, end in iter_chunks(data):
        checksum = zlib.crc32(view[offset + 4 : end - 4])
        if checksum == int.from_bytes(view[end - 4 : end], "big"):
            continue
        if not kind[0] & _ANCILLARY_BIT:
            expected = f"a PNG with a valid checksum in every {kind.decode('latin-1')}"
            received = f"another checksum in the one at offset {offset:,}"
            raise ValidationError.of("the image", expected, received)
        parts.append(data[unchanged_from:offset])
        if kind in _PIXEL_CHUNKS:
            parts += data[offset : end - 4], checksum.to_bytes(4, "big")
        unchanged_from = end
    return b"".join((*parts, data[unchanged_from:])) if unchanged_from else data


def read_png(data: bytes) -> PngFile:
    """Return the frames and the metadata of a PNG; pixels are not decoded.

    Of ancillary chunks, those that are malformed or repeated are ignored.

    Args:
        data: A file whose checksums are valid.

    Raises:
        LookupError: A chunk is missing.
        struct.error: A chunk is too short.
    """
    view = memoryview(data)
    first: dict[bytes, bytes] = {}
    exif, xmp = None, None
    pictures: list[tuple[bytes, list[memoryview]]] = []
    for kind, offset, end in iter_chunks(data):
        content = view[offset + 8 : end - 4]
        if kind in (b"IDAT", b"fdAT"):
            if not pictures:
                pictures.append((b"", []))
            pictures[-1][1].append(content[4:] if kind == b"fdAT" else content)
        elif kind == b"fcTL":
            pictures.append((bytes(content), []))
        elif kind == b"iTXt" and content[: len(XMP_KEYWORD)] == XMP_KEYWORD:
            xmp = xmp or png_text(kind, bytes(content)) or None
        elif kind == b"eXIf":
            exif = exif or bytes(content)
        elif not pictures and kind != b"acTL":
            first.setdefault(kind, bytes(content))
        elif not pictures:
            # A repeated one makes the file a still image.
            first[kind] = b"" if kind in first else bytes(content)
    width, height, depth, colour_type = struct.unpack_from(">IIBB", first[b"IHDR"])
    names = (b"PLTE", b"tRNS") if colour_type == _PALETTE else ()
    pixels = _Pixels(
        depth,
        colour_type,
        first[b"IHDR"][10:],
        tuple(png_chunk(kind, first[kind]) for kind in names if kind in first),
        _transparent_colour(depth, colour_type, first.get(b"tRNS", b"")),
        read_colour(first, is_grey=colour_type in (_GREY, _GREY_ALPHA)),
    )
    frames, repetitions = [], 1
    control = first.get(b"acTL", b"")
    announced = struct.unpack_from(">II", control) if len(control) >= 8 else (0, 0)
    if 0 < announced[0] <= 2**31 and (animated := [picture for picture in pictures if picture[0]]):
        frames = [_frame(pixels, *picture) for picture in animated[: announced[0]]]
        repetitions = announced[1]
    if not frames:
        # The default image: frames without an announcement follow it.
        decode = partial(_decode, pixels, (width, height), pictures[0][1])
        frames = [StoredFrame(decode)]
    return PngFile((width, height), frames, repetitions, exif, xmp)


def _frame(pixels: _Pixels, control: bytes, data: Sequence[memoryview]) -> StoredFrame:
    _, width, height, left, top, numerator, denominator, disposal, blend = struct.unpack(
        ">5I2H2B", control[:26]
    )
    decode = partial(_decode, pixels, (width, height), data)
    duration = 1_000 * numerator / (denominator or 100)
    return StoredFrame(decode, left, top, duration, _DISPOSALS[disposal], blend == 1)


def _transparent_colour(depth: int, colour_type: int, chunk: bytes) -> tuple[int, ...]:
    """Return the samples of a tRNS chunk, of which only the bits of the depth count (section 11.3.1.1)."""
    count = {_GREY: 1, _RGB: 3}.get(colour_type, 0)
    if not count or len(chunk) != 2 * count:
        return ()
    return tuple(sample & (1 << depth) - 1 for sample in struct.unpack(f">{count}H", chunk))


def png_chunk(kind: bytes, *content: bytes | memoryview) -> bytes:
    """Return a chunk with its length and checksum."""
    body = b"".join((kind, *content))
    return struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))


def with_exif(data: bytes, exif: bytes) -> bytes:
    """Return a PNG with an EXIF block in place of those that it has.

    Args:
        data: The file.
        exif: A TIFF file.
    """
    header, *others = (data[start:end] for kind, start, end in iter_chunks(data) if kind != b"eXIf")
    return b"".join((data[:SIGNATURE_BYTES], header, png_chunk(b"eXIf", exif), *others))


def _decode(pixels: _Pixels, size: tuple[int, int], data: Sequence[memoryview]) -> Image.Image:
    """Return a frame of 8 bits with the transfer function of sRGB, and its ICC profile."""
    transfer = pixels.colour.transfer
    if pixels.depth < 16 or (
        pixels.colour_type not in _NARROW and not pixels.transparent and transfer is None
    ):
        image = _load(pixels, size, data)
        if image.mode in ("P", "1"):
            image = image.convert(
                "RGBA" if "transparency" in image.info else "L" if image.mode == "1" else "RGB"
            )
        bands = image.split()
        maximum = (1 << min(8, pixels.depth)) - 1
        levels = [sample * 255 // maximum for sample in pixels.transparent]
        mask = _differs(zip(bands, levels, strict=False))
        if transfer is not None:
            lut = pixels.colour.lut(256)
            colours = len(bands) - (len(bands) in (2, 4))
            image = image.point(lut * colours + list(range(256)) * (len(bands) - colours))
    else:
        image, mask = _decode_16_bit(pixels, size, data)
    if mask is not None:
        image.putalpha(mask)
    image.info = {"icc_profile": pixels.colour.profile}
    return image


def _differs(bands: Iterable[tuple[Image.Image, int]]) -> Image.Image | None:
    """Return 255 where any band differs from its level, else 0; `None` without bands."""
    masks = [band.point([0 if value == level else 255 for value in range(256)]) for band, level in bands]
    return reduce(ImageChops.lighter, masks) if masks else None


def _load(
    pixels: _Pixels, size: tuple[int, int], data: Sequence[memoryview], raw_mode: str = ""
) -> Image.Image:
    depth, colour_type = pixels.depth, pixels.colour_type
    if depth == 16 and colour_type in _NARROW:
        depth, colour_type = 8, _NARROW[colour_type]
    parts = [
        b"\x89PNG\r\n\x1a\n",
        png_chunk(b"IHDR", struct.pack(">IIBB", *size, depth, colour_type), pixels.methods),
        *pixels.palette,
        *(png_chunk(b"IDAT", part) for part in data),
        png_chunk(b"IEND"),
    ]
    image = Image.open(BytesIO(b"".join(parts)), formats=("PNG",))
    if raw_mode:
        image.tile = [tile._replace(args=raw_mode) for tile in image.tile]
    image.load()
    return image


def _decode_16_bit(
    pixels: _Pixels, size: tuple[int, int], data: Sequence[memoryview]
) -> tuple[Image.Image, Image.Image | None]:
    """Return a frame reduced to 8 bits, and the mask of its transparent colour, both from all 16 bits."""
    if pixels.colour_type in _NARROW:
        bands = _load(pixels, size, data).split()
        high, low = bands[::2], bands[1::2]
    else:
        mode = "RGB" if pixels.colour_type == _RGB else "RGBA"
        high, low = (_load(pixels, size, data, f"{mode};16{order}").split() for order in "BL")
    levels = [level for sample in pixels.transparent for level in divmod(sample, 256)]
    pairs = [band for pair in zip(high, low, strict=True) for band in pair]
    mask = _differs(zip(pairs, levels, strict=False))
    plain = PngColour().lut(65_536)
    colours = len(high) - (len(high) in (2, 4))
    luts = [pixels.colour.lut(65_536)] * colours + [plain] * (len(high) - colours)
    mode = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}[len(high)]
    target = Image.new(mode, size)
    rows = max(1, _STRIP_PIXELS // size[0])
    for top in range(0, size[1], rows):
        box = (0, top, size[0], min(size[1], top + rows))
        strips = [
            _reduce(upper.crop(box), lower.crop(box), lut)
            for upper, lower, lut in zip(high, low, luts, strict=True)
        ]
        target.paste(Image.merge(mode, strips) if len(strips) > 1 else strips[0], (0, top))
    return target, mask


def _reduce(high: Image.Image, low: Image.Image, lut: Sequence[int]) -> Image.Image:
    """Return a band of 8 bits from the bytes of its samples of 16 bits."""
    little_endian = Image.merge("LA", (low, high)).tobytes()
    return Image.frombytes("I;16", high.size, little_endian).convert("I").point(lut, "L")
