"""Compare uploads with the same work of a plain process while another session keeps all cores busy.

    python -m bench.busy [--loops 4] [--rounds 5] [--megapixels 5]

A session of its own runs busy loops. Beside it, in alternation, one photograph is uploaded to a server, and a
plain process in a new session does the same ingest. A ratio is the time of the upload divided by that of the
plain process: about 1 if the scheduler gives image workers the share that any program of the machine gets.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.peers import UNLIMITED, machine, upload
from bench.render import as_jpeg, sample_image
from bench.upload import scaled

from imagehost_server.testing import running

PLAIN = """
import sys, time
from pathlib import Path
from imagehost_core.formats import Format
from imagehost_core.jobs import IngestJob
from imagehost_core.pixels.ingest import ingest
data = Path(sys.argv[1]).read_bytes()
started = time.perf_counter()
ingest(IngestJob(Format.JPEG), data)
print(time.perf_counter() - started)
"""
"""The program of the plain process: ingest a file, and print the seconds of that alone."""


def main() -> None:
    """Print the times of both, and the ratio of their medians."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--loops", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megapixels", type=float, default=5)
    options = parser.parse_args()
    loop = f"import os\nfor _ in range({options.loops - 1}):\n    if not os.fork(): break\nwhile True: pass"
    print(machine())
    with (
        tempfile.TemporaryDirectory() as name,
        running(Path(name, "data"), variables=UNLIMITED) as server,
        subprocess.Popen([sys.executable, "-c", loop], start_new_session=True) as loops,
    ):
        photograph = Path(name, "photograph.jpg")
        photograph.write_bytes(as_jpeg(scaled(sample_image(), options.megapixels)))
        plain = [sys.executable, "-c", PLAIN, str(photograph)]
        uploads, alone = list[float](), list[float]()
        try:
            for _ in range(options.rounds + 1):
                started = time.perf_counter()
                upload(server, photograph.read_bytes())
                uploads.append(time.perf_counter() - started)
                output = subprocess.run(plain, capture_output=True, check=True, start_new_session=True).stdout
                alone.append(float(output))
        finally:
            subprocess.run(["pkill", "-KILL", "--session", str(loops.pid)], check=True)
    # The first round starts the image worker.
    upload_s, plain_s = statistics.median(uploads[1:]), statistics.median(alone[1:])
    print(
        f"{options.megapixels:g} megapixels beside {options.loops} busy loops: upload {upload_s:.2f} s,"
        f" plain process {plain_s:.2f} s: {upload_s / plain_s:.2f} ×, worst {max(uploads[1:]) / plain_s:.2f}"
    )


if __name__ == "__main__":
    main()
