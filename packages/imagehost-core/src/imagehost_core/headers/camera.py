"""What the metadata of an image says about a photograph: place, time, camera, exposure and author.

The place can also be in XMP or IPTC (`imagehost_core.headers.place`); all else is read from EXIF.

EXIF is a TIFF file (Exif 2.32, section 4.6): a first directory (IFD0), which refers to one of the camera and
one of the place. Only these three are read, and no directory refers to another one beyond that, so the
parser cannot loop. What is missing, malformed or out of range is left out.
"""

from __future__ import annotations

import re
import struct
from datetime import datetime
from fractions import Fraction

from attrs import field, frozen

from imagehost_core.headers.exif import find_tiff
from imagehost_core.headers.metadata_blocks import MAX_TEXT, MetadataBlocks, decode, one_line
from imagehost_core.headers.place import read_place

MAX_ENTRIES = 512
"""The most entries of a directory that are read; the standard defines about 150."""

_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 7: 1, 10: 8, 129: 1}
"""Bytes of a value by its type: BYTE, ASCII, SHORT, LONG, RATIONAL, UNDEFINED, SRATIONAL and UTF-8."""
_TEXT_TYPES = (2, 129)
_INTEGERS = {3: "H", 4: "I"}
_RATIONALS = {5: "II", 10: "ii"}
_CAMERA_DIRECTORY, _PLACE_DIRECTORY = 0x8769, 0x8825
_TIME = re.compile(r"(\d{4}):(\d\d):(\d\d) (\d\d):(\d\d):(\d\d)")
_OFFSET = re.compile(r"[+-]\d\d:\d\d")


@frozen(kw_only=True)
class CameraData:
    """What metadata says about a photograph; "" or `None` for what it does not say.

    Attributes:
        taken_at: When it was taken, by the camera's clock; with a time zone if the file states it.
        camera: The manufacturer and the model.
        lens: The lens.
        exposure_seconds: The exposure time.
        aperture: The f-number.
        iso: The sensitivity.
        focal_length: The focal length of the lens, in millimetres.
        software: The program that wrote the file.
        author: The photographer.
        copyright: The notice of the rights.
        has_place: Whether EXIF, XMP or IPTC state a place, with a readable position or not.
        place: Names of the place, such as a city and its country.
        latitude: Degrees, positive in the north.
        longitude: Degrees, positive in the east.
    """

    taken_at: datetime | None = None
    camera: str = ""
    lens: str = ""
    exposure_seconds: Fraction | None = None
    aperture: Fraction | None = None
    iso: int | None = None
    focal_length: Fraction | None = None
    software: str = ""
    author: str = ""
    copyright: str = ""
    has_place: bool = False
    place: str = ""
    latitude: float | None = None
    longitude: float | None = None


def read_camera_data(blocks: MetadataBlocks) -> CameraData:
    """Return what the metadata of an image says; what is malformed is missing."""
    exif, stated = blocks.exif, read_place(blocks.xmp, blocks.iptc)
    found = find_tiff(lambda offset, count: exif[offset : offset + count])
    if found is None:
        return CameraData(
            has_place=stated.is_stated,
            place=stated.name,
            latitude=stated.latitude,
            longitude=stated.longitude,
        )
    start, order = found
    tiff = exif[start:]
    main = _Directory.at(tiff, order, *struct.unpack_from(f"{order}I", tiff, 4))
    camera = _Directory.at(tiff, order, main.integer(_CAMERA_DIRECTORY))
    place = _Directory.at(tiff, order, main.integer(_PLACE_DIRECTORY))
    make, model = main.text(0x010F), main.text(0x0110)
    latitude, longitude = place.degrees(2, 1, "NS", 90), place.degrees(4, 3, "EW", 180)
    if latitude is None or longitude is None:
        latitude, longitude = stated.latitude, stated.longitude
    return CameraData(
        taken_at=_parse_time(camera.text(0x9003), camera.text(0x9011)),
        # Many manufacturers begin the model with their name.
        camera=model if model.lower().startswith(make.lower()) else f"{make} {model}".strip(),
        lens=camera.text(0xA434),
        exposure_seconds=camera.positive(0x829A),
        aperture=camera.positive(0x829D),
        iso=camera.integer(0x8827),
        focal_length=camera.positive(0x920A),
        software=main.text(0x0131),
        author=main.text(0x013B),
        copyright=main.text(0x8298),
        has_place=bool(place.entries.keys() - {0}) or stated.is_stated,
        place=stated.name,
        latitude=latitude,
        longitude=longitude,
    )


