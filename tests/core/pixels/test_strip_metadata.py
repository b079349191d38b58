"""Stripping removes metadata and keeps pixels and colour profile, in each of the four formats."""

from __future__ import annotations

import io
from functools import cache
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image, PngImagePlugin
from tests.unusual_files import jpeg_segment

from imagehost_core.formats import Format
from imagehost_core.headers.scanner import scan
from imagehost_core.pixels.strip_metadata import strip_metadata

SECRET = b"Jane Doe"
XMP = b'<x:xmpmeta xmlns:x="adobe:ns:meta/">' + SECRET + b"</x:xmpmeta>"
PHOTOSHOP = b"Photoshop 3.0\x008BIM\x04\x04\0\0\0\0\0\x10" + SECRET


def exif() -> Image.Exif:
    tags = Image.Exif()
    tags[0x010F] = SECRET.decode()
    return tags


def with_all_metadata(factory: Any, fmt: Format) -> bytes:
    """Return a file with all kinds of metadata that its format supports."""
    image, profile = factory.noise(), factory.icc_profile()
    data: bytes
    if fmt is Format.JPEG:
        data = factory.encode(
            image, fmt, exif=exif(), xmp=XMP, icc_profile=profile, comment=SECRET, progressive=True
        )
        at = data.index(b"\xff\xdb")
        segment = b"\xff\xed" + (len(PHOTOSHOP) + 2).to_bytes(2, "big") + PHOTOSHOP
        return data[:at] + segment + b"\xff" + data[at:]  # with a fill byte before the next marker
    if fmt is Format.PNG:
        text = PngImagePlugin.PngInfo()
        text.add_text("Author", SECRET.decode())
        text.add_text("Long", SECRET.decode(), zip=True)
        text.add_itxt("XML:com.adobe.xmp", XMP.decode())
        data = factory.encode(image, fmt, exif=exif(), icc_profile=profile, pnginfo=text)
    elif fmt is Format.WEBP:
        data = factory.encode(image, fmt, exif=exif().tobytes(), xmp=XMP, icc_profile=profile, lossless=True)
    else:
        data = factory.animation(fmt, comment=SECRET, loop=2)
        at = data.index(b"\x21\xff\x0bNETSCAPE2.0")
        packet = b"\x21\xff\x0bXMP DataXMP" + bytes([len(XMP)]) + XMP + b"\0"
        return data[:at] + packet + data[at:]
    return data


@pytest.mark.parametrize("fmt", [Format.JPEG, Format.PNG, Format.WEBP, Format.GIF])
def test_metadata_is_removed_and_pixels_and_profile_are_kept(factory: Any, fmt: Format) -> None:
    data = with_all_metadata(factory, fmt)
    stripped = strip_metadata(fmt, data)
    assert SECRET in data
    assert SECRET not in stripped
    before, after = factory.decode(data), factory.decode(stripped)
    assert after.tobytes() == before.tobytes()
    assert after.info.get("icc_profile") == before.info.get("icc_profile")
    assert after.info.get("loop") == before.info.get("loop")
    assert not dict(after.getexif())


@pytest.mark.parametrize("fmt", [Format.JPEG, Format.PNG, Format.WEBP, Format.GIF])
def test_stripping_is_idempotent(factory: Any, fmt: Format) -> None:
    stripped = strip_metadata(fmt, with_all_metadata(factory, fmt))
    assert strip_metadata(fmt, stripped) == stripped


def test_the_frames_of_an_animated_webp_are_kept(factory: Any) -> None:
    data = factory.animation(Format.WEBP, exif=exif().tobytes())
    stripped = strip_metadata(Format.WEBP, data)
    assert SECRET not in stripped
    assert getattr(factory.decode(stripped), "n_frames", 1) == 4


def test_metadata_after_the_pixels_of_each_scan_of_a_jpeg_is_removed(factory: Any) -> None:
    data = factory.encode(factory.noise(), Format.JPEG, progressive=True)
    scans = data.index(b"\xff\xda")
    segments = jpeg_segment(0xED, PHOTOSHOP) + jpeg_segment(0xE1, b"Exif\0\0" + SECRET)
    changed = data[:scans] + data[scans:].replace(b"\xff\xc4", segments + b"\xff\xc4")
    changed = changed[:-2] + jpeg_segment(0xFE, SECRET) + b"\xff\xd9"
    assert changed.count(SECRET) > 5
    assert strip_metadata(Format.JPEG, changed) == strip_metadata(Format.JPEG, data)


def test_metadata_within_a_frame_of_a_webp_is_removed(factory: Any) -> None:
    data = factory.animation(Format.WEBP)
    frame = data.index(b"ANMF")
    size = int.from_bytes(data[frame + 4 : frame + 8], "little")
    end = frame + 8 + size
    chunk = b"EXIF" + len(SECRET).to_bytes(4, "little") + SECRET
    changed = b"".join(
        (data[: frame + 4], (size + len(chunk)).to_bytes(4, "little"), data[frame + 8 : end], chunk)
    )
    changed += data[end:]
    changed = changed[:4] + (len(changed) - 8).to_bytes(4, "little") + changed[8:]
    assert scan(io.BytesIO(changed), len(changed)).metadata
    assert strip_metadata(Format.WEBP, changed) == strip_metadata(Format.WEBP, data)


