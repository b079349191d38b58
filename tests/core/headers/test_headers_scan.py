"""Tests of the header scan with valid, damaged and hostile files of every format."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from imagehost_core.errors import UnsupportedMediaTypeError, ValidationError
from imagehost_core.headers.header import ImageHeader
from imagehost_core.headers.reader import PAGE_BYTES
from imagehost_core.headers.scanner import name_content, scan

ScanBytes = Callable[[bytes], ImageHeader]
HEADS = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"GIF87a", b"RIFF\xff\0\0\0WEBP")
KINDS = (
    "baseline.jpg", "progressive.jpg", "still.png", "palette.png", "animated.png", "still.gif",
    "animated.gif", "lossy.webp", "lossless.webp", "alpha.webp", "animated.webp",
)  # fmt: skip


class RecordingFile(io.BytesIO):
    """A file that records how far and how much of it is read, and returns few bytes at a time."""

    furthest = 0
    total = 0
    calls = 0

    def read(self, size: int | None = -1, /) -> bytes:
        assert size is not None
        assert 0 < size <= 4 * PAGE_BYTES
        data = super().read(min(size, 100_000))
        self.furthest = max(self.furthest, self.tell())
        self.total += len(data)
        self.calls += 1
        return data


def attempt(file: io.BytesIO, size: int) -> ImageHeader | str:
    """Scan a file and return its header, or the details of one of the two errors that a scan can raise."""
    try:
        return scan(file, size)
    except (UnsupportedMediaTypeError, ValidationError) as error:
        return error.details


def outcome(data: bytes) -> ImageHeader | None:
    """Scan bytes, check that the scan reads no more than it may, and return the header if they are valid."""
    file = RecordingFile(data + b"beyond")
    result = attempt(file, len(data))
    assert file.furthest <= len(data)
    assert file.total <= 2 * len(data) + PAGE_BYTES
    if isinstance(result, str):
        assert result.startswith("expected ")
        assert " for image but received " in result
        return None
    assert 0 < result.end_offset <= len(data)
    assert min(result.width, result.height, result.frames, result.orientation) >= 1
    assert result.orientation <= 8
    return result


def saved_as(name: str) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (8, 8)).save(file, name)
    return file.getvalue()


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"", "0 bytes"),
        (b"x", "another format"),
        (bytes(99), "another format"),
        (b"hello, <svg>", "another format"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "SVG"),
        (b'\xef\xbb\xbf<?xml version="1.0"?>\n<!-- a -->\n<svg:svg xmlns:svg="x"/>', "SVG"),
        (b"<!DOCTYPE html><title>a</title><svg/>", "HTML"),
        (b"%PDF-1.7", "PDF"),
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "HEIC"),
        (b"\0\0\0\x18ftypmif1\0\0\0\0mif1heic", "HEIC"),
        (b"\0\0\0\x1cftypmif1\0\0\0\0mif1avifmiaf", "AVIF"),
        (b"\0\0\0\x2cftypavis\0\0\0\0avifavismsf1", "AVIF"),
        (b"\xff\x0a\x7f\x80", "JPEG XL"),
        (b"\0\0\0\x18ftypisom\0\0\0\0isomavc1", "a video"),
        (saved_as("AVIF"), "AVIF"),
        (saved_as("TIFF"), "TIFF"),
        (saved_as("BMP"), "BMP"),
        (saved_as("ICO"), "ICO"),
    ],
)
def test_content_of_another_format_is_unsupported_and_named(data: bytes, name: str) -> None:
    with pytest.raises(UnsupportedMediaTypeError) as caught:
        scan(io.BytesIO(data), len(data))
    assert caught.value.details == f"expected content of JPEG, PNG, WEBP, GIF for image but received {name}"


@given(st.binary(max_size=64))
def test_any_content_has_a_name(data: bytes) -> None:
    assert name_content(data)


@pytest.mark.parametrize("head", HEADS)
def test_a_bare_signature_is_damaged(head: bytes) -> None:
    with pytest.raises(ValidationError):
        scan(io.BytesIO(head), len(head))


@given(head=st.sampled_from((b"", *HEADS)), rest=st.binary(max_size=300))
def test_arbitrary_bytes_give_a_header_or_one_of_two_errors(head: bytes, rest: bytes) -> None:
    outcome(head + rest)


def damage(images: dict[str, bytes], data: st.DataObject, kinds: tuple[str, ...] = KINDS) -> bytes:
    """Draw an image with a few of its bytes changed, removed, added or repeated."""
    image = bytearray(images[data.draw(st.sampled_from(kinds))])
    places = st.integers(0, len(image))
    for _ in range(data.draw(st.integers(1, 4))):
        start, source = data.draw(places), data.draw(places)
        length = data.draw(st.integers(0, 40))
        new = data.draw(st.one_of(st.binary(max_size=8), st.just(bytes(image[source : source + length]))))
        image[start : start + data.draw(st.integers(0, 8))] = new
    return bytes(image)


@given(data=st.data())
def test_damaged_images_give_a_header_or_one_of_two_errors(
    images: dict[str, bytes], data: st.DataObject
) -> None:
    outcome(damage(images, data))


def decoded(data: bytes, kind: str) -> tuple[int, int, int]:
    """Return the frames, the width and the height that the decoder finds, or zeros if it fails."""
    with warnings.catch_warnings(), contextlib.suppress(Exception):
        warnings.simplefilter("ignore")
        with Image.open(io.BytesIO(data), formats=(kind,)) as image:
            frames, width, height = getattr(image, "n_frames", 1), 0, 0
            for frame in range(frames):
                image.seek(frame)
                width, height = max(width, image.width), max(height, image.height)
            return frames, width, height
    return 0, 0, 0


@given(data=st.data())
@pytest.mark.parametrize("kind", ["png", "gif", "webp"])
def test_a_decoder_never_finds_more_than_the_header_scan(
    images: dict[str, bytes], kind: str, data: st.DataObject
) -> None:
    """Otherwise a decompression bomb could pass the limits."""
    kinds = tuple(name for name in KINDS if name.endswith(kind))
    damaged = damage(images, data, kinds)
    header = outcome(damaged)
    if header is None or header.total_pixels > 1_000_000:
        return
    actual = decoded(damaged, kind)
    assert all(a <= b for a, b in zip(actual, (header.frames, *header.canvas_extent), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_a_truncated_image_gives_a_header_or_an_error(images: dict[str, bytes], kind: str) -> None:
    whole = images[kind]
    full = outcome(whole)
    assert full is not None
    for length in range(len(whole)):
        cut = outcome(whole[:length])
        assert cut is None or (cut.width, cut.height) == (full.width, full.height)


@pytest.mark.parametrize("kind", KINDS)
@given(tail=st.binary(min_size=1, max_size=64))
def test_appended_bytes_change_nothing(images: dict[str, bytes], kind: str, tail: bytes) -> None:
    whole = images[kind]
    header = outcome(whole)
    assert header is not None
    assert header.end_offset == len(whole)
    assert outcome(whole + tail) == outcome(whole + whole) == header


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_shorter_than_stated_gives_a_header_or_an_error(images: dict[str, bytes], kind: str) -> None:
    whole = images[kind]
    for length in range(1, len(whole)):
        result = attempt(io.BytesIO(whole[:length]), len(whole))
        assert isinstance(result, ImageHeader) or result.startswith("expected ")


@pytest.mark.parametrize("kind", KINDS)
def test_the_position_of_the_file_does_not_matter(images: dict[str, bytes], kind: str) -> None:
    file = io.BytesIO(images[kind])
    file.seek(7)
    assert scan(file, len(images[kind])) == outcome(images[kind])


def test_metadata_is_found_in_the_images_that_have_it(
    images: dict[str, bytes], scan_bytes: ScanBytes
) -> None:
    kinds = {kind: sorted(scan_bytes(data).metadata) for kind, data in images.items()}
    assert kinds == {
        "baseline.jpg": ["exif", "icc"],
        "progressive.jpg": ["exif"],
        "still.png": ["exif", "icc"],
        "palette.png": ["exif"],
        "animated.png": ["exif"],
        "still.gif": [],
        "animated.gif": [],
        "lossy.webp": [],
        "lossless.webp": [],
        "alpha.webp": ["exif", "icc", "xmp"],
        "animated.webp": ["exif"],
    }


sides = st.integers(1, 40)


@given(
    kind=st.sampled_from(["JPEG", "PNG", "GIF", "WEBP"]),
    mode=st.sampled_from(["L", "LA", "RGB", "RGBA", "P", "CMYK", "1"]),
    width=sides,
    height=sides,
    frames=st.integers(1, 4),
    orientation=st.integers(1, 8),
    option=st.sampled_from([{}, {"progressive": True}, {"lossless": True}, {"interlace": 1}]),
)
def test_headers_agree_with_the_decoder_on_images_written_by_pillow(
    kind: str, mode: str, width: int, height: int, frames: int, orientation: int, option: dict[str, object]
) -> None:
    base = Image.new("RGBA", (width, height), (1, 2, 3, 99))
    images = [base.copy() for _ in range(frames)]
    for step, image in enumerate(images):
        image.putpixel((step % width, step % height), (255, 99 * step % 256, 7, 255))
    if kind == "JPEG":
        mode = mode if mode in ("L", "CMYK") else "RGB"
    elif mode == "CMYK":
        mode = "RGB"
    images = [
        image.convert("RGB").convert(mode) if mode == "CMYK" else image.convert(mode) for image in images
    ]
    exif = Image.Exif()
    exif[0x0112] = orientation
    options: dict[str, object] = {} if kind == "GIF" else {"exif": exif}
    if kind != "JPEG":
        options |= {"save_all": True, "append_images": images[1:]}
    file = io.BytesIO()
    images[0].save(file, kind, **options, **option)
    size = len(file.getvalue())
    header = scan(file, size)
    with Image.open(file, formats=(kind,)) as opened:
        assert (header.width, header.height) == opened.size
        assert header.format.value.upper() == opened.format
        assert header.frames == getattr(opened, "n_frames", 1)
        assert header.orientation == opened.getexif().get(0x0112, 1)
        assert header.end_offset == size
        assert header.has_alpha or opened.mode not in ("LA", "RGBA")
        for frame in range(header.frames):
            opened.seek(frame)
            opened.load()
