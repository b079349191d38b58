#!/usr/bin/env bash
# Equal neighbouring frames are one frame after Pillow has saved them, except as AVIF.
# 
# Pillow 13.0.0. The writers of GIF, WebP and PNG add the duration of an equal frame to the one before it, so
# n_frames of what was written differs from the number of frames passed; a count that was stored before is wrong.
# Seen: GIF, WEBP and PNG 2 frames of 300 ms; AVIF 3 frames of 100, 200 and 300 ms.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet pillow==13.0.0
env/bin/python - <<'PYTHON'
from io import BytesIO

from PIL import Image

frames = [Image.new("RGB", (8, 8), color) for color in ("red", "red", "blue")]
seen = {}
for kind in ("GIF", "WEBP", "PNG", "AVIF"):
    saved = BytesIO()
    frames[0].save(saved, kind, save_all=True, append_images=frames[1:], duration=[100, 200, 300])
    with Image.open(BytesIO(saved.getvalue())) as image:
        seen[kind] = []
        for number in range(image.n_frames):
            image.seek(number)
            image.load()
            seen[kind].append(round(image.info["duration"]))
    print(kind, seen[kind])
merged = [300, 300]
assert seen == {"GIF": merged, "WEBP": merged, "PNG": merged, "AVIF": [100, 200, 300]}, seen
PYTHON
