"""The memory of the server does not grow with the size of an upload."""

from __future__ import annotations

import re
import socket
import sys
from pathlib import Path

import pytest
from tests.faults.conftest import staged_files
from tests.waiting import PATIENCE

from imagehost_core.limits import MAX_FILE_BYTES, MAX_FILES_PER_REQUEST
from imagehost_server.testing import RunningServer, running

MAX_GROWTH_KIB = 100_000
"""100 MB, in the unit of /proc."""
CHUNK_BYTES = 2**20


def peak_memory(server: RunningServer) -> dict[int, int]:
    """Return the peak resident memory of each HTTP process in KiB, by its process id."""
    task = Path(f"/proc/{server.process.pid}/task/{server.process.pid}")
    peaks = {}
    for pid in map(int, (task / "children").read_text(encoding="ascii").split()):
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
        match = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
        assert match is not None
        peaks[pid] = int(match[1])
    return peaks


def send(server: RunningServer, files: int) -> bytes:
    """Send `files` files of 50 MB in chunks, and return the response."""
    start = b'\r\n--B\r\nContent-Disposition: form-data; name="files[]"; filename="x.png"\r\n\r\n'
    end = b"\r\n--B--\r\n"
    length = files * (len(start) + MAX_FILE_BYTES) + len(end) - 2
    head = (
        f"POST /v1/upload HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.token}\r\n"
        f"Content-Type: multipart/form-data; boundary=B\r\nContent-Length: {length}\r\n"
        "Connection: close\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        connection.sendall(head.encode())
        for number in range(files):
            connection.sendall(start if number else start[2:])
            for _ in range(MAX_FILE_BYTES // CHUNK_BYTES):
                connection.sendall(bytes(CHUNK_BYTES))
        connection.sendall(end)
        response = b""
        while chunk := connection.recv(65_536):
            response += chunk
    return response


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_twenty_files_of_50_mb_grow_the_server_by_less_than_100_mb(tmp_path: Path) -> None:
    with running(tmp_path / "data", variables={"IMAGEHOST_STORAGE_MIN_FREE_BYTES": "0"}) as server:
        before = peak_memory(server)
        response = send(server, MAX_FILES_PER_REQUEST)
        after = peak_memory(server)
        assert b" 415 " in response
        assert b"files[19] x.png" in response
        assert before.keys() == after.keys()
        assert {pid for pid in after if after[pid] - before[pid] > MAX_GROWTH_KIB} == set()
        assert staged_files(server.data) == []
