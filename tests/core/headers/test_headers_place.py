"""Places in XMP and IPTC: found in each format, and hostile metadata read within its bounds."""

from __future__ import annotations

import io
import struct
import time
import zlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tests.core.headers.test_headers_camera import camera_data, photograph

from imagehost_core.errors import ImageHostError
from imagehost_core.headers.camera import MAX_PROPERTIES, CameraData, Place, read_camera_data, read_place
from imagehost_core.headers.header import MAX_METADATA_BYTES
from imagehost_core.headers.metadata_blocks import MAX_TEXT, MetadataBlocks
from imagehost_core.headers.scanner import read_metadata

NAMESPACES = (
    'xmlns:exif="http://ns.adobe.com/exif/1.0/" xmlns:photoshop="http://ns.adobe.com/photoshop/1.0/" '
    'xmlns:Iptc4xmpCore="http://iptc.org/std/Iptc4xmpCore/1.0/xmlns/" '
    'xmlns:Iptc4xmpExt="http://iptc.org/std/Iptc4xmpExt/2008-02-29/"'
)
POSITION = 'exif:GPSLatitude="33,51.525S" exif:GPSLongitude="151,12,51.0E"'
SYDNEY = (-33.85875, 151.214167)


def packet(attributes: str = "", elements: str = "", namespaces: str = NAMESPACES) -> bytes:
    rdf = 'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"'
    description = f'<rdf:Description rdf:about="" {namespaces} {attributes}>{elements}</rdf:Description>'
    return f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF {rdf}>{description}</rdf:RDF></x:xmpmeta>'.encode()


def data_set(number: int, value: bytes, record: int = 2) -> bytes:
    return bytes([0x1C, record, number]) + struct.pack(">H", len(value)) + value


def resource(data: bytes, number: int = 0x0404, name: bytes = b"") -> bytes:
    padded = bytes([len(name)]) + name + b"\0" * ((len(name) + 1) % 2)
    return (
        b"8BIM"
        + struct.pack(">H", number)
        + padded
        + struct.pack(">I", len(data))
        + data
        + b"\0" * (len(data) % 2)
    )


def plain(kind: str) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (8, 6)).save(file, kind)
    return file.getvalue()


def jpeg(*segments: tuple[int, bytes]) -> bytes:
    data = plain("JPEG")
    parts = (bytes([0xFF, code]) + struct.pack(">H", len(body) + 2) + body for code, body in segments)
    return data[:2] + b"".join(parts) + data[2:]


def png(kind: bytes, body: bytes) -> bytes:
    data = plain("PNG")
    chunk = struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    return data[:33] + chunk + data[33:]


def webp(xmp: bytes) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (8, 6)).save(file, "WEBP", xmp=xmp)
    return file.getvalue()


def gif(xmp: bytes) -> bytes:
    """Return a GIF with XMP as Adobe writes it: the packet, and a trailer that ends any sub-blocks."""
    trailer = b"\1" + bytes(range(255, -1, -1)) + b"\0"
    data = plain("GIF")
    return data[:-1] + b"!\xff\x0bXMP DataXMP" + xmp + trailer + data[-1:]


def raw_profile(name: bytes, data: bytes) -> bytes:
    """Return a text as ImageMagick writes it."""
    return b"\n%b\n%8d\n%b\n" % (name, len(data), data.hex().encode())


XMP = packet(POSITION)
LABEL = b"http://ns.adobe.com/xap/1.0/\0"
IPTC = resource(b"x", number=0x0425) + resource(
    data_set(90, b"K\xf6ln") + data_set(101, b"Germany"), name=b"a"
)
POSITION_FILES = {
    "JPEG": jpeg((0xE1, LABEL + XMP)),
    "PNG, plain": png(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + XMP),
    "PNG, compressed": png(b"iTXt", b"XML:com.adobe.xmp\0\1\0en\0XMP\0" + zlib.compress(XMP)),
    "PNG, raw": png(b"zTXt", b"Raw profile type xmp\0\0" + zlib.compress(raw_profile(b"xmp", XMP))),
    "WebP": webp(XMP),
    "GIF": gif(XMP),
}
NAME_FILES = {
    "JPEG": jpeg((0xED, b"Photoshop 3.0\0" + IPTC)),
    "JPEG in parts": jpeg((0xED, b"Photoshop 3.0\0" + IPTC[:31]), (0xED, b"Photoshop 3.0\0" + IPTC[31:])),
    "PNG": png(b"zTXt", b"Raw profile type iptc\0\0" + zlib.compress(raw_profile(b"iptc", IPTC))),
    "PNG, resources": png(b"tEXt", b"Raw profile type 8bim\0" + raw_profile(b"8bim", IPTC)),
}


