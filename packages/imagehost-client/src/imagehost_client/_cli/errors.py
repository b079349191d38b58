"""Messages for errors: what happened, where, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from imagehost_client import errors
from imagehost_client._cli.connection import Connection
from imagehost_client._cli.context import CommandContext
from imagehost_client._cli.statuses import ExitStatus, exit_status

CONTENTS: tuple[tuple[int, bytes, str], ...] = (
    (4, b"ftypheic", "a HEIC photo; export it as JPEG"),
    (4, b"ftypheix", "a HEIC photo; export it as JPEG"),
    (4, b"ftypmif1", "a HEIF photo; export it as JPEG"),
    (4, b"ftypavif", "an AVIF image; hosts store JPEG, PNG, WebP and GIF"),
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
    return next((hint(connection) for kind, hint in HINTS.items() if isinstance(error, kind)), None)


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


def _forbidden(_: Connection | None) -> str:
    return "`imagehost-client login` creates a session, which has all permissions of your account"


def _unreachable(connection: Connection | None) -> str | None:
    if connection is None or not connection.base_url:
        return "check that the host is running, and that the URL is correct"
    return (
        f"check that the host is running, and that {connection.base_url} is its URL "
        f"(from {connection.base_url_source})"
    )


def _unavailable(_: Connection | None) -> str:
    return "the host, or a proxy in front of it, is overloaded or restarting: try again later"


def _storage(_: Connection | None) -> str:
    return "`imagehost-client account` prints usage and quota, `imagehost-client rm` frees space"


HINTS: dict[type[errors.ImageHostError], Callable[[Connection | None], str | None]] = {
    errors.ConfigurationError: _configuration,
    errors.UnauthorizedError: _unauthorized,
    errors.ForbiddenError: _forbidden,
    errors.APIConnectionError: _unreachable,
    errors.UnavailableError: _unavailable,
    errors.InsufficientStorageError: _storage,
}
"""Hints by class of error."""
