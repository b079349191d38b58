"""What a JPEG claims beside its image: what an index names is kept, and of the rest no claim is left."""

from __future__ import annotations

import struct
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as PILImage
from tests.oriented_files import exif
from tests.unusual_files import jpeg_segment

from imagehost_core import ImageHost
from imagehost_core.formats import Format
from imagehost_core.headers.scanner import scan
from imagehost_core.pixels.decode import correct
from imagehost_core.testing import make_image

XMP_LABEL = b"http://ns.adobe.com/xap/1.0/\0"
ISO = jpeg_segment(0xE2, b"urn:iso:std:iso:ts:21496:-1\0" + bytes(4))
VIDEO = b"\0\0\0\x18ftypmp42" + bytes(200)
HDR = 'xmlns:hdrgm="http://ns.adobe.com/hdr-gain-map/1.0/" hdrgm:Version="1.0"'
MOTION = (
    'xmlns:GCamera="http://ns.google.com/photos/1.0/camera/" GCamera:MotionPhoto="1" '
    'GCamera:MotionPhotoVersion="1" GCamera:MicroVideo="1" GCamera:MicroVideoOffset="212"'
)
MOTION_ELEMENTS = (
    'xmlns:Camera="http://ns.google.com/photos/1.0/camera/"><Camera:MotionPhoto>1</Camera:MotionPhoto>'
    "<Camera:MotionPhotoVersion>1</Camera:MotionPhotoVersion"
)
CLAIMS = (b"MPF\0", b"hdrgm:", b"21496", b"GainMap", b"Directory", b"MotionPhoto", b"MicroVideo", b"video/")


def jpeg(seed: int, size: int) -> bytes:
    image = PILImage.open(BytesIO(make_image(size, size, seed=seed)))
    file = BytesIO()
    image.convert("RGB").save(file, "JPEG", quality=70)
    return file.getvalue()


IMAGE, GAIN_MAP = jpeg(1, 48), jpeg(2, 24)


def item(semantic: str, mime: str, length: int, *, as_elements: bool = False) -> str:
    values = {"Semantic": semantic, "Mime": mime, "Length": length}
    if as_elements:
        fields = "".join(f"<Item:{name}>{value}</Item:{name}>" for name, value in values.items())
        return f'<rdf:li rdf:parseType="Resource">{fields}</rdf:li>'
    fields = " ".join(f'Item:{name}="{value}"' for name, value in values.items())
    return f'<rdf:li rdf:parseType="Resource"><Container:Item {fields}/></rdf:li>'


def xmp(attributes: str, *items: str) -> bytes:
    """Return an XMP segment with a person, attributes of a description, and a directory of items."""
    directory = (
        f"<Container:Directory><rdf:Seq>{''.join(items)}</rdf:Seq></Container:Directory>" if items else ""
    )
    return jpeg_segment(
        0xE1,
        XMP_LABEL
        + '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
        '<rdf:Description xmlns:Container="http://ns.google.com/photos/1.0/container/" dc:creator="A person" '
        f'xmlns:Item="http://ns.google.com/photos/1.0/container/item/" {attributes}>{directory}'
        "</rdf:Description></rdf:RDF></x:xmpmeta>".encode(),
    )


PRIMARY = item("Primary", "image/jpeg", 0)


def mpf(*others: tuple[int, int]) -> bytes:
    """Return an MPF segment that names images by their size and their offset from the segment."""
    entries = b"".join(
        struct.pack("<IIIHH", 0, size, offset - 8 if offset else 0, 0, 0)
        for size, offset in ((0, 0), *others)
    )
    tiff = struct.pack("<4sIH", b"II*\0", 8, 1) + struct.pack("<HHIII", 0xB002, 7, len(entries), 26, 0)
    return jpeg_segment(0xE2, b"MPF\0" + tiff + entries)


def file(*segments: bytes, trailer: bytes = b"") -> bytes:
    return IMAGE[:2] + b"".join(segments) + IMAGE[2:] + trailer


def with_mpf(*segments: bytes, trailer: bytes, size: int = len(GAIN_MAP), gap: int = 0) -> bytes:
    """Return a file with MPF after other segments, which names an image at a distance from the end."""
    length = len(mpf((size, 0)))
    return file(*segments, mpf((size, length + len(IMAGE) - 2 + gap)), trailer=trailer)


GAIN_MAP_ITEM = item("GainMap", "image/jpeg", len(GAIN_MAP))
VIDEO_ITEM = item("MotionPhoto", "video/mp4", len(VIDEO))
HDR_XMP = xmp(HDR, PRIMARY, GAIN_MAP_ITEM)

COMPLETE = {
    "MPF": with_mpf(ISO, trailer=GAIN_MAP),
    "container": file(xmp(HDR, PRIMARY, GAIN_MAP_ITEM), ISO, trailer=GAIN_MAP),
    "container of elements": file(
        xmp(HDR, PRIMARY, item("GainMap", "image/jpeg", len(GAIN_MAP), as_elements=True)), trailer=GAIN_MAP
    ),
    "both": with_mpf(HDR_XMP, ISO, trailer=GAIN_MAP),
    "orientation": with_mpf(HDR_XMP, jpeg_segment(0xE1, b"Exif\0\0" + exif(6)), trailer=GAIN_MAP),
}
"""Files with a gain map, by the index that names it."""

