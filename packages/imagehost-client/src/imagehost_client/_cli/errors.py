"""Errors of the command line: exit statuses, messages with a hint, and the outcomes of several items."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum
from pathlib import Path

import click
from attrs import define, field

from imagehost_client import errors
from imagehost_client._cli.connection import CommandContext, Connection
from imagehost_client._cli.output import Console
from imagehost_client._types import UPLOADABLE


class ExitStatus(IntEnum):
    """The exit statuses; 130 is the shells' status for a command that SIGINT ended."""

    SUCCESS = 0
    FAILURE = 1
    USAGE = 2
    AUTHENTICATION = 3
    NOT_FOUND = 4
    LIMIT = 5
    PARTIAL = 6
    UNAVAILABLE = 7
    INTERRUPTED = 130


DESCRIPTIONS: dict[ExitStatus, str] = {
    ExitStatus.SUCCESS: "success",
    ExitStatus.FAILURE: "the host or the system refused, or you declined a confirmation",
    ExitStatus.USAGE: "wrong usage or configuration; nothing was sent",
    ExitStatus.AUTHENTICATION: "the token is missing or invalid, or lacks a permission (401, 403)",
    ExitStatus.NOT_FOUND: "the image, album or other record does not exist (404)",
    ExitStatus.LIMIT: "a rate limit, the quota or the maximum file size is exceeded (429, 507, 413)",
    ExitStatus.PARTIAL: "a part of several files or images failed",
    ExitStatus.UNAVAILABLE: "the host was not reached, or is temporarily unavailable (502, 503, 504)",
    ExitStatus.INTERRUPTED: "interrupted by Ctrl-C",
}
"""The meanings of the exit statuses, as `--help` prints them."""

STATUSES: tuple[tuple[tuple[type[BaseException], ...], ExitStatus], ...] = (
    ((errors.ConfigurationError,), ExitStatus.USAGE),
    ((errors.UnauthorizedError, errors.ForbiddenError), ExitStatus.AUTHENTICATION),
    ((errors.NotFoundError,), ExitStatus.NOT_FOUND),
    (
        (errors.RateLimitError, errors.InsufficientStorageError, errors.PayloadTooLargeError),
        ExitStatus.LIMIT,
    ),
    ((errors.APIConnectionError, errors.UnavailableError), ExitStatus.UNAVAILABLE),
    ((errors.ImageHostError, OSError), ExitStatus.FAILURE),
    ((ValueError, TypeError), ExitStatus.USAGE),
)
"""The exit statuses by class of error; the first match counts."""


def exit_status(error: BaseException) -> ExitStatus:
    """Return the exit status of a command that an error ends."""
    if isinstance(error, (errors.BadRequestError, errors.ValidationError)) and error.status is None:
        return ExitStatus.USAGE
    return next((status for kinds, status in STATUSES if isinstance(error, kinds)), ExitStatus.FAILURE)


def batch_status(failures: Iterable[ExitStatus], succeeded: int) -> ExitStatus:
    """Return the exit status of a command on several files or images.

    Args:
        failures: The exit status of each item that failed.
        succeeded: The number of items that did not.
    """
    kinds = set(failures)
    if not kinds:
        return ExitStatus.SUCCESS
    if succeeded:
        return ExitStatus.PARTIAL
    return kinds.pop() if len(kinds) == 1 else ExitStatus.FAILURE


SUPPORTED = ", ".join(info.label for info in UPLOADABLE.values())
"""The formats that hosts accept."""

CONTENTS: tuple[tuple[int, bytes, str], ...] = (
    (4, b"ftypheic", "a HEIC photo; export it as JPEG"),
    (4, b"ftypheix", "a HEIC photo; export it as JPEG"),
    (4, b"ftypmif1", "a HEIF photo; export it as JPEG"),
    (4, b"ftypavif", f"an AVIF image; hosts store {SUPPORTED}"),
    (4, b"ftyp", "a video"),
    (0, b"\x1aE\xdf\xa3", "a video"),
    (0, b"%PDF", "a PDF document"),
    (0, b"<svg", "an SVG drawing"),
    (0, b"<?xml", "an XML document, such as an SVG drawing"),
    (0, b"<", "an HTML or XML document"),
    (0, b"II*\x00", "a TIFF image, or a camera's raw file"),
    (0, b"MM\x00*", "a TIFF image, or a camera's raw file"),
    (0, b"BM", "a BMP image"),
    (0, b"PK\x03\x04", "a ZIP archive"),
    (0, b"\x1f\x8b", "a compressed file"),
)
"""Descriptions of common files that are no supported images: offset, bytes there, and text."""

