"""Exceptions of imagehost: one class per error code of the HTTP interface.

```
Exception
└── ImageHostError                      code                    status
    ├── BadRequestError                 BAD_REQUEST             400
    ├── UnauthorizedError               UNAUTHORIZED            401
    ├── ForbiddenError                  FORBIDDEN               403
    ├── NotFoundError                   NOT_FOUND               404
    ├── MethodNotAllowedError           METHOD_NOT_ALLOWED      405
    ├── ConflictError                   CONFLICT                409
    │   └── InstallationError           CONFLICT                409
    ├── PayloadTooLargeError            PAYLOAD_TOO_LARGE       413
    ├── UnsupportedMediaTypeError       UNSUPPORTED_MEDIA_TYPE  415
    ├── ValidationError                 VALIDATION_ERROR        422
    ├── RateLimitError                  RATE_LIMIT_EXCEEDED     429
    ├── InternalError                   INTERNAL_ERROR          500
    │   ├── HostClosedError             INTERNAL_ERROR          500
    │   └── BaseUrlError                INTERNAL_ERROR          500
    ├── UnavailableError                SERVICE_UNAVAILABLE     503
    │   └── EngineUnavailableError      SERVICE_UNAVAILABLE     503
    └── InsufficientStorageError        INSUFFICIENT_STORAGE    507
```

`message` and `details` are public: the client receives them. Internal causes belong in the exception's
`__cause__`, which is logged only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import ClassVar, Self

from attrs import frozen


@frozen
class FieldError:
    """One invalid parameter, field or file of a request.

    Attributes:
        name: The name of the parameter, field or file.
        expected: A description of the allowed values, as a noun phrase.
        received: The received value, already quoted for display.
    """

    name: str
    expected: str
    received: str

    def __str__(self) -> str:
        return f"expected {self.expected} for {self.name} but received {self.received}"


def quote_value(value: object, limit: int = 60) -> str:
    """Return a received value for display in a message: quoted, printable and shortened.

    Args:
        value: The received value, of any type.
        limit: The longest text that is not shortened, in characters.
    """
    if isinstance(value, str):
        text = repr(value[: limit + 1])
    elif isinstance(value, int) and value.bit_length() > 4 * limit:
        # Python converts no integer of more than 4,300 digits to text.
        text = f"an integer of {value.bit_length():,} bits"
    else:
        text = str(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def misspelled_names(received: Iterable[object], known: Collection[str]) -> list[FieldError]:
    """Return an error for each unknown name that is a known one but for case, `_` and `-`.

    Unknown names are ignored. But to ignore `Is_Public` would publish what someone wanted to keep private.

    Args:
        received: The received names.
        known: The names that have a meaning.
    """
    by_letters = {_letters(name): name for name in known}
    return [
        FieldError(by_letters[_letters(name)], "exactly this name", quote_value(name))
        for name in received
        if isinstance(name, str) and name not in known and _letters(name) in by_letters
    ]


def _letters(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


class ImageHostError(Exception):
    """Base class of all errors that imagehost raises deliberately.

    Args:
        details: The specific explanation, *expected … but received …*; the texts of `errors` by default.
        message: A short summary; each class has a default.
        errors: Every invalid field, where the error is about fields.
        retry_after: Seconds after which a retry can succeed; `None` if it cannot, or if that is not known.

    Attributes:
        code: The error code of the HTTP interface.
        status: The HTTP status code.
    """

    code: ClassVar[str] = "INTERNAL_ERROR"
    status: ClassVar[int] = 500
    default_message: ClassVar[str] = "The request failed"

    def __init__(
        self,
        details: str = "",
        *,
        message: str | None = None,
        errors: Iterable[FieldError] = (),
        retry_after: int | None = None,
    ) -> None:
        self.retry_after = retry_after
        self.errors = tuple(errors)
        self.details = details or "; ".join(map(str, self.errors))
        self.message = message or self.default_message
        super().__init__(f"{self.message}: {self.details}" if self.details else self.message)

    @classmethod
    def of(cls, name: str, expected: str, received: str) -> Self:
        """Return the error of one invalid parameter, field or file."""
        return cls(errors=[FieldError(name, expected, received)])

    @property
    def fields(self) -> tuple[str, ...]:
        """The parameters and files that `errors` names, in its order."""
        return tuple(dict.fromkeys(error.name for error in self.errors))

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
    """The request's syntax, a query parameter or a path parameter is invalid."""

    code = "BAD_REQUEST"
    status = 400
    default_message = "The request parameters are wrong"


class UnauthorizedError(ImageHostError):
    """The token is missing, malformed, unknown, expired or revoked."""

    code = "UNAUTHORIZED"
    status = 401
    default_message = "Authentication failed"


class ForbiddenError(ImageHostError):
    """The token is valid but does not permit the operation."""

    code = "FORBIDDEN"
    status = 403
    default_message = "Permission is missing"


class NotFoundError(ImageHostError):
    """The resource does not exist or belongs to another account."""

    code = "NOT_FOUND"
    status = 404
    default_message = "The resource does not exist"


