"""Descriptors that turn functions of `_calls` into client methods, with types and docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from functools import cached_property, update_wrapper
from typing import TYPE_CHECKING, Generic, ParamSpec, Protocol, TypeVar, cast, overload

from imagehost_client._calls import Call
from imagehost_client._calls.bulk import Calls
from imagehost_client.models import Page, RawResponse, Result, ResultList
from imagehost_client.pages import AsyncPager, Pager

if TYPE_CHECKING:
    from typing import Self

P = ParamSpec("P")
T = TypeVar("T")
M = TypeVar("M")
N = TypeVar("N")
M_co = TypeVar("M_co", covariant=True)
N_co = TypeVar("N_co", covariant=True)
R = TypeVar("R", bound=Result)


class CallRunner(Protocol):
    """An object that runs calls synchronously."""

    def run(self, call: Call[T], /) -> T:
        """Run a call, and return its result."""

    def run_raw(self, call: Call[T], /) -> RawResponse[T]:
        """Run a call, and return its response."""


class AsyncCallRunner(Protocol):
    """An object that runs calls on an event loop."""

    def run(self, call: Call[T], /) -> Coroutine[None, None, T]:
        """Run a call, and return its result."""

    def run_raw(self, call: Call[T], /) -> Coroutine[None, None, RawResponse[T]]:
        """Run a call, and return its response."""


class BoundMethod(Protocol[P, M_co, N_co]):
    """A method of a client that can also return the response as it was received."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> M_co:
        """Call the method."""

    @property
    def with_raw_response(self) -> Callable[P, N_co]:
        """The same method, with a result of status, headers, body and `parsed`.

        Of a list it returns the first page, and of a method on many images one result for each request.
        """


class Method(Generic[P]):
    """A descriptor with the signature and the docstring of a function of `_calls`."""

    def __init__(self, function: Callable[P, object]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type[object], name: str) -> None:
        self._name = f"{owner.__qualname__}.{name}"

    def with_signature(self, method: Callable[P, M]) -> Callable[P, M]:
        """Return `method` with name, docstring and signature for `help` and `inspect`."""
        update_wrapper(method, self.function)
        method.__name__, method.__qualname__ = self._name.rpartition(".")[2], self._name
        method.__signature__ = self._signature  # type: ignore[attr-defined]
        return method

    def _with_raw(self, method: Callable[P, M], raw: Callable[P, N]) -> BoundMethod[P, M, N]:
        """Return `method` with name, docstring and signature, and with `raw` as `with_raw_response`."""
        method = self.with_signature(method)
        method.with_raw_response = raw  # type: ignore[attr-defined]
        return cast("BoundMethod[P, M, N]", method)

    @cached_property
    def _signature(self) -> inspect.Signature:
        signature = inspect.signature(self.function)
        return signature.replace(return_annotation=self.result(str(signature.return_annotation)))

    def result(self, call: str) -> str:
        """Return the method's return annotation for the function's."""
        return call.removeprefix("Call[").removesuffix("]")


class Operation(Method[P], Generic[P, T]):
    """A method that runs one call."""

    def __init__(self, function: Callable[P, Call[T]]) -> None:
        super().__init__(function)
        self._build_call = function

    @overload
    def __get__(self, instance: None, owner: type[object]) -> Self: ...
    @overload
    def __get__(self, instance: CallRunner, owner: type[object]) -> BoundMethod[P, T, RawResponse[T]]: ...
    def __get__(
        self, instance: CallRunner | None, owner: type[object]
    ) -> Self | BoundMethod[P, T, RawResponse[T]]:
        if instance is None:
            return self

        def method(*args: P.args, **kwargs: P.kwargs) -> T:
            return instance.run(self._build_call(*args, **kwargs))

        def raw(*args: P.args, **kwargs: P.kwargs) -> RawResponse[T]:
            return instance.run_raw(self._build_call(*args, **kwargs))

        return self._with_raw(method, raw)


class AsyncOperation(Method[P], Generic[P, T]):
    """A coroutine method that runs one call."""

    def __init__(self, function: Callable[P, Call[T]]) -> None:
        super().__init__(function)
        self._build_call = function

    @overload
    def __get__(self, instance: None, owner: type[object]) -> Self: ...
    @overload
    def __get__(
        self, instance: AsyncCallRunner, owner: type[object]
    ) -> BoundMethod[P, Coroutine[None, None, T], Coroutine[None, None, RawResponse[T]]]: ...
    def __get__(
        self, instance: AsyncCallRunner | None, owner: type[object]
    ) -> Self | BoundMethod[P, Coroutine[None, None, T], Coroutine[None, None, RawResponse[T]]]:
        if instance is None:
            return self

        async def method(*args: P.args, **kwargs: P.kwargs) -> T:
            return await instance.run(self._build_call(*args, **kwargs))

        async def raw(*args: P.args, **kwargs: P.kwargs) -> RawResponse[T]:
            return await instance.run_raw(self._build_call(*args, **kwargs))

        return self._with_raw(method, raw)


