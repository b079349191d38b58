"""The real server over HTTPS, programs of others that upload to it, and the table of their results."""

from __future__ import annotations

import io
import re
import ssl
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import httpx2
import pytest
from attrs import define, field
from PIL import Image
from tests.certificates import create_certificate
from tests.outside.packages import install_npm, install_python
from tests.server.conftest import NO_LIMITS
from tests.waiting import PATIENCE

from imagehost_core import ImageHost
from imagehost_core.testing import make_image
from imagehost_server.testing import RunningServer, environment, running

PROPERTY = "outside_client"
"""The property of a test's report that becomes a row of the table: client, version, uploads, shows URL."""
CARD_PROPERTY = "link_card"
"""The property of a test's report that becomes a row of the table of link cards."""

NPM = {
    "picgo": "3.1.0",
    "picgo-plugin-web-uploader": "1.1.1",
    "picgo-plugin-lankong": "1.1.3",
    "picgo-plugin-lsky-uploader": "1.1.0",
    "standardwebhooks": "1.1.1",
    "svix": "2.5.0",
}
PYPI = {"image-migrate-picgo": "0.2.4", "lskyup": "0.1.5", "sharex-cli": "0.0.4"}
OVERRIDES = ("pillow>=9.5",)
"""lskyup requires Pillow 9.5.0, which has no wheels for Python 3.12 and later. It only compresses with it."""


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The certificate of the server, which is its own authority, and its key."""
    certificate = create_certificate(tmp_path_factory.mktemp("certificate"))
    return certificate.cert, certificate.key


@pytest.fixture(scope="session")
def tls_server(
    tmp_path_factory: pytest.TempPathFactory, certificate: tuple[Path, Path]
) -> Iterator[RunningServer]:
    """A server with a certificate, without rate limits."""
    variables = {
        **NO_LIMITS,
        "IMAGEHOST_WEBHOOKS_ALLOW_LOOPBACK": "true",
        # PicGo's command ends when its connection does.
        "IMAGEHOST_HTTP_HEADER_TIMEOUT_SECONDS": "3",
    }
    flags = ("--tls-cert", str(certificate[0]), "--tls-key", str(certificate[1]))
    data = tmp_path_factory.mktemp("outside") / "data"
    with running(data, *flags, variables=variables) as server:
        yield server


@pytest.fixture(scope="session")
def anonymous(tls_server: RunningServer, certificate: tuple[Path, Path]) -> Iterator[httpx2.Client]:
    """A client without a token."""
    context = ssl.create_default_context(cafile=str(certificate[0]))
    with httpx2.Client(base_url=tls_server.origin, verify=context, timeout=PATIENCE) as client:
        yield client


@pytest.fixture(scope="session")
def api(tls_server: RunningServer, certificate: tuple[Path, Path]) -> Iterator[httpx2.Client]:
    """A client of the server with every scope."""
    context = ssl.create_default_context(cafile=str(certificate[0]))
    headers = {"Authorization": f"Bearer {tls_server.token}"}
    with httpx2.Client(
        base_url=tls_server.origin, verify=context, headers=headers, timeout=PATIENCE
    ) as client:
        yield client


@pytest.fixture(scope="session")
def node_modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with the packages of `NPM`."""
    return install_npm(tmp_path_factory.mktemp("npm"), NPM)


@pytest.fixture(scope="session")
def python_programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with the programs of `PYPI`."""
    return install_python(tmp_path_factory.mktemp("pypi") / "environment", PYPI, OVERRIDES)


@pytest.fixture
def variables(certificate: tuple[Path, Path], tmp_path: Path) -> dict[str, str]:
    """Environment variables of a program: it trusts the server's certificate and has an empty home."""
    names = ("CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")
    home = tmp_path / "home"
    home.mkdir()
    inherited = environment()
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "XDG_CONFIG_HOME"):
        inherited.pop(name, None)
    return {**inherited, **dict.fromkeys(names, str(certificate[0])), "HOME": str(home)}


Run = Callable[..., str]
Download = Callable[[str], str]


