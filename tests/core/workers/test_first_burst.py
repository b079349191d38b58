"""The first burst of requests for huge variants: `Retry-After` is true for a client that waits for it."""

from __future__ import annotations

from copy import deepcopy

import pytest
from attrs import evolve
from tests.core.workers.simulated_pool import SimulatedPool

from imagehost_core.workers.admission import JobClass, WorkerRequest

CLIENTS, PROCESSES, PLACES = 64, 2, 64
TASK_SECONDS, DEADLINE_SECONDS = 7.5, 20.0
ADMITTED = 4
"""Two tasks start at once, two end after 15 s; the next ones would end after 22.5 s, which is too late."""


def burst(flows: int) -> tuple[SimulatedPool, list[tuple[WorkerRequest, int]]]:
    """Return a pool with simultaneous requests, and those that were rejected with their `Retry-After`."""
    pool, rejected = SimulatedPool(PROCESSES, PLACES), list[tuple[WorkerRequest, int]]()
    for number in range(CLIENTS):
        request = WorkerRequest(
            DEADLINE_SECONDS, JobClass.HEAVY, f"{number}", TASK_SECONDS, flow=f"{number % flows}"
        )
        error = pool.submit(request)
        if error is not None:
            rejected.append((request, error.retry_after))
    return pool, rejected


def again(pool: SimulatedPool, request: WorkerRequest) -> WorkerRequest:
    return evolve(request, until=pool.now + DEADLINE_SECONDS)


@pytest.mark.parametrize("flows", [1, CLIENTS])
def test_a_client_that_waits_for_its_retry_after_gets_its_variant_before_the_deadline(flows: int) -> None:
    pool, rejected = burst(flows)
    assert len(rejected) == CLIENTS - ADMITTED
    for request, retry_after in rejected:
        later = deepcopy(pool)
        later.advance(retry_after)
        repeated = again(later, request)
        assert later.submit(repeated) is None
        later.advance(DEADLINE_SECONDS - 0.01)
        assert later.outcomes[repeated] == "ended"


@pytest.mark.parametrize("flows", [1, CLIENTS])
def test_all_clients_get_their_variants_if_each_one_waits_for_its_retry_after(flows: int) -> None:
    pool, rejected = burst(flows)
    waiting = [(float(retry_after), request) for request, retry_after in rejected]
    while waiting:
        # Those whose time has come first; of these, the one that has asked first.
        due, request = min(waiting, key=lambda entry: entry[0])
        waiting.remove((due, request))
        pool.advance(due - pool.now)
        repeated = again(pool, request)
        error = pool.submit(repeated)
        if error is not None:
            waiting.append((pool.now + error.retry_after, repeated))
        # No longer than the tasks take, if the processes are always busy but for rounding up to seconds.
        assert pool.now < 1.5 * CLIENTS * TASK_SECONDS
    pool.advance(DEADLINE_SECONDS)
    assert list(pool.outcomes.values()).count("ended") == CLIENTS
    assert "replaced" not in pool.outcomes.values()
