#!/usr/bin/env bash
# sharp reads an animated PNG as a still image, with animated: true as well.
# 
# sharp 0.35.5 (libvips without an APNG loader). Neither pages nor delay is set, so a check for animations by metadata
# lets it through, and a conversion to WebP silently loses all frames but the first.
# Seen: pages undefined of an APNG of two frames; WebP of the same frames 2.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund sharp@0.35.5 upng-js@2.1.0
cat > try.mjs <<'JAVASCRIPT'
import assert from 'node:assert';
import sharp from 'sharp';
import UPNG from 'upng-js';

const frame = (value) => new Uint8Array(8 * 8 * 4).fill(255).map((byte, i) => (i % 4 === 0 ? value : byte)).buffer;
const png = Buffer.from(UPNG.encode([frame(0), frame(200)], 8, 8, 0, [100, 100]));
assert(png.includes('acTL'));
const webp = await sharp(await sharp(Buffer.concat([Buffer.from(frame(0)), Buffer.from(frame(200))]), {
  raw: {width: 8, height: 16, channels: 4, pageHeight: 8},
}).webp({lossless: true, delay: [100, 100]}).toBuffer(), {animated: true}).metadata();
const {pages, delay} = await sharp(png, {animated: true}).metadata();
console.log('png', pages, delay, 'webp', webp.pages);
assert.deepStrictEqual([pages, delay, webp.pages], [undefined, undefined, 2]);
JAVASCRIPT
node try.mjs
