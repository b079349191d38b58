"""Small images of every format, with and without metadata, as inputs to begin with."""

from __future__ import annotations

import io
from functools import cache

from PIL import Image

from imagehost_core.testing import make_image

XMP = (
    b'<x:xmpmeta xmlns:exif="http://ns.adobe.com/exif/1.0/" exif:GPSLatitude="33,51.525S" '
    b'photoshop:City="Rome"/>'
)


@cache
def sample_images() -> tuple[bytes, ...]:
    """Return the files."""
    with Image.open(io.BytesIO(make_image(12, 9))) as opened:
        plain = opened.convert("RGB")
    colours = [Image.new("RGBA", (12, 9), (40 * step, 255 - 40 * step, 99, 128)) for step in range(3)]
    exif = Image.Exif()
    exif[0x0112] = 6
    exif[0x010F], exif[0x0110] = "Maker", "Model"
    exif.get_ifd(0x8825).update({1: "N", 2: (41.0, 54.0, 10.0), 3: "E", 4: (12.0, 29.0, 0.0)})
    return (
        make_image(3, 2),
        _save("JPEG", plain, exif=exif, icc_profile=b"profile", comment=b"text", xmp=XMP),
        _save("JPEG", plain.convert("L"), progressive=True),
        _save("JPEG", plain.convert("CMYK")),
        _save("PNG", colours[0], exif=exif, icc_profile=b"profile"),
        _save("PNG", plain.quantize(4), transparency=0),
        _save("PNG", *colours),
        _save("GIF", plain, comment=b"text"),
        _save("GIF", *colours, loop=0),
        _save("WEBP", plain),
        _save("WEBP", colours[0], lossless=True, exif=exif, icc_profile=b"profile", xmp=XMP),
        _save("WEBP", colours[0], quality=50),
        _save("WEBP", *colours, exif=exif),
    )


IMAGE_TOKENS = (
    *(bytes((0xFF, code)) for code in (0xC0, 0xC2, 0xC4, 0xD8, 0xD9, 0xDA, 0xDB, 0xE1, 0xE2, 0xED, 0xFE)),
    *(b"Exif\0\0", b"http://ns.adobe.com/xap/1.0/\0", b"ICC_PROFILE\0", b"Photoshop 3.0\0", b"8BIM\4\4"),
    *(b"II*\0", b"MM\0*", b"\x12\1\3\0\1\0\0\0", b"\x25\x88\4\0\1\0\0\0"),
    *(b"\x89PNG\r\n\x1a\n", b"IHDR", b"IDAT", b"IEND", b"acTL", b"fcTL", b"fdAT", b"eXIf", b"tEXt", b"iTXt"),
    *(b"zTXt", b"tRNS", b"XML:com.adobe.xmp\0", b"Raw profile type iptc\0", b"\0\0\0\0"),
    *(b"GIF87a", b"GIF89a", b"!\xff\x0bNETSCAPE2.0\3\1\0\0\0", b"!\xff\x0bXMP DataXMP", b"!\xf9\4", b"!\xfe"),
    *(b"RIFF", b"WEBP", b"VP8 ", b"VP8L", b"VP8X", b"ALPH", b"ANIM", b"ANMF", b"EXIF", b"XMP ", b"ICCP"),
    *(b'exif:GPSLatitude="', b"<photoshop:City>", b"xmlns:a='http://ns.adobe.com/exif/1.0/'", b"&#65;"),
)
"""Markers, chunks and labels of image files and their metadata."""


def _save(kind: str, *frames: Image.Image, **options: object) -> bytes:
    file = io.BytesIO()
    animation = {"save_all": True, "append_images": frames[1:]} if len(frames) > 1 else {}
    frames[0].save(file, kind, **animation, **options)
    return file.getvalue()
