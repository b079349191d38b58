"""Error classes: one for each error code of the host, and those of the client itself.

```
Exception
└── ImageHostError                      code                    status
    ├── BadRequestError                 BAD_REQUEST             400
    ├── UnauthorizedError               UNAUTHORIZED            401
    ├── ForbiddenError                  FORBIDDEN               403
    ├── NotFoundError                   NOT_FOUND               404
    ├── MethodNotAllowedError           METHOD_NOT_ALLOWED      405
    ├── ConflictError                   CONFLICT                409
    ├── PayloadTooLargeError            PAYLOAD_TOO_LARGE       413
    ├── UnsupportedMediaTypeError       UNSUPPORTED_MEDIA_TYPE  415
    ├── ValidationError                 VALIDATION_ERROR        422
    ├── RateLimitError                  RATE_LIMIT_EXCEEDED     429
    ├── InsufficientStorageError        INSUFFICIENT_STORAGE    507
    ├── ServerError                     INTERNAL_ERROR          500, or not a response of the host
    │   └── UnavailableError            SERVICE_UNAVAILABLE     503
    ├── APIConnectionError              CONNECTION_FAILED       no response
    │   └── APITimeoutError             TIMED_OUT               no response in time
    ├── ConfigurationError              CONFIGURATION           no request was sent
    ├── SourceChangedError              SOURCE_CHANGED          the file changed during the upload
    ├── ChecksumError                   CHECKSUM_MISMATCH       the stored file differs from the sent one
    └── WebhookVerificationError        WEBHOOK_VERIFICATION
```

Errors can be pickled, and contain no tokens.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from imagehost_client.models import RateLimit

__all__ = [
    "APIConnectionError",
    "APITimeoutError",
    "BadRequestError",
    "ChecksumError",
    "ConfigurationError",
    "ConflictError",
    "ForbiddenError",
    "ImageHostError",
    "InsufficientStorageError",
    "MethodNotAllowedError",
    "NotFoundError",
    "PayloadTooLargeError",
    "RateLimitError",
    "ServerError",
    "SourceChangedError",
    "UnauthorizedError",
    "UnavailableError",
    "UnsupportedMediaTypeError",
    "ValidationError",
    "WebhookVerificationError",
]

MAX_QUOTED = 60
"""Characters of a received value in `details`."""
_FIELD = re.compile(r"\bfor ([\w\[\].-]+) but received\b")


class ImageHostError(Exception):
    """The base class of all errors of this package.

    Args:
        details: The explanation, *expected … but received …*.
        message: The short text; each class has a default.
        code: The error code; each class has a default.
        status: The HTTP status of the response, or `None` without a response.
        request_id: The `X-Request-Id` of the response, for reports to the host's operator.
        rate_limit: The rate limit in the response.
        retry_after: Seconds to wait before a retry, as requested by the host.
    """

    code: str = "ERROR"
    default_message: ClassVar[str] = "The call failed"
    default_status: ClassVar[int] = 0
    """The HTTP status of the host's responses with this error; 0 if hosts do not respond with it."""

    def __init__(
        self,
        details: str = "",
        *,
        message: str | None = None,
        code: str | None = None,
        status: int | None = None,
        request_id: str | None = None,
        rate_limit: RateLimit | None = None,
        retry_after: float | None = None,
    ) -> None:
        self.message: str = message or self.default_message
        self.details: str = details
        self.code: str = code or type(self).code
        self.status: int | None = status
        self.request_id: str | None = request_id
        self.rate_limit: RateLimit | None = rate_limit
        self.retry_after: float | None = retry_after
        super().__init__(self.message)

    @property
    def fields(self) -> tuple[str, ...]:
        """The parameters and files that `details` names, in its order."""
        return tuple(dict.fromkeys(_FIELD.findall(self.details)))

    def __str__(self) -> str:
        text = f"{self.message}: {self.details}" if self.details else self.message
        return f"{text} (request {self.request_id})" if self.request_id else text

    def __repr__(self) -> str:
        return f"<{type(self).__name__} code={self.code} status={self.status}: {self}>"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.__dict__.copy(), self.args)


def _rebuild(
    kind: type[ImageHostError], state: dict[str, object], args: tuple[object, ...]
) -> ImageHostError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class BadRequestError(ImageHostError, ValueError):
    """The request's syntax, query or path parameters are invalid; `status` is `None` if it was not sent."""

    code = "BAD_REQUEST"
    default_status = 400
    default_message = "The request parameters are wrong"


class UnauthorizedError(ImageHostError):
    """The token is missing, malformed, unknown, expired or revoked."""

    code = "UNAUTHORIZED"
    default_status = 401
    default_message = "Authentication failed"