@given(padding=st.lists(st.binary(max_size=20).map(lambda data: data.replace(b"\xff", b"\xd9")), max_size=12))
@example(padding=[b"\xd9\xd9"])
@example(padding=[b"\0"] * 12)
def test_bytes_between_the_segments_of_a_jpeg_are_removed_and_metadata_after_them(
    padding: list[bytes],
) -> None:
    """The byte 0xD9, which ends a file after 0xFF, does not end it there."""
    original = small_jpeg()
    segments = [jpeg_segment(0xE1, b"Exif\0\0" + SECRET), jpeg_segment(0xFE, SECRET)]
    offset = 2
    while original[offset + 1] != 0xDA:
        end = offset + 2 + int.from_bytes(original[offset + 2 : offset + 4], "big")
        segments.append(original[offset:end])
        offset = end
    padding += [b""] * (len(segments) - len(padding))
    parts = (segment + skipped for segment, skipped in zip(segments, padding, strict=False))
    unusual = original[:2] + b"".join(parts) + original[offset:]
    assert scan(io.BytesIO(unusual), len(unusual)).metadata
    assert frames(unusual) == frames(original)
    assert strip_metadata(Format.JPEG, unusual) == original


def test_a_jpeg_without_an_end_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="expected a marker"):
        strip_metadata(Format.JPEG, small_jpeg()[:-2])


@cache
def small_jpeg() -> bytes:
    file = io.BytesIO()
    Image.effect_noise((20, 10), 90).convert("RGB").save(file, "JPEG")
    return file.getvalue()


def gif_blocks(data: bytes) -> list[bytes]:
    """Return the parts of a regular GIF: its head with the colour table, and its blocks but the trailer."""

    def table(flags: int) -> int:
        return 3 << (flags & 7) + 1 if flags & 0x80 else 0

    blocks, offset = [data[: 13 + table(data[10])]], 13 + table(data[10])
    while data[offset : offset + 1] != b";":
        end = offset + (2 if data[offset] == ord("!") else 11 + table(data[offset + 9]))
        while data[end]:
            end += 1 + data[end]
        blocks.append(data[offset : end + 1])
        offset = end + 1
    return blocks


def frames(data: bytes) -> list[tuple[bytes, int]]:
    """Return the pixels and the duration of each frame."""
    with Image.open(io.BytesIO(data)) as image:
        found = []
        for number in range(getattr(image, "n_frames", 1)):
            image.seek(number)
            found.append((image.convert("RGBA").tobytes(), image.info.get("duration", 0)))
        return found


EXTENSIONS = (
    b"!\xfe" + bytes([len(SECRET)]) + SECRET + b"\0",
    b"!\xff\x0bXMP DataXMP" + bytes([len(XMP)]) + XMP + b"\0",
    b"!\x01\x0c" + bytes(12) + bytes([len(SECRET)]) + SECRET + b"\0",
    b"!\x77" + bytes([len(SECRET)]) + SECRET + b"\0",
)
"""A comment, XMP, a plain text and an unknown extension."""
STRAY = st.binary(min_size=1, max_size=9).map(lambda data: data.translate(None, b"!,;"))


@given(
    inserted=st.lists(
        st.tuples(st.integers(1, 20), st.one_of(STRAY, st.sampled_from((*EXTENSIONS, SECRET)))),
        max_size=8,
    ),
    end=st.sampled_from((b";", b"", b";" + SECRET)),
)
@example(inserted=[(1, b"\0")], end=b";")
@example(inserted=[(number, SECRET) for number in range(1, 10)], end=b"")
def test_a_gif_keeps_its_frames_and_nothing_else_is_left_between_them(
    inserted: list[tuple[int, bytes]], end: bytes
) -> None:
    original = animated_gif()
    blocks = gif_blocks(original)
    for number, data in inserted:
        blocks.insert(min(number, len(blocks)), data)
    unusual = b"".join(blocks) + end
    stripped = strip_metadata(Format.GIF, unusual)
    assert stripped == original
    assert frames(stripped) == frames(unusual)


def test_a_gif_without_the_last_terminator_keeps_its_frames() -> None:
    original = animated_gif()
    assert original.endswith(b"\0;")
    assert strip_metadata(Format.GIF, original[:-2]) == original


def test_a_gif_that_ends_within_an_extension_keeps_its_frames() -> None:
    """The header scan accepts it, as decoders do, so it must accept it without metadata too."""
    original = animated_gif()
    unusual = original[:-1] + b"!\xf9"
    assert scan(io.BytesIO(unusual), len(unusual)).frames == 4
    assert strip_metadata(Format.GIF, unusual) == original


@cache
def animated_gif() -> bytes:
    """Return an animation of frames with colour tables and durations of their own."""
    images = [Image.effect_noise((20, 10), 90).quantize(8 * count) for count in (2, 3, 4, 5)]
    file = io.BytesIO()
    images[0].save(file, "GIF", save_all=True, append_images=images[1:], duration=[50, 60, 70, 80], loop=2)
    return file.getvalue()
