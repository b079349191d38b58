"""`imagehost fsck` and `imagehost gc`: what they print, and their exit statuses."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner, Result
from tests.open_host import open_host
from tests.waiting import PATIENCE

from imagehost_core.coordination.locks import LockManager
from imagehost_core.maintenance.check.findings import FindingKind
from imagehost_core.maintenance.garbage import GarbageReport
from imagehost_core.storage.layout import DataLayout
from imagehost_core.testing import make_image
from imagehost_server.cli.common import counted
from imagehost_server.cli.main import main


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with two images."""
    path = tmp_path_factory.mktemp("fsck") / "data"
    with open_host(path) as host:
        for seed in range(2):
            host.upload(make_image(30, 20, seed=seed), owner="admin", filename=f"{seed}.png")
    return path


@pytest.fixture
def data(original: Path, tmp_path: Path) -> Path:
    """A copy of the data directory, to damage."""
    return Path(shutil.copytree(original, tmp_path / "data"))


def fsck(data: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["fsck", "--data", str(data), *options])


def no_damage(data: Path) -> None:
    """Damage nothing."""


def delete_master(data: Path) -> None:
    next(data.glob("images/*/*/master")).unlink()


def add_orphan(data: Path) -> None:
    folder = data / "images" / "ab" / "abcdefghijklmnop"
    folder.mkdir(parents=True)
    (folder / "master").write_bytes(b"x")


def delete_master_and_add_orphan(data: Path) -> None:
    delete_master(data)
    add_orphan(data)


def overwrite_database(data: Path) -> None:
    DataLayout(data).database.write_bytes(b"not a database" * 1_000)


def remove_database(data: Path) -> None:
    DataLayout(data).database.unlink()


STATUSES: list[tuple[Callable[[Path], None], int, int]] = [
    (no_damage, 0, 0),
    (add_orphan, 4, 1),
    (delete_master, 4, 4),
    (delete_master_and_add_orphan, 4, 5),
    (overwrite_database, 8, 8),
    (remove_database, 8, 8),
]


@pytest.mark.parametrize("option", ["text", "json"])
@pytest.mark.parametrize(
    ("damage", "checked", "repaired"), STATUSES, ids=lambda value: getattr(value, "__name__", None)
)
def test_the_exit_status_says_what_was_found_and_repaired(
    data: Path, damage: Callable[[Path], None], checked: int, repaired: int, option: str
) -> None:
    damage(data)
    options = ["--json"] if option == "json" else []
    result = fsck(data, *options)
    assert (result.exit_code, "Traceback" in result.output) == (checked, False)
    assert fsck(data, "--repair", *options).exit_code == repaired
    after = {1: 0, 5: 4}.get(repaired, repaired)
    assert fsck(data, *options).exit_code == after


def test_a_line_for_people_says_what_was_expected_and_what_to_do(data: Path) -> None:
    delete_master_and_add_orphan(data)
    lines = fsck(data).stdout.splitlines()
    assert lines[0].startswith("master_missing: ")
    assert lines[1] == (
        "orphan: abcdefghijklmnop: expected a record for the stored files (size 1) but there is none"
    )
    assert lines[2] == f"Checked 2 images in {data}: 2 findings, 0 repaired"
    assert "backup" in lines[3]
    assert "--repair" in lines[4]
    assert "[repaired: deleted the files]" in fsck(data, "--repair").stdout
    assert fsck(data, "--repair").stdout.splitlines()[-2].endswith("1 finding, 0 repaired")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="NOT TESTED: the system has no full device")
@pytest.mark.parametrize(
    ("command", "status"),
    [("fsck", 8), *(pytest.param(command, 1, marks=pytest.mark.slow) for command in ("config", "gc"))],
)
def test_output_to_a_full_disk_is_an_error_of_one_line(data: Path, command: str, status: int) -> None:
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "imagehost_server", command, "--data", data],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (result.returncode, result.stderr) == (status, "Error: No space left on device\n")


def test_an_undamaged_directory_takes_one_line(data: Path) -> None:
    assert fsck(data).output == f"Checked 2 images in {data}: nothing is wrong\n"


def test_json_is_one_object_with_each_finding_and_the_count_of_each_kind(data: Path) -> None:
    delete_master_and_add_orphan(data)
    result = fsck(data, "--json", "--repair")
    report = json.loads(result.stdout)
    counts = report.pop("counts")
    missing, orphan = report.pop("findings")
    assert orphan == {
        "kind": "orphan",
        "id": "abcdefghijklmnop",
        "details": "expected a record for the stored files (size 1) but there is none",
        "repair": "deleted the files",
    }
    assert (missing["kind"], missing["repair"]) == ("master_missing", None)
    assert list(counts) == list(FindingKind)
    assert counts["orphan"] == {"found": 1, "repaired": 1}
    assert counts["master_missing"] == {"found": 1, "repaired": 0}
    assert counts["variant_corrupt"] == {"found": 0, "repaired": 0}
    assert report == {
        "data": str(data),
        "repair": True,
        "quick": False,
        "images": 2,
        "found": 2,
        "repaired": 1,
        "left": 1,
        "error": None,
        "status": result.exit_code,
    }


