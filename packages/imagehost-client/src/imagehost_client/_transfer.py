"""The state of a download: what was received, and the request for the rest. It does no I/O."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from attrs import define, evolve, field

from imagehost_client._calls.call import OpenResponse
from imagehost_client._calls.images import ImageDownload
from imagehost_client._config import Config
from imagehost_client._exchange import (
    Environment,
    Failure,
    Sleep,
    Steps,
    connection_error,
    exchange,
    time_left,
)
from imagehost_client._retry import FailureKind, retry_delay
from imagehost_client.errors import ChecksumError, ServerError
from imagehost_client.models import ImageHead

if TYPE_CHECKING:
    from hashlib import _Hash

log = logging.getLogger("imagehost_client")


def _new_hash() -> _Hash:
    from hashlib import sha256  # slow to import

    return sha256()


class BodyError(Exception):
    """The connection broke while the body of an open response was read.

    Attributes:
        failure: What has happened.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure = failure


@define
class Transfer:
    """A download of an image, which continues after failures of the connection.

    Attributes:
        head: The headers of the first response, once it was received.
        received: The number of bytes of the image that were received.
        is_complete: Whether all bytes were received, and are those of the image.
    """

    download: ImageDownload
    config: Config
    environment: Environment
    head: ImageHead | None = field(default=None, init=False)
    received: int = field(default=0, init=False)
    is_complete: bool = field(default=False, init=False)
    _hash: _Hash = field(factory=_new_hash, init=False, repr=False)
    _position: int = field(default=0, init=False)
    _failures: int = field(default=0, init=False)
    _received_before: int = field(default=0, init=False)
    _began: float = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._began = self.environment.monotonic()

    @property
    def opened(self) -> OpenResponse:
        """The open response."""
        opened = self.download.call.opened
        assert opened is not None
        return opened

    @property
    def sha256(self) -> str:
        """The SHA-256 of the received bytes, in hexadecimal."""
        return self._hash.hexdigest()

    @property
    def size(self) -> int | None:
        """The number of bytes of the image, if the host has told it."""
        return None if self.head is None else self.head.size

    def time_left(self) -> float | None:
        """Return the seconds until the deadline, or `None` without one."""
        return time_left(self.config, self.environment, self._began)

    def start(self) -> Steps[None]:
        """Send the request.

        Raises:
            ServerError: The response is only a part of the image.
        """
        head = yield from exchange(self.download.call, self.config, self.environment)
        if head.offset:
            raise _unexpected(
                f"expected an image from its first byte but received it from byte {head.offset}"
            )
        self.head, self.is_complete = head, head.not_modified

    def accept(self, chunk: bytes) -> bytes:
        """Return the bytes of a chunk that were not received before.

        Raises:
            ServerError: There are more bytes than the host has told.
        """
        new = chunk[max(0, self.received - self._position) :]
        self._position += len(chunk)
        self.received += len(new)
        self._hash.update(new)
        if self.size is not None and self.received > self.size:
            raise _unexpected(f"expected {self.size} bytes of an image but received more")
        return new

    def end(self, failure: Failure | None) -> Failure | None:
        """Return the failure at the end of a response, or `None` if the download is complete.

        Args:
            failure: The failure of the connection, or `None` if the response has ended.

        Raises:
            ChecksumError: The bytes are not those of the image.
        """
        if self.size is not None and self.received < self.size:
            text = f"the end of the response after {self.received} of {self.size} bytes"
            return failure or Failure(FailureKind.UNKNOWN, timed_out=False, text=text)
        if failure is not None and self.size is None:
            return failure
        expected = self.download.sha256
        if expected is not None and self.sha256 != expected:
            raise ChecksumError(
                f"expected SHA-256 {expected} for image {self.download.image_id} but received {self.sha256} "
                f"({self.received} bytes)"
            )
        self.is_complete = True
        return None

    def resume(self, failure: Failure) -> Steps[None]:
        """Wait, and request the rest of the image.

        Args:
            failure: The failure of the connection.

        Raises:
            ImageHostError: No retry is allowed or left, or the host no longer has the same bytes.
        """
        assert self.head is not None
        self._failures = 1 if self.received > self._received_before else self._failures + 1
        self._received_before = self.received
        call, etag = self.download.call, self.head.etag or ""
        delay = retry_delay(
            self.config.retry, self._failures, retry_after=None, random=self.environment.random
        )
        elapsed, deadline = self.environment.monotonic() - self._began, self.config.deadline
        is_same_required = self.received > 0
        can_resume = not is_same_required or etag.startswith('"')
        if delay is None or not can_resume or (deadline is not None and elapsed + delay >= deadline):
            raise connection_error(
                failure,
                f"expected {self.size or 'all'} bytes from {self.config.base_url} for GET {call.path} "
                f"but received {failure.text} after {self.received} bytes",
            )
        log.info(
            "resuming: method=%s path=%s received=%d delay=%.2fs reason=%s",
            call.method,
            call.path,
            self.received,
            delay,
            failure.text,
        )
        yield Sleep(delay)
        headers = {name: value for name, value in call.headers.items() if name != "If-None-Match"}
        if is_same_required:
            headers |= {"Range": f"bytes={self.received}-", "If-Range": etag}
        head = yield from exchange(
            evolve(call, headers=headers), evolve(self.config, deadline=self.time_left()), self.environment
        )
        if is_same_required and (head.etag != etag or head.offset > self.received):
            raise _unexpected(
                f"expected the rest of the image with entity tag {etag} from byte {self.received} "
                f"but received {head.etag} from byte {head.offset}"
            )
        self.head = self.head if is_same_required else head
        self._position = head.offset

    def report(self) -> None:
        """Call the progress callback."""
        if self.download.progress is not None:
            self.download.progress(self.received, self.size or 0)


def _unexpected(details: str) -> ServerError:
    return ServerError(details, message="The response is not the expected image", code="INVALID_RESPONSE")
