"""Malformed metadata is not stored: strict readers refuse the whole file for it, though browsers show it."""

from __future__ import annotations

import struct
import zlib
from io import BytesIO
from typing import Any

import pytest
from PIL import Image
from tests.unusual_files import jpeg_segment, png_chunk

from imagehost_core.formats import Format
from imagehost_core.jobs import IngestJob, RenderJob
from imagehost_core.pixels.codecs import CODECS
from imagehost_core.pixels.ingest import ingest
from imagehost_core.pixels.render import render
from imagehost_core.transform import Plan, Size

JPEG, PNG, WEBP = Format.JPEG, Format.PNG, Format.WEBP
SIZE = (24, 16)
PARTS = 3


def encode(factory: Any, fmt: Format, **options: Any) -> bytes:
    file = BytesIO()
    factory.photo(*SIZE).save(file, fmt.name, **options)
    return file.getvalue()


def profile_segments(profile: bytes, numbers: list[tuple[int, int]]) -> bytes:
    size = -(-len(profile) // PARTS)
    return b"".join(
        jpeg_segment(0xE2, b"ICC_PROFILE\0" + bytes(number) + profile[size * (number[0] - 1) :][:size])
        for number in numbers
    )


def stored(fmt: Format, data: bytes) -> bytes:
    """Return what is stored of an upload, and require that its unchanged variant has no other profile."""
    _, (master, *_) = ingest(IngestJob(fmt, requested_format=fmt), data)
    job = RenderJob(plan=Plan.unchanged(Size(*SIZE)), format=fmt, quality=None, keeps_file=True)
    _, (sent,) = render(job, fmt, data)
    profiles = [Image.open(BytesIO(file)).info.get("icc_profile") for file in (master or data, sent)]
    assert profiles[0] == profiles[1]
    return master or data


def file_with_profile(factory: Any, fmt: Format, profile: bytes) -> bytes:
    if fmt is JPEG:
        data = encode(factory, JPEG)
        return data[:2] + profile_segments(profile, [(n + 1, PARTS) for n in range(PARTS)]) + data[2:]
    if fmt is PNG:
        data = encode(factory, PNG)
        return data[:33] + png_chunk(b"iCCP", b"name\0\0" + zlib.compress(profile)) + data[33:]
    return encode(factory, WEBP, icc_profile=profile)


@pytest.mark.parametrize("fmt", [JPEG, PNG, WEBP])
def test_a_profile_is_stored_if_it_is_whole(factory: Any, fmt: Format) -> None:
    profile = factory.icc_profile()
    data = file_with_profile(factory, fmt, profile)
    assert stored(fmt, data) == data
    for broken in (profile[:-1], profile[:100], b"no profile", profile[:36] + b"none" + profile[40:]):
        data = file_with_profile(factory, fmt, broken)
        file = stored(fmt, data)
        assert "icc_profile" not in Image.open(BytesIO(file)).info
        assert CODECS[fmt].drop_malformed(file) == file


@pytest.mark.parametrize(
    ("numbers", "is_kept"),
    [
        ([(1, 3), (2, 3), (3, 3)], True),
        ([(3, 3), (1, 3), (2, 3)], True),
        ([(1, 3), (3, 3)], False),
        ([(1, 3), (2, 3)], False),
        ([(1, 3), (2, 3), (3, 2)], False),
        ([(1, 3), (2, 3), (2, 3), (3, 3)], False),
        ([(0, 3), (1, 3), (2, 3)], False),
        ([(1, 0)], False),
    ],
)
def test_a_profile_in_segments_is_stored_if_each_of_them_is_there(
    factory: Any, numbers: list[tuple[int, int]], is_kept: bool
) -> None:
    plain = encode(factory, JPEG)
    data = plain[:2] + profile_segments(factory.icc_profile(), numbers) + plain[2:]
    assert CODECS[JPEG].drop_malformed(data) == (data if is_kept else plain)
    assert ingest(IngestJob(JPEG, requested_format=JPEG), data)[0].unchanged is is_kept


def test_more_segments_of_a_profile_than_a_byte_can_count_are_dropped(factory: Any) -> None:
    plain = encode(factory, JPEG)
    segments = b"".join(jpeg_segment(0xE2, b"ICC_PROFILE\0" + bytes((n % 256, 44))) for n in range(300))
    assert (
        CODECS[JPEG].drop_malformed(plain[:2] + segments + jpeg_segment(0xE2, b"ICC_PROFILE\0") + plain[2:])
        == plain
    )


GAMMA = png_chunk(b"gAMA", struct.pack(">I", 45_455))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (GAMMA * 2, b""),
        (b"", GAMMA),
        (png_chunk(b"sRGB", b"\0") * 3, b""),
        (png_chunk(b"pHYs", bytes(9)) * 2, b""),
    ],
    ids=["repeated", "behind the pixels", "three times", "resolution"],
)
def test_a_chunk_that_may_be_there_once_before_the_pixels_is_stored_once(
    factory: Any, before: bytes, after: bytes
) -> None:
    plain = encode(factory, PNG)
    file = stored(PNG, plain[:33] + before + plain[33:-12] + after + plain[-12:])
    one = before[: len(before) // max(1, before.count(before[4:8]))] if before else b""
    assert file == plain[:33] + one + plain[33:]


def test_texts_are_inflated_up_to_a_limit_of_all_together(factory: Any) -> None:
    plain = encode(factory, PNG)
    text = png_chunk(b"zTXt", b"prompt\0\0" + zlib.compress(bytes(3 << 20)))
    data = plain[:33] + text * 5 + plain[33:]
    assert CODECS[PNG].drop_malformed(data) == plain[:33] + text + plain[33:]


@pytest.mark.parametrize("is_damaged", [False, True])
def test_what_was_inflated_of_a_refused_text_counts_too(factory: Any, is_damaged: bool) -> None:
    plain = encode(factory, PNG)
    compressed = zlib.compress(bytes(8 << 20))
    refused = png_chunk(b"zTXt", b"long\0\0" + (compressed[:-4] + bytes(4) if is_damaged else compressed))
    text = png_chunk(b"zTXt", b"short\0\0" + zlib.compress(b"text"))
    assert CODECS[PNG].drop_malformed(plain[:33] + text + refused + text + plain[33:]) == (
        plain[:33] + text + plain[33:]
    )
