"""The command `imagehost check`."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from attrs import evolve
from click.testing import CliRunner
from tests.open_host import open_host
from tests.ports import free_port
from tests.server.in_process import serving
from tests.server.web.conftest import SETTINGS

from imagehost_core import ImageHost, utc_now
from imagehost_core.installation import FORMAT
from imagehost_core.testing import make_image
from imagehost_server.cli.check import State
from imagehost_server.cli.checks import check_clock, check_host
from imagehost_server.cli.main import main
from imagehost_server.cli.site_checks import check_site, parse_site


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("check") / "data"
    open_host(path).close()
    return path


def test_a_host_that_works_has_a_line_for_each_part_and_status_0(data: Path) -> None:
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    result = CliRunner().invoke(main, ["check", "--data", str(data), "--json"])
    checks = {each["name"]: each for each in json.loads(result.output)["checks"]}
    assert result.exit_code == 0
    assert {"data directory", "disk", "database", "files", "image store", "image workers", "landlock"} <= {
        *checks
    }
    assert {"seccomp", "resampling", "chroma subsampling", "clock", "time zone"} <= {*checks}
    assert "failed" not in {each["state"] for each in checks.values()}
    assert all(each["advice"] for each in checks.values() if each["state"] != "ok")
    assert {path for path, content in before.items() if path.read_bytes() != content} == set()
    lines = CliRunner().invoke(main, ["check", "--data", str(data)]).output.splitlines()
    assert len({line.index(" ok ") for line in lines if " ok " in line}) == 1


def test_data_of_an_earlier_format_are_named_and_stay_as_they_are(tmp_path: Path) -> None:
    stored = Path(__file__).parents[1] / "stored_data" / f"format-{FORMAT - 1}" / "data"
    data = Path(shutil.copytree(stored, tmp_path / "data"))
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    result = CliRunner().invoke(main, ["check", "--data", str(data)])
    assert result.exit_code == 1
    assert f"format {FORMAT - 1}" in result.output
    assert "imagehost upgrade" in result.output
    assert {path: path.read_bytes() for path in data.rglob("*") if path.is_file()} == before


def test_a_database_that_cannot_be_opened_is_a_line_of_the_table(data: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(data, tmp_path / "data"))
    (copy / "imagehost.sqlite3").write_bytes(b"no database" * 1000)
    result = CliRunner().invoke(main, ["check", "--data", str(copy), "--json"])
    assert result.exit_code == 1
    (check,) = json.loads(result.output)["checks"]
    assert (check["name"], check["state"]) == ("host", "failed")


@pytest.mark.parametrize(
    "url",
    ["images.example.com", "ftp://images.example.com", "https://", "http://[::1", "http://h:x", "http://h:0"],
)
def test_a_url_that_is_none_of_a_site_is_a_usage_error(data: Path, url: str) -> None:
    result = CliRunner().invoke(main, ["check", "--data", str(data), "--url", url])
    assert result.exit_code == 2
    assert "--url" in result.output


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


@contextmanager
def serving_images_at(host: ImageHost, images: str) -> Iterator[str]:
    """Serve a host whose images have URLs at an origin; yield its own origin."""
    settings = evolve(SETTINGS, cdn_url=f"{images}/img")
    with open_host(host.path, settings=settings) as other, serving(other, settings) as origin:
        yield origin


@pytest.fixture(scope="module")
def host() -> ImageHost:
    host = open_host(settings=SETTINGS)
    host.upload(make_image(), owner="admin")
    return host


@pytest.fixture(scope="module")
def origin(host: ImageHost) -> Iterator[str]:
    """A site whose images are at another origin."""
    with serving(host, SETTINGS) as images, serving_images_at(host, images) as origin:
        yield origin


def test_a_site_without_a_proxy_lets_everything_through(origin: str) -> None:
    checks = {check.name: check.state for check in check_site(parse_site(f"{origin}/v1"))}
    assert {*checks} == {
        *("host", "client address", "body of 1 MB", "body of 5 MB", "body of 50 MB", "streaming"),
        *("Expect", "Authorization", "image URL", "image", "Range", "If-None-Match"),
    }
    assert {*checks.values()} == {State.OK}


def test_what_a_proxy_keeps_back_is_named_with_the_lines_to_change(host: ImageHost) -> None:
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), StrippingProxy) as proxy,
        serving_images_at(host, f"http://127.0.0.1:{proxy.server_address[1]}") as upstream,
    ):
        StrippingProxy.upstream = int(upstream.rpartition(":")[2])
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        checks = {
            check.name: check
            for check in check_site(parse_site(f"http://127.0.0.1:{proxy.server_address[1]}"))
        }
        proxy.shutdown()
    failed = {name for name, check in checks.items() if check.state is State.FAILED}
    assert failed >= {"body of 5 MB", "body of 50 MB", "Authorization", "Range", "If-None-Match"}
    assert "client_max_body_size" in checks["body of 50 MB"].advice
    assert all(checks[name].advice for name in failed)


class ClosingProxy(StrippingProxy):
    """A proxy that closes connections with bodies, as one that waits for all of a body does after a time."""

    def do_POST(self) -> None:
        self.close_connection = True


def test_a_request_without_a_response_fails_only_its_own_line(host: ImageHost) -> None:
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), ClosingProxy) as proxy,
        serving_images_at(host, f"http://127.0.0.1:{proxy.server_address[1]}") as upstream,
    ):
        ClosingProxy.upstream = int(upstream.rpartition(":")[2])
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        site = parse_site(f"http://127.0.0.1:{proxy.server_address[1]}")
        checks = {check.name: check for check in check_site(site)}
        proxy.shutdown()
    bodies = {check.advice for name, check in checks.items() if name.startswith("body")}
    assert {checks[name].state for name in ("body of 1 MB", "body of 50 MB")} == {State.FAILED}
    assert not any("DNS" in advice for advice in bodies)
    assert checks["host"].state is State.OK
    assert {"Authorization", "Range", "If-None-Match"} <= {*checks}


def test_a_site_that_does_not_respond_is_one_failed_line() -> None:
    (check,) = check_site(parse_site(f"http://127.0.0.1:{free_port()}"))
    assert (check.name, check.state) == ("site", State.FAILED)
