"""A body of a gigabyte passes through the server, and the server does not grow with it."""

from __future__ import annotations

import re
import socket
import sys
from pathlib import Path

import pytest

from imagehost_core.limits import MAX_FILE_BYTES, MAX_FILES_PER_REQUEST
from imagehost_server.testing import RunningServer, running

GROWTH_KIB = 100_000
"""100 MB, in the unit of /proc."""

PIECE = 2**20


def peaks(server: RunningServer) -> dict[int, int]:
    """Return the most memory that each process which answers requests has held, in KiB, by its id."""
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text(
        encoding="ascii"
    )
    found = {}
    for pid in map(int, children.split()):
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
        match = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
        assert match is not None
        found[pid] = int(match[1])
    return found


def send(server: RunningServer, files: int) -> bytes:
    """Send that many files of 50 MB, piece by piece, and return the answer."""
    start = b'\r\n--B\r\nContent-Disposition: form-data; name="files[]"; filename="x.png"\r\n\r\n'
    end = b"\r\n--B--\r\n"
    length = files * (len(start) + MAX_FILE_BYTES) + len(end) - 2
    head = (
        f"POST /v1/upload HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.token}\r\n"
        f"Content-Type: multipart/form-data; boundary=B\r\nContent-Length: {length}\r\n"
        "Connection: close\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.port), timeout=300) as wire:
        wire.sendall(head.encode())
        for number in range(files):
            wire.sendall(start if number else start[2:])
            for _ in range(MAX_FILE_BYTES // PIECE):
                wire.sendall(bytes(PIECE))
        wire.sendall(end)
        answer = b""
        while piece := wire.recv(65_536):
            answer += piece
    return answer


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_twenty_files_of_50_mb_grow_the_server_by_less_than_100_mb(tmp_path: Path) -> None:
    with running(tmp_path / "data", variables={"IMAGEHOST_STORAGE_MIN_FREE_BYTES": "0"}) as server:
        before = peaks(server)
        answer = send(server, MAX_FILES_PER_REQUEST)
        after = peaks(server)
        assert b" 415 " in answer
        assert b"files[19] x.png" in answer
        assert before.keys() == after.keys()
        assert {pid for pid in after if after[pid] - before[pid] > GROWTH_KIB} == set()
        left = [
            path for path in (server.data / "staging").rglob("*") if path.is_file() and path.name != "lock"
        ]
        assert left == []
