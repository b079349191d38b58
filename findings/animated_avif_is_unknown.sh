#!/usr/bin/env bash
# An animated AVIF, which browsers show, is no image for sharp, image-size, filetype and Willow.
# 
# sharp 0.35.5 and image-size 2.1.0 (npm), filetype 1.2.0 and Willow 1.12.0 (PyPI; Wagtail uses it). Its major brand is avis.
# Not even the first frame can be read: an upload is refused as if it were damaged, and the same file without animation is not.
# Seen: by Pillow 13.0.0, three frames; the others an error or None. The still AVIF is read by all.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet pillow==13.0.0 filetype==1.2.0 willow==1.12.0
npm install --silent --no-audit --no-fund sharp@0.35.5 image-size@2.1.0
env/bin/python - <<'PYTHON'
import filetype
from PIL import Image
from willow.image import Image as Willow

first, *others = [Image.new("RGB", (60, 40), colour) for colour in ("red", "green", "blue")]
first.save("still.avif")
first.save("animated.avif", save_all=True, append_images=others, duration=100)
with Image.open("animated.avif") as image:
    assert image.n_frames == 3
seen = []
for name in ("still.avif", "animated.avif"):
    with open(name, "rb") as file:
        try:
            size = Willow.open(file).get_size()
        except Exception as error:
            size = type(error).__name__
    seen.append((filetype.guess_mime(name), size))
print(*seen)
assert seen == [("image/avif", (60, 40)), (None, "UnrecognisedImageFormatError")], seen
PYTHON
cat > try.mjs <<'JAVASCRIPT'
import assert from 'node:assert';
import {readFileSync} from 'node:fs';
import {imageSize} from 'image-size';
import sharp from 'sharp';

const seen = [];
for (const name of ['still.avif', 'animated.avif']) {
  const data = readFileSync(name);
  for (const read of [async () => imageSize(data), () => sharp(data).metadata()]) {
    seen.push(await read().then(({width}) => width, (error) => error.message));
  }
}
console.log(seen);
assert.deepStrictEqual(seen, [60, 60, 'unsupported file type: undefined', 'Input buffer contains unsupported image format']);
JAVASCRIPT
node try.mjs
