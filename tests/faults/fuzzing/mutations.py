"""Random mutations of inputs, as fuzzers make them, for runs without coverage guidance."""

from __future__ import annotations

import random
from collections.abc import Sequence

from attrs import frozen

MAX_CHANGES = 4
"""The most changes of one mutation."""


@frozen
class Mutator:
    """A source of mutations.

    Attributes:
        random: The source of all choices.
        seeds: The inputs that are mutated, at least one.
        dictionary: Tokens that are inserted.
        max_bytes: The longest mutation.
    """

    random: random.Random
    seeds: Sequence[bytes]
    dictionary: Sequence[bytes]
    max_bytes: int

    def mutate(self) -> bytes:
        """Return a seed with some changes."""
        data = bytearray(self.random.choice(self.seeds))
        for _ in range(self.random.randint(1, MAX_CHANGES)):
            self.random.choice((self._flip, self._replace, self._delete, self._insert, self._splice))(data)
        return bytes(data[: self.max_bytes])

    def _span(self, data: bytearray) -> slice:
        start = self.random.randint(0, len(data))
        return slice(start, min(len(data), start + self.random.choice((0, 1, 2, 4, 16, 64))))

    def _flip(self, data: bytearray) -> None:
        if data:
            data[self.random.randrange(len(data))] ^= 1 << self.random.randrange(8)

    def _replace(self, data: bytearray) -> None:
        span = self._span(data)
        value = self.random.choice((0, 1, 0x7F, 0x80, 0xFF, self.random.randrange(256)))
        data[span] = bytes((value,)) * (span.stop - span.start)

    def _delete(self, data: bytearray) -> None:
        del data[self._span(data)]

    def _insert(self, data: bytearray) -> None:
        token = self.random.choice(self.dictionary) if self.dictionary else self.random.randbytes(2)
        span = self._span(data)
        if self.random.random() < 0.5:
            span = slice(span.start, span.start)
        data[span] = token

    def _splice(self, data: bytearray) -> None:
        other = bytearray(self.random.choice(self.seeds))
        data[self._span(data)] = other[self._span(other)]
