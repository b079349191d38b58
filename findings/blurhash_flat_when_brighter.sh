#!/usr/bin/env bash
# The BlurHash of an image that becomes brighter to the right is nearly flat; that of its mirror image is right.
# 
# blurhash 2.0.5 (npm). The scale of a hash is its largest coefficient; this encoder takes the largest positive one, so that
# larger negative ones are cut off. blurhash 1.1.5 and blurhash-python 1.2.2 (PyPI) take absolute values: one picture has two
# hashes, and the placeholder depends on the language of the server.
# Seen: last less first column 190 in the image; by the hash of npm 17, of the mirror image -213; by those of PyPI 161.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for package in blurhash==1.1.5 blurhash-python==1.2.2; do
  python3 -m venv "${package%%=*}"
  "${package%%=*}/bin/pip" install --quiet pillow==13.0.0 "$package"
done
npm install --silent --no-audit --no-fund blurhash@2.0.5
cat > try.mjs <<'JAVASCRIPT'
import {writeFileSync} from 'node:fs';
import {encode} from 'blurhash';

const [width, height] = [20, 14];
const hashes = [false, true].map((mirrored) => {
  const pixels = new Uint8ClampedArray(width * height * 4).fill(255);
  for (let pixel = 0; pixel < width * height; pixel++) {
    const column = mirrored ? width - 1 - (pixel % width) : pixel % width;
    pixels.fill(20 + 10 * column, pixel * 4, pixel * 4 + 3);
  }
  return encode(pixels, width, height, 4, 3);
});
writeFileSync('hashes.json', JSON.stringify(hashes));
JAVASCRIPT
node try.mjs
cat > try.py <<'PYTHON'
import json
import sys
from pathlib import Path

import blurhash
from PIL import Image

WIDTH, HEIGHT = 20, 14
image = Image.new("RGB", (WIDTH, HEIGHT))
for x in range(WIDTH):
    image.paste((20 + 10 * x,) * 3, (x, 0, x + 1, HEIGHT))
image.save("image.png")
if sys.argv[1] == "blurhash-python":
    encoded = blurhash.encode("image.png", x_components=4, y_components=3)
else:
    encoded = blurhash.encode([[image.getpixel((x, y)) for x in range(WIDTH)] for y in range(HEIGHT)], 4, 3)


def spread(code: str) -> int:
    decoded = blurhash.decode(code, WIDTH, HEIGHT)
    if isinstance(decoded, list):
        return decoded[7][-1][0] - decoded[7][0][0]
    return decoded.getpixel((WIDTH - 1, 7))[0] - decoded.getpixel((0, 7))[0]


seen = [spread(code) for code in (*json.loads(Path("hashes.json").read_text()), encoded)]
print(sys.argv[1], seen, encoded)
assert seen == [17, -213, 161], seen
PYTHON
for package in blurhash blurhash-python; do "$package/bin/python" try.py "$package"; done
