#!/usr/bin/env bash
# An animated WebP of opaque frames says that it has alpha if a frame changes a part of the image.
# 
# libwebp as in Pillow 13.0.0. What stays from the frame before is stored as transparent, and the flag of the file counts
# that. A reader that decides by the flag or by the mode, such as between JPEG and PNG, takes it for a transparent image.
# Seen: mode RGBA and the flag, and alpha 255 in all pixels of all frames.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet pillow==13.0.0
env/bin/python - <<'PYTHON'
from io import BytesIO

from PIL import Image, ImageDraw

first = Image.new("RGB", (64, 64), "white")
second = first.copy()
ImageDraw.Draw(second).line((0, 0, 63, 63), fill="red")
file = BytesIO()
first.save(file, "WEBP", save_all=True, append_images=[second], duration=80, lossless=True)
flags = file.getvalue()[20]
assert file.getvalue()[12:16] == b"VP8X"
with Image.open(file) as image:
    alphas = []
    for number in range(image.n_frames):
        image.seek(number)
        alphas.append(image.convert("RGBA").getextrema()[3])
    print("mode", image.mode, "flag of alpha", bool(flags & 0x10), "alpha", *alphas)
    assert (image.mode, flags & 0x10) == ("RGBA", 0x10)
assert alphas == [(255, 255), (255, 255)], alphas
PYTHON
