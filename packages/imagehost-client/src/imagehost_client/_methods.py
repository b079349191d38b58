"""Methods made of operations: a function of `_calls` becomes a client's method, types and docstring kept."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from functools import cached_property, update_wrapper
from typing import TYPE_CHECKING, Generic, ParamSpec, Protocol, TypeVar, overload

from imagehost_client._calls import Call
from imagehost_client.models import Page
from imagehost_client.pages import AsyncPager, Pager

if TYPE_CHECKING:
    from typing import Self

P = ParamSpec("P")
T = TypeVar("T")
M = TypeVar("M")


class CallRunner(Protocol):
    """What makes calls, and waits for their results."""

    def run(self, call: Call[T], /) -> T:
        """Make a call, and return its result."""


class AsyncCallRunner(Protocol):
    """What makes calls on an event loop."""

    def run(self, call: Call[T], /) -> Coroutine[None, None, T]:
        """Make a call, and return its result."""


class _Method(Generic[P]):
    """A descriptor with the signature and the docstring of a function of `_calls`."""

    def __init__(self, function: Callable[P, object]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type[object], name: str) -> None:
        self._name = f"{owner.__qualname__}.{name}"

    def _with_signature(self, method: Callable[P, M]) -> Callable[P, M]:
        """Return `method` as `help` and `inspect` are to see it."""
        update_wrapper(method, self.function)
        method.__name__, method.__qualname__ = self._name.rpartition(".")[2], self._name
        method.__signature__ = self._signature  # type: ignore[attr-defined]
        return method

    @cached_property
    def _signature(self) -> inspect.Signature:
        signature = inspect.signature(self.function)
        return signature.replace(return_annotation=self.result(str(signature.return_annotation)))

    def result(self, call: str) -> str:
        """Return the annotation of the method's result, made of the function's."""
        return call.removeprefix("Call[").removesuffix("]")


class Operation(_Method[P], Generic[P, T]):
    """A method that makes one call."""

    def __init__(self, function: Callable[P, Call[T]]) -> None:
        super().__init__(function)
        self._make = function

    @overload
    def __get__(self, instance: None, owner: type[object]) -> Self: ...
    @overload
    def __get__(self, instance: CallRunner, owner: type[object]) -> Callable[P, T]: ...
    def __get__(self, instance: CallRunner | None, owner: type[object]) -> Self | Callable[P, T]:
        if instance is None:
            return self

        def method(*args: P.args, **kwargs: P.kwargs) -> T:
            return instance.run(self._make(*args, **kwargs))

        return self._with_signature(method)


class AsyncOperation(_Method[P], Generic[P, T]):
    """A method that makes one call and is awaited."""

    def __init__(self, function: Callable[P, Call[T]]) -> None:
        super().__init__(function)
        self._make = function

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
            return await instance.run(self._make(*args, **kwargs))

        return self._with_signature(method)


class _List(_Method[P], Generic[P]):
    def result(self, call: str) -> str:
        """Return the annotation of the method's result, made of the function's."""
        return super().result(call).replace("Page[", "Pager[")


class Listing(_List[P], Generic[P, T]):
    """A method that returns a list, fetched as it is read."""

    def __init__(self, function: Callable[P, Call[Page[T]]]) -> None:
        super().__init__(function)
        self._make = function

    @overload
    def __get__(self, instance: None, owner: type[object]) -> Self: ...
    @overload
    def __get__(self, instance: CallRunner, owner: type[object]) -> Callable[P, Pager[T]]: ...
    def __get__(self, instance: CallRunner | None, owner: type[object]) -> Self | Callable[P, Pager[T]]:
        if instance is None:
            return self

        def method(*args: P.args, **kwargs: P.kwargs) -> Pager[T]:
            return Pager(instance.run, self._make(*args, **kwargs))

        return self._with_signature(method)


class AsyncListing(_List[P], Generic[P, T]):
    """A method that returns a list, fetched as it is read with `async for`."""

    def __init__(self, function: Callable[P, Call[Page[T]]]) -> None:
        super().__init__(function)
        self._make = function

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
            return AsyncPager(instance.run, self._make(*args, **kwargs))

        return self._with_signature(method)
