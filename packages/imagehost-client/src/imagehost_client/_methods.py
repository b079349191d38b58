"""Descriptors that turn functions of `_calls` into methods of both clients, with types and docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from functools import cached_property, partial, update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar, overload

from imagehost_client._calls.call import Call
from imagehost_client._calls.downloads import ImageDownload
from imagehost_client._calls.images import Calls
from imagehost_client.downloads import AsyncImageStream, ImageStream
from imagehost_client.models import DownloadedImage, Page, RawResponse, Result, ResultList
from imagehost_client.pages import AsyncPager, Pager

if TYPE_CHECKING:
    from typing import Self

P = ParamSpec("P")
T = TypeVar("T")
N = TypeVar("N")
B_co = TypeVar("B_co", covariant=True)
M_co = TypeVar("M_co", covariant=True)
N_co = TypeVar("N_co", covariant=True)
R = TypeVar("R", bound=Result)


class CallRunner(Protocol):
    """An object that runs calls synchronously: `Client`."""

    def _run(self, call: Call[T], /) -> T:
        """Run a call, and return its result."""

    def _run_raw(self, call: Call[T], /) -> RawResponse[T]:
        """Run a call, and return its response."""

    def _stream_image(self, download: ImageDownload, /) -> ImageStream:
        """Return the bytes of an image as they arrive."""

    def _save_image(self, download: ImageDownload, /) -> DownloadedImage:
        """Write the bytes of an image to a file."""


class AsyncCallRunner(Protocol):
    """An object that runs calls on an event loop: `AsyncClient`."""

    def _run(self, call: Call[T], /) -> Coroutine[None, None, T]:
        """Run a call, and return its result."""

    def _run_raw(self, call: Call[T], /) -> Coroutine[None, None, RawResponse[T]]:
        """Run a call, and return its response."""

    def _stream_image(self, download: ImageDownload, /) -> AsyncImageStream:
        """Return the bytes of an image as they arrive."""

    def _save_image(self, download: ImageDownload, /) -> Coroutine[None, None, DownloadedImage]:
        """Write the bytes of an image to a file."""


class Owner(Protocol):
    """An object with methods: `Client`, or one of its resources."""

    @property
    def _runner(self) -> CallRunner:
        """The client."""


class AsyncOwner(Protocol):
    """An object with methods: `AsyncClient`, or one of its resources."""

    @property
    def _runner(self) -> AsyncCallRunner:
        """The client."""


class BoundMethod(Protocol[P, M_co, N_co]):
    """A method of a client that can also return the response as it was received."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> M_co:
        """Call the method."""

    @property
    def with_raw_response(self) -> Callable[P, N_co]:
        """The same method, with a result of status, headers, body and `parsed`.

        Of a list it returns the first page, and of a method on many images one result for each request.
        """


AsyncBoundMethod = BoundMethod[P, Coroutine[None, None, T], Coroutine[None, None, N]]
"""A coroutine method, which can also return the response."""


class Method(Generic[P, B_co]):
    """A descriptor with the signature and the docstring of a function of `_calls`.

    With `AsyncClient` it is a coroutine function, unless its result is one that is iterated over.
    """

    def __init__(self, function: Callable[P, B_co]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type[object], name: str) -> None:
        self._name = name

    def bind(self, instance: object, run: Callable[[Any], object], raw: Any = None) -> Any:
        """Return a method that runs what `function` builds from its arguments.

        Args:
            instance: The client, or the resource.
            run: The function that returns the method's result.
            raw: The function that returns the result of `with_raw_response`, if there is one.
        """
        method: Any = update_wrapper(_composed(run, self.function), self.function)
        method.__name__, method.__qualname__ = self._name, f"{type(instance).__qualname__}.{self._name}"
        method.__signature__ = self._signature
        if raw is not None:
            method.with_raw_response = _composed(raw, self.function)
        return method

    @cached_property
    def _signature(self) -> inspect.Signature:
        signature = inspect.signature(self.function)
        return signature.replace(return_annotation=self.result(str(signature.return_annotation)))

    def result(self, call: str) -> str:
        """Return the method's return annotation for the function's."""
        return call.removeprefix("Call[").removesuffix("]")


def _composed(run: Callable[[Any], Any], build: Callable[P, object]) -> Callable[P, object]:
    """Return a function that runs what `build` returns; a coroutine function if `run` is one."""

    def method(*args: P.args, **kwargs: P.kwargs) -> object:
        return run(build(*args, **kwargs))

    async def async_method(*args: P.args, **kwargs: P.kwargs) -> object:
        return await run(build(*args, **kwargs))

    return async_method if inspect.iscoroutinefunction(run) else method