class MethodNotAllowedError(ImageHostError):
    """The URL exists but does not support the HTTP method.

    Args:
        details: The specific explanation.
        errors: Every invalid field.
        allowed: The methods that it supports, as in the header `Allow`.
    """

    code = "METHOD_NOT_ALLOWED"
    status = 405
    default_message = "The method is not allowed here"

    def __init__(self, details: str = "", *, errors: Iterable[FieldError] = (), allowed: str = "") -> None:
        super().__init__(details, errors=errors)
        self.allowed = allowed


class ConflictError(ImageHostError):
    """The request conflicts with another request or with the current state."""

    code = "CONFLICT"
    status = 409
    default_message = "The request conflicts with another"


class InstallationError(ConflictError):
    """Data directory, database and image store, or a backup of them, cannot be used as they are."""

    default_message = "The state of the installation does not allow it"


class PayloadTooLargeError(ImageHostError):
    """The file or the request body exceeds its size limit."""

    code = "PAYLOAD_TOO_LARGE"
    status = 413
    default_message = "The file is too large"


class UnsupportedMediaTypeError(ImageHostError):
    """The content has a format that is not accepted."""

    code = "UNSUPPORTED_MEDIA_TYPE"
    status = 415
    default_message = "The file format is not supported"


class ValidationError(ImageHostError):
    """The data is well-formed but contains a value that is not allowed."""

    code = "VALIDATION_ERROR"
    status = 422
    default_message = "The data failed validation"


class RateLimitError(ImageHostError):
    """The limit of requests in a window is exceeded.

    Args:
        details: The specific explanation.
        retry_after: Seconds until the window ends.
    """

    code = "RATE_LIMIT_EXCEEDED"
    status = 429
    default_message = "The request rate is exceeded"
    retry_after: int

    def __init__(self, details: str = "", *, retry_after: int) -> None:
        super().__init__(details, retry_after=retry_after)


class InternalError(ImageHostError):
    """An unexpected failure in imagehost; its cause is logged with the request's id."""

    code = "INTERNAL_ERROR"
    status = 500
    default_message = "The server failed"


class HostClosedError(InternalError):
    """An `ImageHost` that was closed, or opened by the process that forked this one, is used."""

    default_message = "The host is not open in this process"


class BaseUrlError(InternalError):
    """A URL is needed of an `ImageHost` whose settings have no base URL."""

    default_message = "The host has no base URL"


class UnavailableError(ImageHostError):
    """There is temporarily no capacity for the request.

    Args:
        details: The specific explanation.
        retry_after: Seconds after which a retry can succeed.
    """

    code = "SERVICE_UNAVAILABLE"
    status = 503
    default_message = "The service is busy"
    retry_after: int

    def __init__(self, details: str = "", *, retry_after: int = 1) -> None:
        super().__init__(details, retry_after=retry_after)


class EngineUnavailableError(UnavailableError):
    """The database or the image store does not respond when a host is opened or checked; it may be late.

    Args:
        engine: `database` or `storage`.
        details: Where and why, in the words of the driver, without a secret.
    """

    default_message = "The database or the image store does not respond"

    def __init__(self, engine: str, details: str) -> None:
        ImageHostError.__init__(self, details, message=f"The {engine} does not respond", retry_after=5)
        self.engine = engine


class InsufficientStorageError(ImageHostError):
    """The account's quota is exceeded or the disk is full."""

    code = "INSUFFICIENT_STORAGE"
    status = 507
    default_message = "There is not enough storage space"


BY_CODE: dict[str, type[ImageHostError]] = {kind.code: kind for kind in ImageHostError.__subclasses__()}
"""Every error class by its code."""


COMBINED = (BadRequestError, NotFoundError, ValidationError)
"""The classes of errors that are reported together; the first that occurs is that of all."""


def combine(errors: Iterable[ImageHostError]) -> ImageHostError:
    """Return one error with the details of all errors that were found in a request.

    Args:
        errors: At least one error, of the classes in `COMBINED`.
    """
    found = tuple(errors)
    kind = next(kind for kind in COMBINED if any(isinstance(error, kind) for error in found))
    details = "; ".join(dict.fromkeys(error.details for error in found))
    return kind(details, errors=[field for error in found for field in error.errors])


class ErrorCollector:
    """The errors of one request, which are raised together.

    ```python
    errors = ErrorCollector()
    with errors.catch():
        image = images.get(image_id)
    with errors.catch():
        transform = parse_transform(query)
    errors.raise_if_any()
    ```
    """

    def __init__(self) -> None:
        self._errors: list[ImageHostError] = []

    def add(self, error: ImageHostError) -> None:
        """Collect an error.

        Args:
            error: A BadRequestError, NotFoundError or ValidationError.
        """
        self._errors.append(error)

    @contextmanager
    def catch(self) -> Iterator[None]:
        """Collect an error of `COMBINED` that the block raises."""
        try:
            yield
        except COMBINED as error:
            self.add(error)

    def raise_if_any(self) -> None:
        """Raise the collected errors as one, if there are any."""
        if self._errors:
            raise combine(self._errors)
