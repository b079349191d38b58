"""Collection of the errors of one request, which are reported together."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from attrs import define, field

from imagehost_client.errors import BadRequestError, ImageHostError, NotFoundError, ValidationError

P = ParamSpec("P")
T = TypeVar("T")

PRECEDENCE: tuple[type[ImageHostError], ...] = (BadRequestError, NotFoundError, ValidationError)
"""The collected kinds of errors: 400, 404 and 422. The status of several is that of the first kind."""


@define
class ErrorCollector:
    """The errors of one request."""

    _errors: list[ImageHostError] = field(factory=list)

    def add(self, error: ImageHostError) -> None:
        """Add an error of one of the collected kinds."""
        self._errors.append(error)

    def attempt(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Return the result of a function, or `None` if it raised an error of a collected kind."""
        try:
            return function(*args, **kwargs)
        except PRECEDENCE as error:
            self._errors.append(error)
            return None

    def raise_all(self) -> None:
        """Raise one error with the details of all collected errors, if there are any."""
        kinds = [kind for kind in PRECEDENCE if any(type(error) is kind for error in self._errors)]
        if kinds:
            raise kinds[0]("; ".join(dict.fromkeys(error.details for error in self._errors)))