class Operation(Method[P, Call[T]], Generic[P, T]):
    """A method that runs one call."""

    @overload
    def __get__(self, instance: None, owner: type[object]) -> Self: ...
    @overload
    def __get__(self, instance: Owner, owner: type[object]) -> BoundMethod[P, T, RawResponse[T]]: ...
    @overload
    def __get__(
        self, instance: AsyncOwner, owner: type[object]
    ) -> AsyncBoundMethod[P, T, RawResponse[T]]: ...
    def __get__(self, instance: Owner | AsyncOwner | None, owner: type[object]) -> Any:
        """Return the method of a client or a resource."""
        return (
            self
            if instance is None
            else self.bind(instance, instance._runner._run, instance._runner._run_raw)
        )


class BulkOperation(Method[P, Calls[R]], Generic[P, R]):
    """A method that runs several calls, one after another, and returns the results of all together."""

    @overload
    def __get__(self, instance: None, owner: type[object]) -> Self: ...
    @overload
    def __get__(
        self, instance: Owner, owner: type[object]
    ) -> BoundMethod[P, tuple[R, ...], tuple[RawResponse[ResultList[R]], ...]]: ...
    @overload
    def __get__(
        self, instance: AsyncOwner, owner: type[object]
    ) -> AsyncBoundMethod[P, tuple[R, ...], tuple[RawResponse[ResultList[R]], ...]]: ...
    def __get__(self, instance: Any, owner: type[object]) -> Any:
        """Return the method of a client or a resource."""
        if instance is None:
            return self

        def run(calls: Calls[R]) -> tuple[R, ...]:
            return tuple(item for call in calls for item in instance._runner._run(call).items)

        def run_raw(calls: Calls[R]) -> tuple[object, ...]:
            return tuple(instance._runner._run_raw(call) for call in calls)

        async def async_run(calls: Calls[R]) -> tuple[R, ...]:
            return tuple([item for call in calls for item in (await instance._runner._run(call)).items])

        async def async_run_raw(calls: Calls[R]) -> tuple[object, ...]:
            return tuple([await instance._runner._run_raw(call) for call in calls])

        if inspect.iscoroutinefunction(instance._runner._run):
            return self.bind(instance, async_run, async_run_raw)
        return self.bind(instance, run, run_raw)

    def result(self, call: str) -> str:
        """Return the method's return annotation for the function's."""
        return call.replace("Calls[", "tuple[").replace("]", ", ...]")


class Listing(Method[P, Call[Page[T]]], Generic[P, T]):
    """A method that returns a `Pager`, or an `AsyncPager`."""

    @overload
    def __get__(self, instance: None, owner: type[object]) -> Self: ...
    @overload
    def __get__(
        self, instance: Owner, owner: type[object]
    ) -> BoundMethod[P, Pager[T], RawResponse[Page[T]]]: ...
    @overload
    def __get__(
        self, instance: AsyncOwner, owner: type[object]
    ) -> BoundMethod[P, AsyncPager[T], Coroutine[None, None, RawResponse[Page[T]]]]: ...
    def __get__(self, instance: Any, owner: type[object]) -> Any:
        """Return the method of a client or a resource."""
        if instance is None:
            return self
        pager: Callable[..., object] = (
            AsyncPager if inspect.iscoroutinefunction(instance._runner._run) else Pager
        )
        return self.bind(instance, partial(pager, instance._runner._run), instance._runner._run_raw)

    def result(self, call: str) -> str:
        """Return the method's return annotation for the function's."""
        return super().result(call).replace("Page[", "Pager[")


class StreamOperation(Method[P, ImageDownload], Generic[P]):
    """A method that returns an `ImageStream`, or an `AsyncImageStream`."""

    @overload
    def __get__(self, instance: None, owner: type[object]) -> Self: ...
    @overload
    def __get__(self, instance: Owner, owner: type[object]) -> Callable[P, ImageStream]: ...
    @overload
    def __get__(self, instance: AsyncOwner, owner: type[object]) -> Callable[P, AsyncImageStream]: ...
    def __get__(self, instance: Owner | AsyncOwner | None, owner: type[object]) -> Any:
        """Return the method of a client or a resource."""
        return self if instance is None else self.bind(instance, instance._runner._stream_image)

    def result(self, call: str) -> str:  # noqa: ARG002 - the return annotation does not depend on it
        """Return the method's return annotation."""
        return "ImageStream"


class DownloadOperation(Method[P, ImageDownload], Generic[P]):
    """A method that returns a `DownloadedImage`."""

    @overload
    def __get__(self, instance: None, owner: type[object]) -> Self: ...
    @overload
    def __get__(self, instance: Owner, owner: type[object]) -> Callable[P, DownloadedImage]: ...
    @overload
    def __get__(
        self, instance: AsyncOwner, owner: type[object]
    ) -> Callable[P, Coroutine[None, None, DownloadedImage]]: ...
    def __get__(self, instance: Owner | AsyncOwner | None, owner: type[object]) -> Any:
        """Return the method of a client or a resource."""
        return self if instance is None else self.bind(instance, instance._runner._save_image)

    def result(self, call: str) -> str:  # noqa: ARG002 - the return annotation does not depend on it
        """Return the method's return annotation."""
        return "DownloadedImage"
