#!/usr/bin/env bash
# Readers of sizes do not understand the turn of an AVIF: one gives no size at all, one the opposite turn.
# 
# imagesize 2.0.1 (PyPI), probe-image-size 7.5.0 (npm). The property irot is one byte; imagesize wants the five of a box
# with a version and answers (-1, -1). probe-image-size takes the turn for its opposite: 8 for an image to be turned by
# 90° clockwise, which is 6 in EXIF and in Pillow 13.0.0, which wrote it. A page that turns by it shows the image upside down.
# Seen: turned AVIF (-1, -1) and 8, its mirror image 6; JPEG with the same EXIF (32, 64) and 6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet pillow==13.0.0 imagesize==2.0.1
npm install --silent --no-audit --no-fund probe-image-size@7.5.0
env/bin/python - <<'PYTHON'
import imagesize
from PIL import Image

ORIENTATION = 274
for orientation in (6, 8):
    for extension in ("jpg", "avif"):
        exif = Image.Exif()
        exif[ORIENTATION] = orientation
        Image.new("RGB", (64, 32), "red").save(f"{orientation}.{extension}", exif=exif)
        with Image.open(f"{orientation}.{extension}") as image:
            assert image.getexif()[ORIENTATION] == orientation
seen = [imagesize.get(f"6.{extension}") for extension in ("jpg", "avif")]
print("imagesize", seen)
assert seen == [(32, 64), (-1, -1)], seen
PYTHON
cat > try.mjs <<'JAVASCRIPT'
import assert from 'node:assert';
import {readFileSync} from 'node:fs';
import probe from 'probe-image-size';

const seen = ['6.jpg', '6.avif', '8.jpg', '8.avif'].map((name) => [name, probe.sync(readFileSync(name)).orientation]);
console.log('probe-image-size', seen);
assert.deepStrictEqual(seen, [['6.jpg', 6], ['6.avif', 8], ['8.jpg', 8], ['8.avif', 6]]);
JAVASCRIPT
node try.mjs
