"""Downloads of images: their state, which does no I/O; streams of their bytes; and files."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO

from attrs import define, evolve, field

from imagehost_client._calls.call import OpenResponse
from imagehost_client._calls.downloads import ImageDownload
from imagehost_client._config import Config
from imagehost_client._exchange import (
    BodyError,
    Environment,
    Failure,
    Sleep,
    Steps,
    TimeLimit,
    connection_error,
    exchange,
)
from imagehost_client._retry import FailureKind, retry_delay
from imagehost_client._types import FORMATS, Target
from imagehost_client.errors import ChecksumError, ServerError
from imagehost_client.models import DownloadedImage, ImageHead

if TYPE_CHECKING:
    from hashlib import _Hash
    from typing import Self

    from imagehost_client._drivers import AsyncDriver, SyncDriver

__all__ = ["AsyncImageStream", "ImageStream"]

log: logging.Logger = logging.getLogger("imagehost_client")


def _new_hash() -> _Hash:
    from hashlib import sha256  # slow to import

    return sha256()


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
    _limit: TimeLimit = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._limit = TimeLimit.of(self.config, self.environment)

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
        return self._limit.left()

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
        # Of a stored file that browsers would show sideways, the host sends a variant, whose tag has a dash.
        is_stored = self.head is None or "-" not in self.head.etag
        if expected is not None and is_stored and self.sha256 != expected:
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
        call, etag = self.download.call, self.head.etag
        delay = retry_delay(
            self.config.retry, self._failures, retry_after=None, random=self.environment.random
        )
        is_same_required = self.received > 0
        can_resume = not is_same_required or etag.startswith('"')
        if delay is None or not can_resume or not self._limit.allows(delay):
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
        config = self.config if self._limit.is_default else evolve(self.config, deadline=self.time_left())
        head = yield from exchange(evolve(call, headers=headers), config, self.environment)
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


EXTENSIONS = {info.media_type: info.extensions[0] for info in FORMATS.values()}
"""The extension of a file in a directory by media type."""


class _StreamedImage:
    """The headers of an image whose bytes are read as they arrive."""

    def __init__(self, transfer: Transfer) -> None:
        self._transfer = transfer

    @property
    def head(self) -> ImageHead:
        """The headers of the response: `media_type`, `size` in bytes, `etag`, `not_modified` and `meta`."""
        if self._transfer.head is None:
            raise RuntimeError("expected a stream in a with statement, which sends its request")
        return self._transfer.head

    @property
    def media_type(self) -> str:
        """The content type, such as `image/webp`."""
        return self.head.media_type

    @property
    def size(self) -> int | None:
        """The number of bytes of the image, if the host has told it."""
        return self.head.size

    @property
    def etag(self) -> str:
        """The entity tag; "" if the response has none."""
        return self.head.etag

    @property
    def not_modified(self) -> bool:
        """Whether the image has the entity tag of `if_none_match`, so that there are no bytes."""
        return self.head.not_modified

    def __repr__(self) -> str:
        call, transfer = self._transfer.download.call, self._transfer
        return f"<{type(self).__name__} of {call.path}: {transfer.received} of {transfer.size} bytes>"


class ImageStream(_StreamedImage):
    """The bytes of an image in chunks as they arrive, for one iteration in a `with` statement."""

    def __init__(self, driver: SyncDriver, transfer: Transfer) -> None:
        super().__init__(transfer)
        self._driver = driver

    def __enter__(self) -> Self:
        try:
            self._driver.run(self._transfer.start())
        except BaseException:
            self._driver.discard(self._transfer.opened)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._driver.discard(self._transfer.opened)

    def __iter__(self) -> Iterator[bytes]:
        transfer, _ = self._transfer, self.head
        while not transfer.is_complete:
            failure = None
            try:
                for chunk in self._driver.receive(transfer.opened, transfer.time_left()):
                    if new := transfer.accept(chunk):
                        yield new
            except BodyError as error:
                failure = error.failure
            failure = transfer.end(failure)
            if failure is not None:
                self._driver.run(transfer.resume(failure))


class AsyncImageStream(_StreamedImage):
    """The bytes of an image in chunks as they arrive, for one iteration in an `async with` statement."""

    def __init__(self, driver: AsyncDriver, transfer: Transfer) -> None:
        super().__init__(transfer)
        self._driver = driver

    async def __aenter__(self) -> Self:
        try:
            await self._driver.run(self._transfer.start())
        except BaseException:
            await self._driver.discard(self._transfer.opened)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._driver.discard(self._transfer.opened)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        transfer, _ = self._transfer, self.head
        while not transfer.is_complete:
            failure = None
            try:
                async for chunk in self._driver.receive(transfer.opened, transfer.time_left()):
                    if new := transfer.accept(chunk):
                        yield new
            except BodyError as error:
                failure = error.failure
            failure = transfer.end(failure)
            if failure is not None:
                await self._driver.run(transfer.resume(failure))


def save(driver: SyncDriver, transfer: Transfer) -> DownloadedImage:
    """Run a download, write its bytes to its target, and return the result."""
    stream = ImageStream(driver, transfer)
    with stream, _Writer.of(transfer) as writer:
        transfer.report()
        for chunk in stream:
            writer.write(chunk)
            transfer.report()
        return writer.finish(transfer)


async def save_async(driver: AsyncDriver, transfer: Transfer) -> DownloadedImage:
    """Run a download, write its bytes to its target in worker threads, and return the result."""
    from anyio.to_thread import run_sync  # comes with httpx2

    async with AsyncImageStream(driver, transfer) as stream:
        writer = await run_sync(_Writer.of, transfer)
        with writer:
            transfer.report()
            async for chunk in stream:
                await run_sync(writer.write, chunk)
                transfer.report()
            return await run_sync(writer.finish, transfer)


@define
class _Writer:
    """The file of a download, which is written completely or not at all.

    Attributes:
        path: Its path; `None` if the caller has opened it.
    """

    path: Path | None
    _file: BinaryIO | None = field(repr=False)
    _temporary: Path | None = None
    _is_own: bool = False

    @classmethod
    def of(cls, transfer: Transfer) -> _Writer:
        """Open the target of a download; nothing is opened if nothing is to be written.

        Raises:
            OSError: The file cannot be created.
        """
        target, head = transfer.download.target, transfer.head
        assert target is not None
        assert head is not None
        if not isinstance(target, (str, os.PathLike)):
            return cls(None, target)
        path = _file_path(target, transfer.download.image_id, head.media_type)
        if head.not_modified:
            return cls(path, None)
        if path.exists() and not path.is_file():
            return cls(path, path.open("wb"), is_own=True)  # a device or a named pipe
        temporary = path.resolve().with_name(f".{transfer.download.image_id}-{os.urandom(6).hex()}.part")
        return cls(path, temporary.open("xb"), temporary, is_own=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._file is not None and self._is_own:
            self._file.close()
        if self._temporary is not None:
            self._temporary.unlink(missing_ok=True)

    def write(self, chunk: bytes) -> None:
        assert self._file is not None
        self._file.write(chunk)

    def finish(self, transfer: Transfer) -> DownloadedImage:
        """Let the file have its new content; an existing file is replaced, and keeps its mode."""
        if self._file is not None and self._is_own:
            self._file.close()
        if self._temporary is not None and self.path is not None:
            target = self.path.resolve()
            if target.exists():
                self._temporary.chmod(target.stat().st_mode)
            self._temporary.replace(target)
            self._temporary = None
        head = transfer.head
        assert head is not None
        return DownloadedImage(
            path=self.path,
            size=transfer.received,
            media_type=head.media_type,
            sha256=transfer.sha256,
            etag=head.etag,
            not_modified=head.not_modified,
            meta=head.meta,
        )


def _file_path(target: Target, image_id: str, media_type: str) -> Path:
    """Return the path of the file, which in an existing directory has the name of the image's id."""
    assert isinstance(target, (str, os.PathLike))
    path = Path(target)
    if path.is_dir():
        return path / f"{image_id}.{EXTENSIONS.get(media_type, 'bin')}"
    if os.fspath(target).endswith(os.sep):
        raise NotADirectoryError(f"expected an existing directory but received {os.fspath(target)!r}")
    return path
