"""The command `imagehost check`."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.open_host import open_host

from imagehost_core import utc_now
from imagehost_server.cli.checks import State, check_clock, check_host
from imagehost_server.cli.main import main


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("check") / "data"
    open_host(path).close()
    return path


def test_a_host_that_works_has_a_line_for_each_part_and_status_0(data: Path) -> None:
    before = {path: path.stat().st_mtime for path in data.rglob("*") if path.is_file()}
    result = CliRunner().invoke(main, ["check", "--data", str(data), "--json"])
    checks = {each["name"]: each for each in json.loads(result.output)["checks"]}
    assert result.exit_code == 0
    assert {"data directory", "disk", "database", "files", "image store", "image workers", "landlock"} <= {
        *checks
    }
    assert {"seccomp", "resampling", "chroma subsampling", "clock", "time zone"} <= {*checks}
    assert "failed" not in {each["state"] for each in checks.values()}
    assert all(each["advice"] for each in checks.values() if each["state"] != "ok")
    assert {path for path in before if not path.exists()} == set()
    lines = CliRunner().invoke(main, ["check", "--data", str(data)]).output.splitlines()
    assert len({line.index(" ok ") for line in lines if " ok " in line}) == 1


def test_a_disk_without_the_minimum_of_free_space_fails_and_names_the_setting(data: Path) -> None:
    variables = {"IMAGEHOST_STORAGE_MIN_FREE_BYTES": "1000TiB"}
    result = CliRunner().invoke(main, ["check", "--data", str(data)], env=variables)
    assert result.exit_code == 1
    assert "failed" in result.output
    assert "IMAGEHOST_STORAGE_MIN_FREE_BYTES" in result.output


def test_a_directory_that_others_can_enter_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    with open_host(tmp_path / "open") as host:
        first = next(check_host(host))
    assert (first.state, first.advice) == (State.WARNING, f"chmod 700 {tmp_path / 'open'}")


def test_a_clock_that_differs_from_that_of_the_database_is_a_warning() -> None:
    now = utc_now()
    assert check_clock(now + timedelta(seconds=4), now).state is State.OK
    assert check_clock(now - timedelta(seconds=60), now).state is State.WARNING
