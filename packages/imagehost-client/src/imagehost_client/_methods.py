"""Descriptors that turn functions of `_calls` into client methods, with types and docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from functools import cached_property, update_wrapper
from typing import TYPE_CHECKING, Generic, ParamSpec, Protocol, TypeVar, overload

from imagehost_client._calls import Call
from imagehost_client._calls.bulk import Calls
from imagehost_client.models import Page, Result
from imagehost_client.pages import AsyncPager, Pager

if TYPE_CHECKING:
    from typing import Self

P = ParamSpec("P")
T = TypeVar("T")
M = TypeVar("M")
R = TypeVar("R", bound=Result)


class CallRunner(Protocol):
    """An object that runs calls synchronously."""

    def run(self, call: Call[T], /) -> T:
        """Run a call, and return its result."""


class AsyncCallRunner(Protocol):
    """An object that runs calls on an event loop."""

    def run(self, call: Call[T], /) -> Coroutine[None, None, T]:
        """Run a call, and return its result."""


class Method(Generic[P]):
    """A descriptor with the signature and the docstring of a function of `_calls`."""

    def __init__(self, function: Callable[P, object]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type[object], name: str) -> None:
        self._name = f"{owner.__qualname__}.{name}"

    def _with_signature(self, method: Callable[P, M]) -> Callable[P, M]:
        """Return `method` with name, docstring and signature for `help` and `inspect`."""
        update_wrapper(method, self.function)
        method.__name__, method.__qualname__ = self._name.rpartition(".")[2], self._name
        method.__signature__ = self._signature  # type: ignore[attr-defined]
        return method

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
    def __get__(self, instance: CallRunner, owner: type[object]) -> Callable[P, T]: ...
    def __get__(self, instance: CallRunner | None, owner: type[object]) -> Self | Callable[P, T]:
        if instance is None:
            return self

        def method(*args: P.args, **kwargs: P.kwargs) -> T:
            return instance.run(self._build_call(*args, **kwargs))

        return self._with_signature(method)


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
    ) -> Callable[P, Coroutine[None, None, T]]: ...
    def __get__(
        self, instance: AsyncCallRunner | None, owner: type[object]
    ) -> Self | Callable[P, Coroutine[None, None, T]]:
        if instance is None:
            return self

        async def method(*args: P.args, **kwargs: P.kwargs) -> T:
            return await instance.run(self._build_call(*args, **kwargs))

        return self._with_signature(method)


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
    def __get__(self, instance: CallRunner, owner: type[object]) -> Callable[P, list[R]]: ...
    def __get__(self, instance: CallRunner | None, owner: type[object]) -> Self | Callable[P, list[R]]:
        if instance is None:
            return self

        def method(*args: P.args, **kwargs: P.kwargs) -> list[R]:
            calls = self._build_calls(*args, **kwargs)
            return [item for call in calls for item in instance.run(call).items]

        return self._with_signature(method)


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
    ) -> Callable[P, Coroutine[None, None, list[R]]]: ...
    def __get__(
        self, instance: AsyncCallRunner | None, owner: type[object]
    ) -> Self | Callable[P, Coroutine[None, None, list[R]]]:
        if instance is None:
            return self

        async def method(*args: P.args, **kwargs: P.kwargs) -> list[R]:
            calls = self._build_calls(*args, **kwargs)
            return [item for call in calls for item in (await instance.run(call)).items]

        return self._with_signature(method)


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
    def __get__(self, instance: CallRunner, owner: type[object]) -> Callable[P, Pager[T]]: ...
    def __get__(self, instance: CallRunner | None, owner: type[object]) -> Self | Callable[P, Pager[T]]:
        if instance is None:
            return self

        def method(*args: P.args, **kwargs: P.kwargs) -> Pager[T]:
            return Pager(instance.run, self._build_call(*args, **kwargs))

        return self._with_signature(method)


class AsyncListing(_ListMethod[P], Generic[P, T]):
    """A method that returns an `AsyncPager`."""

    def __init__(self, function: Callable[P, Call[Page[T]]]) -> None:
        super().__init__(function)
        self._build_call = function

    @overload
    def __get__(self, instance: None, owner: type[object]) -> Self: ...
    @overload
    def __get__(self, instance: AsyncCallRunner, owner: type[object]) -> Callable[P, AsyncPager[T]]: ...
    def __get__(
        self, instance: AsyncCallRunner | None, owner: type[object]
    ) -> Self | Callable[P, AsyncPager[T]]:
        if instance is None:
            return self

        def method(*args: P.args, **kwargs: P.kwargs) -> AsyncPager[T]:
            return AsyncPager(instance.run, self._build_call(*args, **kwargs))

        return self._with_signature(method)