CUT = {
    "no index": file(xmp(HDR), ISO, trailer=GAIN_MAP),
    "no further image": with_mpf(HDR_XMP, ISO, trailer=b""),
    "a longer one": with_mpf(xmp(HDR), ISO, trailer=GAIN_MAP, size=len(GAIN_MAP) + 1),
    "one that is cut": with_mpf(HDR_XMP, ISO, trailer=GAIN_MAP[:-9]),
    "another place": with_mpf(xmp(HDR), ISO, trailer=GAIN_MAP, gap=4),
    "no image": with_mpf(HDR_XMP, ISO, trailer=bytes(len(GAIN_MAP))),
    "within the first image": with_mpf(xmp(HDR), trailer=b"", gap=-len(IMAGE) // 2),
    "damaged MPF": file(jpeg_segment(0xE2, b"MPF\0II*\0\x08\0\0\0\x01\0"), ISO, trailer=GAIN_MAP),
    "motion": file(xmp(MOTION, PRIMARY, VIDEO_ITEM), trailer=VIDEO),
    "motion as elements": file(
        xmp(MOTION_ELEMENTS, PRIMARY, item("MotionPhoto", "video/mp4", len(VIDEO), as_elements=True)),
        trailer=VIDEO,
    ),
    "motion without a directory": file(xmp(MOTION), trailer=VIDEO),
}
"""Files that claim what they do not contain, or what no index names."""

WAYS: list[dict[str, Any]] = [
    {"convert_to_webp": False},
    {"convert_to_webp": False, "remove_exif": True},
    {"format": "jpeg", "quality": 60},
    {"format": "png"},
    {"format": "webp"},
]


def read(host: ImageHost, path: str, query: str = "") -> bytes:
    with host.delivery.open(host.delivery.resolve(path, query)) as blob:
        return blob.read()


def claims(data: bytes) -> list[bytes]:
    return [claim for claim in CLAIMS if claim in data]


@pytest.mark.parametrize("name", COMPLETE)
def test_a_further_image_that_an_index_names_is_kept(host: ImageHost, name: str) -> None:
    data = COMPLETE[name]
    image = host.upload(data, owner="admin", convert_to_webp=False)
    assert read(host, image.id) == data
    junk = host.upload(data + b"PK\3\4" + bytes(99), owner="admin", convert_to_webp=False)
    assert read(host, junk.id) == data


@pytest.mark.parametrize("options", WAYS[1:], ids=str)
@pytest.mark.parametrize("name", COMPLETE)
def test_a_master_without_the_further_image_claims_none(
    host: ImageHost, name: str, options: dict[str, Any]
) -> None:
    stored = read(host, host.upload(COMPLETE[name], owner="admin", **options).id)
    assert claims(stored) == []
    assert GAIN_MAP not in stored
    assert (b"A person" in stored) is (b"A person" in COMPLETE[name] and "remove_exif" not in options)


@pytest.mark.parametrize("options", WAYS, ids=str)
@pytest.mark.parametrize("name", CUT)
def test_what_is_cut_off_is_not_claimed(host: ImageHost, name: str, options: dict[str, Any]) -> None:
    stored = read(host, host.upload(CUT[name], owner="admin", **options).id)
    assert claims(stored) == []
    assert VIDEO not in stored
    assert stored.count(b"\xff\xd8\xff") <= 1
    assert (b"A person" in stored) is (b"A person" in CUT[name] and "remove_exif" not in options)


def test_a_video_after_a_gain_map_is_cut_off_alone(host: ImageHost) -> None:
    data = with_mpf(xmp(f"{HDR} {MOTION}", PRIMARY, GAIN_MAP_ITEM, VIDEO_ITEM), ISO, trailer=GAIN_MAP + VIDEO)
    stored = read(host, host.upload(data, owner="admin", convert_to_webp=False).id)
    assert claims(stored) == [b"MPF\0", b"hdrgm:", b"21496", b"GainMap", b"Directory"]
    assert len(stored) == len(data) - len(VIDEO)
    assert stored.endswith(IMAGE[-99:] + GAIN_MAP)
    assert scan(BytesIO(stored), len(stored)).further_images.spans == (
        (len(stored) - len(GAIN_MAP), len(stored)),
    )


def test_bytes_between_images_that_no_index_names_are_not_stored(host: ImageHost) -> None:
    data = with_mpf(trailer=b"secret!!" + GAIN_MAP, gap=8)
    stored = read(host, host.upload(data, owner="admin", convert_to_webp=False).id)
    assert stored == data.replace(b"secret!!", bytes(8))


def test_a_photograph_that_is_no_motion_photo_is_kept(host: ImageHost) -> None:
    data = file(xmp(MOTION.replace('="1"', '="0"')))
    assert read(host, host.upload(data, owner="admin", convert_to_webp=False).id) == data


@pytest.mark.parametrize("name", COMPLETE)
def test_variants_claim_no_further_image(host: ImageHost, name: str) -> None:
    image = host.upload(COMPLETE[name], owner="admin", convert_to_webp=False)
    for path, query in ((image.id, f"w={image.width}"), (f"{image.id}.webp", ""), (image.id, "w=20")):
        assert claims(read(host, path, query)) == []


@given(st.data())
def test_a_damaged_index_never_fails(data: st.DataObject) -> None:
    whole = bytearray(
        with_mpf(xmp(f"{HDR} {MOTION}", PRIMARY, GAIN_MAP_ITEM, VIDEO_ITEM), trailer=GAIN_MAP + VIDEO)
    )
    end = whole.index(b"\xff\xe0")
    for _ in range(data.draw(st.integers(1, 6))):
        whole[data.draw(st.integers(30, end - 1))] = data.draw(st.integers(0, 255))
    header = scan(BytesIO(whole), len(whole))
    once = correct(Format.JPEG, bytes(whole[: header.end_offset]))
    assert correct(Format.JPEG, once) == once
    assert len(once) <= header.end_offset
