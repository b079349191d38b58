"""What the metadata of an image says about a photograph: place, time, camera, exposure and author.

EXIF is a TIFF file (Exif 2.32, section 4.6): a first directory (IFD0), which refers to one of the camera
and one of the place. Only these three are read, and no directory refers to another one beyond that, so the
parser cannot loop. What is missing, malformed or out of range is left out.

The place can also be in XMP or IPTC. XMP is XML, written by any program. It is not parsed as such: no
document type or entity is read, and nothing is nested. The names of the properties that state a place are
searched, and of each the value that follows as an attribute or as the first text of an element; of both at
most so many. What is missed by that is malformed, or beyond the bounds.

Sources: XMP specification, part 2 (exif:GPSLatitude); IPTC Photo Metadata Standard 2023.2; IPTC-NAA
Information Interchange Model 4.2 (data sets); Adobe Photoshop File Formats (image resources).
"""

from __future__ import annotations

import html
import re
import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from fractions import Fraction

from attrs import field, frozen

from imagehost_core.headers.exif import find_tiff
from imagehost_core.headers.metadata_blocks import IPTC_RESOURCE, MAX_TEXT, MetadataBlocks, decode, one_line

MAX_PROPERTIES = 500
"""The most properties of a packet, and data sets of IPTC, that are read."""
MAX_VALUE = 400
"""The most bytes of a value that are read."""


@frozen(kw_only=True)
class Place:
    """Where an image was taken; "" or `None` for what is not stated.

    Attributes:
        name: Names such as a city and its country.
        latitude: Degrees, positive in the north.
        longitude: Degrees, positive in the east.
        is_stated: Whether a place is stated, with readable values or not.
    """

    name: str = ""
    latitude: float | None = None
    longitude: float | None = None
    is_stated: bool = False


_PREFIXES = {
    b"http://ns.adobe.com/exif/1.0/": b"exif",
    b"http://ns.adobe.com/photoshop/1.0/": b"photoshop",
    b"http://iptc.org/std/Iptc4xmpCore/1.0/xmlns/": b"Iptc4xmpCore",
    b"http://iptc.org/std/Iptc4xmpExt/2008-02-29/": b"Iptc4xmpExt",
}
"""The namespaces of XMP that have properties of places, with their usual prefixes."""
_POSITIONS = {b"GPSLatitude": ("NS", 90), b"GPSLongitude": ("EW", 180)}
_NAMES = (
    b"Location",
    b"LocationName",
    b"Sublocation",
    b"City",
    b"State",
    b"ProvinceState",
    b"Country",
    b"CountryName",
)
"""Properties that name a place, from the smallest one to the largest."""
_PROPERTY = re.compile(rb":(%b)(?=[\s=>])" % b"|".join([*_POSITIONS, *_NAMES]))
_PREFIX = re.compile(rb"(?<![/\w.-])([\w.-]{1,40})\Z")
_NAMESPACE = re.compile(rb"xmlns:([\w.-]{1,40})\s{0,20}=\s{0,20}[\"']([^\"'<>]{1,80})[\"']")
_ATTRIBUTE = re.compile(rb"\s{0,20}=\s{0,20}(?:\"([^\"<]*)|'([^'<]*))")
_ELEMENT = re.compile(rb"[^<>]{0,200}(?<!/)>(?:\s{0,100}<[^/<>][^<>]{0,200}(?<!/)>){0,4}([^<>]*)")
_NUMBER = r"[0-9]{1,2}(?:\.[0-9]{1,12})?"
_POSITION = re.compile(rf"([0-9]{{1,3}}),({_NUMBER})(?:,({_NUMBER}))?([NSEW])")

_RESOURCE = b"8BIM"
_DATA_SET, _APPLICATION_RECORD = 0x1C, 2
_DATA_SETS = (27, 92, 90, 95, 101)
"""Content location name, sub-location, city, province or state, and country name: data sets of record 2."""


def read_place(xmp: bytes, iptc: bytes) -> Place:
    """Return the place that the metadata of an image states.

    Args:
        xmp: XMP packets.
        iptc: Image resources of Photoshop, or data sets of IPTC.
    """
    properties = _read_properties(xmp)
    positions = {name: properties[name] for name in _POSITIONS if properties.get(name)}
    latitude, longitude = (_degrees(positions.get(name, ""), *_POSITIONS[name]) for name in _POSITIONS)
    names = [properties.get(name, "") for name in _NAMES]
    data_sets = _read_data_sets(iptc)
    names += [data_sets.get(number, "") for number in _DATA_SETS]
    name = one_line(", ".join(dict.fromkeys(filter(None, names))))
    has_position = latitude is not None and longitude is not None
    return Place(
        name=name,
        latitude=latitude if has_position else None,
        longitude=longitude if has_position else None,
        is_stated=bool(positions or name),
    )


