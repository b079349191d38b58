"""Camera data in EXIF: read from files that Pillow writes, and from hostile blocks without a failure."""

from __future__ import annotations

import io
import struct
import time
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from PIL.TiffImagePlugin import IFDRational

from imagehost_core.headers.camera import MAX_ENTRIES, CameraData, read_camera_data, read_taken_at
from imagehost_core.headers.metadata_blocks import MAX_TEXT, MetadataBlocks
from imagehost_core.headers.scanner import read_first_exif, read_metadata, scan

CAMERA, PLACE = 0x8769, 0x8825


def photograph(kind: str = "JPEG", **changes: dict[int, object]) -> bytes:
    """Return an image whose EXIF has all that is read; `changes` replaces tags of `camera` or `place`."""
    exif = Image.Exif()
    exif.update({0x010F: "Canon", 0x0110: "Canon EOS 5D", 0x0131: "darktable 4.6"})
    exif.update({0x013B: "Zoë".encode(), 0x8298: "© Zoë".encode("latin-1")})
    exif.get_ifd(CAMERA).update(
        {
            0x829A: IFDRational(1, 250),
            0x829D: IFDRational(28, 10),
            0x8827: 400,
            0x9003: "2024:05:06 07:08:09",
            0x9011: "+02:00",
            0x920A: IFDRational(35),
            0xA434: "EF35mm f/2 IS USM",
        }
        | changes.get("camera", {})
    )
    place = {1: "S", 2: (33.0, 51.0, 31.5), 3: "E", 4: (151.0, 12.0, 51.0)}
    exif.get_ifd(PLACE).update(place | changes.get("place", {}))
    file = io.BytesIO()
    Image.new("RGB", (8, 6)).save(file, kind, exif=exif)
    return file.getvalue()


def camera_data(data: bytes) -> CameraData:
    return read_camera_data(read_metadata(io.BytesIO(data), len(data)))


def exif_data(exif: bytes) -> CameraData:
    return read_camera_data(MetadataBlocks(exif))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_the_data_of_a_photograph_is_read_from_each_format(kind: str) -> None:
    data = camera_data(photograph(kind))
    assert data.latitude == pytest.approx(-33.858750)
    assert data.longitude == pytest.approx(151.214167)
    assert data == CameraData(
        taken_at=datetime(2024, 5, 6, 7, 8, 9, tzinfo=timezone(timedelta(hours=2))),
        camera="Canon EOS 5D",
        lens="EF35mm f/2 IS USM",
        exposure_seconds=Fraction(1, 250),
        aperture=Fraction(28, 10),
        iso=400,
        focal_length=Fraction(35),
        software="darktable 4.6",
        author="Zoë",
        copyright="© Zoë",
        has_place=True,
        latitude=data.latitude,
        longitude=data.longitude,
    )


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF"])
def test_an_image_without_exif_says_nothing(kind: str) -> None:
    file = io.BytesIO()
    Image.new("RGB", (8, 6)).save(file, kind)
    assert camera_data(file.getvalue()) == CameraData()


@pytest.mark.parametrize(
    "place",
    [
        {1: "X"},
        {1: ""},
        {2: (91.0, 0.0, 0.0)},
        {2: (89.0, 120.0, 0.0)},
        {4: (180.0, 0.0, 1.0)},
    ],
)
def test_a_position_out_of_range_is_left_out_but_the_place_is_known_to_be_there(
    place: dict[int, object],
) -> None:
    data = camera_data(photograph(place=place))
    assert (data.has_place, data.latitude, data.longitude) == (True, None, None)


def test_a_time_without_a_zone_or_with_an_impossible_one_is_that_of_the_camera() -> None:
    for zone in ("", "+99:00", "   :  "):
        data = camera_data(photograph(camera={0x9011: zone}))
        assert data.taken_at == datetime(2024, 5, 6, 7, 8, 9)
    for text in ("2024:13:01 00:00:00", "0000:00:00 00:00:00", "    :  :     :  :  ", "yesterday"):
        assert camera_data(photograph(camera={0x9003: text})).taken_at is None


