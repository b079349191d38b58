#!/usr/bin/env bash
# An animation of 60 frames a second that is saved as GIF becomes six times as slow in browsers.
# 
# Pillow 13.0.0. GIF has hundredths of a second, and Pillow cuts off the rest: 16 ms become 10, which browsers show for 100,
# as they do with all times of 10 ms and less. sharp 0.35.5 rounds to 20 ms, which they keep.
# Seen: of 16, 17 and 39 ms, 10, 10 and 30 by Pillow, 20, 20 and 40 by sharp.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet pillow==13.0.0
npm install --silent --no-audit --no-fund sharp@0.35.5
env/bin/python - <<'PYTHON'
from PIL import Image, ImageSequence

TIMES = [16, 17, 39]
first, *others = [Image.new("RGB", (40, 30), colour) for colour in ("red", "green", "blue")]
first.save("fast.webp", save_all=True, append_images=others, duration=TIMES)
first.save("fast.gif", save_all=True, append_images=others, duration=TIMES)
with Image.open("fast.gif") as gif:
    seen = [frame.info["duration"] for frame in ImageSequence.Iterator(gif)]
print(seen)
assert seen == [10, 10, 30], seen
PYTHON
cat > try.mjs <<'JAVASCRIPT'
import assert from 'node:assert';
import sharp from 'sharp';

const {delay} = await sharp(await sharp('fast.webp', {animated: true}).gif().toBuffer()).metadata();
console.log('sharp', delay);
assert.deepStrictEqual(delay, [20, 20, 40]);
JAVASCRIPT
node try.mjs
