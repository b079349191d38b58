"""Measure the CPU time of public originals of 5 MB behind nginx, sent by the server or by nginx itself.

    python -m bench.originals [--rounds 5] [--requests 100]

nginx has the configuration of docs/examples/nginx_accel.conf, and no cache. Rounds of both servers alternate;
the output has the medians, in milliseconds for each request. The client is another process.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from statistics import median

import httpx2
from attrs import field, frozen
from bench.peers import cpu_seconds, machine
from PIL import Image

from imagehost_server.serve.runner import free_port
from imagehost_server.testing import RunningServer, running

LOCATION = "/imagehost-files/"
EXAMPLE = Path(__file__).parent.parent / "docs" / "examples" / "nginx_accel.conf"
LOAD = """
import sys, urllib.request
for _ in range(int(sys.argv[2])):
    with urllib.request.urlopen(sys.argv[1]) as response:
        assert len(response.read()) == int(sys.argv[3])
"""


def main() -> None:
    """Measure both servers in alternating rounds, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=100)
    options = parser.parse_args()
    print(machine())
    content = original()
    with ExitStack() as stack:
        candidates = [
            Candidate.started(stack, "the server", {}, content),
            Candidate.started(stack, "nginx", {"IMAGEHOST_DELIVERY_ACCEL_REDIRECT": LOCATION}, content),
        ]
        for _ in range(options.rounds):
            for candidate in candidates:
                candidate.measure(options.requests, len(content))
    for candidate in candidates:
        server, nginx = (median(times) for times in zip(*candidate.times, strict=True))
        print(
            f"{len(content):,} bytes sent by {candidate.name}: server {server:.2f} ms, nginx {nginx:.2f} ms"
        )


def original() -> bytes:
    """Return an image of about 5 MB, which is stored unchanged."""
    buffer = BytesIO()
    Image.frombytes("RGB", (1_600, 1_100), random.Random(1).randbytes(1_600 * 1_100 * 3)).save(buffer, "PNG")
    return buffer.getvalue()


@frozen
class Candidate:
    """A server behind nginx.

    Attributes:
        name: What sends the bytes.
        url: The URL of the original.
        server: The server.
        nginx: The process of nginx.
        times: CPU time of the server and of nginx for each request, in milliseconds, of each round.
    """

    name: str
    url: str
    server: RunningServer
    nginx: subprocess.Popen[bytes]
    times: list[tuple[float, float]] = field(factory=list)

    @classmethod
    def started(cls, stack: ExitStack, name: str, variables: dict[str, str], content: bytes) -> Candidate:
        """Start a server and nginx, and upload the original."""
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="imagehost-bench-")))
        trusted = {"IMAGEHOST_TRUSTED_PROXIES": "127.0.0.1", **variables}
        server = stack.enter_context(running(folder / "data", variables=trusted))
        port = free_port("127.0.0.1")
        (folder / "nginx.conf").write_text(configuration(folder, port, server.port), encoding="utf-8")
        nginx = subprocess.Popen(["nginx", "-e", f"{folder}/error.log", "-c", f"{folder}/nginx.conf"])
        stack.callback(nginx.wait)
        stack.callback(nginx.terminate)
        headers = {"Authorization": f"Bearer {server.token}"}
        response = httpx2.post(
            f"{server.origin}/v1/upload",
            files={"image": content},
            data={"convertToWebP": "false"},
            headers=headers,
            timeout=60,
        )
        image_id = response.raise_for_status().json()["data"]["id"]
        time.sleep(1)  # nginx listens
        return cls(name, f"http://127.0.0.1:{port}/img/{image_id}", server, nginx)

    def measure(self, requests: int, size: int) -> None:
        """Request the original, and add a round to `times`."""
        pids = self.server.process.pid, self.nginx.pid
        before = [cpu_seconds(pid) for pid in pids]
        subprocess.run([sys.executable, "-c", LOAD, self.url, str(requests), str(size)], check=True)
        server, nginx = (
            1_000 * (cpu_seconds(pid) - earlier) / requests for pid, earlier in zip(pids, before, strict=True)
        )
        self.times.append((server, nginx))


def configuration(folder: Path, port: int, upstream: int) -> str:
    """Return the configuration of nginx without TLS."""
    temporary = "".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    files = EXAMPLE.read_text(encoding="utf-8").replace("/var/lib/imagehost/", f"{folder}/data/")
    user = "user root;" if os.geteuid() == 0 else ""
    return f"""
{user} daemon off; pid {folder}/pid; error_log {folder}/error.log; events {{}}
http {{
    access_log off; sendfile on; {temporary}
    upstream imagehost {{ server 127.0.0.1:{upstream}; keepalive 8; keepalive_timeout 10s; }}
    server {{
        listen 127.0.0.1:{port};
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
        proxy_set_header X-Forwarded-Proto https;
        {files}
        location / {{ proxy_pass http://imagehost; }}
    }}
}}
"""


if __name__ == "__main__":
    main()
