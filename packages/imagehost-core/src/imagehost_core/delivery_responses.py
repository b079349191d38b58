"""Responses to requests for images: status and headers, for every server and framework in the same way.

Pure functions of a resolved image and the headers of a request; `delivery_app` and the server send what they
return.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from urllib.parse import quote

from attrs import frozen

from imagehost_core.cache_purges import cache_tag
from imagehost_core.conditional import (
    UNSATISFIABLE,
    ByteRange,
    http_date,
    is_not_modified,
    is_precondition_failed,
    parse_range,
)
from imagehost_core.errors import (
    ConflictError,
    FieldError,
    ImageHostError,
    MethodNotAllowedError,
    RateLimitError,
    UnauthorizedError,
    UnavailableError,
    quote_value,
)
from imagehost_core.formats import FORMATS, Format
from imagehost_core.services.delivery import ImageBlob, ResolvedImage
from imagehost_core.settings import Settings

RawHeaders = list[tuple[bytes, bytes]]
Headers = tuple[tuple[str, str], ...]

METHODS = "GET, HEAD, OPTIONS"
PIECE_BYTES = 32 * 2**10
"""Bytes of a body that are sent at a time: what a client that reads nothing occupies."""

PRECONDITIONS = {
    b"if-match": ("If-Match", "the current entity tag or *"),
    b"if-unmodified-since": ("If-Unmodified-Since", "the time of the last change or a later one"),
}
"""Headers by which a client wants one representation or none, in their order of precedence, with their names
and expected values in errors."""

RELEVANT_HEADERS = frozenset(
    (b"accept", b"if-none-match", b"if-modified-since", b"range", b"if-range", *PRECONDITIONS)
)
"""Request headers that a response can depend on, in addition to those of credentials."""

JSON_HEADERS: Headers = (
    ("content-type", "application/json"),
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
)
"""Headers of every JSON response. It is specific to the caller, so it must not be cached."""

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

PREFLIGHT_HEADERS: Headers = (
    ("access-control-allow-origin", "*"),
    ("access-control-allow-methods", METHODS),
    (
        "access-control-allow-headers",
        "Authorization, If-Match, If-Modified-Since, If-None-Match, If-Range, If-Unmodified-Since, Range",
    ),
    ("access-control-max-age", "86400"),
    ("allow", METHODS),
    ("cache-control", "no-store"),
)
"""The headers of the response 204 to `OPTIONS`: scripts of any origin may read images."""


@frozen
class DeliveryHeaders:
    """The headers of responses with the images of a host.

    Attributes:
        cache_control: `Cache-Control` of public images.
        tag_names: The names of headers with the tag by which caches purge an image.
        further: Headers of every image in addition.
    """

    cache_control: bytes
    tag_names: tuple[bytes, ...]
    further: tuple[tuple[bytes, bytes], ...] = ()

    @classmethod
    def of(cls, settings: Settings, *, listed: bool = True) -> DeliveryHeaders:
        """Return the headers by the settings of a host.

        Args:
            settings: The settings.
            listed: Whether search engines may list public images.
        """
        ages = settings.delivery
        extra = settings.purge.tag_header
        return cls(
            f"public, max-age={ages.max_age_seconds}, s-maxage={ages.shared_max_age_seconds}".encode(),
            (b"cache-tag", *((extra.lower().encode(),) if extra else ())),
            () if listed else ((b"x-robots-tag", b"noindex"),),
        )

    def not_modified(self, resolved: ResolvedImage) -> RawHeaders:
        """Return the headers of a 304 response, which a 200 response has, too (RFC 9110, 15.4.5)."""
        return [
            (b"etag", resolved.etag.encode()),
            (b"last-modified", http_date(resolved.last_modified).encode()),
            (b"cache-control", self.cache_control if resolved.is_public else b"private, no-store"),
            *((name, cache_tag(resolved.image.id).encode()) for name in self.tag_names),
            *SECURITY_HEADERS,
            *(RESTRICTED_HEADERS if resolved.is_restricted else SHARED_HEADERS),
            *([(b"vary", b"Accept")] if resolved.varies else ()),
            *self.further,
        ]

    def ok(self, resolved: ResolvedImage, size: int, fmt: Format) -> RawHeaders:
        """Return the headers of a 200 response with `size` bytes of a format."""
        length = (b"content-length", b"%d" % size)
        return [*self.not_modified(resolved), *_content_headers(resolved, fmt), length]

    def partial(self, blob: ImageBlob, byte_range: ByteRange) -> RawHeaders:
        """Return the headers of a 206 response with a part of the bytes."""
        content_range = b"bytes %d-%d/%d" % (byte_range.start, byte_range.stop - 1, blob.size)
        length = b"%d" % (byte_range.stop - byte_range.start)
        part = [(b"content-range", content_range), (b"content-length", length)]
        content = _content_headers(blob.resolved, blob.format)
        return [*self.not_modified(blob.resolved), *content, *part]


class PreconditionFailedError(ImageHostError):
    """The image is not the one that `If-Match` or `If-Unmodified-Since` names (RFC 9110, 15.5.13)."""

    code = "BAD_REQUEST"
    status = 412
    default_message = "The image has changed"


class RangeError(ImageHostError):
    """The requested range begins beyond the end (RFC 9110, 15.5.17).

    Args:
        size: The size of the image, in bytes.
    """

    code = "BAD_REQUEST"
    status = 416
    default_message = "The range cannot be had"

    def __init__(self, size: int) -> None:
        super().__init__(f"expected a range within {size} bytes for Range but received one beyond them")
        self.size = size


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


def has_current(resolved: ResolvedImage, headers: Mapping[bytes, str]) -> bool:
    """Return whether the client has the image, so that the response is 304.

    Args:
        resolved: The image.
        headers: What `relevant_headers` returned.

    Raises:
        PreconditionFailedError: The client wants another image than the current one.
    """
    validators = resolved.etag, resolved.last_modified
    if is_precondition_failed(*validators, *map(headers.get, PRECONDITIONS)):
        header = next(header for header in PRECONDITIONS if header in headers)
        raise PreconditionFailedError(
            errors=[FieldError(*PRECONDITIONS[header], quote_value(headers[header]))]
        )
    return is_not_modified(*validators, headers.get(b"if-none-match"), headers.get(b"if-modified-since"))


def requested_range(blob: ImageBlob, method: str, headers: Mapping[bytes, str]) -> ByteRange | None:
    """Return the bytes that a request wants, or `None` for all of them.

    Raises:
        RangeError: They begin beyond the end.
    """
    # RFC 9110, 14.2: Range is defined for GET only.
    range_header = headers.get(b"range") if method == "GET" else None
    resolved = blob.resolved
    byte_range = parse_range(
        blob.size, resolved.etag, resolved.last_modified, range_header, headers.get(b"if-range")
    )
    if byte_range is UNSATISFIABLE:
        raise RangeError(blob.size)
    return byte_range


def bearer_token(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the bearer token of a request; the scheme is case-insensitive.

    Raises:
        UnauthorizedError: There is no `Authorization` header, several, or another scheme. The message never
            contains the received value.
    """
    values = [value for name, value in headers if name == b"authorization"]
    if len(values) != 1:
        received = "several" if values else "none"
        raise UnauthorizedError(
            f"expected one Authorization header with a Bearer token but received {received}"
        )
    scheme, _, token = values[0].partition(b" ")
    if scheme.lower() != b"bearer":
        raise UnauthorizedError("expected the scheme Bearer for Authorization but received another")
    return token.strip().decode("latin-1")


