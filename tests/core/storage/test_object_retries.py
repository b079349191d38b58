"""Retries of requests to an object store: bounded by the time that passes on the injected clock."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.exceptions import GenericError, PermissionDeniedError
from tests.object_store import memory_store

from imagehost_core.cluster.object.client import ObjectClient
from imagehost_core.cluster.object.retries import (
    MAX_RETRY_SECONDS,
    PAUSE_SECONDS,
    CircuitBreaker,
    ObjectStoreError,
    RetryPolicy,
)
from imagehost_core.errors import UnavailableError
from imagehost_core.observer import Measurement, StoreBytesTransferred, StoreRequestEnded


@given(seconds=st.floats(0, 30), each=st.floats(0.001, 5), jitter=st.floats(0, 1, exclude_min=True))
def test_no_request_is_sent_after_half_of_the_time(seconds: float, each: float, jitter: float) -> None:
    now, sent = 100.0, list[float]()

    def request() -> None:
        nonlocal now
        sent.append(now)
        assert len(sent) < 100_000
        now += each
        raise GenericError("does not respond")

    def sleep(pause: float) -> None:
        nonlocal now
        now += pause

    policy = RetryPolicy(seconds, clock=lambda: now, sleep=sleep, jitter=lambda: jitter)
    with pytest.raises(UnavailableError):
        policy.run(request, "get")
    assert sent[0] == 100
    assert sent[-1] <= 100 + seconds / 2
    assert sent[-1] <= 100 + each + MAX_RETRY_SECONDS


@pytest.mark.parametrize(
    ("response", "results"),
    [
        (None, [False, False, True]),
        (FileNotFoundError(), [False, False, True]),
        (PermissionDeniedError("denied"), [False, False, False]),
        (OSError("the disk is full"), [False, False]),
    ],
)
def test_each_request_is_measured_and_fails_unless_the_store_has_responded(
    response: Exception | None, results: list[bool]
) -> None:
    now, failures, measured = 100.0, [GenericError("does not respond")] * 2, list[Measurement]()

    def request() -> None:
        nonlocal now
        now += 0.5
        if failures:
            raise failures.pop()
        if response is not None:
            raise response

    policy = RetryPolicy(20, clock=lambda: now, sleep=lambda _: None, observe=measured.append)
    with suppress(OSError, UnavailableError):
        policy.run(request, "get images/x")
    assert measured == [StoreRequestEnded("get", succeeded, 0.5) for succeeded in results]


def test_the_bytes_of_a_large_object_are_measured_when_it_is_sent_and_verified(tmp_path: Path) -> None:
    measured = list[Measurement]()
    client = ObjectClient(memory_store(), RetryPolicy(20, observe=measured.append), part_bytes=5)
    (tmp_path / "file").write_bytes(b"x" * 13)
    client.overwrite("images/x", tmp_path / "file")
    sizes = [each for each in measured if isinstance(each, StoreBytesTransferred)]
    assert sizes == [StoreBytesTransferred("put", 13), StoreBytesTransferred("get", 13)]


class Store:
    """A store that responds or not, with a clock and probes that run when the test lets them."""

    def __init__(self) -> None:
        self.now, self.responds, self.requests = 100.0, True, 0
        self.probes = list[Callable[[], object]]()
        self.breaker = CircuitBreaker(self.request, lambda: self.now, self.probes.append)
        self.policy = RetryPolicy(20, self.breaker, clock=lambda: self.now, sleep=self.sleep)

    def request(self) -> None:
        self.requests += 1
        if not self.responds:
            raise GenericError("does not respond")

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def run(self) -> int | None:
        """Run an operation; return its `Retry-After`, or `None` if it succeeds."""
        try:
            self.policy.run(self.request, "get")
        except UnavailableError as error:
            return error.retry_after
        return None


def test_operations_are_refused_at_once_after_one_gave_up_until_a_probe_succeeds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = Store()
    store.responds = False
    assert store.run() == PAUSE_SECONDS
    sent, now = store.requests, store.now
    assert now <= 100 + MAX_RETRY_SECONDS
    assert len(store.probes) == 1, "it may be the only operation that failed"
    assert store.run() == PAUSE_SECONDS
    store.probes.pop()()
    sent += 1
    assert [store.run() for _ in range(3)] == [PAUSE_SECONDS] * 3
    store.now += PAUSE_SECONDS
    assert [store.run() for _ in range(3)] == [1, PAUSE_SECONDS, PAUSE_SECONDS]
    assert (store.requests, store.now) == (sent, now + PAUSE_SECONDS), "none was sent, and none has waited"
    (probe,) = store.probes
    probe()
    assert store.run() == PAUSE_SECONDS
    store.responds = True
    store.now += PAUSE_SECONDS
    assert store.run() == 1
    store.probes[1]()
    assert store.run() is None
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert lines == [
        "object store does not respond: get: GenericError: does not respond",
        "object store responds again",
    ], "one line for the outage, and one for its end"


def test_a_retry_gives_up_when_another_operation_has() -> None:
    store = Store()
    store.responds = False

    def sleep(_seconds: float) -> None:
        store.breaker.open(ObjectStoreError("another"))

    policy = RetryPolicy(20, store.breaker, clock=lambda: store.now, sleep=sleep)
    with pytest.raises(UnavailableError):
        policy.run(store.request, "get")
    assert store.requests == 1


@given(
    st.lists(
        st.tuples(st.sampled_from(["run", "fail", "respond", "probe", "open", "close"]), st.floats(0, 3))
    )
)
def test_retry_after_is_honest_and_a_store_that_responds_is_used_again(
    steps: list[tuple[str, float]],
) -> None:
    store = Store()
    for step, seconds in steps:
        store.now += seconds
        match step:
            case "run":
                started, retry_after = store.now, store.run()
                assert retry_after is None or 1 <= retry_after <= PAUSE_SECONDS
                assert store.now - started <= MAX_RETRY_SECONDS
                assert retry_after is not None or store.responds
            case "fail":
                store.responds = False
            case "respond":
                store.responds = True
            case "open":
                store.breaker.open(ObjectStoreError("given up"))
            case "close":
                store.breaker.close()
            case _ if store.probes:
                store.probes.pop()()
    store.responds = True
    for _ in range(3):
        store.now += PAUSE_SECONDS
        store.run()
        while store.probes:
            store.probes.pop()()
    assert store.run() is None, "a store that responds is used again"
