#!/usr/bin/env bash
# A JPEG that is opened by its path, changed in place and saved as JPEG XL is saved without the changes.
# 
# pillow-jxl-plugin 1.3.8 with Pillow 13.0.0. Such an image still has the format JPEG and a file name, so that the plug-in
# reads the file again and repacks its bytes; thumbnail(), paste() and ImageDraw work in place. What was drawn on it,
# the smaller size and quality= are lost, with a warning that speaks of lossless files only.
# Seen: 600 × 400, red; from bytes instead of a path, or with lossless_jpeg=False, 60 × 40, black.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet pillow==13.0.0 pillow-jxl-plugin==1.3.8
env/bin/python -W ignore - <<'PYTHON'
from io import BytesIO
from pathlib import Path

import pillow_jxl  # registers the format
from PIL import Image, ImageDraw

source = Path("photo.jpg")
Image.new("RGB", (600, 400), "red").save(source)
seen = []
for opened, options in ((source, {}), (BytesIO(source.read_bytes()), {}), (source, {"lossless_jpeg": False})):
    with Image.open(opened) as image:
        image.thumbnail((60, 60))
        ImageDraw.Draw(image).rectangle((0, 0, 60, 60), fill="black")
        image.save("photo.jxl", quality=50, **options)
    with Image.open("photo.jxl") as saved:
        seen.append((saved.size, saved.getpixel((5, 5))[0] > 200))
print(*seen)
assert seen == [((600, 400), True), ((60, 40), False), ((60, 40), False)], seen
PYTHON
