"""Metadata that a re-encoded master keeps: nothing asks for a second turn, or belongs to other pixels."""

from __future__ import annotations

import re
import struct
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from imagehost_core.formats import Format
from imagehost_core.headers.exif import PREFIX, read_orientation, remove_thumbnail
from imagehost_core.headers.xmp import xmp_of_new_pixels
from imagehost_core.jobs import IngestJob
from imagehost_core.pixels.ingest import ingest
from imagehost_core.pixels.strip_metadata import strip_metadata

JPEG, PNG, WEBP = Format.JPEG, Format.PNG, Format.WEBP
MAKER, NOTE = b"A maker\0", b"Some notes of the maker"
THUMBNAIL = b"\xff\xd8thumbnail" * 40 + b"\xff\xd9"
XMP_LABEL = b"http://ns.adobe.com/xap/1.0/\0"


def exif(order: str, thumbnail: bytes, orientation: int = 6, *, thumbnail_first: bool = False) -> bytes:
    """Return an EXIF block with a maker, a note of the maker, and a thumbnail of orientation 6."""

    def directory(entries: list[tuple[int, int, int, int]], following: int) -> bytes:
        packed = b"".join(
            struct.pack(f"{order}HHI", tag, kind, count)
            + (struct.pack(f"{order}H2x", value) if kind == 3 else struct.pack(f"{order}I", value))
            for tag, kind, count, value in entries
        )
        return struct.pack(f"{order}H", len(entries)) + packed + struct.pack(f"{order}I", following)

    sizes = {"main": 2 + 3 * 12 + 4, "maker": len(MAKER), "camera": 2 + 12 + 4, "note": len(NOTE)}
    sizes |= {"second": 2 + 3 * 12 + 4, "thumbnail": len(thumbnail)}
    order_of_parts = ["main", "maker", "camera", "note"]
    order_of_parts[1:1] = ["second", "thumbnail"] if thumbnail_first else []
    order_of_parts += [] if thumbnail_first else ["second", "thumbnail"]
    offsets, offset = {}, 8
    for name in order_of_parts:
        offsets[name] = offset
        offset += sizes[name]
    parts = {
        "main": directory(
            [
                (0x010F, 2, len(MAKER), offsets["maker"]),
                (0x0112, 3, 1, orientation),
                (0x8769, 4, 1, offsets["camera"]),
            ],
            offsets["second"],
        ),
        "maker": MAKER,
        "camera": directory([(0x927C, 7, len(NOTE), offsets["note"])], 0),
        "note": NOTE,
        "second": directory(
            [(0x0112, 3, 1, 6), (0x0201, 4, 1, offsets["thumbnail"]), (0x0202, 4, 1, len(thumbnail))], 0
        ),
        "thumbnail": thumbnail,
    }
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(f"{order}I", 8)
    return head + b"".join(parts[name] for name in order_of_parts)


@pytest.mark.parametrize("prefix", [b"", b"Exif\0\0"])
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("thumbnail_first", [False, True])
def test_a_thumbnail_is_removed_and_the_rest_stays_where_it_is(
    order: str, prefix: bytes, thumbnail_first: bool
) -> None:
    block = prefix + exif(order, THUMBNAIL, thumbnail_first=thumbnail_first)
    kept = remove_thumbnail(block)
    assert b"thumbnail" not in kept
    assert (kept.index(MAKER), kept.index(NOTE)) == (block.index(MAKER), block.index(NOTE))
    assert thumbnail_first or len(kept) < len(block) - len(THUMBNAIL)
    tags = Image.Exif()
    tags.load(kept)
    assert tags[0x010F] == MAKER[:-1].decode()
    assert tags.get_ifd(0x8769)[0x927C] == NOTE
    assert not tags.get_ifd(1)
    assert read_orientation(kept) == 6
    assert remove_thumbnail(kept) == kept