UNTRUSTED_CERTIFICATE = "CERTIFICATE_VERIFY_FAILED"
"""OpenSSL's reason for a certificate that is not trusted, in the message of the error."""


def report_error(error: BaseException, context: CommandContext) -> ExitStatus:
    """Print an error that ends the command with a hint, and return the exit status.

    Raises:
        BaseException: The error itself, if it is a defect of the program.
    """
    if isinstance(error, KeyboardInterrupt):
        context.console.error(f"interrupted: {error}" if str(error) else "interrupted")
        return ExitStatus.INTERRUPTED
    if not isinstance(error, (errors.ImageHostError, OSError, ValueError, TypeError)):
        raise error
    context.console.error(str(error))
    hint = find_hint(error, context.connection)
    if hint:
        context.console.error(hint)
    return exit_status(error)


def find_hint(error: BaseException, connection: Connection | None) -> str | None:
    """Return what the user can do about an error; `None` if the message says all.

    Args:
        error: The error.
        connection: The connection of the command, if it came that far.
    """
    if isinstance(error, errors.APIConnectionError) and UNTRUSTED_CERTIFICATE in str(error):
        return "to trust the host's certificate, set SSL_CERT_FILE to a file with it or with that of its CA"
    hint = next((hint for kind, hint in HINTS.items() if isinstance(error, kind)), None)
    return hint(connection) if callable(hint) else hint


def describe_content(path: str | Path) -> str | None:
    """Return what a file is that is no supported image, or `None` if that is unknown."""
    try:
        with Path(path).open("rb") as file:
            head = file.read(64)
    except OSError:
        return None
    if not head:
        return "empty"
    begin = head.lstrip().lower()
    for offset, mark, text in CONTENTS:
        if head[offset : offset + len(mark)] == mark or (mark[:1] == b"<" and begin.startswith(mark)):
            return text
    try:
        head.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return "a text"


def _configuration(connection: Connection | None) -> str | None:
    if connection is not None and connection.base_url:
        return None
    return (
        "run `imagehost-client login`, or `imagehost-client profiles use NAME` for a saved profile, "
        "or set IMAGEHOST_BASE_URL, such as https://images.example.com/v1"
    )


def _unauthorized(connection: Connection | None) -> str | None:
    if connection is None:
        return None
    if connection.token is None:
        return "there is no token: run `imagehost-client login`, or set IMAGEHOST_TOKEN"
    if connection.profile is not None and connection.token_source.startswith("profile"):
        name = connection.profile.name
        return (
            f"the token of profile {name!r} is invalid or has expired: "
            f"run `imagehost-client login --profile {name}`"
        )
    return f"the token is from {connection.token_source}: set it to a token of {connection.base_url}"


def _unreachable(connection: Connection | None) -> str | None:
    if connection is None or not connection.base_url:
        return "check that the host is running, and that the URL is correct"
    return (
        f"check that the host is running, and that {connection.base_url} is its URL "
        f"(from {connection.base_url_source})"
    )


HINTS: dict[type[errors.ImageHostError], str | Callable[[Connection | None], str | None]] = {
    errors.ConfigurationError: _configuration,
    errors.UnauthorizedError: _unauthorized,
    errors.ForbiddenError: (
        "`imagehost-client login` creates a session, which has all permissions of your account"
    ),
    errors.APIConnectionError: _unreachable,
    errors.UnavailableError: (
        "the host, or a proxy in front of it, is overloaded or restarting: try again later"
    ),
    errors.InsufficientStorageError: (
        "`imagehost-client account` prints usage and quota, `imagehost-client rm` frees space"
    ),
}
"""Hints by class of error."""


@define
class Batch:
    """The outcomes of the items of one command.

    Attributes:
        console: Where failures are printed.
        succeeded: The number of items that did not fail.
        failures: The exit status of each item that failed.
    """

    console: Console
    succeeded: int = 0
    failures: list[ExitStatus] = field(factory=list)

    def fail(self, name: str, error: BaseException) -> None:
        """Report the error of an item."""
        self.console.error(f"{name}: {error}")
        self.failures.append(exit_status(error))

    def fail_by_code(self, name: str, error_code: str, text: str) -> None:
        """Report the error of an item, given as a code of the host."""
        self.fail(name, errors.BY_CODE.get(error_code, errors.ImageHostError)(text))

    def finish(self) -> None:
        """End the command with the exit status of the outcomes, unless all items succeeded."""
        status = batch_status(self.failures, self.succeeded)
        if status is not ExitStatus.SUCCESS:
            raise click.exceptions.Exit(status)
