"""Exit statuses of the command line, by error."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from imagehost_client import errors


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
