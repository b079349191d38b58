"""The ways in which a call can fail: one class per row of the host's table of errors, and our own.

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
    ├── ServerError                     INTERNAL_ERROR          500, or an answer that is not the host's
    │   └── UnavailableError            SERVICE_UNAVAILABLE     503
    ├── APIConnectionError              CONNECTION_FAILED       no answer came
    │   └── APITimeoutError             TIMED_OUT
    ├── ConfigurationError              CONFIGURATION           nothing was sent
    ├── SourceChangedError              SOURCE_CHANGED          the file changed while it was sent
    ├── ChecksumError                   CHECKSUM_MISMATCH       stored bytes are not the ones sent
    └── WebhookVerificationError        WEBHOOK_VERIFICATION
```

Every error can be pickled, and none ever holds a token.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from imagehost_client.models import RateLimit

_FIELD = re.compile(r"\bfor ([\w\[\].-]+) but received\b")


class ImageHostError(Exception):
    """The root of everything that this package raises on purpose.

    Args:
        details: The longer explanation, *expected … but received …*.
        message: The short text; each class has a default.
        code: The host's code; each class has its own.
        status: The HTTP status of the answer, or `None` where no answer came.
        request_id: The answer's `X-Request-Id`: what to quote when asking the operator.
        rate_limit: The state of the rate limit in the answer.
        retry_after: Seconds after which the host says that another try is worth making.
    """

    code: str = "ERROR"
    default_message: ClassVar[str] = "The call failed"

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
    def field(self) -> str | None:
        """The first parameter or file that `details` names, or `None` where it names none."""
        found = _FIELD.search(self.details)
        return found[1] if found else None

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


class BadRequestError(ImageHostError):
    """The request's syntax, query or path parameters are wrong."""

    code = "BAD_REQUEST"
    default_message = "The request parameters are wrong"


class UnauthorizedError(ImageHostError):
    """The token is missing, malformed, unknown, expired or revoked."""

    code = "UNAUTHORIZED"
    default_message = "Authentication failed"


class ForbiddenError(ImageHostError):
    """The token is good, but does not allow the operation."""

    code = "FORBIDDEN"
    default_message = "Permission is missing"


class NotFoundError(ImageHostError):
    """The resource does not exist, or belongs to somebody else."""

    code = "NOT_FOUND"
    default_message = "The resource does not exist"


class MethodNotAllowedError(ImageHostError):
    """The address exists, but not for this HTTP method: client and host are of different versions."""

    code = "METHOD_NOT_ALLOWED"
    default_message = "The method is not allowed here"


class ConflictError(ImageHostError):
    """The request contradicts another one, or the state that it meets."""

    code = "CONFLICT"
    default_message = "The request conflicts with another"


class PayloadTooLargeError(ImageHostError):
    """The file is larger than allowed; `details` gives the limit and the size."""

    code = "PAYLOAD_TOO_LARGE"
    default_message = "The file is too large"


class UnsupportedMediaTypeError(ImageHostError):
    """The file's content is no image of a kind that is accepted."""

    code = "UNSUPPORTED_MEDIA_TYPE"
    default_message = "The file format is not supported"


class ValidationError(ImageHostError):
    """The data was read, but a value in it is not allowed."""

    code = "VALIDATION_ERROR"
    default_message = "The data failed validation"


class RateLimitError(ImageHostError):
    """Too many requests in a window; `retry_after` and `rate_limit` say when it ends."""

    code = "RATE_LIMIT_EXCEEDED"
    default_message = "The request rate is exceeded"


class InsufficientStorageError(ImageHostError):
    """The account's quota or the host's disk has no room."""

    code = "INSUFFICIENT_STORAGE"
    default_message = "There is not enough storage space"


class ServerError(ImageHostError):
    """The host made a mistake, or something else than the host answered."""

    code = "INTERNAL_ERROR"
    default_message = "The server made a mistake"


class UnavailableError(ServerError):
    """The host, or a proxy before it, has no capacity just now."""

    code = "SERVICE_UNAVAILABLE"
    default_message = "The service is busy"


class APIConnectionError(ImageHostError):
    """No answer came: the host could not be reached, or the connection broke."""

    code = "CONNECTION_FAILED"
    default_message = "The connection failed"


class APITimeoutError(APIConnectionError):
    """No answer came in time."""

    code = "TIMED_OUT"
    default_message = "The call took too long"


class ConfigurationError(ImageHostError, ValueError):
    """The client cannot be built from what it was given; nothing was sent."""

    code = "CONFIGURATION"
    default_message = "The client is not set up rightly"


class SourceChangedError(ImageHostError):
    """A file became shorter or longer while it was sent, so the upload was broken off."""

    code = "SOURCE_CHANGED"
    default_message = "The file changed while it was sent"


class ChecksumError(ImageHostError):
    """The bytes that the host stored are not the bytes that were sent."""

    code = "CHECKSUM_MISMATCH"
    default_message = "The checksums differ"


class WebhookVerificationError(ImageHostError, ValueError):
    """A webhook's headers, signature or time are not those of a delivery by the host."""

    code = "WEBHOOK_VERIFICATION"
    default_message = "The webhook is not genuine"


BY_CODE: dict[str, type[ImageHostError]] = {
    kind.code: kind
    for kind in (
        BadRequestError,
        UnauthorizedError,
        ForbiddenError,
        NotFoundError,
        MethodNotAllowedError,
        ConflictError,
        PayloadTooLargeError,
        UnsupportedMediaTypeError,
        ValidationError,
        RateLimitError,
        InsufficientStorageError,
        ServerError,
        UnavailableError,
    )
}
"""The class of every code that the host answers with."""

BY_STATUS: dict[int, type[ImageHostError]] = {
    400: BadRequestError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    405: MethodNotAllowedError,
    409: ConflictError,
    413: PayloadTooLargeError,
    415: UnsupportedMediaTypeError,
    422: ValidationError,
    429: RateLimitError,
    502: UnavailableError,
    503: UnavailableError,
    504: UnavailableError,
    507: InsufficientStorageError,
}
"""The class of a status, for codes which this version does not know."""