@pytest.fixture
def run(variables: Mapping[str, str], tmp_path: Path) -> Run:
    """Runs a program and returns what it printed; a status other than 0 fails the test."""

    def run_program(*command: str | Path, **options: object) -> str:
        process = subprocess.run(
            list(map(str, command)),
            cwd=tmp_path,
            env={**variables, **options.pop("env", {})},  # type: ignore[dict-item]
            text=True,
            check=False,
            timeout=PATIENCE,
            **{"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, **options},  # type: ignore[call-overload]
        )
        assert process.returncode == 0, process.stdout
        return str(process.stdout)

    return run_program


@pytest.fixture(scope="session")
def download(tls_server: RunningServer, anonymous: httpx2.Client) -> Download:
    """Returns a configuration file from the server, with a new key that can only upload."""
    with ImageHost.open(tls_server.data) as host:
        session = host.sessions.create(host.accounts.get("admin"))
    headers = {"Authorization": f"Bearer {session.token}"}

    def download_file(name: str) -> str:
        return anonymous.post(f"/integrations/{name}", headers=headers).raise_for_status().text

    return download_file


@pytest.fixture
def png(tmp_path: Path) -> Path:
    """The path of a PNG whose name has a space, a quote and a letter beyond ASCII."""
    path = tmp_path / "a 'cät'.png"
    path.write_bytes(make_image(300, 200))
    return path


@pytest.fixture
def jpeg(tmp_path: Path) -> Path:
    """The path of a JPEG."""
    path = tmp_path / "photo.jpg"
    Image.open(io.BytesIO(make_image(640, 480))).save(path, "JPEG", quality=85)
    return path


@define
class OutsideClient:
    """The row of a client in the table of results.

    Attributes:
        row: Client, version, and whether it uploads and shows the URL; changes while the test runs.
    """

    row: dict[str, str]
    _api: httpx2.Client = field(repr=False)
    _anonymous: httpx2.Client = field(repr=False)

    def require_upload(self, url: str, size: tuple[int, int] = (300, 200)) -> str:
        """Check that a URL shown by the client is that of a new image, and return the image's id."""
        match = re.fullmatch(r"https://127\.0\.0\.1:\d+/img/([0-9A-Za-z]{16})\.\w+", url)
        assert match is not None, f"expected the URL of an image but received {url!r}"
        record = self._api.get(f"/v1/images/{match[1]}").json()["data"]
        assert (record["width"], record["height"]) == size
        self.row["uploads"] = "yes"
        response = self._anonymous.get(url)
        assert (response.status_code, response.headers["content-type"]) == (200, record["mime_type"])
        assert Image.open(io.BytesIO(response.content)).size == size
        self.row["shows URL"] = "yes"
        return match[1]


Start = Callable[[str, str], OutsideClient]


@pytest.fixture
def outside_client(
    record_property: Callable[[str, object], None], api: httpx2.Client, anonymous: httpx2.Client
) -> Start:
    """Adds a row to the table of results; called by a test before anything that can fail."""

    def start(client: str, version: str) -> OutsideClient:
        row = {"client": client, "uploads": "NO", "shows URL": "NO", "version": version}
        record_property(PROPERTY, row)
        return OutsideClient(row, api, anonymous)

    return start


@pytest.fixture
def unlisted_client(api: httpx2.Client, anonymous: httpx2.Client) -> OutsideClient:
    """A client without a row in the table of results."""
    return OutsideClient({}, api, anonymous)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the tables of programs that upload, and of those that read link cards."""
    for name, title in ((PROPERTY, "programs that upload"), (CARD_PROPERTY, "link cards")):
        rows = [
            value
            for reports in terminalreporter.stats.values()
            for report in reports
            if getattr(report, "when", "") == "call"
            for key, value in report.user_properties
            if key == name
        ]
        if rows:
            terminalreporter.section(title)
            _write_table(terminalreporter, rows)


def _write_table(terminalreporter: pytest.TerminalReporter, rows: Sequence[Mapping[str, object]]) -> None:
    columns = list(rows[0])
    lines = [columns, *sorted([str(row[column]) for column in columns] for row in rows)]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        terminalreporter.write_line("  ".join(cells).rstrip())
