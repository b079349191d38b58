#!/usr/bin/env bash
# The size of a HEIC file whose picture is not a whole number of blocks is that of the blocks, less one column.
# 
# image-size 2.1.0 (npm). x265 codes whole blocks and the property clap says what is shown; image-size reads the denominator
# of its width for the width that is cut off. The denominator is 1, so each such picture is 1 narrower than its blocks.
# Seen: 63 × 64 for a picture of 60 × 40 by pillow-heif 1.8.1; sharp 0.35.5 says 60 × 40.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet pillow==13.0.0 pillow-heif==1.8.1
env/bin/python - <<'PYTHON'
import pillow_heif
from PIL import Image

pillow_heif.register_heif_opener()
Image.new("RGB", (60, 40), "red").save("photo.heic")
PYTHON
npm install --silent --no-audit --no-fund image-size@2.1.0 sharp@0.35.5
cat > try.mjs <<'JAVASCRIPT'
import assert from 'node:assert';
import {readFileSync} from 'node:fs';
import {imageSize} from 'image-size';
import sharp from 'sharp';

const data = readFileSync('photo.heic');
const seen = [imageSize(data), await sharp(data).metadata()].map(({width, height}) => [width, height]);
console.log(seen);
assert.deepStrictEqual(seen, [[63, 64], [60, 40]]);
JAVASCRIPT
node try.mjs
