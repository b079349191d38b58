"""Transforms: a query is rejected, or its canonical form means the same to core and client.

Sizes are bounded. An input is an extension, a line feed, and a query.
"""

from __future__ import annotations

from urllib.parse import urlencode

from imagehost_client.urls import build_query
from imagehost_core.errors import BadRequestError, NotFoundError
from imagehost_core.formats import Format
from imagehost_core.transform import (
    MAX_OUTPUT_PIXELS,
    MAX_SIDE,
    Fit,
    Size,
    Transform,
    negotiate,
    parse_transform,
    plan,
)

SOURCES = (Size(1, 1), Size(640, 480), Size(1, 10_000), Size(16_384, 9), Size(4_001, 2_999))
DICTIONARY = (
    *(b"w=", b"h=", b"q=", b"fit=", b"fm=", b"&", b"=", b"%", b"%30", b"+", b";", b"8192", b"8193", b"100"),
    *(
        b"cover",
        b"contain",
        b"fill",
        b"inside",
        b"outside",
        b"jpg",
        b"png",
        b"webp",
        b"avif",
        b"auto",
        b"gif",
    ),
    *("٣".encode(), b"\xc2\xb2", b"\xff", b"image/avif", b"image/webp;q=0", b","),
)
FINDINGS = ()


def seeds() -> list[bytes]:
    return [
        b"\nw=320&h=240&fit=inside&fm=webp",
        b"webp\nw=8192&q=100",
        b"gif\nh=1",
        b"auto\nfit=fill&w=1&h=8192",
        b"jpg\nfm=avif&x=1&w=%33",
        b"\nimage/avif,image/webp;q=0.5,*/*",
    ]


def check(data: bytes) -> None:
    extension, _, rest = data.partition(b"\n")
    query = rest.decode("utf-8", "surrogateescape")
    assert negotiate(query)
    try:
        transform = parse_transform(query, extension=extension.decode("latin-1") or None)
    except (BadRequestError, NotFoundError):
        return
    canonical = transform.to_query()
    # GIF is an extension only.
    again = parse_transform(canonical, extension="gif" if transform.format is Format.GIF else None)
    assert again == transform
    assert again.to_query() == canonical
    assert canonical.isascii()
    check_client(transform, canonical)
    check_plan(SOURCES[len(data) % len(SOURCES)], transform)


def check_client(transform: Transform, canonical: str) -> None:
    """Assert that the client accepts the values, and writes the same query."""
    formats = {Format.JPEG: "jpg", Format.GIF: None}
    names = {"w": transform.width, "h": transform.height, "q": transform.quality}
    fit = None if transform.fit is Fit.COVER else transform.fit.value
    fmt = transform.format
    written = build_query(
        {**names, "fit": fit, "fm": formats.get(fmt, fmt.value) if isinstance(fmt, Format) else fmt}
    )
    assert urlencode(written) == canonical


def check_plan(source: Size, transform: Transform) -> None:
    """Assert that an output has the requested size, within the limits, and lies within what is resized."""
    try:
        result = plan(source, transform, max_side=MAX_SIDE * 2)
    except BadRequestError:
        return
    output, resize, crop, pad = result.output, result.resize, result.crop, result.pad
    assert output.pixels <= MAX_OUTPUT_PIXELS
    width, height = transform.width, transform.height
    if width and height and transform.fit in (Fit.COVER, Fit.CONTAIN, Fit.FILL):
        assert output == Size(width, height)
    if width and height and transform.fit is Fit.INSIDE:
        assert output.width <= width
        assert output.height <= height
    if width and height and transform.fit is Fit.OUTSIDE:
        assert output.width >= width
        assert output.height >= height
    if width is None and height is None:
        assert output == source
    for inner, outer, before, after in (
        (output.width, resize.width, crop.left, pad.left),
        (output.height, resize.height, crop.top, pad.top),
    ):
        assert before == 0 or before + inner <= outer
        assert after == 0 or after + outer <= inner
        assert before == 0 or after == 0
