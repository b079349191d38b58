"""Ancillary chunks of a PNG hide no image, whatever they contain; bad checksums of critical ones do."""

from __future__ import annotations

import struct
import zlib
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, PngImagePlugin
from tests.unusual_files import png_chunk, png_chunks, with_bad_checksum

from imagehost_core.errors import ValidationError
from imagehost_core.formats import Format
from imagehost_core.headers.scanner import scan
from imagehost_core.jobs import IngestJob, RenderJob
from imagehost_core.pixels.decode import open_image
from imagehost_core.pixels.formats.png_file import repair_checksums
from imagehost_core.pixels.ingest import ingest
from imagehost_core.pixels.render import render
from imagehost_core.transform import Plan, Size

PNG, WEBP = Format.PNG, Format.WEBP
DROPPED = {b"tEXt", b"zTXt", b"iTXt", b"pHYs", b"gAMA", b"eXIf", b"iCCP", b"tIME", b"prVt"}
CRITICAL = {b"IHDR", b"PLTE", b"IDAT", b"IEND"}


def still_png(factory: Any) -> bytes:
    """Return a PNG with a palette, transparency, and every kind of metadata."""
    info = PngImagePlugin.PngInfo()
    info.add_text("Title", "text")
    info.add_text("Comment", "compressed text", zip=True)
    info.add_itxt("Author", "international text")
    exif = Image.Exif()
    exif[0x010F] = "A maker"
    data: bytes = factory.encode(
        factory.photo(24, 16).quantize(16),
        transparency=3,
        pnginfo=info,
        exif=exif,
        dpi=(72, 72),
        icc_profile=factory.icc_profile(),
    )
    extra = png_chunk(b"gAMA", struct.pack(">I", 45_455)) + png_chunk(b"tIME", bytes((7, 234, 1, 2, 3, 4, 5)))
    return data[:33] + extra + png_chunk(b"prVt", b"unknown") + data[33:]


def pixels(factory: Any, data: bytes) -> list[bytes]:
    """Return the decoded frames of a file."""
    image = Image.open(BytesIO(data))
    frames = []
    for index in range(getattr(image, "n_frames", 1)):
        image.seek(index)
        frames.append(image.convert("RGBA").tobytes())
    return frames


@given(st.data(), st.booleans(), st.integers(1, 2**32 - 1))
def test_a_bad_checksum_of_an_ancillary_chunk_does_not_change_the_pixels(
    factory: Any, data: st.DataObject, animated: bool, flip: int
) -> None:
    valid = factory.animation(PNG, frames=3, size=(12, 8)) if animated else still_png(factory)
    ancillary = [offset for kind, offset in png_chunks(valid) if kind not in CRITICAL]
    broken = valid
    for offset in data.draw(st.sets(st.sampled_from(ancillary), min_size=1)):
        broken = with_bad_checksum(broken, offset, flip)
    header = scan(BytesIO(broken), len(broken))
    result, (master, *_) = ingest(IngestJob(PNG, requested_format=PNG), broken[: header.end_offset])
    assert not result.unchanged
    assert repair_checksums(master) is master
    assert pixels(factory, master) == pixels(factory, valid)
    assert result.frames == (3 if animated else 1)


@given(st.data(), st.integers(1, 2**32 - 1))
def test_a_bad_checksum_of_a_critical_chunk_is_a_validation_error(
    factory: Any, data: st.DataObject, flip: int
) -> None:
    valid = still_png(factory)
    critical = [(kind, offset) for kind, offset in png_chunks(valid) if kind in CRITICAL]
    assert {kind for kind, _ in critical} == CRITICAL
    kind, offset = data.draw(st.sampled_from(critical))
    with pytest.raises(ValidationError, match=f"valid checksum in every {kind.decode()}"):
        ingest(IngestJob(PNG), with_bad_checksum(valid, offset, flip))


def test_metadata_with_a_bad_checksum_is_dropped_and_the_other_is_kept(factory: Any) -> None:
    valid = still_png(factory)
    kinds = [kind for kind, _ in png_chunks(valid)]
    assert set(kinds) - CRITICAL - {b"tRNS"} == DROPPED
    for kind, offset in png_chunks(valid):
        if kind in DROPPED:
            repaired = repair_checksums(with_bad_checksum(valid, offset))
            assert [left for left, _ in png_chunks(repaired)] == [other for other in kinds if other != kind]