@given(st.data(), st.sampled_from("<>"), st.booleans())
def test_removing_the_thumbnail_of_a_damaged_block_does_not_fail(
    data: st.DataObject, order: str, thumbnail_first: bool
) -> None:
    block = bytearray(exif(order, THUMBNAIL[:20], thumbnail_first=thumbnail_first))
    for _ in range(data.draw(st.integers(1, 4))):
        block[data.draw(st.integers(8, len(block) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(block[: data.draw(st.integers(0, len(block)))])
    assert len(remove_thumbnail(damaged)) <= len(damaged)


PACKET = """<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF><rdf:Description rdf:about=""
 xmlns:hdrgm="http://ns.adobe.com/hdr-gain-map/1.0/" hdrgm:Version="1.0" xmpNote:HasExtendedXMP="0123"
 {attribute} dc:creator="A person">{element}<Container:Directory><rdf:Seq><rdf:li><Container:Item
 Item:Semantic="GainMap"/></rdf:li></rdf:Seq></Container:Directory><xmp:Thumbnails><rdf:Alt>AAAA</rdf:Alt>
</xmp:Thumbnails></rdf:Description></rdf:RDF></x:xmpmeta>"""


@given(st.integers(1, 8), st.booleans(), st.sampled_from("\"'"))
def test_xmp_keeps_no_orientation_thumbnail_or_claim_of_other_images(
    orientation: int, as_element: bool, quote: str
) -> None:
    attribute = "" if as_element else f"tiff:Orientation={quote}{orientation}{quote}"
    element = f"<tiff:Orientation>{orientation}</tiff:Orientation>" if as_element else ""
    packet = PACKET.format(attribute=attribute, element=element).encode()
    kept = xmp_of_new_pixels(packet)
    assert re.findall(rb"Orientation\W+(\d)", kept) == [b"1"]
    assert b'dc:creator="A person"' in kept
    for gone in (b"hdrgm:Version", b"GainMap", b"Thumbnails", b"HasExtendedXMP"):
        assert gone not in kept
    assert kept.endswith(b"</rdf:Description></rdf:RDF></x:xmpmeta>")


def camera_jpeg(factory: Any) -> bytes:
    """Return a sideways photograph of a phone: with a thumbnail, XMP, and an index of other images."""
    packet = PACKET.format(attribute='tiff:Orientation="6"', element="").encode()
    data = factory.encode(
        factory.photo(64, 48), JPEG, quality=98, exif=PREFIX + exif("<", THUMBNAIL), xmp=packet
    )
    index = b"MPF\0" + exif("<", b"")
    return bytes(data[:2] + b"\xff\xe2" + struct.pack(">H", len(index) + 2) + index + data[2:])


@pytest.mark.parametrize(
    "options",
    [{"requested_format": WEBP}, {"requested_format": JPEG, "quality": 90}, {"requested_format": PNG}],
)
def test_a_turned_master_has_no_metadata_of_the_pixels_before(factory: Any, options: dict[str, Any]) -> None:
    master = ingest(IngestJob(JPEG, **options), camera_jpeg(factory))[1][0]
    image = Image.open(BytesIO(master))
    assert image.size == (48, 64)
    tags = image.getexif()
    assert (tags[0x0112], tags[0x010F], tags.get_ifd(1)) == (1, "A maker", {})
    assert re.findall(rb"Orientation\W+(\d)", image.info["xmp"]) == [b"1"]
    for gone in (b"thumbnail", b"MPF\0", b"GainMap", b"hdrgm:Version"):
        assert gone not in master


IPTC = b"\x1c\x02\x50\0\x0aA reporter" + b"\x1c\x02\x74\0\x05\xa9 Ann"
"""A by-line and a copyright notice."""
DIGEST = b"8BIM" + struct.pack(">HHI", 0x0425, 0, 16) + bytes(range(16))
"""The digest of IPTC, which comes before it in files of Photoshop."""


@pytest.mark.parametrize("data_sets", [IPTC, IPTC + b"\x1c\x02\x19\0\x02ab", (IPTC * 3_000)[:65_463]])
def test_a_jpeg_of_a_jpeg_keeps_iptc_unless_it_is_removed(factory: Any, data_sets: bytes) -> None:
    iptc = b"8BIM" + struct.pack(">HHI", 0x0404, 0, len(data_sets)) + data_sets + b"\0" * (len(data_sets) % 2)
    resources = b"Photoshop 3.0\0" + DIGEST + iptc
    jpeg = factory.encode(factory.photo(64, 48), JPEG, quality=98)
    jpeg = jpeg[:2] + b"\xff\xed" + struct.pack(">H", len(resources) + 2) + resources + jpeg[2:]
    for remove_exif, expected in ((True, {}), (False, {0x0404: data_sets})):
        job = IngestJob(JPEG, requested_format=JPEG, quality=90, remove_exif=remove_exif)
        master = ingest(job, jpeg)[1][0]
        assert Image.open(BytesIO(master)).info.get("photoshop", {}) == expected


def test_removing_metadata_removes_chunks_of_unknown_types(factory: Any) -> None:
    webp = factory.encode(factory.photo(24, 16), WEBP, exif=exif("<", THUMBNAIL))
    chunk = b"C2PA" + struct.pack("<I", 6) + b"secret"
    webp = b"RIFF" + struct.pack("<I", len(webp) - 8 + len(chunk)) + webp[8:] + chunk
    stripped = strip_metadata(WEBP, webp)
    assert b"secret" not in stripped
    assert b"A maker" not in stripped
    assert factory.decode(stripped).tobytes() == factory.decode(webp).tobytes()