@pytest.mark.parametrize(
    ("camera", "expected"),
    [
        ({}, datetime(2024, 5, 6, 5, 8, 9, tzinfo=UTC)),
        ({0x9011: ""}, datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)),
        ({0x9291: "25"}, datetime(2024, 5, 6, 5, 8, 9, 250_000, tzinfo=UTC)),
        ({0x9291: "0012345678"}, datetime(2024, 5, 6, 5, 8, 9, 1_234, tzinfo=UTC)),
        ({0x9291: "x"}, datetime(2024, 5, 6, 5, 8, 9, tzinfo=UTC)),
        ({0x9003: "0001:01:01 00:00:00"}, None),
        ({0x9003: "9999:12:31 23:00:00", 0x9011: "-02:00"}, None),
        ({0x9003: "1969:07:20 20:17:40", 0x9011: ""}, datetime(1969, 7, 20, 20, 17, 40, tzinfo=UTC)),
        ({0x9003: "yesterday"}, None),
    ],
)
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_the_time_of_a_photograph_is_in_utc_with_its_fraction(
    kind: str, camera: dict[int, object], expected: datetime | None
) -> None:
    data = photograph(kind, camera=camera)
    file = io.BytesIO(data)
    assert read_taken_at(read_first_exif(file, len(data), scan(file, len(data)))) == expected


def test_numbers_without_a_sense_are_left_out() -> None:
    data = camera_data(photograph(camera={0x829A: IFDRational(0, 1), 0x920A: IFDRational(5, 0), 0x8827: 0}))
    assert (data.exposure_seconds, data.focal_length, data.iso) == (None, None, None)


def test_texts_are_one_bounded_line_that_can_be_printed() -> None:
    data = camera_data(photograph(camera={0xA434: "a\x1b[31m\r\n\x7f" + "b" * 5_000}))
    assert data.lens.isprintable()
    assert data.lens.startswith("a [31m b")
    assert len(data.lens) == MAX_TEXT


def block(entries: bytes, count: int, order: str = "<") -> bytes:
    mark = b"II*\0" if order == "<" else b"MM\0*"
    return mark + struct.pack(f"{order}IH", 8, count) + entries


def test_directories_that_refer_to_each_other_end() -> None:
    loop = struct.pack("<HHII", CAMERA, 4, 1, 8) + struct.pack("<HHII", PLACE, 4, 1, 8)
    assert exif_data(block(loop, 2)) == CameraData(has_place=True)


def test_the_entries_of_a_directory_are_bounded() -> None:
    filler = struct.pack("<HHII", 0x0100, 4, 1, 1) * MAX_ENTRIES
    software = struct.pack("<HHI4s", 0x0131, 2, 4, b"abc\0")
    assert exif_data(block(software + filler, MAX_ENTRIES + 1)).software == "abc"
    assert exif_data(block(filler + software, MAX_ENTRIES + 1)).software == ""


def test_a_block_of_4_mib_that_claims_the_greatest_values_costs_little() -> None:
    entry = struct.pack("<HHII", 0x010F, 2, 0xFFFFFFFF, 0)
    data = block(entry * 65_535, 65_535) + bytes(4 * 2**20)
    started = time.process_time()
    exif_data(data)
    assert time.process_time() - started < 1


@given(st.binary(max_size=400), st.sampled_from([b"", b"II*\0\x08\0\0\0", b"MM\0*\0\0\0\x08", b"Exif\0\0"]))
def test_any_bytes_are_read_without_a_failure(data: bytes, head: bytes) -> None:
    exif_data(head + data)
    assert read_taken_at(head + data) is None


VALID = read_metadata(io.BytesIO(photograph()), len(photograph())).exif


@given(st.integers(0, len(VALID) - 1), st.binary(min_size=1, max_size=8), st.integers(0, len(VALID)))
def test_damaged_data_is_read_without_a_failure_and_within_its_ranges(
    position: int, change: bytes, length: int
) -> None:
    damaged = (VALID[:position] + change + VALID[position + len(change) :])[:length]
    data = exif_data(damaged)
    assert (read_taken_at(damaged) is None) <= (data.taken_at is None or data.taken_at.year in (1, 9999))
    assert data.latitude is None or (-90 <= data.latitude <= 90 and data.longitude is not None)
    assert data.longitude is None or -180 <= data.longitude <= 180
    for text in (data.camera, data.lens, data.software, data.author, data.copyright):
        assert len(text) <= 2 * MAX_TEXT + 1
        assert not text or text.isprintable()
    for number in (data.exposure_seconds, data.aperture, data.focal_length):
        assert number is None or 0 < number < 1_000_000
