"""Starts and stops the servers that are measured: imagehost and its peers.

Tools that are missing on the machine (nginx, wrk, Node.js, npm, a package registry) raise `MissingToolError`;
a benchmark prints the message and skips that peer.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from email.message import Message
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen
from uuid import uuid4

from attrs import frozen

from imagehost_server.testing import RunningServer, running

NPM = {"sharp": "0.35.5", "ipx": "3.1.1"}
"""The versions of the npm packages."""
THUMBOR = "thumbor==7.8.0"

START_TIMEOUT = 30.0
"""In seconds."""
UNLIMITED = {
    "IMAGEHOST_LIMITS_API_PER_MINUTE": "0",
    "IMAGEHOST_LIMITS_API_PER_HOUR": "0",
    "IMAGEHOST_LIMITS_API_PER_DAY": "0",
    "IMAGEHOST_LIMITS_UPLOADS_PER_MINUTE": "0",
    "IMAGEHOST_LOG_ACCESS": "false",
    "IMAGEHOST_WEBHOOKS_SEND_IN_SERVER": "false",
}
"""imagehost's settings: no rate limits and no access log, as the peers."""

NGINX = """
daemon off; master_process off; pid {directory}/nginx.pid; error_log stderr;
events {{ worker_connections 1024; }}
http {{
  access_log off; sendfile on; tcp_nopush on; keepalive_requests 10000000; open_file_cache max=100;
  types {{ image/webp webp; }}
  client_body_temp_path {directory}; proxy_temp_path {directory}; fastcgi_temp_path {directory};
  uwsgi_temp_path {directory}; scgi_temp_path {directory};
  server {{ listen 127.0.0.1:{port}; root {root}; }}
}}
"""


BARE_APP = """
BODY = open({body!r}, "rb").read()
HEADERS = [(b"content-type", b"image/webp"), (b"etag", b'"bare"'), (b"content-length", b"%d" % len(BODY))]
async def app(scope, receive, send):
    if scope["type"] == "http":
        await send({{"type": "http.response.start", "status": 200, "headers": HEADERS}})
        await send({{"type": "http.response.body", "body": BODY, "more_body": False}})
"""


BARE_PROTOCOL = """
import asyncio, sys, uvloop
BODY = open({body!r}, "rb").read() if {body!r} else b""
FIELDS = b"content-type: image/webp\\r\\netag: \\"bare\\"\\r\\ncontent-length: %d\\r\\n" % len(BODY)
HEAD = b"HTTP/1.1 200 OK\\r\\n" + FIELDS + b"\\r\\n"
class Protocol(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport
    def data_received(self, data):
        self.transport.writelines((HEAD, BODY) if BODY else (HEAD,))
async def main():
    server = await asyncio.get_running_loop().create_server(Protocol, "127.0.0.1", {port})
    await server.serve_forever()
uvloop.run(main())
"""


class MissingToolError(Exception):
    """A tool that a benchmark needs is not installed."""


def machine() -> str:
    """Return the number of cores and the load average, which should be near 0 apart from the benchmark."""
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    return f"{os.cpu_count()} cores, load average {load} (should be near 0 apart from this run)"


def tool(name: str) -> str:
    """Return the path of a program.

    Raises:
        MissingToolError: The program is not installed.
    """
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
    if path is None:
        raise MissingToolError(f"{name} is not installed (Debian: apt-get install {name})")
    return path


def pinned(core: int | None, command: Sequence[str]) -> list[str]:
    """Return a command pinned to one core, or unchanged for `None`."""
    return list(command) if core is None else [tool("taskset"), "-c", str(core), *command]


@contextmanager
def imagehost(directory: Path, core: int | None = None, **variables: str) -> Iterator[RunningServer]:
    """Run imagehost; `core` pins the server and its workers to one core."""
    with running(directory / "data", variables=UNLIMITED | variables) as server:
        if core is not None:
            pin_process(server.process.pid, core)
        yield server


def pin_process(pid: int, core: int) -> None:
    """Pin a process with its threads and descendants to one core."""
    for process in (pid, *descendants(pid)):
        for thread in Path(f"/proc/{process}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {core})


def descendants(pid: int) -> list[int]:
    """Return the ids of all descendants of a process."""
    text = " ".join(path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children"))
    return [process for child in map(int, text.split()) for process in (child, *descendants(child))]


def upload(server: RunningServer, data: bytes, **fields: str) -> str:
    """Upload an image; return its id."""
    boundary = uuid4().hex
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}' for k, v in fields.items()
    ]
    name = 'name="image"; filename="image.jpg"'
    parts.append(f"--{boundary}\r\nContent-Disposition: form-data; {name}\r\n\r\n")
    body = "\r\n".join(parts).encode() + data + f"\r\n--{boundary}--\r\n".encode()
    headers = {
        "Authorization": f"Bearer {server.token}",
        "Content-Type": f"multipart/form-data; boundary={boundary}",
    }
    with urlopen(Request(f"{server.base_url}/upload", body, headers), timeout=120) as response:
        return str(json.load(response)["data"]["id"])


