#!/usr/bin/env bash
# A GIF saved as AVIF by Pillow plays at 1 ms a frame, and one saved as WebP at the duration of its first frame.
# 
# Pillow 13.0.0. Image.open(gif).save(…, save_all=True) passes on what each writer takes from Image.info: the
# writer of APNG takes each frame's duration and the number of plays, that of WebP the duration of the frame that
# is current for all frames, that of AVIF none.
# Seen: PNG [50, 200, 400] loop 3; WEBP [50, 50, 50] loop 0; AVIF [1, 1, 1] loop None.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet pillow==13.0.0
env/bin/python - <<'PYTHON'
from io import BytesIO

from PIL import Image

frames = [Image.new("RGB", (8, 8), color) for color in ("red", "green", "blue")]
gif = BytesIO()
frames[0].save(gif, "GIF", save_all=True, append_images=frames[1:], duration=[50, 200, 400], loop=3)
seen = {}
for kind in ("PNG", "WEBP", "AVIF"):
    saved = BytesIO()
    with Image.open(BytesIO(gif.getvalue())) as source:
        source.save(saved, kind, save_all=True)
    with Image.open(BytesIO(saved.getvalue())) as image:
        durations = []
        for number in range(image.n_frames):
            image.seek(number)
            image.load()
            durations.append(round(image.info["duration"]))
        seen[kind] = durations, image.info.get("loop")
    print(kind, *seen[kind])
assert seen == {"PNG": ([50, 200, 400], 3), "WEBP": ([50, 50, 50], 0), "AVIF": ([1, 1, 1], None)}, seen
PYTHON
