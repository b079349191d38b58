"""Tests of a package that is replaced under a running process, as an upgrade without a restart does."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import imagehost_core

PROGRAM = """
import io, logging, sys, threading
from pathlib import Path
from tests.core.workers.image_uploads import heavy, ingest
from tests.waiting import wait_until
import imagehost_core
from imagehost_core.formats import Format
from imagehost_core.jobs import IngestJob
from imagehost_core.testing import make_image
from imagehost_core.workers.executor import ImageExecutor

class Held(io.BytesIO):
    def read(self, size=-1):
        released.wait()
        return super().read(size)

released = threading.Event()
data, into, package = make_image(9, 9), Path(sys.argv[1], "blobs"), Path(imagehost_core.__file__).parent
into.mkdir()
logging.basicConfig(stream=sys.stdout, format="%(message)s")

def hold():
    executor.ingest(IngestJob(Format.PNG), Held(data), len(data), heavy(600), into=into)
    print("first stored")

def upload():
    for _ in range(3):
        ingest(executor, IngestJob(Format.PNG), data, heavy(600))
    print("others stored")

with ImageExecutor(2, max_tasks_per_worker=2) as executor:
    ingest(executor, IngestJob(Format.PNG), data)
    package.rename(package.with_name("former"))
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('another version')")
    first = threading.Thread(target=hold)
    first.start()
    wait_until(lambda: executor.load.busy == 1)
    others = threading.Thread(target=upload)
    others.start()
    wait_until(lambda: executor.load.waiting == 1 or not others.is_alive())
    released.set()
    first.join()
    others.join()
"""
"""Two uploads at a time, with a package that cannot be imported any more, and one worker process."""


@pytest.mark.skipif(sys.platform == "win32", reason="files that are in use cannot be renamed there")
def test_workers_of_a_replaced_package_go_on_and_the_log_says_once_to_restart(tmp_path: Path) -> None:
    site = tmp_path / "site"
    package = Path(imagehost_core.__file__).parent
    shutil.copytree(package, site / "imagehost_core", ignore=shutil.ignore_patterns("__pycache__"))
    root = Path(__file__).parents[4]
    command = f"import sys; sys.path[:0] = [{str(site)!r}, {str(root)!r}]\n{PROGRAM}"
    result = subprocess.run(
        [sys.executable, "-c", command, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert [line for line in lines if "restart the server" in line] == lines[:1]
    assert sorted(lines[1:]) == ["first stored", "others stored"]