def fetch(url: str, **headers: str) -> tuple[int, Message, bytes]:
    """Return the status, the headers and the body of the response, also for error statuses."""
    request = Request(url, headers=headers)
    try:
        with urlopen(request, timeout=120) as response:
            return response.status, response.headers, response.read()
    except HTTPError as error:
        return error.code, error.headers, error.read()


def free_port() -> int:
    """Return an unused port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@frozen
class Peer:
    """A running server: its origin, and the id of its main process."""

    origin: str
    pid: int


@contextmanager
def run_server(
    command: Sequence[str], port: int, log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Peer]:
    """Run a server until the block ends; yield it once it accepts connections.

    Raises:
        MissingToolError: The server does not start; the message has the end of its log.
    """
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + START_TIMEOUT
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if process.poll() is not None or time.monotonic() > deadline:
                raise MissingToolError(f"{command[0]} does not start: {log.read_text()[-500:]}")
            time.sleep(0.05)
        yield Peer(f"http://127.0.0.1:{port}", process.pid)
    finally:
        # With its processes, which thumbor does not end itself.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(10)


@contextmanager
def bare_uvicorn(directory: Path, body: Path, core: int | None = None) -> Iterator[Peer]:
    """Serve a file's bytes from memory by bare uvicorn: the lower bound of a response's cost."""
    port = free_port()
    (directory / "bare.py").write_text(BARE_APP.format(body=str(body)))
    command = [
        sys.executable,
        "-m",
        "uvicorn",
        "--app-dir",
        str(directory),
        "--host",
        "127.0.0.1",
        "--ws",
        "none",
    ]
    command += [
        "--port",
        str(port),
        "--no-access-log",
        "--no-server-header",
        "--no-proxy-headers",
        "bare:app",
    ]
    with run_server(pinned(core, command), port, directory / "bare.log") as peer:
        yield peer


@contextmanager
def bare_protocol(directory: Path, body: Path | None, core: int | None = None) -> Iterator[Peer]:
    """Send one response by uvloop, whatever is received: no server in Python costs less.

    Args:
        directory: Where its files are.
        body: The file whose bytes are the body; by default it is empty, as that of HEAD and 304.
        core: The core to which it is pinned.
    """
    port = free_port()
    name = f"protocol-{port}"
    script = directory / f"{name}.py"
    script.write_text(BARE_PROTOCOL.format(body="" if body is None else str(body), port=port))
    with run_server(pinned(core, [sys.executable, str(script)]), port, directory / f"{name}.log") as peer:
        yield peer


@contextmanager
def nginx(directory: Path, root: Path, core: int | None = None) -> Iterator[Peer]:
    """Serve a directory by nginx in one process, with an open-file cache and without an access log."""
    port = free_port()
    configuration = directory / "nginx.conf"
    configuration.write_text(NGINX.format(directory=directory, port=port, root=root))
    command = [tool("nginx"), "-c", str(configuration), "-p", str(directory), "-g", "user root;"]
    with run_server(pinned(core, command), port, directory / "nginx.log") as peer:
        yield peer


def npm(directory: Path, *packages: str) -> Path:
    """Install npm packages into a directory unless they are installed; return its `node_modules`.

    Raises:
        MissingToolError: npm is not installed, or cannot install the packages.
    """
    modules = directory / "node_modules"
    if not all((modules / package).is_dir() for package in packages):
        versions = [f"{package}@{NPM[package]}" for package in packages]
        directory.mkdir(parents=True, exist_ok=True)
        command = [tool("npm"), "install", "--no-audit", "--no-fund", "--prefix", str(directory), *versions]
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        if process.returncode:
            raise MissingToolError(f"npm cannot install {', '.join(versions)}: {process.stderr[-300:]}")
    return modules


@contextmanager
def ipx(directory: Path, root: Path) -> Iterator[Peer]:
    """Serve a directory by the command-line interface of IPX, which does not cache results."""
    modules = npm(directory / "ipx", "ipx")
    port = free_port()
    command = [
        tool("node"),
        str(modules / ".bin" / "ipx"),
        "serve",
        "--dir",
        str(root),
        "--host",
        "127.0.0.1",
    ]
    with run_server(
        command, port, directory / "ipx.log", {"PORT": str(port), "NODE_ENV": "production"}
    ) as peer:
        yield peer


@contextmanager
def thumbor(directory: Path, root: Path, processes: int) -> Iterator[Peer]:
    """Serve a directory by thumbor, with a number of processes and without result storage (the default)."""
    environment = directory / "thumbor"
    if not (environment / "bin" / "thumbor").exists():
        for command in (
            [sys.executable, "-m", "venv", str(environment)],
            [str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet", THUMBOR],
        ):
            process = subprocess.run(command, capture_output=True, text=True, check=False, cwd=directory)
            if process.returncode:
                raise MissingToolError(f"{THUMBOR} cannot be installed: {process.stderr[-300:]}")
    configuration = directory / "thumbor.conf"
    configuration.write_text(
        f"LOADER = 'thumbor.loaders.file_loader'\nFILE_LOADER_ROOT_PATH = {str(root)!r}\n"
        "STORAGE = 'thumbor.storages.no_storage'\nALLOW_UNSAFE_URL = True\nMAX_WIDTH = 0\nMAX_HEIGHT = 0\n"
    )
    port = free_port()
    command = [
        str(environment / "bin" / "thumbor"),
        "-c",
        str(configuration),
        "-p",
        str(port),
        "-i",
        "127.0.0.1",
    ]
    command += ["--processes", str(processes), "-l", "warning"]
    with run_server(command, port, directory / "thumbor.log") as peer:
        yield peer


@frozen
class Load:
    """The measurements of wrk.

    Attributes:
        rate: Responses per second.
        p50: The median latency, in milliseconds.
        p99: The latency that 1 % of the responses exceed, in milliseconds.
        errors: Responses other than 2xx and 3xx, and failed connections.
        cost: The CPU time of the server per response, in microseconds, which depends less than the rate on
            other load of the machine; 0 if not measured.
    """

    rate: float
    p50: float
    p99: float
    errors: int
    cost: float = 0

    @classmethod
    def median(cls, loads: Sequence[Load]) -> Load:
        """Return the median of each measurement over several runs, and the lowest cost."""

        def median_of(measurement: Callable[[Load], float]) -> float:
            return statistics.median(map(measurement, loads))

        errors = sum(load.errors for load in loads)
        rate, p50, p99 = median_of(lambda x: x.rate), median_of(lambda x: x.p50), median_of(lambda x: x.p99)
        return cls(rate, p50, p99, errors, min(load.cost for load in loads))


_UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3}


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and its descendants, ended ones included, in seconds."""
    ticks = 0
    for process in (pid, *descendants(pid)):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