@pytest.mark.parametrize("kind", POSITION_FILES)
def test_a_position_in_xmp_is_read_from_each_format(kind: str) -> None:
    data = camera_data(POSITION_FILES[kind])
    assert data.has_place
    assert (data.latitude, data.longitude) == pytest.approx(SYDNEY)


@pytest.mark.parametrize("kind", NAME_FILES)
def test_names_in_iptc_are_read_from_each_format(kind: str) -> None:
    assert camera_data(NAME_FILES[kind]) == CameraData(has_place=True, place="Köln, Germany")


def test_a_packet_of_several_segments_is_read_as_one() -> None:
    elements = (
        "<exif:GPSLatitude>33,51.525S</exif:GPSLatitude><exif:GPSLongitude>151,12,51.0E</exif:GPSLongitude>"
    )
    extended, head = packet(elements=elements), b"http://ns.adobe.com/xmp/extension/\0" + b"A" * 32
    for cut in range(len(extended) - 200, len(extended) - 60, 7):
        parts = [
            (0xE1, head + struct.pack(">II", len(extended), offset) + extended[offset:end])
            for offset, end in ((0, cut), (cut, len(extended)))
        ]
        data = camera_data(jpeg((0xE1, LABEL + packet()), *parts))
        assert (data.latitude, data.longitude) == pytest.approx(SYDNEY)


@pytest.mark.parametrize(
    ("xmp", "name"),
    [
        (packet('photoshop:City="Köln" photoshop:Country="Germany"'), "Köln, Germany"),
        (packet(elements="<photoshop:City>Tom &amp; Jerry&#x21;</photoshop:City>"), "Tom & Jerry!"),
        (packet("photoshop:City = 'Bonn'"), "Bonn"),
        (packet('p:City="Bonn"', namespaces="xmlns:p='http://ns.adobe.com/photoshop/1.0/'"), "Bonn"),
        (
            packet(
                elements="<Iptc4xmpExt:LocationShown><rdf:Bag><rdf:li rdf:parseType='Resource'>"
                "<Iptc4xmpExt:LocationName>\n<rdf:Alt>\n<rdf:li xml:lang='x-default'>Opera</rdf:li></rdf:Alt>"
                "</Iptc4xmpExt:LocationName><Iptc4xmpExt:City>Sydney</Iptc4xmpExt:City></rdf:li></rdf:Bag>"
                "</Iptc4xmpExt:LocationShown>"
            ),
            "Opera, Sydney",
        ),
        (packet('photoshop:City="Köln"').decode().encode("utf-16-le"), "K"),
    ],
)
def test_names_in_xmp_are_read_however_they_are_written(xmp: bytes, name: str) -> None:
    place = read_place(xmp, b"")
    assert place.is_stated
    assert place.name.startswith(name)


@pytest.mark.parametrize(
    "xmp",
    [
        packet(),
        packet(
            'photoshop:City="" photoshop:State=" "',
            "<photoshop:Country/><photoshop:Country></photoshop:Country>",
        ),
        packet('other:City="Bonn"', namespaces="xmlns:other='http://example.com/'"),
        packet('photoshop:CityHall="Bonn" City="Bonn"'),
        packet(elements="</photoshop:City>Bonn"),
        packet(elements="the photoshop:City is Bonn"),
    ],
)
def test_an_image_without_a_place_is_not_warned_of(xmp: bytes) -> None:
    assert (
        read_place(xmp, data_set(5, b"Bonn") + data_set(90, b"Bonn", record=1) + data_set(90, b" "))
        == Place()
    )


@pytest.mark.parametrize("value", ["91,0.0N", "33,51.5E", "33,51", "south", "33,51.5S,", "١,٢N"])
def test_a_position_that_cannot_be_read_is_known_to_be_there(value: str) -> None:
    place = read_place(packet(f'exif:GPSLatitude="{value}" exif:GPSLongitude="1,0.0E"'), b"")
    assert place == Place(is_stated=True)


