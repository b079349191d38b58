#!/usr/bin/env bash
# Pillow cannot save a large noisy image as an optimised or progressive JPEG of quality 100 without subsampling.
# 
# Pillow 13.0.0. Its buffer for optimised and progressive files is estimated from the size of the image; the file
# of a noisy one is larger. libjpeg then says 'Suspension not allowed here' on standard error, and save raises
# OSError. A larger ImageFile.MAXBLOCK, or a plain baseline file, works.
# Seen: optimize and progressive OSError; baseline 4.1 MB; optimize with a larger MAXBLOCK saved.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet pillow==13.0.0
env/bin/python - <<'PYTHON'
import random
from io import BytesIO

from PIL import Image, ImageFile

noise = Image.frombytes("RGB", (1000, 1000), random.Random(1).randbytes(3_000_000))


def outcome(**options: bool) -> str:
    try:
        noise.save(BytesIO(), "JPEG", quality=100, subsampling=0, **options)
    except OSError as error:
        return f"OSError: {error}"
    return "saved"


seen = {"optimize": outcome(optimize=True), "progressive": outcome(progressive=True), "baseline": outcome()}
ImageFile.MAXBLOCK = 8_000_000
seen["larger MAXBLOCK"] = outcome(optimize=True)
for name, text in seen.items():
    print(name, text)
broken = "OSError: broken data stream when writing image file"
expected = {"optimize": broken, "progressive": broken, "baseline": "saved", "larger MAXBLOCK": "saved"}
assert seen == expected, seen
PYTHON