def test_json_without_findings_and_of_a_failed_check_is_an_object_too(data: Path) -> None:
    assert json.loads(fsck(data, "--json").stdout)["findings"] == []
    remove_database(data)
    report = json.loads(fsck(data, "--json").stdout)
    assert (report["status"], report["findings"]) == (8, [])
    assert "expected a data directory" in report["error"]


def test_what_a_crash_left_is_found_and_not_removed_before_it_is_counted(data: Path) -> None:
    killed = data / "staging" / "killed"
    for command in (fsck, gc):
        killed.mkdir()
        (killed / "lock").touch()
        assert fsck(data).stdout.startswith("stale_staging: staging/killed: ")
        assert killed.exists()
        assert gc(data, "--dry-run").output == "Would remove:\n  staging_directories=1\n"
        assert killed.exists()
        result = fsck(data, "--repair") if command is fsck else gc(data)
        assert not killed.exists(), result.output
    assert fsck(data).exit_code == 0


def test_a_quick_check_reads_no_file(data: Path) -> None:
    path = next(data.glob("images/*/*/master"))
    path.write_bytes(bytes(len(path.read_bytes())))
    assert fsck(data, "--quick").exit_code == 0
    assert fsck(data).exit_code == 4


def gc(data: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["gc", "--data", str(data), *options])


def test_garbage_is_listed_by_a_dry_run_and_removed_by_the_next(data: Path) -> None:
    add_orphan(data)
    assert gc(data, "--dry-run").output == "Would remove:\n  orphans=1\n  bytes=1\n"
    assert gc(data).output == "Removed:\n  orphans=1\n  bytes=1\n"
    assert gc(data).output == "Nothing to remove\n"
    assert fsck(data).exit_code == 0


def test_the_json_of_a_garbage_collection_has_every_count(data: Path) -> None:
    add_orphan(data)
    report = json.loads(gc(data, "--json", "--dry-run").stdout)
    assert report == {
        **dict.fromkeys((field.name for field in attrs.fields(GarbageReport)), 0),
        "orphans": ["abcdefghijklmnop"],
        "bytes": 1,
        "data": str(data),
        "dry_run": True,
    }


def test_a_garbage_collection_without_a_database_fails(data: Path) -> None:
    remove_database(data)
    assert gc(data).exit_code == 1


def run(data: Path, *options: str, stderr: int = subprocess.PIPE) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "imagehost_server", "fsck", "--data", str(data), *options]
    # Programs that a shell has started in the background ignore SIGINT, and so do their children.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
    finally:
        signal.signal(signal.SIGINT, before)


def test_without_a_terminal_there_is_no_bar(data: Path) -> None:
    add_orphan(data)
    result = fsck(data, "--repair")
    assert (result.exit_code, result.stderr) == (1, "")
    assert "repaired" in result.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="NOT TESTED: Windows has no pseudoterminals")
def test_a_terminal_shows_the_progress_on_standard_error_only(data: Path) -> None:
    terminal, stderr = os.openpty()
    process = run(data, "--json", stderr=stderr)
    os.close(stderr)
    output, _ = process.communicate(timeout=PATIENCE)
    shown = os.read(terminal, 65_536).decode()
    os.close(terminal)
    assert "checking images" in shown
    assert "2/2" in shown
    assert json.loads(output)["status"] == process.returncode == 0


AGAIN_SECONDS = 10
"""A second SIGINT while Python exits would end the process without its status."""


def interrupt(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Send SIGINT until the process exits; return its output and errors.

    One that arrives right before a system call that waits is noticed when that call returns.
    """
    while True:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=AGAIN_SECONDS)


@pytest.mark.skipif(sys.platform == "win32", reason="NOT TESTED: Windows has no SIGINT for a child process")
def test_an_interrupted_check_has_a_status_of_its_own(data: Path) -> None:
    """The check waits for the lock of an image whose master is missing, which is held here."""
    with closing(sqlite3.connect(DataLayout(data).database)) as connection, connection:
        connection.execute("UPDATE images SET album_id = 9")
    delete_master(data)
    image_ids = [path.name for path in data.glob("images/*/*")]
    with LockManager(data / "locks").acquire("image", *image_ids):
        process = run(data)
        assert process.stdout is not None
        assert process.stdout.readline().startswith("broken_reference: ")
        output, errors = interrupt(process)
    assert process.returncode == 32 + 4
    assert re.search(r"findings?, 0 repaired", output)
    assert errors == "Error: interrupted\n"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="NOT TESTED: needs root")
def test_root_creates_no_files_in_the_directory_of_another_user(data: Path) -> None:
    os.chown(DataLayout(data).database, 54_321, 54_321)
    files = sorted(data.rglob("*"))
    result = fsck(data)
    assert result.exit_code == 8
    assert "sudo -u '#54321' imagehost" in result.stderr
    assert sorted(data.rglob("*")) == files


@pytest.mark.parametrize(("number", "text"), [(0, "0 images"), (1, "1 image"), (2, "2 images")])
def test_numbers_agree_with_their_nouns(number: int, text: str) -> None:
    assert counted(number, "image") == text