class BulkMethod(Method[P], Generic[P]):
    """A method that runs several calls, and returns the results of all in one list."""

    def result(self, call: str) -> str:
        """Return the method's return annotation for the function's."""
        return call.replace("Calls[", "list[")


class BulkOperation(BulkMethod[P], Generic[P, R]):
    """A method that runs several calls, one after another."""

    def __init__(self, function: Callable[P, Calls[R]]) -> None:
        super().__init__(function)
        self._build_calls = function

    @overload
    def __get__(self, instance: None, owner: type[object]) -> Self: ...
    @overload
    def __get__(
        self, instance: CallRunner, owner: type[object]
    ) -> BoundMethod[P, list[R], list[RawResponse[ResultList[R]]]]: ...
    def __get__(
        self, instance: CallRunner | None, owner: type[object]
    ) -> Self | BoundMethod[P, list[R], list[RawResponse[ResultList[R]]]]:
        if instance is None:
            return self

        def method(*args: P.args, **kwargs: P.kwargs) -> list[R]:
            calls = self._build_calls(*args, **kwargs)
            return [item for call in calls for item in instance.run(call).items]

        def raw(*args: P.args, **kwargs: P.kwargs) -> list[RawResponse[ResultList[R]]]:
            return [instance.run_raw(call) for call in self._build_calls(*args, **kwargs)]

        return self._with_raw(method, raw)


class AsyncBulkOperation(BulkMethod[P], Generic[P, R]):
    """A coroutine method that runs several calls, one after another."""

    def __init__(self, function: Callable[P, Calls[R]]) -> None:
        super().__init__(function)
        self._build_calls = function

    @overload
    def __get__(self, instance: None, owner: type[object]) -> Self: ...
    @overload
    def __get__(
        self, instance: AsyncCallRunner, owner: type[object]
    ) -> BoundMethod[
        P, Coroutine[None, None, list[R]], Coroutine[None, None, list[RawResponse[ResultList[R]]]]
    ]: ...
    def __get__(
        self, instance: AsyncCallRunner | None, owner: type[object]
    ) -> (
        Self
        | BoundMethod[
            P, Coroutine[None, None, list[R]], Coroutine[None, None, list[RawResponse[ResultList[R]]]]
        ]
    ):
        if instance is None:
            return self

        async def method(*args: P.args, **kwargs: P.kwargs) -> list[R]:
            calls = self._build_calls(*args, **kwargs)
            return [item for call in calls for item in (await instance.run(call)).items]

        async def raw(*args: P.args, **kwargs: P.kwargs) -> list[RawResponse[ResultList[R]]]:
            return [await instance.run_raw(call) for call in self._build_calls(*args, **kwargs)]

        return self._with_raw(method, raw)


class _ListMethod(Method[P], Generic[P]):
    def result(self, call: str) -> str:
        """Return the method's return annotation for the function's."""
        return super().result(call).replace("Page[", "Pager[")


class Listing(_ListMethod[P], Generic[P, T]):
    """A method that returns a `Pager`."""

    def __init__(self, function: Callable[P, Call[Page[T]]]) -> None:
        super().__init__(function)
        self._build_call = function

    @overload
    def __get__(self, instance: None, owner: type[object]) -> Self: ...
    @overload
    def __get__(
        self, instance: CallRunner, owner: type[object]
    ) -> BoundMethod[P, Pager[T], RawResponse[Page[T]]]: ...
    def __get__(
        self, instance: CallRunner | None, owner: type[object]
    ) -> Self | BoundMethod[P, Pager[T], RawResponse[Page[T]]]:
        if instance is None:
            return self

        def method(*args: P.args, **kwargs: P.kwargs) -> Pager[T]:
            return Pager(instance.run, self._build_call(*args, **kwargs))

        def raw(*args: P.args, **kwargs: P.kwargs) -> RawResponse[Page[T]]:
            return instance.run_raw(self._build_call(*args, **kwargs))

        return self._with_raw(method, raw)


class AsyncListing(_ListMethod[P], Generic[P, T]):
    """A method that returns an `AsyncPager`."""

    def __init__(self, function: Callable[P, Call[Page[T]]]) -> None:
        super().__init__(function)
        self._build_call = function

    @overload
    def __get__(self, instance: None, owner: type[object]) -> Self: ...
    @overload
    def __get__(
        self, instance: AsyncCallRunner, owner: type[object]
    ) -> BoundMethod[P, AsyncPager[T], Coroutine[None, None, RawResponse[Page[T]]]]: ...
    def __get__(
        self, instance: AsyncCallRunner | None, owner: type[object]
    ) -> Self | BoundMethod[P, AsyncPager[T], Coroutine[None, None, RawResponse[Page[T]]]]:
        if instance is None:
            return self

        def method(*args: P.args, **kwargs: P.kwargs) -> AsyncPager[T]:
            return AsyncPager(instance.run, self._build_call(*args, **kwargs))

        async def raw(*args: P.args, **kwargs: P.kwargs) -> RawResponse[Page[T]]:
            return await instance.run_raw(self._build_call(*args, **kwargs))

        return self._with_raw(method, raw)
