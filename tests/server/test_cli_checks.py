"""The command `imagehost check`."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.open_host import open_host
from tests.server.in_process import serving
from tests.server.web.conftest import SETTINGS

from imagehost_core import utc_now
from imagehost_core.testing import make_image
from imagehost_server.cli.check import State
from imagehost_server.cli.checks import check_clock, check_host
from imagehost_server.cli.main import main
from imagehost_server.cli.site_checks import check_site


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


class StrippingProxy(BaseHTTPRequestHandler):
    """A proxy that limits bodies to 1 MiB, and passes no other header on."""

    upstream = 0

    def forward(self) -> None:
        if int(self.headers.get("content-length", 0)) > 2**20:
            self.send_response(413)
            self.send_header("content-length", "0")
            self.end_headers()
            return
        with closing(HTTPConnection("127.0.0.1", self.upstream)) as connection:
            connection.request("GET", self.path)
            response = connection.getresponse()
            body = response.read()
        self.send_response(response.status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = forward  # noqa: N815

    def handle_expect_100(self) -> bool:
        return True

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    host = open_host(settings=SETTINGS)
    host.upload(make_image(), owner="admin")
    with serving(host, SETTINGS) as origin:
        yield origin


def test_a_site_without_a_proxy_lets_everything_through(origin: str) -> None:
    checks = {check.name: check.state for check in check_site(f"{origin}/v1")}
    assert {*checks} == {
        *("host", "body of 1 MB", "body of 5 MB", "body of 50 MB"),
        *("Authorization", "Range", "If-None-Match"),
    }
    assert {*checks.values()} == {State.OK}


def test_what_a_proxy_keeps_back_is_named_with_the_lines_to_change(origin: str) -> None:
    StrippingProxy.upstream = int(origin.rpartition(":")[2])
    with ThreadingHTTPServer(("127.0.0.1", 0), StrippingProxy) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        checks = {check.name: check for check in check_site(f"http://127.0.0.1:{proxy.server_address[1]}")}
        proxy.shutdown()
    failed = {name for name, check in checks.items() if check.state is State.FAILED}
    assert failed >= {"body of 5 MB", "body of 50 MB", "Authorization", "Range", "If-None-Match"}
    assert "client_max_body_size" in checks["body of 50 MB"].advice
    assert all(checks[name].advice for name in failed)


def test_a_site_that_does_not_respond_is_one_failed_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    (check,) = check_site(f"http://127.0.0.1:{port}")
    assert (check.name, check.state) == ("site", State.FAILED)
