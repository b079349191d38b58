"""A memory that is bounded: whatever happens, it weighs no more than that, and keeps what was used last."""

from __future__ import annotations

from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from imagehost_core._util.lru import LRUCache

BOUND = 10
KEYS = st.sampled_from("abcdef")


class RememberingLikeAList(RuleBasedStateMachine):
    """The memory does what a plain list of entries, the last used at its end, would do."""

    def __init__(self) -> None:
        super().__init__()
        self.memory: LRUCache[str, bytes] = LRUCache(BOUND, len)
        self.model: OrderedDict[str, bytes] = OrderedDict()

    @rule(key=KEYS, value=st.binary(min_size=1, max_size=BOUND + 2))
    def put(self, key: str, value: bytes) -> None:
        self.memory.put(key, value)
        self.model.pop(key, None)
        if len(value) <= BOUND:
            self.model[key] = value
        while sum(map(len, self.model.values())) > BOUND:
            self.model.popitem(last=False)

    @rule(key=KEYS)
    def get(self, key: str) -> None:
        assert self.memory.get(key) == self.model.get(key)
        if key in self.model:
            self.model.move_to_end(key)

    @rule(key=KEYS)
    def drop(self, key: str) -> None:
        self.memory.drop(key)
        self.model.pop(key, None)

    @invariant()
    def weighs_what_it_holds(self) -> None:
        assert self.memory._weight == sum(map(len, self.model.values())) <= BOUND
        assert list(self.memory._entries) == list(self.model)


TestRememberingLikeAList = RememberingLikeAList.TestCase
TestRememberingLikeAList.settings = settings(max_examples=40)


def test_many_threads_do_not_break_the_bound() -> None:
    memory: LRUCache[int, bytes] = LRUCache(100, len)

    def work(number: int) -> None:
        for turn in range(200):
            memory.put((number * turn) % 31, bytes(1 + turn % 40))
            memory.get(turn % 31)
            memory.drop(number)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert memory._weight == sum(map(len, memory._entries.values())) <= 100


def test_a_bound_of_nothing_keeps_nothing() -> None:
    memory: LRUCache[str, bytes] = LRUCache(0, len)
    memory.put("a", b"x")
    assert memory.get("a") is None
