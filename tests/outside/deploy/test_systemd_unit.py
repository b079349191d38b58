"""The systemd unit: checked by systemd-analyze, and its command run under the unit's restrictions."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.outside.deploy.conftest import require_program
from tests.ports import free_port
from tests.shipped_files import ROOT, shipped
from tests.waiting import PATIENCE

from imagehost_core import ImageHost
from imagehost_server.testing import environment

MAX_EXPOSURE = 1.5
"""The largest exposure of `systemd-analyze security`, from 0 to 10; below 2 it is rated OK."""
PROBE = """
import ctypes
library = ctypes.CDLL(None, use_errno=True)
library.mount(None, None, None, 0, None)
print(ctypes.get_errno())
"""
PROGRAM = "/opt/imagehost/bin/imagehost "
PROGRAMS = Path(__file__).parent / "programs"


def options(values: Mapping[str, str] | None = None) -> Mapping[str, list[str]]:
    """Return the values of each option of the unit, with what is filled in."""
    text = shipped("deploy/imagehost.service", values)
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE):
        found.setdefault(name, []).append(value)
    return found


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit with a program that exists here."""
    path = tmp_path / "imagehost.service"
    path.write_text(shipped("deploy/imagehost.service", {PROGRAM: "/bin/true "}), encoding="utf-8")
    return path


def analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [require_program("systemd-analyze"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)


def test_the_unit_has_no_errors_and_no_unknown_options(unit: Path) -> None:
    done = analyze("verify", "--man=no", unit)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_exposure_of_the_unit_is_low(unit: Path) -> None:
    done = analyze("security", "--offline=true", unit)
    exposure = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert exposure is not None, done.stderr
    assert float(exposure[1]) <= MAX_EXPOSURE


def test_the_user_is_created_by_the_sysusers_file(tmp_path: Path) -> None:
    program = require_program("systemd-sysusers")
    (tmp_path / "etc").mkdir()
    subprocess.run([program, f"--root={tmp_path}", ROOT / "deploy/imagehost.sysusers"], check=True)
    (user,) = options()["User"]
    entry = (tmp_path / "etc" / "passwd").read_text(encoding="utf-8").split(":")
    assert (entry[0], entry[5], entry[6]) == (user, "/var/lib/imagehost", "/usr/sbin/nologin\n")


def test_systemd_waits_longer_than_the_server_takes_to_stop() -> None:
    from imagehost_server.serve.supervisor import STOP_SECONDS

    values = options()
    assert float(values["TimeoutStopSec"][0]) > STOP_SECONDS
    assert values["ExecReload"] == ["/bin/kill -HUP $MAINPID"]


def test_the_command_of_the_unit_reports_ready_and_stopping(tmp_path: Path) -> None:
    values = options({PROGRAM: f"{sys.executable} -m imagehost_server "})
    (command,) = values["ExecStart"]
    (variable,) = values["Environment"]
    name, _, directory = variable.partition("=")
    assert directory == f"/var/lib/{values['StateDirectory'][0]}"
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(str(tmp_path / "notify"))
    manager.settimeout(60)
    port = free_port()
    variables = {
        name: str(tmp_path / "data"),
        "NOTIFY_SOCKET": str(tmp_path / "notify"),
        "IMAGEHOST_SERVER_PORT": str(port),
    }
    with (
        manager,
        subprocess.Popen(command.split(), env=environment(variables), stdout=subprocess.DEVNULL) as process,
    ):
        try:
            assert manager.recv(100) == b"READY=1"
            socket.create_connection(("127.0.0.1", port), 10).close()
            os.kill(process.pid, signal.SIGTERM)
            assert manager.recv(100) == b"STOPPING=1"
            assert process.wait(30) == 0
        finally:
            process.kill()


def allowed_system_calls() -> set[str]:
    """Return what the unit's lines `SystemCallFilter=` allow, with the groups of this systemd."""
    listing = analyze("syscall-filter").stdout
    groups: dict[str, list[str]] = {}
    group: list[str] = []
    for line in listing.splitlines():
        if line.startswith("@"):
            group = groups[line.strip()] = []
        elif line.startswith("    ") and not line.lstrip().startswith("#"):
            group.append(line.strip())

    def expand(name: str) -> set[str]:
        if not name.startswith("@"):
            return {name}
        return {call for member in groups[name] for call in expand(member)}

    # Always allowed: systemd.exec(5).
    allowed = expand("@default") | {"execve", "exit", "exit_group", "getrlimit", "rt_sigreturn", "sigreturn"}
    for value in options()["SystemCallFilter"]:
        named = {call for name in value.removeprefix("~").split() for call in expand(name)}
        allowed = allowed - named if value.startswith("~") else allowed | named
    return allowed


def test_image_workers_enter_their_own_sandbox_within_that_of_the_unit(tmp_path: Path) -> None:
    if not sys.platform.startswith("linux") or shutil.which("systemd-analyze") is None:
        pytest.skip("NOT TESTED: the system call filter, because systemd-analyze is missing")
    calls = ",".join(sorted(allowed_system_calls()))
    run = [sys.executable, str(PROGRAMS / "run_with_filter.py"), calls, sys.executable]
    # The filter holds: mount(2) fails with EPERM also for root.
    probe = [*run, "-c", PROBE]
    assert subprocess.run(probe, capture_output=True, text=True, check=True).stdout == "1\n"
    command = [*run, str(PROGRAMS / "sandbox_status.py"), str(tmp_path / "data")]
    unrestricted = subprocess.run(command[3:], capture_output=True, text=True, check=True, timeout=PATIENCE)
    with ImageHost.open(tmp_path / "data") as host:
        for image in list(host.images.iter(owner="admin")):
            host.images.delete(image.id)
    restricted = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert (restricted.returncode, restricted.stdout) == (0, unrestricted.stdout), restricted.stderr