def test_the_position_of_exif_has_precedence() -> None:
    exif = read_metadata(io.BytesIO(photograph()), len(photograph())).exif
    blocks = MetadataBlocks(exif, packet('exif:GPSLatitude="1,0.0N" exif:GPSLongitude="1,0.0E"'))
    data = read_camera_data(blocks)
    assert (data.latitude, data.longitude) == pytest.approx(SYDNEY)


def test_a_place_is_found_beside_exif_without_one() -> None:
    exif = Image.Exif()
    exif.update({0x010F: "Canon"})
    for attributes in ('photoshop:City="Bonn"', POSITION):
        data = read_camera_data(MetadataBlocks(exif.tobytes(), packet(attributes)))
        assert (data.camera, data.has_place) == ("Canon", True)
    assert (data.latitude, data.longitude) == pytest.approx(SYDNEY)


ENTITIES = b'<!DOCTYPE x [<!ENTITY a "Bonn"><!ENTITY b SYSTEM "file:///etc/passwd">]>'


def test_entities_of_a_document_are_not_expanded() -> None:
    place = read_place(
        ENTITIES + packet('photoshop:City="&a;"', "<photoshop:Country>&b;</photoshop:Country>"), b""
    )
    assert place.name == "&a;, &b;"


@pytest.mark.parametrize(
    "xmp",
    [
        b":City" * 800_000,
        b"photoshop:City=" * 280_000,
        b'photoshop:City="' + b"x" * MAX_METADATA_BYTES,
        b"photoshop:City" + b"<a>" * 1_400_000,
        b"photoshop:City>" + b" " * MAX_METADATA_BYTES,
        b'xmlns:a="' * 460_000,
        b"<photoshop:City " + b"a " * 2_000_000,
    ],
)
def test_a_hostile_packet_costs_little(xmp: bytes) -> None:
    started = time.process_time()
    place = read_place(xmp, b"")
    assert time.process_time() - started < 2
    assert len(place.name) <= MAX_TEXT


def test_hostile_resources_and_data_sets_cost_little() -> None:
    started = time.process_time()
    for iptc in (
        resource(b"", number=1) * 300_000,
        data_set(90, b"") * 800_000,
        b"\x1c\2\x5a\xff\xff" * 800_000,
    ):
        assert read_place(b"", iptc[:MAX_METADATA_BYTES]) == Place()
    assert time.process_time() - started < 2
    late = data_set(5, b"x") * MAX_PROPERTIES + data_set(90, b"Bonn")
    assert read_place(b"", late) == Place()


def test_a_text_that_inflates_without_bound_is_cut() -> None:
    bomb = zlib.compress(b" " * (4 * MAX_METADATA_BYTES) + XMP)
    file = png(b"iTXt", b"XML:com.adobe.xmp\0\1\0\0\0" + bomb)
    blocks = read_metadata(io.BytesIO(file), len(file))
    assert len(blocks.xmp) == MAX_METADATA_BYTES
    assert not read_camera_data(blocks).has_place


def test_a_damaged_text_says_nothing() -> None:
    for body in (b"XML:com.adobe.xmp\0\1\0\0\0damaged", b"XML:com.adobe.xmp", b"Raw profile type xmp\0"):
        assert camera_data(png(b"iTXt", body)) == CameraData()


PARTS = [XMP, IPTC, b"photoshop:City", b"exif:GPSLatitude=", b'"', b"<", b">", b"8BIM\4\4", b"\x1c\2\x5a\0\5"]


@given(st.lists(st.one_of(st.binary(max_size=20), st.sampled_from(PARTS)), max_size=20))
def test_any_metadata_is_read_without_a_failure_and_within_its_ranges(parts: list[bytes]) -> None:
    block = b"".join(parts)
    place = read_place(block, block)
    assert len(place.name) <= MAX_TEXT
    assert not place.name or place.name.isprintable()
    assert place.latitude is None or (-90 <= place.latitude <= 90 and place.longitude is not None)
    assert place.longitude is None or -180 <= place.longitude <= 180
    assert place.is_stated or (place.name, place.latitude) == ("", None)


@given(st.sampled_from([*POSITION_FILES.values(), *NAME_FILES.values()]), st.data())
def test_damaged_files_are_read_or_refused(file: bytes, data: st.DataObject) -> None:
    position = data.draw(st.integers(33, len(file) - 1))
    change = data.draw(st.binary(min_size=1, max_size=8))
    damaged = file[:position] + change + file[position + len(change) :]
    with suppress(ImageHostError):
        camera_data(damaged)
