"""Streams of the bytes of images, and downloads to files."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Protocol, TypeVar

from attrs import define, field

from imagehost_client._calls.call import OpenResponse
from imagehost_client._exchange import Steps
from imagehost_client._transfer import BodyError, Transfer
from imagehost_client._types import FORMATS, Target
from imagehost_client.models import DownloadedImage, ImageHead

if TYPE_CHECKING:
    from typing import Self

__all__ = ["AsyncImageStream", "ImageStream"]

T = TypeVar("T")

EXTENSIONS = {info.media_type: info.extensions[0] for info in FORMATS.values()}
"""The extension of a file in a directory by media type."""


class StreamDriver(Protocol):
    """A driver of exchanges, which also reads open responses."""

    def run(self, steps: Steps[T], /) -> T:
        """Execute all steps, and return the result."""

    def receive(self, opened: OpenResponse, time_left: float | None) -> Iterator[bytes]:
        """Return the body of an open response in chunks, and close it."""

    def discard(self, opened: OpenResponse) -> None:
        """Close an open response."""


class AsyncStreamDriver(Protocol):
    """A driver of exchanges on an event loop, which also reads open responses."""

    async def run(self, steps: Steps[T], /) -> T:
        """Execute all steps, and return the result."""

    def receive(self, opened: OpenResponse, time_left: float | None) -> AsyncIterator[bytes]:
        """Return the body of an open response in chunks, and close it."""

    async def discard(self, opened: OpenResponse) -> None:
        """Close an open response."""


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
    def etag(self) -> str | None:
        """The entity tag, if the response has one."""
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

    def __init__(self, driver: StreamDriver, transfer: Transfer) -> None:
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

    def __init__(self, driver: AsyncStreamDriver, transfer: Transfer) -> None:
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


def save(driver: StreamDriver, transfer: Transfer) -> DownloadedImage:
    """Run a download, write its bytes to its target, and return the result."""
    stream = ImageStream(driver, transfer)
    with stream, _Writer.of(transfer) as writer:
        transfer.report()
        for chunk in stream:
            writer.write(chunk)
            transfer.report()
        return writer.finish(transfer)


async def save_async(driver: AsyncStreamDriver, transfer: Transfer) -> DownloadedImage:
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
