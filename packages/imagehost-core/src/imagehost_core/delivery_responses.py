"""Responses to requests for images: status, headers and bytes, equal for every server and framework.

`delivery_app`, and the image route and the fast path of the server, send what `ImageResponses` decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cached_property
from http import HTTPStatus
from urllib.parse import quote

from attrs import evolve, field, frozen

from imagehost_core.cache_purges import cache_tag
from imagehost_core.conditional import (
    UNSATISFIABLE,
    ByteRange,
    PreconditionFailedError,
    RangeError,
    http_date,
    is_not_modified,
    is_precondition_failed,
    parse_range,
)
from imagehost_core.error_responses import method_not_allowed
from imagehost_core.errors import FieldError, quote_value
from imagehost_core.formats import FORMATS, Format
from imagehost_core.services.delivery import ResolvedImage
from imagehost_core.settings import Settings

RawHeaders = list[tuple[bytes, bytes]]

METHODS = "GET, HEAD, OPTIONS"
PIECE_BYTES = 32 * 2**10
"""Bytes of a body that are sent at a time: what a client that reads nothing occupies."""

PRECONDITIONS = {
    b"if-match": ("If-Match", "the current entity tag or *"),
    b"if-unmodified-since": ("If-Unmodified-Since", "the time of the last change or a later one"),
}
"""Headers by which a client wants one representation or none, in their order of precedence, with their names
and expected values in errors."""

CONDITIONS = frozenset((b"if-none-match", b"if-modified-since", *PRECONDITIONS))
"""Headers by which a client may get no bytes."""

RELEVANT_HEADERS = CONDITIONS | {b"accept", b"range", b"if-range"}
"""Request headers that a response can depend on, in addition to those of credentials."""

SECURITY_HEADERS: RawHeaders = [
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; sandbox"),
]
"""Headers of every image: browsers neither guess its type nor run scripts in it."""

SHARED_HEADERS: RawHeaders = [
    (b"cross-origin-resource-policy", b"cross-origin"),
    (b"access-control-allow-origin", b"*"),
]
"""Headers of images that any client with the URL may get: pages of any origin may embed and read them.

