#!/usr/bin/env bash
# Django's ImageField takes width and height of a photograph without its EXIF orientation.
# 
# Django 5.2.9 with Pillow 13.0.0. get_image_dimensions(), which fills width_field and height_field, reports the pixels as
# they are stored; every browser shows the portrait of a phone upright, so that the space reserved for it is on its side.
# Seen: 64 × 32 for an image that is shown as 32 × 64.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet django==5.2.9 pillow==13.0.0
env/bin/python - <<'PYTHON'
from io import BytesIO

from django.core.files.images import get_image_dimensions
from PIL import Image, ImageOps

exif = Image.Exif()
exif[274] = 6
file = BytesIO()
Image.new("RGB", (64, 32), "red").save(file, "JPEG", exif=exif)
with Image.open(BytesIO(file.getvalue())) as image:
    shown = ImageOps.exif_transpose(image).size
seen = get_image_dimensions(BytesIO(file.getvalue()))
print("shown", shown, "Django", seen)
assert (shown, seen) == ((32, 64), (64, 32))
PYTHON
