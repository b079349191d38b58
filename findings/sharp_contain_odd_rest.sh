#!/usr/bin/env bash
# sharp puts the odd row of contain below the image: one row above, two below.
# 
# sharp 0.35.5. 7 × 5 pixels contained in 10 × 10 are 10 × 7; the three rows that are left are divided by rounding
# down at the top. A renderer that rounds up there is one row off in each such thumbnail.
# Seen: 1 row above, 7 rows of image, 2 below.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund sharp@0.35.5
cat > try.mjs <<'JAVASCRIPT'
import assert from 'node:assert';
import sharp from 'sharp';

const image = await sharp({create: {width: 7, height: 5, channels: 3, background: 'red'}}).png().toBuffer();
const pixels = await sharp(image).resize(10, 10, {fit: 'contain', background: 'white'}).removeAlpha().raw().toBuffer();
const rows = Array.from({length: 10}, (_, y) => (pixels[(y * 10 + 5) * 3 + 1] > 127 ? 'w' : 'r')).join('');
console.log(rows);
assert.strictEqual(rows, 'wrrrrrrrww');
JAVASCRIPT
node try.mjs
