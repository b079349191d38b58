#!/usr/bin/env bash
# A JPEG XL file never gets the colour profile that is given to save(), and has sRGB instead.
# 
# pillow-jxl-plugin 1.3.8 with Pillow 13.0.0. The values stay and their meaning changes: photographs of phones with a wide
# gamut become pale. JPEG, PNG, WebP and AVIF of the same call keep the profile.
# Seen: the test profile, which swaps red and green, in four formats; in JPEG XL, lossless too, another one.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet pillow==13.0.0 pillow-jxl-plugin==1.3.8
env/bin/python - <<'PYTHON'
from io import BytesIO

import pillow_jxl  # registers the format
from PIL import Image, ImageCms

srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB"))
swapped = srgb.tobytes().replace(b"rXYZ", b"----").replace(b"gXYZ", b"rXYZ").replace(b"----", b"gXYZ")
image = Image.new("RGB", (16, 16), (250, 10, 10))
seen = {}
for kind, options in {"PNG": {}, "JPEG": {}, "WEBP": {}, "AVIF": {}, "JXL": {"lossless": True}}.items():
    data = BytesIO()
    image.save(data, kind, icc_profile=swapped, **options)
    with Image.open(data) as saved:
        profile = ImageCms.ImageCmsProfile(BytesIO(saved.info["icc_profile"]))
        red, green, _ = ImageCms.profileToProfile(saved, profile, srgb).getpixel((8, 8))
        seen[kind] = "red" if red > green else "green"
print(seen)
assert seen == {"PNG": "green", "JPEG": "green", "WEBP": "green", "AVIF": "green", "JXL": "red"}, seen
PYTHON