class ForbiddenError(ImageHostError):
    """The token is valid, but lacks the required scope."""

    code = "FORBIDDEN"
    default_status = 403
    default_message = "Permission is missing"


class NotFoundError(ImageHostError):
    """The resource does not exist, or belongs to another account."""

    code = "NOT_FOUND"
    default_status = 404
    default_message = "The resource does not exist"


class MethodNotAllowedError(ImageHostError):
    """The route does not support this HTTP method: client and host have different versions."""

    code = "METHOD_NOT_ALLOWED"
    default_status = 405
    default_message = "The method is not allowed here"


class ConflictError(ImageHostError):
    """The request conflicts with another request, or with the state of the resource."""

    code = "CONFLICT"
    default_status = 409
    default_message = "The request conflicts with another"


class PayloadTooLargeError(ImageHostError):
    """The file exceeds the maximum size; `details` contains the limit and the size."""

    code = "PAYLOAD_TOO_LARGE"
    default_status = 413
    default_message = "The file is too large"


class UnsupportedMediaTypeError(ImageHostError):
    """The file's content is not a supported image format."""

    code = "UNSUPPORTED_MEDIA_TYPE"
    default_status = 415
    default_message = "The file format is not supported"


class ValidationError(ImageHostError, ValueError):
    """A value in the request is invalid; `status` is `None` if it was not sent."""

    code = "VALIDATION_ERROR"
    default_status = 422
    default_message = "The data failed validation"


class RateLimitError(ImageHostError):
    """A rate limit is exceeded; `retry_after` and `rate_limit` contain the end of its window."""

    code = "RATE_LIMIT_EXCEEDED"
    default_status = 429
    default_message = "The request rate is exceeded"


class InsufficientStorageError(ImageHostError):
    """The account's quota or the host's disk is full."""

    code = "INSUFFICIENT_STORAGE"
    default_status = 507
    default_message = "There is not enough storage space"


class ServerError(ImageHostError):
    """The host failed, or the response is not one of the host's."""

    code = "INTERNAL_ERROR"
    default_status = 500
    default_message = "The server failed"


class UnavailableError(ServerError):
    """The host, or a proxy in front of it, is temporarily unavailable."""

    code = "SERVICE_UNAVAILABLE"
    default_status = 503
    default_message = "The service is busy"


class APIConnectionError(ImageHostError):
    """No response: the host could not be reached, or the connection broke.

    Attributes:
        is_sent: Whether the last attempt sent the request, so that the host may have processed it.
    """

    code = "CONNECTION_FAILED"
    default_message = "The connection failed"
    is_sent: bool = True


class APITimeoutError(APIConnectionError):
    """No response within the timeout or the deadline."""

    code = "TIMED_OUT"
    default_message = "The call timed out"


class ConfigurationError(ImageHostError, ValueError):
    """A setting of the client is missing or invalid; no request was sent."""

    code = "CONFIGURATION"
    default_message = "The client's configuration is invalid"


class SourceChangedError(ImageHostError):
    """A file became shorter or longer during its upload, which was aborted."""

    code = "SOURCE_CHANGED"
    default_message = "The file changed during the upload"


class ChecksumError(ImageHostError):
    """The stored file's checksum differs from that of the sent file."""

    code = "CHECKSUM_MISMATCH"
    default_message = "The checksums differ"


class WebhookVerificationError(ImageHostError, ValueError):
    """A webhook's headers, signature or timestamp are invalid."""

    code = "WEBHOOK_VERIFICATION"
    default_message = "The webhook could not be verified"


Check = Callable[[str, object], str | None]
"""A function that returns the fault of a wrong argument, by its name and value; `None` if it is valid."""


def fault(name: str, expected: str, received: object) -> str:
    """Return the details of an error, as the host has them; a long value is shortened."""
    text = repr(received) if isinstance(received, str) else str(received)
    shown = text if len(text) <= MAX_QUOTED else f"{text[: MAX_QUOTED - 1]}…"
    return f"expected {expected} for {name} but received {shown}"


def rule(expected: str, is_valid: Callable[[Any], bool]) -> Check:
    """Return a check for a condition, whose faults say what is expected."""
    return lambda name, value: None if is_valid(value) else fault(name, expected, value)


_OF_HOSTS = [
    kind for kind in (*ImageHostError.__subclasses__(), *ServerError.__subclasses__()) if kind.default_status
]

BY_CODE: dict[str, type[ImageHostError]] = {kind.code: kind for kind in _OF_HOSTS}
"""Error classes by the host's error code."""

BY_STATUS: dict[int, type[ImageHostError]] = {
    **{kind.default_status: kind for kind in _OF_HOSTS},
    502: UnavailableError,
    504: UnavailableError,
}
"""Error classes by HTTP status, for unknown codes; 502 and 504 are those of proxies."""
