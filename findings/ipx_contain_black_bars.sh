#!/usr/bin/env bash
# contain of ipx makes the box smaller than asked and fills transparent images with opaque black.
# 
# ipx 3.1.1. 200 × 200 of an image of 100 × 50 is 50 × 50: without enlarge the box is scaled by the shorter side. Its
# bars are opaque black, also where the image has an alpha channel.
# Seen: 50 × 50, corner 0,0,0,255; with enlarge 200 × 200 and the same bars.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund ipx@3.1.1 sharp@0.35.5
cat > try.mjs <<'JAVASCRIPT'
import assert from 'node:assert';
import {createIPX, ipxFSStorage} from 'ipx';
import sharp from 'sharp';

const background = {r: 255, g: 0, b: 0, alpha: 0.5};
await sharp({create: {width: 100, height: 50, channels: 4, background}}).png().toFile('a.png');
const ipx = createIPX({storage: ipxFSStorage({dir: '.'})});
const seen = [];
for (const enlarge of [{}, {enlarge: 'true'}]) {
  const {data} = await ipx('a.png', {s: '200x200', fit: 'contain', ...enlarge}).process();
  const {width, height} = await sharp(data).metadata();
  const pixels = await sharp(data).ensureAlpha().raw().toBuffer();
  seen.push([width, height, ...pixels.subarray(0, 4)].join(' '));
}
console.log(seen);
assert.deepStrictEqual(seen, ['50 50 0 0 0 255', '200 200 0 0 0 255']);
JAVASCRIPT
node try.mjs
