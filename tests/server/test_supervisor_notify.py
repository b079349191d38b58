"""The supervisor's reports to systemd: sd_notify(3), with a socket in the place of systemd's."""

from __future__ import annotations

import os
import re
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from tests.certificates import create_certificate
from tests.ports import free_port
from tests.waiting import PATIENCE, wait_until

from imagehost_server.serve.supervisor import notify
from imagehost_server.testing import running

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the server has no supervisor there")


class ServiceManager:
    """The receiving end of sd_notify(3).

    Attributes:
        address: The value of NOTIFY_SOCKET.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self._socket.settimeout(30)

    def receive(self) -> str:
        """Return the next message."""
        return self._socket.recv(4_096).decode()

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=["a path", "an abstract name"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServiceManager]:
    """A service manager whose socket has a path or an abstract name."""
    if request.param != "a path" and sys.platform != "linux":
        pytest.skip("only Linux has abstract sockets")
    manager = ServiceManager(
        str(tmp_path / "notify") if request.param == "a path" else f"@imagehost-test-{os.getpid()}"
    )
    yield manager
    manager.close()


@pytest.mark.slow
def test_ready_is_sent_and_logged_once_the_port_responds_and_stopping_at_the_end(
    manager: ServiceManager, tmp_path: Path
) -> None:
    port = free_port()
    command = [sys.executable, "-m", "imagehost_server", "serve", "--port", str(port)]
    variables = {"NOTIFY_SOCKET": manager.address, "IMAGEHOST_DATA": str(tmp_path / "data")}
    log = tmp_path / "log"
    with log.open("w") as stderr:
        process = subprocess.Popen(
            command, env=os.environ | variables, stdout=subprocess.DEVNULL, stderr=stderr
        )
    try:
        assert manager.receive() == "READY=1"
        with urlopen(f"http://127.0.0.1:{port}/healthz", timeout=PATIENCE) as response:
            assert response.status == 200
        process.send_signal(signal.SIGHUP)
        assert manager.receive().startswith("RELOADING=1\nMONOTONIC_USEC=")
        assert manager.receive() == "READY=1"
        process.terminate()
        assert manager.receive() == "STOPPING=1"
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
    events = re.findall(
        r"imagehost\.server (server (?:ready pids=\d+|reloading|stopping))$", log.read_text(), re.M
    )
    assert [event.partition("=")[0] for event in events] == [
        "server ready pids",
        "server reloading",
        "server ready pids",
        "server stopping",
    ]


@pytest.mark.slow
def test_the_last_line_after_a_reload_that_failed_is_its_cause_and_the_server_goes_on(tmp_path: Path) -> None:
    manager = ServiceManager(str(tmp_path / "notify"))
    certificate = create_certificate(tmp_path)
    variables = {"NOTIFY_SOCKET": manager.address}
    with running(tmp_path / "data", *certificate.flags, variables=variables) as server:
        assert manager.receive() == "READY=1"
        certificate.cert.rename(tmp_path / "valid")
        server.process.send_signal(signal.SIGHUP)
        assert manager.receive().startswith("RELOADING=1")
        assert manager.receive() == "READY=1"
        wait_until(lambda: "reload failed" in server.log.read_text("utf-8"))
        last = server.log.read_text("utf-8").splitlines()[-1]
        cause = f"expected a certificate in {certificate.cert}"
        assert f'ERROR imagehost.server server reload failed cause="{cause}' in last
        context = ssl.create_default_context(cafile=str(tmp_path / "valid"))
        with urlopen(f"{server.origin}/healthz", timeout=PATIENCE, context=context) as response:
            assert response.status == 200
    manager.close()


def test_without_a_service_manager_a_report_raises_no_exception(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "missing"))
    notify("READY=1")
