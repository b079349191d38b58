"""The LRU cache: never above its limit, and the least recently used entries are evicted first."""

from __future__ import annotations

from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from imagehost_core._util.lru import GenerationCache, LRUCache

LIMIT = 10
KEYS = "abcdef"


class LRUCacheMachine(RuleBasedStateMachine):
    """The cache behaves as an ordered dict with the most recently used entry last."""

    def __init__(self) -> None:
        super().__init__()
        self.cache: LRUCache[str, bytes] = LRUCache(LIMIT, len)
        self.model: OrderedDict[str, bytes] = OrderedDict()

    @rule(key=st.sampled_from(KEYS), value=st.binary(min_size=1, max_size=LIMIT + 2))
    def put(self, key: str, value: bytes) -> None:
        self.cache.put(key, value)
        self.model.pop(key, None)
        if len(value) <= LIMIT:
            self.model[key] = value
        while sum(map(len, self.model.values())) > LIMIT:
            self.model.popitem(last=False)

    @rule(key=st.sampled_from(KEYS))
    def get(self, key: str) -> None:
        assert self.cache.get(key) == self.model.get(key)
        if key in self.model:
            self.model.move_to_end(key)

    @rule(key=st.sampled_from(KEYS))
    def discard(self, key: str) -> None:
        self.cache.discard(key)
        self.model.pop(key, None)

    @invariant()
    def has_the_keys_of_the_model(self) -> None:
        assert {key for key in KEYS if key in self.cache} == set(self.model)


TestLRUCache = LRUCacheMachine.TestCase
TestLRUCache.settings = settings(max_examples=60)


def test_concurrent_use_keeps_the_limit() -> None:
    cache: LRUCache[int, bytes] = LRUCache(100, len)

    def work(number: int) -> None:
        for turn in range(200):
            cache.put((number * turn) % 31, bytes(1 + turn % 40))
            cache.get(turn % 31)
            cache.discard(number)

    with ThreadPoolExecutor(8) as executor:
        list(executor.map(work, range(8)))
    values = [value for key in range(31) if (value := cache.get(key)) is not None]
    assert sum(map(len, values)) <= 100
    for key in range(31):
        cache.discard(key)
    cache.put(0, bytes(60))
    cache.put(1, bytes(40))
    assert 0 in cache, "an empty cache has its whole limit again"
    cache.put(2, bytes(1))
    assert 0 not in cache, "and no more than that"


def test_a_limit_of_zero_caches_nothing() -> None:
    cache: LRUCache[str, bytes] = LRUCache(0, len)
    cache.put("a", b"x")
    assert cache.get("a") is None


def test_nothing_is_valid_or_kept_during_a_change_and_nothing_from_before_it_afterwards() -> None:
    cache: GenerationCache[str, bytes] = GenerationCache(LIMIT)
    cache.put("a", b"old", 2)
    assert cache.get("a", 2) == b"old"
    assert cache.get("a", None) is None
    cache.put("b", b"read during the change", None)
    assert cache.get("b", None) is None
    assert cache.get("b", 4) is None
    assert cache.get("a", 4) is None
    cache.put("a", b"new", 4)
    assert cache.get("a", 4) == b"new"
