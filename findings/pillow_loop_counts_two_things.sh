#!/usr/bin/env bash
# A GIF that plays three times plays twice as the WebP or PNG that is saved from it.
# 
# Pillow 13.0.0. loop is the number in the file: GIF counts repetitions, WebP and APNG count plays. Who passes it on loses
# one; a GIF without the number plays once, and what is saved from it for ever. sharp 0.35.5 translates.
# Seen: of a GIF with loop 2, WebP and PNG with 2, by sharp 3; of a GIF that plays once, 0 for ever, by sharp 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet pillow==13.0.0
npm install --silent --no-audit --no-fund sharp@0.35.5
env/bin/python - <<'PYTHON'
from PIL import Image

first, *others = [Image.new("RGB", (40, 30), colour) for colour in ("red", "green", "blue")]
seen = []
for name, options in (("thrice", {"loop": 2}), ("once", {})):
    first.save(f"{name}.gif", save_all=True, append_images=others, duration=100, **options)
    for extension in ("webp", "png"):
        with Image.open(f"{name}.gif") as gif:
            passed_on = {key: value for key, value in gif.info.items() if key == "loop"}
            gif.save(f"{name}.{extension}", save_all=True, duration=100, **passed_on)
        with Image.open(f"{name}.{extension}") as image:
            seen.append((name, extension, image.info["loop"]))
print(seen)
assert seen == [("thrice", "webp", 2), ("thrice", "png", 2), ("once", "webp", 0), ("once", "png", 0)], seen
PYTHON
cat > try.mjs <<'JAVASCRIPT'
import assert from 'node:assert';
import sharp from 'sharp';

const loop = async (image) => (await sharp(await image.toBuffer()).metadata()).loop;
const seen = await Promise.all(['thrice', 'once'].map((name) => loop(sharp(`${name}.gif`, {animated: true}).webp())));
console.log('sharp', seen);
assert.deepStrictEqual(seen, [3, 1]);
JAVASCRIPT
node try.mjs
