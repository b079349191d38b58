#!/usr/bin/env bash
# A 16-bit gray PNG becomes white when Pillow converts it, and is right when it has an alpha channel.
# 
# Pillow 13.0.0. Gray of 16 bits opens as 'I;16', whose conversion to 'L' or 'RGB' clips each value at 255 instead
# of scaling it: any sample above 0x00FF is white. The same samples with alpha open as 'RGBA', scaled to 8 bits.
# Seen: I;16 value 32,768 converts to 255 (right: 128); gray with alpha opens as RGBA with 128.
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


def png(colour_type: int, samples: bytes) -> BytesIO:
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 16, colour_type, 0, 0, 0))
    return BytesIO(
        b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0" + samples)) + chunk(b"IEND", b"")
    )


gray, with_alpha = Image.open(png(0, b"\x80\x00")), Image.open(png(4, b"\x80\x00\xff\xff"))
seen = gray.mode, gray.convert("L").getpixel((0, 0)), with_alpha.mode, with_alpha.getpixel((0, 0))
print(*seen)
assert seen == ("I;16", 255, "RGBA", (128, 128, 128, 255)), seen
PYTHON
