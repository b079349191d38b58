"""Retries of requests to an object store: bounded by the time that passes on the injected clock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.exceptions import GenericError

from imagehost_core.errors import UnavailableError
from imagehost_core.storage.object.retries import RetryPolicy


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
