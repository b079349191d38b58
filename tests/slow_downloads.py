"""A download at a steady low rate, by curl."""

from __future__ import annotations

import shutil
import struct
import subprocess
import zlib
from random import Random

import httpx2
import pytest

SIDE = 2_600
"""Width and height of an image of 20 MB."""
RATE = 150_000
"""Bytes per second: less than the 4 MiB of a kernel's buffer in 15 seconds."""


def random_png(side: int = SIDE) -> bytes:
    """Return a PNG of random pixels, which has three bytes for each."""
    rows = b"".join(b"\0" + Random(row).randbytes(3 * side) for row in range(side))
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 0)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )


def require_whole_download(client: httpx2.Client) -> None:
    """Upload an image of 20 MB, and require that curl gets it whole at a low rate."""
    if shutil.which("curl") is None:
        pytest.skip("NOT TESTED: curl is missing")
    content, form = random_png(), {"convertToWebP": "false"}
    response = client.post("/v1/upload", files={"image": content}, data=form).raise_for_status()
    url = f"{str(client.base_url).rstrip('/')}/img/{response.json()['data']['id']}"
    command = ["curl", "-sk", "--http1.1", "--limit-rate", str(RATE), "-o", "/dev/null"]
    process = subprocess.run(
        [*command, "-w", "%{http_code} %{size_download}", url], capture_output=True, text=True, check=False
    )
    assert (process.returncode, process.stdout) == (0, f"200 {len(content)}")
