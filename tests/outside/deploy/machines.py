"""Machines for the commands of the pages: mount namespaces with directories of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from attrs import frozen
from tests.outside.deploy.conftest import require_program
from tests.waiting import PATIENCE

from imagehost_server.testing import environment

PROGRAMS = Path(__file__).parent / "programs"
OWN = ("etc", "opt", "srv", "var/lib", "run")
"""The directories that a machine does not share with the one that runs the tests."""
COPIED = ("etc",)
"""Those that begin as copies."""
REPLACED = ("systemctl", "sudo", "ssh")
"""Commands that need a booted machine or a network, and the programs of `programs/` in their places."""


@frozen
class Machine:
    """A machine on which commands run as root.

    Attributes:
        name: The name by which `ssh` of the other machines finds it.
        path: The directory of its directories.
        clone: The current directory of its commands: a clone of the repository.
    """

    name: str
    path: Path
    clone: Path

    def __attrs_post_init__(self) -> None:
        for name in OWN:
            copied = ["cp", "--archive", f"/{name}", str(self.path / name)]
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            if name in COPIED:
                subprocess.run(copied, check=True)
            else:
                (self.path / name).mkdir()

    def run(self, block: str) -> str:
        """Run a block of a page, stop at its first failure, and return its output."""
        mounts = "".join(f"mount --bind {self.path / name} /{name}\n" for name in OWN)
        script = f"set -e -o pipefail\n{mounts}{block}"
        done = subprocess.run(
            ["unshare", "--mount", "bash", "-c", script],
            cwd=self.clone,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}{done.stderr}"
        return done.stdout

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in environment().items() if name != "VIRTUAL_ENV"}
        path = f"{self.path.parent / 'programs'}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        return {**kept, "PATH": path, "MACHINES": str(self.path.parent), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


@contextmanager
def machines(workspace: Path, *names: str) -> Iterator[list[Machine]]:
    """Yield machines that have nothing but the system and a clone, and stop what they have started."""
    for program in ("unshare", "systemd-sysusers", "runuser"):
        require_program(program)
    if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "true"], check=False).returncode:
        pytest.skip("NOT TESTED: commands of the pages that need root and mount namespaces")
    with TemporaryDirectory(prefix="imagehost-machines-") as directory:
        root = Path(directory)
        root.chmod(0o755)
        (root / "programs").mkdir()
        for name in REPLACED:
            shutil.copy(PROGRAMS / f"{name}.py", root / "programs" / name)
            (root / "programs" / name).chmod(0o755)
        ignored = shutil.ignore_patterns(".*", "__pycache__", "*.so", "data", "site", "build", "*.egg-info")
        shutil.copytree(workspace, root / "clone", ignore=ignored)
        started = [Machine(name, root / name, root / "clone") for name in names]
        try:
            yield started
        finally:
            for machine in started:
                if (machine.path / "run" / "imagehost.pid").exists():
                    machine.run("systemctl stop imagehost")
