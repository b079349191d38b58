#!/usr/bin/env bash
# A ZIP that zipfile writes to a stream without seek can be read by stream readers only if it is compressed.
# 
# CPython's zipfile, stream-unzip 0.0.101. Without seek, zipfile puts size and CRC-32 behind the data (data
# descriptor, APPNOTE 4.3.9). Stored data has no end of its own, so a reader that cannot seek refuses the entry;
# deflated data ends itself. Images are usually stored.
# Seen: stored NotStreamUnzippable, deflated read.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet stream-unzip==0.0.101
env/bin/python - <<'PYTHON'
import io
import zipfile

from stream_unzip import NotStreamUnzippable, stream_unzip


class Unseekable(io.RawIOBase):
    written = b""

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        self.written += bytes(data)
        return len(data)


seen = {}
for name, method in (("stored", zipfile.ZIP_STORED), ("deflated", zipfile.ZIP_DEFLATED)):
    sink = Unseekable()
    with zipfile.ZipFile(sink, "w", method) as archive:
        archive.writestr("a.jpg", b"\xff" * 100)
    try:
        seen[name] = [len(b"".join(chunks)) for _, _, chunks in stream_unzip([sink.written])]
    except NotStreamUnzippable as error:
        seen[name] = type(error).__name__
    print(name, seen[name])
assert seen == {"stored": "NotStreamUnzippable", "deflated": [100]}, seen
PYTHON
