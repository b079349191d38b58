"""Query parameters of lists: rejected by the documented error; a cursor has one spelling.

An input is a query. Base64 hides a cursor from the fuzzer, so that a value that begins with `!` is encoded.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from urllib.parse import parse_qsl

from imagehost_core.errors import BadRequestError
from imagehost_core.lists import LIST_PARAMETERS, CursorPosition, encode_cursor, new_image_list_request
from imagehost_server.routes.lists import list_keywords

DICTIONARY = (
    *(f"&{name}=".encode() for name in LIST_PARAMETERS),
    *(
        b"!0123456789ab.",
        b".7",
        b'."',
        b"true",
        b"webp",
        b"-created_at",
        b"filename",
        b"-size",
        b"%00",
        b"%F0",
    ),
    *(
        b"2026-01-31T12:00:00Z",
        b"%2B23:59",
        b"-24:00",
        b".123456789",
        b"T24:00:00",
        b"9999-12-31",
        b"2147483648",
    ),
)
FINDINGS = ()
POSITIONS = (
    CursorPosition("0123456789ab", 7, "4fTq0ZrXb81KcVnE"),
    CursorPosition("0123456789ab", "cat.jpg", "12"),
)


def seeds() -> list[bytes]:
    return [
        b"page=2&per_page=100",
        *(f"cursor={encode_cursor(position)}".encode() for position in POSITIONS),
        b"cursor=!0123456789ab.4fTq0ZrXb81KcVnE.7",
        b'cursor=!0123456789ab.12."cat.jpg',
        b"q=a+cat&is_public=TRUE&format=webp&sort=-filename",
        b"created_after=2026-01-31T12:00:00Z&created_before=2026-01-31T12:00:00.5%2B01:00&album_id=7",
    ]


def check(data: bytes) -> None:
    pairs = parse_qsl(data.decode("utf-8", "surrogateescape"), keep_blank_values=True)
    parameters = [(name, _encode(value) if name == "cursor" else value) for name, value in pairs]
    try:
        request = new_image_list_request(**list_keywords(parameters, LIST_PARAMETERS))
    except BadRequestError as error:
        _require_details(error)
        return
    page = request.page
    assert 1 <= page.page < 2**31
    assert 1 <= page.per_page <= 100
    if page.after is not None:
        assert ("cursor", encode_cursor(page.after)) in parameters
    assert len(request.filters.q) <= 100
    for time in (request.filters.created_after, request.filters.created_before):
        assert time is None or time.utcoffset() is not None


def _require_details(error: BadRequestError) -> None:
    assert error.errors
    error.details.encode()


def _encode(value: str) -> str:
    if not value.startswith("!"):
        return value
    return urlsafe_b64encode(value[1:].encode("utf-8", "surrogatepass")).decode().rstrip("=")
