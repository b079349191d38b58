"""Fuzzing of what parses untrusted bytes: `targets.py` has the table of targets, and each one its properties.

CI runs each target with its seeds, its former findings, and a few thousand mutations of them. The soak runs
libFuzzer instead, guided by branches, for ten million executions in all.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from collections.abc import Callable
from ipaddress import IPv6Network
from pathlib import Path

import pytest
from attrs import evolve
from tests.faults.fuzzing import fast_path, signed_urls
from tests.faults.fuzzing.mutations import Mutator
from tests.faults.fuzzing.targets import TARGETS, Target, load
from tests.faults.trials import SOAK, Trials, run_trials

from imagehost_core import endpoints
from imagehost_core.formats import Format
from imagehost_core.headers import gif, scanner
from imagehost_core.headers.header import ImageHeader
from imagehost_core.headers.reader import HeaderReader

pytestmark = pytest.mark.slow

WORKSPACE = Path(__file__).resolve().parents[3]
MAX_SECONDS = 20
"""The longest time for one input; most take less than a millisecond."""
MAX_MEMORY_MB = 1_500
_EXECUTED = re.compile(rb"stat::number_of_executed_units: (\d+)")


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_violates_the_property(
    name: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with run_trials(f"fuzzing: {name.replace('_', ' ')}", "none", record_property) as trials:
        if SOAK:
            run_libfuzzer(name, tmp_path, trials)
        else:
            run_mutations(load(name), TARGETS[name].quick, TARGETS[name].max_bytes, trials)


def run_mutations(target: Target, count: int, max_bytes: int, trials: Trials) -> None:
    """Check the seeds and the former findings of a target, and mutations of them."""
    inputs = [*target.seeds(), *target.FINDINGS]
    mutator = Mutator(trials.random, inputs, target.DICTIONARY, max_bytes)
    for data in inputs:
        with trials.trial(data):
            target.check(data)
    for _ in range(count):
        data = mutator.mutate()
        with trials.trial(data):
            target.check(data)


def run_libfuzzer(name: str, directory: Path, trials: Trials) -> None:
    """Run a target by libFuzzer in a process of its own, up to the first failure."""
    (corpus := directory / "corpus").mkdir()
    (directory / "temporary").mkdir()
    options = {
        "runs": TARGETS[name].soak,
        "seed": trials.seed or 1,  # 0 stands for a random one.
        "timeout": MAX_SECONDS,
        "rss_limit_mb": MAX_MEMORY_MB,
        "print_final_stats": 1,
        "artifact_prefix": f"{directory}/",
    }
    process = subprocess.run(
        [
            *(sys.executable, "-m", "tests.faults.fuzzing.fuzzer", name, corpus),
            *(f"-{option}={value}" for option, value in options.items()),
        ],
        cwd=WORKSPACE,
        # libFuzzer ends the process without the code that would remove its temporary files.
        env={**os.environ, "TMPDIR": str(directory / "temporary")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    found = [path.read_bytes() for path in directory.iterdir() if path.is_file() and "-" in path.name]
    executed = _EXECUTED.search(process.stdout)
    failures = [f"{data!r}\n{process.stdout[-4_000:].decode(errors='replace')}" for data in found]
    if process.returncode and not failures:
        failures.append(process.stdout[-4_000:].decode(errors="replace"))
    trials.add(int(executed[1]) if executed else 0, failures)


def count_failures(name: str, count: int) -> int:
    """Return how many seeds of a target, and mutations of them, violate its property."""
    trials = Trials("planted fault", "none", seed=0)
    run_mutations(load(name), count, TARGETS[name].max_bytes, trials)
    return len(trials.failures)


def test_a_size_that_differs_from_the_decoders_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    read = gif.read

    def read_wrong_width(reader: HeaderReader) -> ImageHeader:
        header = read(reader)
        return evolve(header, width=header.width + 1)

    monkeypatch.setitem(scanner._READERS, Format.GIF, read_wrong_width)
    assert count_failures("headers", 100)


def test_a_check_of_webhooks_without_embedded_addresses_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "_GLOBAL_V6", IPv6Network("::/0"))
    monkeypatch.setattr(endpoints, "_SPECIAL_V6", ())
    assert count_failures("webhook_urls", 100)


def test_a_fast_path_that_ignores_a_header_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    path = fast_path.fixture().app.fast_path
    assert path is not None
    monkeypatch.setattr("imagehost_server.delivery.fast_path.SLOW_PATH_HEADERS", frozenset())
    path._cached_headers.cache_clear()
    assert count_failures("fast_path", 0)
    path._cached_headers.cache_clear()


def test_a_signature_that_does_not_cover_the_transform_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    signed_urls.check(signed_urls.seeds()[0] + b"&w=21")
    signed_urls.fixture.cache_clear()
    monkeypatch.setattr("imagehost_core.transform.Transform.to_query", lambda _: "")
    try:
        with pytest.raises(AssertionError):
            signed_urls.check(signed_urls.seeds()[0] + b"&w=21")
    finally:
        signed_urls.fixture.cache_clear()


def test_mutations_follow_from_the_seed() -> None:
    first, second = (
        [mutator.mutate() for _ in range(100)]
        for mutator in (Mutator(random.Random(7), [b"one", b"two"], [b"three"], 8) for _ in range(2))
    )
    assert first == second
    assert len(set(first)) > 50
    assert max(map(len, first)) <= 8