@frozen
class _Directory:
    """A directory of a TIFF file.

    Attributes:
        tiff: The file.
        order: The byte order, as `struct` has it.
        entries: Type and bytes of the values by tag; of a repeated tag, those of the first entry.
    """

    tiff: bytes = field(repr=False)
    order: str
    entries: dict[int, tuple[int, bytes]] = field(factory=dict)

    @classmethod
    def at(cls, tiff: bytes, order: str, offset: int | None) -> _Directory:
        """Return the directory at an offset; an empty one if there is none."""
        directory = cls(tiff, order)
        if not offset or offset + 2 > len(tiff):
            return directory
        (count,) = struct.unpack_from(f"{order}H", tiff, offset)
        first = offset + 2
        whole = min(count, MAX_ENTRIES, (len(tiff) - first) // 12)
        for tag, kind, values, raw in struct.iter_unpack(f"{order}HHI4s", tiff[first : first + 12 * whole]):
            size = _SIZES.get(kind, 0) * values
            if size > 4:
                (start,) = struct.unpack(f"{order}I", raw)
                # A text of any length is cut; a number has at most three values.
                raw = tiff[start : start + min(size, 4 * MAX_TEXT)]
            if size:
                directory.entries.setdefault(tag, (kind, raw[:size]))
        return directory

    def text(self, tag: int) -> str:
        """Return a text in one line, without characters that cannot be printed; "" if it is missing."""
        kind, raw = self.entries.get(tag, (0, b""))
        if kind not in _TEXT_TYPES:
            return ""
        return one_line(decode(raw.partition(b"\0")[0]))

    def integer(self, tag: int) -> int | None:
        """Return the first value of a tag of integers, or `None`."""
        kind, raw = self.entries.get(tag, (0, b""))
        layout = _INTEGERS.get(kind)
        if layout is None or len(raw) < _SIZES[kind]:
            return None
        return int(struct.unpack_from(self.order + layout, raw)[0]) or None

    def rationals(self, tag: int) -> list[Fraction]:
        """Return at most three values of a tag of fractions: those before the first one without a value."""
        kind, raw = self.entries.get(tag, (0, b""))
        layout = _RATIONALS.get(kind)
        values: list[Fraction] = []
        if layout is None:
            return values
        for index in range(min(3, len(raw) // 8)):
            numerator, denominator = struct.unpack_from(self.order + layout, raw, 8 * index)
            if not denominator:
                break
            values.append(Fraction(numerator, denominator))
        return values

    def positive(self, tag: int) -> Fraction | None:
        """Return the first value of a tag of fractions if it is above 0 and below 1,000,000."""
        values = self.rationals(tag)
        return values[0] if values and 0 < values[0] < 1_000_000 else None

    def degrees(self, tag: int, reference: int, letters: str, most: int) -> float | None:
        """Return a latitude or longitude of degrees, minutes and seconds, or `None`.

        Args:
            tag: The tag of the three numbers.
            reference: The tag of the direction.
            letters: The letters of the positive and of the negative direction.
            most: The greatest value, in degrees.
        """
        parts, letter = self.rationals(tag), self.text(reference).upper()[:1]
        if not parts or not letter or letter not in letters:
            return None
        value = sum(part / 60**power for power, part in enumerate(parts))
        if not 0 <= value <= most:
            return None
        return float(value) if letter == letters[0] else -float(value)


def _parse_time(text: str, offset: str) -> datetime | None:
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    zone = offset if _OFFSET.fullmatch(offset) else ""
    for suffix in (zone, ""):
        try:
            year, month, day, *time = match.groups()
            return datetime.fromisoformat(f"{year}-{month}-{day}T{':'.join(time)}{suffix}")
        except ValueError:
            continue
    return None