def method_not_allowed(allowed: str, method: str) -> MethodNotAllowedError:
    """Return the error for a method that is not among the allowed ones, separated by commas."""
    details = f"expected one of {allowed} but received {quote_value(method)[1:-1]}"
    return MethodNotAllowedError(details, allowed=allowed)


def error_headers(error: ImageHostError) -> Headers:
    """Return the headers of an error response in addition to `JSON_HEADERS`."""
    if isinstance(error, UnauthorizedError):
        return (("www-authenticate", "Bearer"),)
    if isinstance(error, RateLimitError | UnavailableError | ConflictError) and error.retry_after:
        return (("retry-after", str(error.retry_after)),)
    if isinstance(error, MethodNotAllowedError) and error.allowed:
        return (("allow", error.allowed),)
    if isinstance(error, RangeError):
        return (("content-range", f"bytes */{error.size}"),)
    return ()


def error_dict(error: ImageHostError) -> dict[str, str]:
    """Return the members of an error in a response."""
    return {"code": error.code, "message": error.message, "details": error.details}


def error_body(error: ImageHostError) -> bytes:
    """Return the body of an error response."""
    envelope = {"success": False, "error": error_dict(error)}
    return json.dumps(envelope, ensure_ascii=False, separators=(",", ":")).encode()


def _content_headers(resolved: ResolvedImage, fmt: Format) -> RawHeaders:
    return [
        (b"content-type", FORMATS[fmt].media_type.encode()),
        (b"content-disposition", content_disposition(resolved.filename(fmt))),
        (b"accept-ranges", b"bytes"),
    ]


def content_disposition(filename: str, kind: str = "inline") -> bytes:
    """Return `inline` or `attachment` with a file name, in ASCII and if necessary in UTF-8 too.

    RFC 6266, appendix D: some clients know the first form only.
    """
    ascii_name = "".join(char if " " <= char <= "~" and char not in '"\\%' else "_" for char in filename)
    text = f'{kind}; filename="{ascii_name}"'
    if ascii_name != filename:
        text += f"; filename*=UTF-8''{quote(filename, safe='')}"
    return text.encode("ascii")
