#!/usr/bin/env bash
# Pillow saves an AVIF that is wider than 32,768 pixels, and cannot open its own file.
# 
# Pillow 13.0.0. The encoder takes up to 65,536 pixels; the decoder's default limit of a dimension, which is
# libavif's, is half of that, and the error says only that the file cannot be identified.
# Seen: 32,768 × 1 opens; 32,769 × 1 is written, then UnidentifiedImageError.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet pillow==13.0.0
env/bin/python - <<'PYTHON'
from io import BytesIO

from PIL import Image, UnidentifiedImageError

seen = {}
for width in (32_768, 32_769):
    saved = BytesIO()
    Image.new("RGB", (width, 1)).save(saved, "AVIF")
    try:
        with Image.open(BytesIO(saved.getvalue())) as image:
            seen[width] = f"opened, {image.size[0]} × {image.size[1]}"
    except UnidentifiedImageError:
        seen[width] = "UnidentifiedImageError"
    print(width, seen[width])
assert seen == {32_768: "opened, 32768 × 1", 32_769: "UnidentifiedImageError"}, seen
PYTHON
