#!/usr/bin/env bash
# Pillow opens an AVIF that is to be turned without turning it, and saves it again without the turn.
# 
# Pillow 13.0.0. An AVIF is turned by its property irot, which every decoder has to apply. Pillow reports it as an EXIF
# orientation and leaves the pixels; save() writes the bytes of EXIF that it has read, which do not say it any more.
# Seen: orientation 6 in the first file, none and no irot in the second, with the same pixels.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet pillow==13.0.0
env/bin/python - <<'PYTHON'
from io import BytesIO

from PIL import Image

ORIENTATION = 274
image = Image.new("RGB", (64, 32), "red")
exif = Image.Exif()
exif[ORIENTATION] = 6
first, second = BytesIO(), BytesIO()
image.save(first, "AVIF", exif=exif)
with Image.open(first) as opened:
    seen = [(opened.size, opened.getexif().get(ORIENTATION), b"irot" in first.getvalue())]
    opened.save(second, "AVIF")
with Image.open(second) as again:
    seen.append((again.size, again.getexif().get(ORIENTATION), b"irot" in second.getvalue()))
print(*seen)
assert seen == [((64, 32), 6, True), ((64, 32), None, False)], seen
PYTHON