def test_valid_checksums_keep_the_bytes(factory: Any) -> None:
    for data in (still_png(factory), factory.animation(PNG)):
        assert repair_checksums(data) is data
        assert ingest(IngestJob(PNG, requested_format=PNG), data)[0].unchanged


@pytest.mark.parametrize("options", [{}, {"convert_to_webp": False}, {"requested_format": WEBP}])
@pytest.mark.parametrize("remove_exif", [False, True])
def test_every_upload_option_accepts_a_bad_ancillary_checksum(
    factory: Any, options: dict[str, Any], remove_exif: bool
) -> None:
    valid = still_png(factory)
    offset = next(offset for kind, offset in png_chunks(valid) if kind == b"pHYs")
    result, (master, *_) = ingest(
        IngestJob(PNG, remove_exif=remove_exif, **options), with_bad_checksum(valid, offset)
    )
    assert not result.unchanged
    assert (b"A maker" in master) is not remove_exif


LONG_TEXT = zlib.compress(bytes(3 << 20))


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (b"zTXt", b"prompt\0\0" + LONG_TEXT),
        (b"iTXt", b"prompt\0\1\0\0\0" + LONG_TEXT),
        (b"iTXt", b"XML:com.adobe.xmp\0\1\0\0\0" + LONG_TEXT),
        (b"zTXt", b"bomb\0\0" + zlib.compress(bytes(40 << 20))),
        (b"zTXt", b"text\0\7unknown method"),
        (b"zTXt", b"text\0\0not compressed"),
        (b"iTXt", b"text"),
        (b"tEXt", b"\xff" * 90),
        (b"iCCP", b"profile\0\0" + LONG_TEXT),
        (b"iCCP", b"profile\0\7unknown method"),
        (b"iCCP", b"profile"),
        (b"eXIf", b"no TIFF file"),
        (b"pHYs", b"short"),
        (b"sRGB", b""),
        (b"cHRM", b"short"),
        (b"gAMA", b""),
        (b"tRNS", b"\0"),
        (b"acTL", b"short"),
        (b"tIME", b""),
        (b"prVt", b"private"),
    ],
)
def test_an_ancillary_chunk_of_any_content_hides_no_image(
    factory: Any, monkeypatch: pytest.MonkeyPatch, kind: bytes, content: bytes
) -> None:
    plain = factory.encode(factory.photo(24, 16))
    data = plain[:33] + png_chunk(kind, content) + plain[33:]
    scan(BytesIO(data), len(data))
    result, (stored, *_) = ingest(IngestJob(PNG, requested_format=PNG), data)
    is_valid = kind in (b"tEXt", b"eXIf", b"prVt") or (kind != b"iCCP" and content.endswith(LONG_TEXT))
    assert result.unchanged is is_valid
    assert (kind in (stored or data)) is is_valid
    # Strict readers open what is stored, and a variant of what earlier versions have stored.
    job = RenderJob(plan=Plan.unchanged(Size(24, 16)), format=PNG, quality=None, keeps_file=True)
    _, (sent,) = render(job, PNG, data)
    assert kind not in sent
    monkeypatch.setattr(PngImagePlugin, "MAX_TEXT_CHUNK", 2 * len(zlib.decompress(LONG_TEXT)))
    for file in (stored or data, sent):
        with Image.open(BytesIO(file)) as image:
            image.load()
    for remove_exif in (False, True):
        to_webp = IngestJob(PNG, requested_format=WEBP, quality=100, remove_exif=remove_exif)
        assert factory.difference(factory.decode(ingest(to_webp, data)[1][0]), factory.photo(24, 16)) < 12
    without_exif = IngestJob(PNG, requested_format=PNG, remove_exif=True)
    frame = open_image(PNG, ingest(without_exif, data)[1][0] or data).first_frame()
    assert factory.difference(frame, factory.photo(24, 16)) == 0


@pytest.mark.parametrize("cut", range(1, 13))
def test_a_png_without_its_last_chunk_is_accepted(factory: Any, cut: int) -> None:
    data = still_png(factory)[:-cut]
    end = scan(BytesIO(data), len(data)).end_offset
    assert ingest(IngestJob(PNG), data[:end])[0].frames == 1
