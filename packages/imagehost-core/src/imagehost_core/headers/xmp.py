"""Claims of XMP about other media in a file: what they name, and packets without them.

Phones describe by XMP what follows the image in a JPEG: a gain map (Ultra HDR) or a video (motion photo).
XMP is XML, written by any program. It is not parsed as such: attributes and elements of known namespaces are
found by their names, with the prefixes that the packet declares.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from attrs import frozen

XMP_LABEL = b"http://ns.adobe.com/xap/1.0/\0"
XMP_EXTENSION_LABEL = b"http://ns.adobe.com/xmp/extension/\0"
"""The identifiers before a packet in JPEG, and before each part of further ones (XMP part 3)."""

_ANY = rb"\w+"
_GAIN_MAPS = {
    b"http://ns.adobe.com/hdr-gain-map/1.0/": (b"hdrgm", _ANY),
    b"http://ns.apple.com/HDRGainMap/1.0/": (b"HDRGainMap", _ANY),
}
_CONTAINERS = {
    b"http://ns.google.com/photos/1.0/container/": (b"Container", _ANY),
    b"http://ns.google.com/photos/1.0/container/item/": (b"Item", _ANY),
}
_VIDEOS = {b"http://ns.google.com/photos/1.0/camera/": (b"GCamera", rb"(?:MotionPhoto|MicroVideo)\w*")}
_THUMBNAILS = {b"http://ns.adobe.com/xap/1.0/": (b"xmp", b"Thumbnails")}
_EXTENSIONS = {
    b"http://ns.adobe.com/xmp/note/": (b"xmpNote", b"HasExtendedXMP"),
    b"http://ns.google.com/photos/1.0/audio/": (b"GAudio", _ANY),
    b"http://ns.google.com/photos/1.0/depthmap/": (b"GDepth", _ANY),
    b"http://ns.google.com/photos/1.0/image/": (b"GImage", _ANY),
}
"""By namespace: its usual prefix, and a pattern of the names of what claims other media of the file."""

_ORIENTATION = re.compile(rb"(:Orientation(?:\s{0,20}=\s{0,20}[\"']|>)\s{0,20})[2-8]")
_HAS_EXTENSION = re.compile(rb":HasExtendedXMP\b")
_IS_MOTION_PHOTO = re.compile(rb":(?:MotionPhoto|MicroVideo)(?:\s{0,20}=\s{0,20}[\"']|>)\s{0,20}1")
_ITEM_FIELD = re.compile(
    rb":(Semantic|Mime|Length|Padding)(?:\s{0,20}=\s{0,20}[\"']|>)\s{0,20}([\w/.+-]{0,100})"
)
_ITEM_BEGIN, _ITEM_END = b"<rdf:li", b"</rdf:li>"
_MAX_DIGITS = 10
_MAX_PREFIXES = 4
"""The most prefixes of a namespace; writers declare one."""

_Span = tuple[int, int]


@frozen
class ContainerItem:
    """A medium of a file, in the directory of its container.

    Attributes:
        span: Offsets of the item's first byte and of its end in the packet.
        is_video: Whether it is the video of a motion photo.
        length: Its size in bytes; 0 for the first image.
        padding: Bytes between it and the next one.
    """

    span: tuple[int, int]
    is_video: bool
    length: int
    padding: int


def xmp_of_new_pixels(xmp: bytes) -> bytes:
    """Return a packet with orientation 1, and without thumbnails and claims of other media and packets."""
    xmp = _ORIENTATION.sub(rb"\g<1>1", xmp)
    parts, offset = [], 0
    for start, end in _claims(xmp, _GAIN_MAPS | _CONTAINERS | _VIDEOS | _THUMBNAILS | _EXTENSIONS):
        parts.append(xmp[offset:start])
        offset = end
    return b"".join((*parts, xmp[offset:]))


def container_items(xmp: bytes) -> list[ContainerItem]:
    """Return the items of the directory of a container, in the order of their media in the file."""
    items = []
    for begin, end in _claims(xmp, _CONTAINERS):
        while (start := xmp.find(_ITEM_BEGIN, begin, end)) >= 0:
            begin = xmp.find(_ITEM_END, start, end) + len(_ITEM_END)
            if begin < start:
                break
            # In reverse: of an element's two tags, the first one is followed by its text.
            fields = dict(reversed(_ITEM_FIELD.findall(xmp, start, begin)))
            is_video = fields.get(b"Semantic") == b"MotionPhoto" or fields.get(b"Mime", b"")[:6] == b"video/"
            length, padding = (_number(fields.get(name, b"")) for name in (b"Length", b"Padding"))
            items.append(ContainerItem((start, begin), is_video, length, padding))
    return items


def _number(text: bytes) -> int:
    return int(text) if text.isdigit() and len(text) <= _MAX_DIGITS else 0


def blank_claims(
    xmp: bytes, missing: Iterable[ContainerItem], *, has_images: bool, has_extension: bool
) -> bytes:
    """Return a packet of the same length, with spaces in place of claims of what a file does not contain.

    Videos are none of an image, so what claims one is blanked in any case.

    Args:
        xmp: The packet.
        missing: Items of its container that the file does not contain.
        has_images: Whether the file has further images.
        has_extension: Whether the file has further packets, which hold depth, for example.
    """
    spans = [item.span for item in missing]
    if _IS_MOTION_PHOTO.search(xmp):
        spans += _claims(xmp, _VIDEOS)
    if not has_images:
        spans += _claims(xmp, _GAIN_MAPS | _CONTAINERS)
    if not has_extension and _HAS_EXTENSION.search(xmp):
        spans += _claims(xmp, _EXTENSIONS)
    blanked = bytearray(xmp)
    for start, end in spans:
        blanked[start:end] = b" " * (end - start)
    return bytes(blanked)


def _claims(xmp: bytes, namespaces: dict[bytes, tuple[bytes, bytes]]) -> list[_Span]:
    """Return the offsets of the attributes and elements of namespaces, in order and without overlaps.

    The declaration of a namespace of which nothing remains is among them.
    """
    found: list[_Span] = []
    for uri, (usual, pattern) in namespaces.items():
        declaration = rb"\sxmlns:([\w.-]{1,40})\s{0,20}=\s{0,20}[\"']%b[\"']" % re.escape(uri)
        declared = list(islice(re.finditer(declaration, xmp), _MAX_PREFIXES))
        prefixes = {usual, *(match[1] for match in declared)}
        name = rb"(?:%b):%b" % (b"|".join(map(re.escape, prefixes)), pattern)
        attribute = rb"\s%b\s{0,20}=\s{0,20}(?:\"[^\"]{0,65535}\"|'[^']{0,65535}')" % name
        claimed = [*_elements(xmp, name), *(match.span() for match in re.finditer(attribute, xmp))]
        found += claimed
        found += [match.span() for match in declared if claimed and pattern is _ANY]
    claims: list[_Span] = []
    for start, end in sorted(found):
        if not claims or start >= claims[-1][1]:
            claims.append((start, end))
    return claims


def _elements(xmp: bytes, names: bytes) -> Iterator[_Span]:
    opening, offset = re.compile(rb"<(%b)(?=[\s/>])" % names), 0
    while (begin := opening.search(xmp, offset)) is not None:
        head = xmp.find(b">", begin.end()) + 1
        closing = b"</%b>" % begin[1]
        end = head if xmp[head - 2 : head] == b"/>" else xmp.find(closing, head) + len(closing)
        if not head or end < head:
            return
        yield begin.start(), end
        offset = end
