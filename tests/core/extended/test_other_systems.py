"""The core on Windows and macOS, as far as Linux can show: what they lack is removed, what they refuse fails.

Not shown: their own C libraries, file systems and image decoders.
"""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest
from tests.waiting import PATIENCE

from imagehost_core.coordination.locks import LockManager
from imagehost_core.db.engines.sqlite_database import SqliteDatabase

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="makes Linux look like other systems")
PROGRAMS = Path(__file__).parents[1] / "programs"


def run(program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(PROGRAMS / program), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)


def test_windows_opens_a_host_uploads_renders_deletes_backs_up_and_restores(tmp_path: Path) -> None:
    # The first process ends without closing the host; the second cleans up after it.
    for _ in range(2):
        done = run("on_windows.py", tmp_path / "data")
        assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_macos_syncs_the_files_of_an_image_and_their_directories_to_the_drive(tmp_path: Path) -> None:
    image_id = run("on_macos.py", tmp_path / "data", tmp_path / "log", 0).stdout.strip()
    lines = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
    assert {line.split()[0] for line in lines} == {"F_FULLFSYNC"}
    (directory,) = (tmp_path / "data" / "images").glob(f"*/{image_id}")
    names = {Path(line.split()[1]).name for line in lines}
    assert {path.name for path in directory.iterdir()} <= names
    assert directory.parent.name in names


@pytest.mark.parametrize(
    ("number", "succeeds"), [(errno.ENOTSUP, True), (errno.EINVAL, True), (errno.EIO, False)]
)
def test_macos_syncs_by_fsync_only_where_the_file_system_has_nothing_better(
    tmp_path: Path, number: int, succeeds: bool
) -> None:
    done = run("on_macos.py", tmp_path / "data", tmp_path / "log", number)
    assert (done.returncode == 0) is succeeds
    lines = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
    assert any(line.startswith("fsync ") for line in lines) is succeeds


def test_sqlite_syncs_to_the_drive_on_macos(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "database", LockManager(tmp_path / "locks"))
    for name in ("fullfsync", "checkpoint_fullfsync"):
        assert database.fetch_one(f"PRAGMA {name}", {}) == {name: 1}
        with database.transaction() as transaction:
            assert transaction.fetch_one(f"PRAGMA {name}", {}) == {name: 1}
    database.close()
