"""Where an image was taken, according to its XMP and IPTC.

XMP is XML, written by any program. It is not parsed as such: no document type or entity is read, and nothing
is nested. The names of the properties that state a place are searched, and of each the value that follows as
an attribute or as the first text of an element; of both at most so many. What is missed by that is malformed,
or beyond the bounds.

Sources: XMP specification, part 2 (exif:GPSLatitude); IPTC Photo Metadata Standard 2023.2; IPTC-NAA
Information Interchange Model 4.2 (data sets); Adobe Photoshop File Formats (image resources).
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from attrs import frozen

from imagehost_core.headers.metadata_blocks import decode, one_line

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
_IPTC_RESOURCE = 0x0404
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
        if number == _IPTC_RESOURCE:
            yield iptc[offset + 4 : offset + 4 + size]
        offset += 4 + size + size % 2
