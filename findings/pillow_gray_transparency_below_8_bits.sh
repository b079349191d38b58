#!/usr/bin/env bash
# A gray PNG whose tRNS names a transparent level is opaque in Pillow if it has 2 or 4 bits a sample.
# 
# Pillow 13.0.0. The samples are scaled to 8 bits (1 of 2 bits becomes 85), and the level in tRNS is not, so that they
# never match. With 1 and 8 bits it is right. Browsers show all four transparent.
# Seen: alpha 0, 255, 255, 0 with 1, 2, 4 and 8 bits.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet pillow==13.0.0
env/bin/python - <<'PYTHON'
import struct
import zlib
from io import BytesIO

from PIL import Image


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def alpha(bits: int) -> int:
    """Return the alpha of a pixel of level 1, which tRNS says is transparent."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, bits, 0, 0, 0, 0))
    row = bytes([0, 1 << (8 - bits)])
    data = chunk(b"tRNS", struct.pack(">H", 1)) + chunk(b"IDAT", zlib.compress(row)) + chunk(b"IEND", b"")
    with Image.open(BytesIO(b"\x89PNG\r\n\x1a\n" + header + data)) as image:
        return image.convert("RGBA").getpixel((0, 0))[3]


seen = [alpha(bits) for bits in (1, 2, 4, 8)]
print(*seen)
assert seen == [0, 255, 255, 0], seen
PYTHON