Errors have them, too: they do not reveal anything."""

RESTRICTED_HEADERS: RawHeaders = [(b"cross-origin-resource-policy", b"same-origin")]
"""Headers of images for their owner only: browsers withhold them from pages of other origins."""

PREFLIGHT_HEADERS: RawHeaders = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-methods", METHODS.encode()),
    (
        b"access-control-allow-headers",
        b"Authorization, If-Match, If-Modified-Since, If-None-Match, If-Range, If-Unmodified-Since, Range",
    ),
    (b"access-control-max-age", b"86400"),
    (b"allow", METHODS.encode()),
    (b"cache-control", b"no-store"),
]
"""The headers of the response 204 to `OPTIONS`: scripts of any origin may read images."""


NO_BYTES = ByteRange(0, 0)


@frozen(eq=False)
class ImageResponse:
    """A response to a request for an image.

    Attributes:
        status: The status.
        headers: All headers, which must not be modified.
        part: The bytes of the image that follow.
    """

    status: int
    headers: RawHeaders
    part: ByteRange = NO_BYTES

    @cached_property
    def http_head(self) -> bytes:
        """The status line and the headers in HTTP/1.1, without the empty line that ends them."""
        lines = [b"HTTP/1.1 %d %b" % (self.status, HTTPStatus(self.status).phrase.encode())]
        return b"".join(b"%b\r\n" % line for line in [*lines, *(b"%b: %b" % pair for pair in self.headers)])


@frozen(eq=False)
class _Decided:
    """The responses for an image, each decided once; `ResolvedImage.derived` keeps them.

    Attributes:
        not_modified: The response 304.
        size: The size of the image in `ok`, in bytes; -1 = `ok` is empty.
        ok: The responses 200 by their methods.
    """

    not_modified: ImageResponse
    size: int = -1
    ok: dict[str, ImageResponse] = field(factory=dict)


class ImageResponses:
    """Decides the responses of a host to requests for images: the one place of all ways to the bytes.

    A way asks `without_image`, resolves the URL, asks `without_bytes`, opens the bytes and asks `with_bytes`.

    Args:
        settings: The settings of the host.
        listed: Whether search engines may list public images.
    """

    def __init__(self, settings: Settings, *, listed: bool = True) -> None:
        ages = settings.delivery
        max_age, s_maxage = ages.max_age_seconds, ages.shared_max_age_seconds
        self._public = f"public, max-age={max_age}, s-maxage={s_maxage}".encode()
        extra = settings.purge.tag_header
        self._tag_names = (b"cache-tag", *((extra.lower().encode(),) if extra else ()))
        self._further: RawHeaders = [] if listed else [(b"x-robots-tag", b"noindex")]

    def without_image(self, method: str) -> ImageResponse | None:
        """Return the response that depends on the method alone, else `None`.

        Raises:
            MethodNotAllowedError: The method is none of `METHODS`.
        """
        if method == "OPTIONS":
            return ImageResponse(204, PREFLIGHT_HEADERS)
        if method not in ("GET", "HEAD"):
            raise method_not_allowed(METHODS, method)
        return None

    def without_bytes(
        self, resolved: ResolvedImage, method: str, headers: Mapping[bytes, str]
    ) -> ImageResponse | None:
        """Return the response if no byte of the image is necessary, else `None`.

        That is 304 if the client has the image, and 200 to HEAD for an image of which a response was decided.

        Args:
            resolved: The image.
            method: GET or HEAD.
            headers: What `relevant_headers` returned.

        Raises:
            PreconditionFailedError: The client wants another image than the current one.
        """
        if not CONDITIONS.isdisjoint(headers):
            etag, last_modified = resolved.etag, resolved.last_modified
            if b"if-match" in headers or b"if-unmodified-since" in headers:
                _require_preconditions(etag, last_modified, headers)
            if_none_match = headers.get(b"if-none-match")
            if is_not_modified(etag, last_modified, if_none_match, headers.get(b"if-modified-since")):
                return self._decided(resolved).not_modified
        return None if method == "GET" else self._decided(resolved).ok.get(method)

    def with_bytes(
        self, resolved: ResolvedImage, method: str, headers: Mapping[bytes, str], size: int, fmt: Format
    ) -> ImageResponse:
        """Return the response 200, or 206 with a part of the bytes; that to HEAD has the headers alone.

        Args:
            resolved: The image.
            method: GET or HEAD.
            headers: What `relevant_headers` returned.
            size: The size of the image, in bytes.
            fmt: Its format.

        Raises:
            RangeError: The range begins beyond the end.
        """
        part = None
        # RFC 9110, 14.2: Range is defined for GET only.
        if b"range" in headers and method == "GET":
            validators = resolved.etag, resolved.last_modified
            part = parse_range(size, *validators, headers[b"range"], headers.get(b"if-range"))
        if part is UNSATISFIABLE:
            raise RangeError(size)
        decided = self._decided(resolved)
        if part is None and decided.size == size:
            return decided.ok[method]
        content = [*decided.not_modified.headers, *_content_headers(resolved, fmt)]
        if part is not None:
            length = b"%d" % (part.stop - part.start)
            content_range = b"bytes %d-%d/%d" % (part.start, part.stop - 1, size)
            content += [(b"content-range", content_range), (b"content-length", length)]
            return ImageResponse(206, content, part)
        content.append((b"content-length", b"%d" % size))
        whole = ImageResponse(200, content, ByteRange(0, size))
        ok = {"GET": whole, "HEAD": ImageResponse(200, content)}
        resolved.derived[self] = evolve(decided, size=size, ok=ok)
        return ok[method]

    def _decided(self, resolved: ResolvedImage) -> _Decided:
        decided: _Decided | None = resolved.derived.get(self)
        if decided is None:
            not_modified = ImageResponse(304, self._common_headers(resolved))
            decided = resolved.derived[self] = _Decided(not_modified)
        return decided

    def _common_headers(self, resolved: ResolvedImage) -> RawHeaders:
        """Return the headers of a 304 response, which a 200 response has, too (RFC 9110, 15.4.5)."""
        return [
            (b"etag", resolved.etag.encode()),
            (b"last-modified", http_date(resolved.last_modified).encode()),
            (b"cache-control", self._public if resolved.is_public else b"private, no-store"),
            *((name, cache_tag(resolved.image.id).encode()) for name in self._tag_names),
            *SECURITY_HEADERS,
            *(RESTRICTED_HEADERS if resolved.is_restricted else SHARED_HEADERS),
            *([(b"vary", b"Accept")] if resolved.varies else ()),
            *self._further,
        ]


def _content_headers(resolved: ResolvedImage, fmt: Format) -> RawHeaders:
    return [
        (b"content-type", FORMATS[fmt].media_type.encode()),
        (b"content-disposition", content_disposition(resolved.filename(fmt))),
        (b"accept-ranges", b"bytes"),
    ]


def _require_preconditions(etag: str, last_modified: datetime, headers: Mapping[bytes, str]) -> None:
    if is_precondition_failed(etag, last_modified, *map(headers.get, PRECONDITIONS)):
        header = next(header for header in PRECONDITIONS if header in headers)
        raise PreconditionFailedError(
            errors=[FieldError(*PRECONDITIONS[header], quote_value(headers[header]))]
        )


def relevant_headers(
    headers: Iterable[tuple[bytes, bytes]], names: frozenset[bytes] = RELEVANT_HEADERS
) -> dict[bytes, str]:
    """Return the headers of these names, repeated ones joined as lists (RFC 9110, 5.3)."""
    relevant: dict[bytes, str] = {}
    for name, value in headers:
        if name in names:
            text = value.decode("latin-1")
            relevant[name] = f"{relevant[name]}, {text}" if name in relevant else text
    return relevant


def content_disposition(filename: str, kind: str = "inline") -> bytes:
    """Return `inline` or `attachment` with a file name, in ASCII and if necessary in UTF-8 too.

    RFC 6266, appendix D: some clients know the first form only.
    """
    ascii_name = "".join(char if " " <= char <= "~" and char not in '"\\%' else "_" for char in filename)
    text = f'{kind}; filename="{ascii_name}"'
    if ascii_name != filename:
        text += f"; filename*=UTF-8''{quote(filename, safe='')}"
    return text.encode("ascii")
