"""The servers that are measured, ours and others', started here and ended here.

Whatever is missing on the machine (nginx, wrk, node and npm, a package registry) raises `MissingError` with
a sentence that says so; a benchmark prints it and goes on without that peer.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from email.message import Message
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen
from uuid import uuid4

from attrs import frozen

from imagehost_server.testing import RunningServer, running

NPM = {"sharp": "0.35.5", "ipx": "3.1.1"}
"""The versions of npm packages that we are measured beside."""
THUMBOR = "thumbor==7.8.0"

START_SECONDS = 30.0
UNLIMITED = {
    "IMAGEHOST_LIMITS_API_PER_MINUTE": "0",
    "IMAGEHOST_LIMITS_API_PER_HOUR": "0",
    "IMAGEHOST_LIMITS_API_PER_DAY": "0",
    "IMAGEHOST_LIMITS_UPLOADS_PER_MINUTE": "0",
    "IMAGEHOST_LOG_ACCESS": "false",
    "IMAGEHOST_WEBHOOKS_SEND_IN_SERVER": "false",
}
"""Our settings in every benchmark; no peer counts requests or writes an access log either."""

NGINX = """
daemon off; master_process off; pid {folder}/nginx.pid; error_log stderr;
events {{ worker_connections 1024; }}
http {{
  access_log off; sendfile on; tcp_nopush on; keepalive_requests 10000000; open_file_cache max=100;
  types {{ image/webp webp; }}
  client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder};
  server {{ listen 127.0.0.1:{port}; root {root}; }}
}}
"""


BARE = """
BODY = open({body!r}, "rb").read()
HEADERS = [(b"content-type", b"image/webp"), (b"etag", b'"bare"'), (b"content-length", b"%d" % len(BODY))]
async def app(scope, receive, send):
    if scope["type"] == "http":
        await send({{"type": "http.response.start", "status": 200, "headers": HEADERS}})
        await send({{"type": "http.response.body", "body": BODY, "more_body": False}})
