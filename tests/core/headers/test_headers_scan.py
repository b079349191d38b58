"""What holds for the scan of every file, sound, damaged or hostile."""

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
from imagehost_core.headers import ImageHeader, scan
from imagehost_core.headers.reader import PAGE

Look = Callable[[bytes], ImageHeader]
HEADS = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"GIF87a", b"RIFF\xff\0\0\0WEBP")
KINDS = (
    "baseline.jpg", "progressive.jpg", "still.png", "palette.png", "animated.png", "still.gif",
    "animated.gif", "lossy.webp", "lossless.webp", "alpha.webp", "animated.webp",
)  # fmt: skip


class Watched(io.BytesIO):
    """A file that notes how far and how much of it is read, and gives little at a time."""

    furthest = 0
    total = 0
    calls = 0

    def read(self, size: int | None = -1, /) -> bytes:
        assert size is not None
        assert 0 < size <= 4 * PAGE
        data = super().read(min(size, 100_000))
        self.furthest = max(self.furthest, self.tell())
        self.total += len(data)
        self.calls += 1
        return data


def attempt(file: io.BytesIO, size: int) -> ImageHeader | str:
    """Scan, and return the header or the details of one of the two refusals; all else is a failure."""
    try:
        return scan(file, size)
    except (UnsupportedMediaTypeError, ValidationError) as error:
        return error.details


def outcome(data: bytes) -> ImageHeader | None:
    """Scan, hold the scan to its bounds, and return the header, if there is one."""
    file = Watched(data + b"beyond")
    found = attempt(file, len(data))
    assert file.furthest <= len(data)
    assert file.total <= 2 * len(data) + PAGE
    if isinstance(found, str):
        assert found.startswith("expected ")
        assert " for image but received " in found
        return None
    assert 0 < found.end_offset <= len(data)
    assert min(found.width, found.height, found.frames, found.orientation) >= 1
    assert found.orientation <= 8
    return found


@pytest.mark.parametrize(
    "data",
    [b"", b"x", b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"%PDF-1.7", b"BM" + bytes(60), bytes(99)],
)
def test_content_of_no_known_kind_is_unsupported(data: bytes) -> None:
    with pytest.raises(UnsupportedMediaTypeError) as caught:
        scan(io.BytesIO(data), len(data))
    assert (
        caught.value.details
        == "expected content of JPEG, PNG, WEBP, GIF for image but received something else"
    )


@pytest.mark.parametrize("head", HEADS)
def test_a_bare_signature_is_damaged(head: bytes) -> None:
    with pytest.raises(ValidationError):
        scan(io.BytesIO(head), len(head))


@given(head=st.sampled_from((b"", *HEADS)), rest=st.binary(max_size=300))
def test_arbitrary_bytes_give_a_header_or_one_of_two_refusals(head: bytes, rest: bytes) -> None:
    outcome(head + rest)


def damage(pictures: dict[str, bytes], data: st.DataObject, kinds: tuple[str, ...] = KINDS) -> bytes:
    """Draw a picture with a few of its bytes changed, taken away, added or repeated."""
    picture = bytearray(pictures[data.draw(st.sampled_from(kinds))])
    places = st.integers(0, len(picture))
    for _ in range(data.draw(st.integers(1, 4))):
        start, source = data.draw(places), data.draw(places)
        length = data.draw(st.integers(0, 40))
        new = data.draw(st.one_of(st.binary(max_size=8), st.just(bytes(picture[source : source + length]))))
        picture[start : start + data.draw(st.integers(0, 8))] = new
    return bytes(picture)


@given(data=st.data())
def test_damaged_pictures_give_a_header_or_one_of_two_refusals(
    pictures: dict[str, bytes], data: st.DataObject
) -> None:
    outcome(damage(pictures, data))


def decoded(data: bytes, kind: str) -> tuple[int, int, int]:
    """Return the frames, the width and the height that the decoder finds; zeros where it gives up."""
    with warnings.catch_warnings(), contextlib.suppress(Exception):
        warnings.simplefilter("ignore")
        with Image.open(io.BytesIO(data), formats=(kind,)) as picture:
            frames, width, height = getattr(picture, "n_frames", 1), 0, 0
            for frame in range(frames):
                picture.seek(frame)
                width, height = max(width, picture.width), max(height, picture.height)
            return frames, width, height
    return 0, 0, 0


