"""The planted faults are those of the current tree: `bench/planted_faults.py` can plant each of them."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path


def test_every_planted_fault_has_its_text_once_and_its_tests_in_the_default_suite(workspace: Path) -> None:
    program = run_path(str(workspace / "bench/planted_faults.py"))
    faults = program["read_faults"]()
    assert program["find_errors"](faults) == []
    assert {fault.package for fault in faults} == {"core", "server", "client"}
    assert len(faults) >= 120
