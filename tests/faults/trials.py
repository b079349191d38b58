"""Checks that repeat a trial with random faults, and the table of what they tried.

A check runs a few trials in CI, and many in `nox -s soak`, which sets `IMAGEHOST_TEST_SOAK`. The faults
follow from a seed: `IMAGEHOST_TEST_SEED`; by default 0 in CI and a random one in the soak.
"""

from __future__ import annotations

import logging
import os
import random
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from attrs import define, field

PROPERTY = "trials"
"""Name of the property in which a test records a row: check, engine, tried, failed, seed."""
COLUMNS = ("check", "engine", "tried", "failed", "seed")
SOAK = bool(os.environ.get("IMAGEHOST_TEST_SOAK"))
MAX_REPORTED = 10
"""Failed trials whose traceback is printed."""

log = logging.getLogger(__name__)

Record = Callable[[str, object], None]


def choose_seed() -> int:
    """Return the seed of the trials."""
    given = os.environ.get("IMAGEHOST_TEST_SEED")
    if given is not None:
        return int(given)
    return random.SystemRandom().randrange(2**32) if SOAK else 0


@define
class Trials:
    """The trials of a check.

    Attributes:
        check: What the check proves.
        engine: The database and the storage, such as `sqlite+folder`.
        seed: The seed of `random`.
        random: The source of all random choices of the check.
        tried: The number of trials.
        failures: The traceback of each trial that has failed, with its description.
    """

    check: str
    engine: str
    seed: int = field(factory=choose_seed)
    random: random.Random = field(init=False)
    tried: int = 0
    failures: list[str] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.random = random.Random(self.seed)

    @contextmanager
    def trial(self, description: object) -> Iterator[None]:
        """Count a trial; record an exception instead of raising it, so that the others run too."""
        self.tried += 1
        try:
            yield
        except Exception:
            self.failures.append(f"{description}\n{traceback.format_exc()}")
            log.warning("trial failed: %s", self.failures[-1])

    def add(self, tried: int, failures: list[str]) -> None:
        """Add trials that another program has run."""
        self.tried += tried
        self.failures += failures


@contextmanager
def run_trials(check: str, engine: str, record_property: Record) -> Iterator[Trials]:
    """Yield the trials of a check; record their row, and raise `AssertionError` if one has failed."""
    trials = Trials(check, engine)
    try:
        yield trials
    finally:
        row = (check, engine, trials.tried, len(trials.failures), trials.seed)
        record_property(PROPERTY, row)
        log.info("trials %s", dict(zip(COLUMNS, row, strict=True)))
    assert not trials.failures, "\n\n".join(trials.failures[:MAX_REPORTED])


def trial_count(quick: int, soak: int) -> int:
    """Return the number of trials: `quick` in CI, `soak` in the soak."""
    return soak if SOAK else quick
