#!/usr/bin/env bash
# A photograph in HEIC is a video, and JPEG 2000 is a JPEG.
# 
# puremagic 1.30. The first guess goes by the box ftyp, which HEIC shares with MP4: a list of allowed types that has
# image/heic refuses photographs of telephones, and one for videos takes them. filetype 1.2.0 tells them apart.
# Seen: video/mp4 and image/jpeg, with filetype image/heic and image/jpx; AVIF is right in both.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet puremagic==1.30 filetype==1.2.0 pillow==13.0.0 pillow-heif==1.8.1
env/bin/python - <<'PYTHON'
import filetype
import pillow_heif
import puremagic
from PIL import Image

pillow_heif.register_heif_opener()
seen = []
for extension in ("heic", "jp2", "avif"):
    name = f"photo.{extension}"
    Image.new("RGB", (64, 64), "red").save(name)
    with open(name, "rb") as file:
        data = file.read()
    seen.append((puremagic.from_string(data, mime=True), filetype.guess_mime(data)))
print(*seen)
assert seen == [("video/mp4", "image/heic"), ("image/jpeg", "image/jpx"), ("image/avif", "image/avif")], seen
PYTHON