@given(data=st.data())
@pytest.mark.parametrize("kind", ["png", "gif", "webp"])
def test_a_decoder_never_finds_more_than_the_header_told(
    pictures: dict[str, bytes], kind: str, data: st.DataObject
) -> None:
    """Else a picture could pass the limits and still be a bomb."""
    kinds = tuple(name for name in KINDS if name.endswith(kind))
    damaged = damage(pictures, data, kinds)
    header = outcome(damaged)
    if header is None or header.total_pixels > 1_000_000:
        return
    found = decoded(damaged, kind)
    assert all(seen <= told for seen, told in zip(found, (header.frames, *header.canvas_extent), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_cut_anywhere_gives_a_header_or_a_refusal(pictures: dict[str, bytes], kind: str) -> None:
    whole = pictures[kind]
    full = outcome(whole)
    assert full is not None
    for length in range(len(whole)):
        cut = outcome(whole[:length])
        assert cut is None or (cut.width, cut.height) == (full.width, full.height)


@pytest.mark.parametrize("kind", KINDS)
@given(tail=st.binary(min_size=1, max_size=64))
def test_what_is_appended_changes_nothing(pictures: dict[str, bytes], kind: str, tail: bytes) -> None:
    whole = pictures[kind]
    header = outcome(whole)
    assert header is not None
    assert header.end_offset == len(whole)
    assert outcome(whole + tail) == outcome(whole + whole) == header


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_shorter_than_stated_gives_a_header_or_a_refusal(
    pictures: dict[str, bytes], kind: str
) -> None:
    whole = pictures[kind]
    for length in range(1, len(whole)):
        found = attempt(io.BytesIO(whole[:length]), len(whole))
        assert isinstance(found, ImageHeader) or found.startswith("expected ")


@pytest.mark.parametrize("kind", KINDS)
def test_the_position_of_the_file_does_not_matter(pictures: dict[str, bytes], kind: str) -> None:
    file = io.BytesIO(pictures[kind])
    file.seek(7)
    assert scan(file, len(pictures[kind])) == outcome(pictures[kind])


def test_metadata_is_found_in_the_pictures_that_carry_it(pictures: dict[str, bytes], look: Look) -> None:
    carried = {kind: sorted(look(data).metadata) for kind, data in pictures.items()}
    assert carried == {
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
    turn=st.integers(1, 8),
    option=st.sampled_from([{}, {"progressive": True}, {"lossless": True}, {"interlace": 1}]),
)
def test_headers_agree_with_the_decoder_on_the_pictures_that_it_writes(
    kind: str, mode: str, width: int, height: int, frames: int, turn: int, option: dict[str, object]
) -> None:
    base = Image.new("RGBA", (width, height), (1, 2, 3, 99))
    made = [base.copy() for _ in range(frames)]
    for step, picture in enumerate(made):
        picture.putpixel((step % width, step % height), (255, 99 * step % 256, 7, 255))
    if kind == "JPEG":
        mode = mode if mode in ("L", "CMYK") else "RGB"
    elif mode == "CMYK":
        mode = "RGB"
    made = [
        picture.convert("RGB").convert(mode) if mode == "CMYK" else picture.convert(mode) for picture in made
    ]
    exif = Image.Exif()
    exif[0x0112] = turn
    more: dict[str, object] = {} if kind == "GIF" else {"exif": exif}
    if kind != "JPEG":
        more |= {"save_all": True, "append_images": made[1:]}
    file = io.BytesIO()
    made[0].save(file, kind, **more, **option)
    size = len(file.getvalue())
    header = scan(file, size)
    with Image.open(file, formats=(kind,)) as seen:
        assert (header.width, header.height) == seen.size
        assert header.format.value.upper() == seen.format
        assert header.frames == getattr(seen, "n_frames", 1)
        assert header.orientation == seen.getexif().get(0x0112, 1)
        assert header.end_offset == size
        assert header.has_alpha or seen.mode not in ("LA", "RGBA")
        for frame in range(header.frames):
            seen.seek(frame)
            seen.load()