"""


class MissingError(Exception):
    """Something that a benchmark needs is not on this machine."""


def machine() -> str:
    """Return what a reader has to know of the machine, and whether it had other things to do."""
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    return f"{os.cpu_count()} cores, load average {load} (beside this run it should be near 0)"


def tool(name: str) -> str:
    """Return the path of a program.

    Raises:
        MissingError: There is none of that name.
    """
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
    if found is None:
        raise MissingError(f"{name} is not installed (Debian: apt-get install {name})")
    return found


def pinned(core: int | None, command: Sequence[str]) -> list[str]:
    """Return a command that keeps to one core, or to all."""
    return list(command) if core is None else [tool("taskset"), "-c", str(core), *command]


@contextmanager
def ours(folder: Path, core: int | None = None, **variables: str) -> Iterator[RunningServer]:
    """Run our server; `core` binds it, with its workers, to one core."""
    with running(folder / "data", variables=UNLIMITED | variables) as server:
        if core is not None:
            bind(server.process.pid, core)
        yield server


def bind(pid: int, core: int) -> None:
    """Bind a process, all its threads and all that descends of it, to one core."""
    for process in (pid, *descendants(pid)):
        for thread in Path(f"/proc/{process}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {core})


def descendants(pid: int) -> list[int]:
    """Return the numbers of the processes that a process has started, and those have."""
    text = " ".join(path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children"))
    return [each for child in map(int, text.split()) for each in (child, *descendants(child))]


def upload(server: RunningServer, data: bytes, **fields: str) -> str:
    """Upload a picture; return its id."""
    mark = uuid4().hex
    parts = [f'--{mark}\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}' for k, v in fields.items()]
    name = 'name="image"; filename="picture.jpg"'
    parts.append(f"--{mark}\r\nContent-Disposition: form-data; {name}\r\n\r\n")
    body = "\r\n".join(parts).encode() + data + f"\r\n--{mark}--\r\n".encode()
    headers = {
        "Authorization": f"Bearer {server.token}",
        "Content-Type": f"multipart/form-data; boundary={mark}",
    }
    with urlopen(Request(f"{server.base_url}/upload", body, headers), timeout=120) as answer:
        return str(json.load(answer)["data"]["id"])


def fetch(url: str, **headers: str) -> tuple[int, Message, bytes]:
    """Return the status, the headers and the body of an answer, whatever it is."""
    request = Request(url, headers=headers)
    try:
        with urlopen(request, timeout=120) as answer:
            return answer.status, answer.headers, answer.read()
    except HTTPError as error:
        return error.code, error.headers, error.read()


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@frozen
class Peer:
    """A server that was started: where it answers, and its first process."""

    origin: str
    pid: int


@contextmanager
def started(
    command: Sequence[str], port: int, log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Peer]:
    """Run a server until the block ends; yield it once it takes connections.

    Raises:
        MissingError: It does not start; the end of its log says why.
    """
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env={**os.environ, **(environment or {})}
        )
    try:
        ends = time.monotonic() + START_SECONDS
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if process.poll() is not None or time.monotonic() > ends:
                raise MissingError(f"{command[0]} does not start: {log.read_text()[-500:]}")
            time.sleep(0.05)
        yield Peer(f"http://127.0.0.1:{port}", process.pid)
    finally:
        process.terminate()
        process.wait(10)


@contextmanager
def bare_uvicorn(folder: Path, body: Path, core: int | None = None) -> Iterator[Peer]:
    """Serve a file's bytes from memory by our HTTP server with nothing of ours in it: its floor."""
    port = free_port()
    (folder / "bare.py").write_text(BARE.format(body=str(body)))
    command = [
        sys.executable,
        "-m",
        "uvicorn",
        "--app-dir",
        str(folder),
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
    with started(pinned(core, command), port, folder / "bare.log") as peer:
        yield peer


@contextmanager
def nginx(folder: Path, root: Path, core: int | None = None) -> Iterator[Peer]:
    """Serve a folder by nginx in one process, with an open-file cache and without an access log."""
    port = free_port()
    configuration = folder / "nginx.conf"
    configuration.write_text(NGINX.format(folder=folder, port=port, root=root))
    command = [tool("nginx"), "-c", str(configuration), "-p", str(folder), "-g", "user root;"]
    with started(pinned(core, command), port, folder / "nginx.log") as peer:
        yield peer


def npm(folder: Path, *packages: str) -> Path:
    """Install npm packages into a folder, unless they are there; return its `node_modules`.

    Raises:
        MissingError: There is no npm, or it cannot install them.
    """
    modules = folder / "node_modules"
    if not all((modules / package).is_dir() for package in packages):
        named = [f"{package}@{NPM[package]}" for package in packages]
        folder.mkdir(parents=True, exist_ok=True)
        command = [tool("npm"), "install", "--no-audit", "--no-fund", "--prefix", str(folder), *named]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise MissingError(f"npm cannot install {', '.join(named)}: {done.stderr[-300:]}")
    return modules


@contextmanager
def ipx(folder: Path, root: Path) -> Iterator[Peer]:
    """Serve a folder by IPX, by its own command; it has no cache of results."""
    modules = npm(folder / "ipx", "ipx")
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
    with started(command, port, folder / "ipx.log", {"PORT": str(port), "NODE_ENV": "production"}) as peer:
        yield peer


@contextmanager
def thumbor(folder: Path, root: Path, processes: int) -> Iterator[Peer]:
    """Serve a folder by thumbor, with so many processes and no result storage (its default)."""
    room = folder / "thumbor"
    if not (room / "bin" / "thumbor").exists():
        for command in (
            [sys.executable, "-m", "venv", str(room)],
            [str(room / "bin" / "python"), "-m", "pip", "install", "--quiet", THUMBOR],
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
            if done.returncode:
                raise MissingError(f"{THUMBOR} cannot be installed: {done.stderr[-300:]}")
    configuration = folder / "thumbor.conf"
    configuration.write_text(
        f"LOADER = 'thumbor.loaders.file_loader'\nFILE_LOADER_ROOT_PATH = {str(root)!r}\n"
        "STORAGE = 'thumbor.storages.no_storage'\nALLOW_UNSAFE_URL = True\nMAX_WIDTH = 0\nMAX_HEIGHT = 0\n"
    )
    port = free_port()
    command = [str(room / "bin" / "thumbor"), "-c", str(configuration), "-p", str(port), "-i", "127.0.0.1"]
    command += ["--processes", str(processes), "-l", "warning"]
    with started(command, port, folder / "thumbor.log") as peer:
        yield peer


@frozen
class Load:
    """What wrk measured.

    Attributes:
        rate: Answers a second.
        p50: The median latency, in milliseconds.
        p99: The latency that 1 % of the answers exceed, in milliseconds.
        faults: Answers that were no 2xx or 3xx, and connections that failed.
        cost: What an answer took of a processor, in microseconds; it depends less than the rate on what
            else the machine does. 0 = not measured.
    """

    rate: float
    p50: float
    p99: float
    faults: int
    cost: float = 0

    @classmethod
    def median(cls, loads: Sequence[Load]) -> Load:
        """Return the median of each figure of several runs, and the least cost."""

        def middle(figure: Callable[[Load], float]) -> float:
            return statistics.median(map(figure, loads))

        faults = sum(load.faults for load in loads)
        rate, p50, p99 = middle(lambda x: x.rate), middle(lambda x: x.p50), middle(lambda x: x.p99)
        return cls(rate, p50, p99, faults, min(load.cost for load in loads))


_UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3}


def processor_seconds(pid: int) -> float:
    """Return what a process and its descendants have had of the processors."""
    ticks = 0
    for process in (pid, *descendants(pid)):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def wrk(
    url: str, seconds: int, connections: int, *headers: str, core: int | None = None, pid: int | None = None
) -> Load:
    """Ask one address by wrk, with one thread, over and over; `pid` is the server's, to tell its cost."""
    before = processor_seconds(pid) if pid else 0.0
    told = [word for header in headers for word in ("-H", header)]
    command = [tool("wrk"), "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", *told, url]
    # In a session of its own: Linux may share the processor out among sessions.
    text = subprocess.run(
        pinned(core, command), capture_output=True, text=True, check=True, start_new_session=True
    ).stdout
    latency = {
        share: float(value) * _UNITS[unit]
        for share, value, unit in re.findall(r"^ +(50|99)% +([0-9.]+)(us|ms|s)$", text, re.MULTILINE)
    }
    rate = re.search(r"Requests/sec: +([0-9.]+)", text)
    assert rate is not None
    faults = re.findall(r"Non-2xx or 3xx responses: ([0-9]+)", text)
    for numbers in re.findall(r"Socket errors: (.+)", text):
        faults += re.findall(r"[0-9]+", numbers)
    answers = re.search(r"([0-9]+) requests in", text)
    assert answers is not None
    cost = (processor_seconds(pid) - before) / int(answers[1]) * 1e6 if pid else 0.0
    return Load(float(rate[1]), latency["50"], latency["99"], sum(map(int, faults)), cost)