def _read_properties(xmp: bytes) -> dict[bytes, str]:
    """Return the first value of each property of a place."""
    # Of a packet in UTF-16, the properties are ASCII all the same.
    xmp = xmp.replace(b"\0", b"")
    prefixes = set(_PREFIXES.values())
    prefixes |= {match[1] for match in _first(_NAMESPACE, xmp) if match[2] in _PREFIXES}
    values: dict[bytes, str] = {}
    for match in _first(_PROPERTY, xmp):
        prefix = _PREFIX.search(xmp[max(0, match.start() - 41) : match.start()])
        if prefix is None or prefix[1] not in prefixes:
            continue
        following = xmp[match.end() : match.end() + 2 * MAX_VALUE]
        value = _ATTRIBUTE.match(following) or _ELEMENT.match(following)
        raw = next(filter(None, value.groups()), b"")[:MAX_VALUE] if value else b""
        text = one_line(html.unescape(decode(raw)))
        if text:
            values.setdefault(match[1], text)
    return values


def _first(pattern: re.Pattern[bytes], data: bytes) -> Iterator[re.Match[bytes]]:
    """Yield the first `MAX_PROPERTIES` matches."""
    for _, match in zip(range(MAX_PROPERTIES), pattern.finditer(data), strict=False):
        yield match


def _degrees(text: str, letters: str, most: int) -> float | None:
    """Return a latitude or longitude of degrees, minutes and perhaps seconds, such as `33,51.525S`."""
    match = _POSITION.fullmatch(text)
    if match is None or match[4] not in letters:
        return None
    value = int(match[1]) + float(match[2]) / 60 + float(match[3] or 0) / 3600
    if value > most:
        return None
    return value if match[4] == letters[0] else -value


def _read_data_sets(iptc: bytes) -> dict[int, str]:
    """Return the first text of each data set of a place."""
    values: dict[int, str] = {}
    for data_sets in _data_set_blocks(iptc):
        offset = 0
        for _ in range(MAX_PROPERTIES):
            head = data_sets[offset : offset + 5]
            size = int.from_bytes(head[3:], "big")
            # A size beyond 32,767 is stated elsewhere; no place is that long.
            if len(head) < 5 or head[0] != _DATA_SET or size > 0x7FFF:
                break
            raw = data_sets[offset + 5 : offset + 5 + min(size, MAX_VALUE)]
            offset += 5 + size
            if head[1] == _APPLICATION_RECORD and head[2] in _DATA_SETS and (text := one_line(decode(raw))):
                values.setdefault(head[2], text)
    return values


def _data_set_blocks(iptc: bytes) -> Iterator[bytes]:
    """Yield the data sets in image resources; all bytes if these are no image resources."""
    if not iptc.startswith(_RESOURCE):
        yield iptc
        return
    offset = 0
    for _ in range(MAX_PROPERTIES):
        if iptc[offset : offset + 4] != _RESOURCE or offset + 7 > len(iptc):
            return
        number = int.from_bytes(iptc[offset + 4 : offset + 6], "big")
        # A name with its length has an even number of bytes, and so have the data.
        offset += 6 + (iptc[offset + 6] + 2) // 2 * 2
        size = int.from_bytes(iptc[offset : offset + 4], "big")
        if number == IPTC_RESOURCE:
            yield iptc[offset + 4 : offset + 4 + size]
        offset += 4 + size + size % 2


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
_DIGITS = re.compile(r"\d+", re.ASCII)


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
    stated = read_place(blocks.xmp, blocks.iptc)
    main = _main_directory(blocks.exif)
    if main is None:
        return CameraData(
            has_place=stated.is_stated,
            place=stated.name,
            latitude=stated.latitude,
            longitude=stated.longitude,
        )
    camera = main.directory(_CAMERA_DIRECTORY)
    place = main.directory(_PLACE_DIRECTORY)
    make = main.text(0x010F)
    model = main.text(0x0110)
    latitude = place.degrees(2, 1, "NS", 90)
    longitude = place.degrees(4, 3, "EW", 180)
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


def read_taken_at(exif: bytes) -> datetime | None:
    """Return when EXIF says that a photograph was taken, in UTC, which a time without a zone counts as."""
    main = _main_directory(exif)
    if main is None:
        return None
    camera = main.directory(_CAMERA_DIRECTORY)
    taken_at = _parse_time(camera.text(0x9003), camera.text(0x9011))
    fraction = camera.text(0x9291)
    if taken_at is None:
        return None
    if _DIGITS.fullmatch(fraction):
        taken_at = taken_at.replace(microsecond=int(fraction[:6].ljust(6, "0")))
    try:
        return taken_at.replace(tzinfo=UTC) if taken_at.tzinfo is None else taken_at.astimezone(UTC)
    except OverflowError:
        return None


def _main_directory(exif: bytes) -> _Directory | None:
    """Return the first directory of EXIF; `None` if there is none."""
    found = find_tiff(lambda offset, count: exif[offset : offset + count])
    if found is None:
        return None
    start, order = found
    tiff = exif[start:]
    return _Directory.at(tiff, order, *struct.unpack_from(f"{order}I", tiff, 4))


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

    def directory(self, tag: int) -> _Directory:
        """Return the directory that a tag refers to; an empty one if it is missing."""
        return _Directory.at(self.tiff, self.order, self.integer(tag))

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
        parts = self.rationals(tag)
        letter = self.text(reference).upper()[:1]
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
