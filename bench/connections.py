"""Measure the responses to one client while another IP address holds thousands of silent connections.

    python -m bench.connections [--requests 400] [--silent 0 4700 10000] [--tls]

The silent connections come from 127.0.0.2 and send nothing, or a part of a head with `--half`; the measured
client is 127.0.0.1 and opens a connection for each request for `/healthz`. With `--reconnect`, a silent
connection that the server closes is opened again, at most 500 times per second. With `--tls` the server has a
certificate, and what the silent connections do not complete is the handshake.
"""

from __future__ import annotations

import argparse
import resource
import select
import socket
import ssl
import statistics
import subprocess
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Event, Thread

from bench.peers import UNLIMITED, machine

from imagehost_server.testing import RunningServer, running

ATTACKER, CLIENT = "127.0.0.2", "127.0.0.1"
TIMEOUT = 10.0
"""How long the client waits for a response, in seconds; then it counts as missing."""
RECONNECTS_PER_SECOND = 500
CLIENT_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
"""The first bytes of a TLS handshake."""


class SilentClient:
    """Connections that send next to nothing, on a thread that opens them again.

    Args:
        server: The server to connect to.
        count: The number of connections.
        sent: What each of them sends.
        reconnect: Whether to open those again that the server closes.
    """

    def __init__(self, server: RunningServer, count: int, sent: bytes, *, reconnect: bool) -> None:
        self._server, self._sent, self._reconnect = server, sent, reconnect
        self._poll = select.epoll()
        self._open: dict[int, socket.socket] = {}
        self._stopped = Event()
        self.closed = 0
        for _ in range(count):
            self._connect()
        self._thread = Thread(target=self._run)
        self._thread.start()

    def __len__(self) -> int:
        """Return the number of connections that the server has not closed."""
        return len(self._open)

    def close(self) -> None:
        """Close all connections."""
        self._stopped.set()
        self._thread.join()
        for connection in self._open.values():
            connection.close()
        self._poll.close()

    def _connect(self) -> None:
        with suppress(OSError):
            connection = socket.create_connection(
                ("127.0.0.1", self._server.port), timeout=TIMEOUT, source_address=(ATTACKER, 0)
            )
            self._open[connection.fileno()] = connection
            self._poll.register(connection, select.EPOLLIN | select.EPOLLRDHUP)
            connection.sendall(self._sent)

    def _run(self) -> None:
        while not self._stopped.is_set():
            for number, _ in self._poll.poll(0.1, 50):
                self._poll.unregister(number)
                self._open.pop(number).close()
                self.closed += 1
                if self._reconnect:
                    time.sleep(1 / RECONNECTS_PER_SECOND)
                    self._connect()


def request(server: RunningServer, tls: ssl.SSLContext | None) -> float | None:
    """Return the seconds until the whole response to a new connection, or `None` without one."""
    started = time.perf_counter()
    try:
        with ExitStack() as stack:
            connection = stack.enter_context(
                socket.create_connection(
                    ("127.0.0.1", server.port), timeout=TIMEOUT, source_address=(CLIENT, 0)
                )
            )
            if tls is not None:
                connection = stack.enter_context(tls.wrap_socket(connection, server_hostname=CLIENT))
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            received = b""
            while chunk := connection.recv(65_536):
                received += chunk
    except OSError:
        return None
    return time.perf_counter() - started if received.startswith(b"HTTP/1.1 200 ") else None


def measure(
    server: RunningServer,
    requests: int,
    count: int,
    sent: bytes,
    *,
    reconnect: bool,
    tls: ssl.SSLContext | None,
) -> None:
    """Print the response times of one client beside `count` silent connections of another."""
    silent = SilentClient(server, count, sent, reconnect=reconnect)
    try:
        times = [request(server, tls) for _ in range(requests)]
        held, closed = len(silent), silent.closed
    finally:
        silent.close()
    served = sorted(seconds for seconds in times if seconds is not None)
    figures = "no response"
    if served:
        median, p99 = statistics.median(served), served[min(len(served) - 1, len(served) * 99 // 100)]
        figures = f"median {1e3 * median:6.2f} ms  p99 {1e3 * p99:6.2f} ms"
    print(
        f"{count:6} silent ({held:5} held, {closed:6} closed): {len(served)} of {requests} served  {figures}",
        flush=True,
    )


def tls_of(directory: Path) -> tuple[tuple[str, ...], ssl.SSLContext]:
    """Create a certificate in a directory; return the server's flags and the client's TLS settings."""
    cert, key = directory / "cert.pem", directory / "key.pem"
    create = f"req -x509 -newkey rsa:2048 -nodes -subj /CN=a -addext subjectAltName=IP:{CLIENT}"
    subprocess.run(
        ["openssl", *create.split(), "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True
    )
    return ("--tls-cert", str(cert), "--tls-key", str(key)), ssl.create_default_context(cafile=str(cert))


def main() -> None:
    """Measure each number of silent connections, in two rounds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--silent", type=int, nargs="+", default=[0, 4_700, 10_000])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--half", action="store_true", help="send a part of a head")
    parser.add_argument("--reconnect", action="store_true", help="open closed connections again")
    parser.add_argument("--tls", action="store_true", help="measure TLS handshakes that never end")
    options = parser.parse_args()
    half = CLIENT_HELLO if options.tls else b"GET /healthz HT"
    needed = max(options.silent) + 1_024
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed if hard < 0 else min(needed, hard), hard))
    print(machine())
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        flags, tls = tls_of(Path(name)) if options.tls else ((), None)
        variables = UNLIMITED | {"IMAGEHOST_LOG_ACCESS": "false"}
        server = stack.enter_context(running(Path(name) / "data", *flags, variables=variables))
        measure(server, options.requests, 0, b"", reconnect=False, tls=tls)
        for _ in range(options.rounds):
            for count in options.silent:
                sent = half if options.half else b""
                measure(server, options.requests, count, sent, reconnect=options.reconnect, tls=tls)


if __name__ == "__main__":
    main()
