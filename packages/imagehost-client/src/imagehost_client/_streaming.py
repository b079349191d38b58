"""Descriptors that turn functions of `_calls.downloads` into client methods."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Generic, ParamSpec, Protocol, overload

from imagehost_client._calls.downloads import ImageDownload
from imagehost_client._methods import Method
from imagehost_client.downloads import AsyncImageStream, ImageStream
from imagehost_client.models import DownloadedImage

if TYPE_CHECKING:
    from typing import Self

P = ParamSpec("P")


class Downloader(Protocol):
    """An object that runs downloads synchronously."""

    def stream_image(self, download: ImageDownload, /) -> ImageStream:
        """Return the bytes of an image as they arrive."""

    def save_image(self, download: ImageDownload, /) -> DownloadedImage:
        """Write the bytes of an image to a file."""


class AsyncDownloader(Protocol):
    """An object that runs downloads on an event loop."""

    def stream_image(self, download: ImageDownload, /) -> AsyncImageStream:
        """Return the bytes of an image as they arrive."""

    def save_image(self, download: ImageDownload, /) -> Coroutine[None, None, DownloadedImage]:
        """Write the bytes of an image to a file."""


class StreamMethod(Method[P], Generic[P]):
    """A method that returns the bytes of an image as they arrive."""

    def result(self, call: str) -> str:  # noqa: ARG002 - the return annotation does not depend on it
        """Return the method's return annotation."""
        return "ImageStream"


class DownloadMethod(Method[P], Generic[P]):
    """A method that writes the bytes of an image to a file."""

    def result(self, call: str) -> str:  # noqa: ARG002 - the return annotation does not depend on it
        """Return the method's return annotation."""
        return "DownloadedImage"


class StreamOperation(StreamMethod[P], Generic[P]):
    """A method that returns an `ImageStream`."""

    def __init__(self, function: Callable[P, ImageDownload]) -> None:
        super().__init__(function)
        self._build = function

    @overload
    def __get__(self, instance: None, owner: type[object]) -> Self: ...
    @overload
    def __get__(self, instance: Downloader, owner: type[object]) -> Callable[P, ImageStream]: ...
    def __get__(self, instance: Downloader | None, owner: type[object]) -> Self | Callable[P, ImageStream]:
        if instance is None:
            return self

        def method(*args: P.args, **kwargs: P.kwargs) -> ImageStream:
            return instance.stream_image(self._build(*args, **kwargs))

        return self.with_signature(method)


class AsyncStreamOperation(StreamMethod[P], Generic[P]):
    """A method that returns an `AsyncImageStream`."""

    def __init__(self, function: Callable[P, ImageDownload]) -> None:
        super().__init__(function)
        self._build = function

    @overload
    def __get__(self, instance: None, owner: type[object]) -> Self: ...
    @overload
    def __get__(self, instance: AsyncDownloader, owner: type[object]) -> Callable[P, AsyncImageStream]: ...
    def __get__(
        self, instance: AsyncDownloader | None, owner: type[object]
    ) -> Self | Callable[P, AsyncImageStream]:
        if instance is None:
            return self

        def method(*args: P.args, **kwargs: P.kwargs) -> AsyncImageStream:
            return instance.stream_image(self._build(*args, **kwargs))

        return self.with_signature(method)


class DownloadOperation(DownloadMethod[P], Generic[P]):
    """A method that returns a `DownloadedImage`."""

    def __init__(self, function: Callable[P, ImageDownload]) -> None:
        super().__init__(function)
        self._build = function

    @overload
    def __get__(self, instance: None, owner: type[object]) -> Self: ...
    @overload
    def __get__(self, instance: Downloader, owner: type[object]) -> Callable[P, DownloadedImage]: ...
    def __get__(
        self, instance: Downloader | None, owner: type[object]
    ) -> Self | Callable[P, DownloadedImage]:
        if instance is None:
            return self

        def method(*args: P.args, **kwargs: P.kwargs) -> DownloadedImage:
            return instance.save_image(self._build(*args, **kwargs))

        return self.with_signature(method)


class AsyncDownloadOperation(DownloadMethod[P], Generic[P]):
    """A coroutine method that returns a `DownloadedImage`."""

    def __init__(self, function: Callable[P, ImageDownload]) -> None:
        super().__init__(function)
        self._build = function

    @overload
    def __get__(self, instance: None, owner: type[object]) -> Self: ...
    @overload
    def __get__(
        self, instance: AsyncDownloader, owner: type[object]
    ) -> Callable[P, Coroutine[None, None, DownloadedImage]]: ...
    def __get__(
        self, instance: AsyncDownloader | None, owner: type[object]
    ) -> Self | Callable[P, Coroutine[None, None, DownloadedImage]]:
        if instance is None:
            return self

        async def method(*args: P.args, **kwargs: P.kwargs) -> DownloadedImage:
            return await instance.save_image(self._build(*args, **kwargs))

        return self.with_signature(method)
