"""Limits of upload requests: file size, number of files and account quota."""

from __future__ import annotations

from imagehost_core.errors import BadRequestError, FieldError, InsufficientStorageError, PayloadTooLargeError

MAX_FILE_BYTES = 52_428_800
"""The largest accepted file: 50 MiB, inclusive."""
MAX_FILES_PER_REQUEST = 20


def require_file_size(name: str, size: int, limit: int = MAX_FILE_BYTES) -> None:
    """Raise PayloadTooLargeError if a file exceeds the size limit.

    Args:
        name: The file's name in the error.
        size: The file's size, in bytes.
        limit: The largest accepted size, in bytes.

    Raises:
        PayloadTooLargeError: The file is larger; the details state the limit and the file's size.
    """
    if size > limit:
        raise PayloadTooLargeError(errors=[FieldError(name, f"at most {limit} bytes", f"{size} bytes")])


def require_file_count(count: int, limit: int = MAX_FILES_PER_REQUEST) -> None:
    """Raise BadRequestError unless a request has from 1 to `limit` files."""
    if not 1 <= count <= limit:
        raise BadRequestError(errors=[FieldError("the form", f"1 to {limit} files", f"{count}")])


def require_quota(used: int, more: int, quota: int, received: int | None = None) -> None:
    """Raise InsufficientStorageError if an upload would exceed the account's quota.

    Args:
        used: Bytes of the account's masters, including reservations.
        more: Bytes to be added.
        quota: The account's quota, in bytes; 0 means unlimited.
        received: The size of the uploaded file, while that of its master is not known.

    Raises:
        InsufficientStorageError: The sum exceeds the quota.
    """
    if quota and used + more > quota:
        expected = f"at most {max(0, quota - used)} bytes more"
        size = f"{more if received is None else received} bytes"
        raise InsufficientStorageError(errors=[FieldError("the account's quota", expected, size)])