BURSTS = """
import socket, sys, time
method, host, port, target, seconds, connections = sys.argv[1:]
request = f"{method} {target} HTTP/1.1\\r\\nHost: {host}:{port}\\r\\n\\r\\n".encode()
sockets = [socket.create_connection((host, int(port))) for _ in range(int(connections))]
end, responses = time.monotonic() + float(seconds), 0
while time.monotonic() < end:
    for each in sockets:
        each.sendall(request)
    for each in sockets:
        head = each.recv(65_536)
        assert head.startswith(b"HTTP/1.1 200 ") and head.endswith(b"\\r\\n\\r\\n"), head
    responses += len(sockets)
print(responses)
"""


def head_cost(url: str, seconds: int, connections: int, core: int, pid: int) -> float:
    """Return the CPU time of a response to HEAD, in microseconds, which wrk cannot send.

    Each connection has one request at a time, and all are sent together.
    """
    parts = urlsplit(url)
    target = f"{parts.path}?{parts.query}" if parts.query else parts.path or "/"
    arguments = ["HEAD", str(parts.hostname), str(parts.port), target, str(seconds), str(connections)]
    before = cpu_seconds(pid)
    responses = subprocess.run(
        pinned(core, [sys.executable, "-c", BURSTS, *arguments]), capture_output=True, text=True, check=True
    ).stdout
    return (cpu_seconds(pid) - before) / int(responses) * 1e6


def wrk(
    url: str, seconds: int, connections: int, *headers: str, core: int | None = None, pid: int | None = None
) -> Load:
    """Load one URL by wrk, with one thread; `pid` is the server's process, to measure its CPU time."""
    before = cpu_seconds(pid) if pid else 0.0
    header_options = [option for header in headers for option in ("-H", header)]
    command = [tool("wrk"), "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", *header_options, url]
    # In a new session: Linux may distribute CPU time among sessions (autogroup).
    text = subprocess.run(
        pinned(core, command), capture_output=True, text=True, check=True, start_new_session=True
    ).stdout
    latency = {
        share: float(value) * _UNITS[unit]
        for share, value, unit in re.findall(r"^ +(50|99)% +([0-9.]+)(us|ms|s)$", text, re.MULTILINE)
    }
    rate = re.search(r"Requests/sec: +([0-9.]+)", text)
    assert rate is not None
    errors = re.findall(r"Non-2xx or 3xx responses: ([0-9]+)", text)
    for numbers in re.findall(r"Socket errors: (.+)", text):
        errors += re.findall(r"[0-9]+", numbers)
    responses = re.search(r"([0-9]+) requests in", text)
    assert responses is not None
    cost = (cpu_seconds(pid) - before) / int(responses[1]) * 1e6 if pid else 0.0
    return Load(float(rate[1]), latency["50"], latency["99"], sum(map(int, errors)), cost)
