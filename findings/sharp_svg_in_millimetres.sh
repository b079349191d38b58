#!/usr/bin/env bash
# A drawing in millimetres, the unit of Inkscape, is three quarters as large as in a browser; one in pixels is the same.
# 
# sharp 0.35.5. An inch has 96 pixels in CSS and 72 by the default of density, which applies to lengths in mm, cm, in and pt
# and not to those in px. image-size 2.1.0 counts as CSS does, so that the box on a page does not fit the rendered image.
# Seen: 60 × 40 mm are 170 × 113 by sharp and 227 × 151 by image-size; 60 × 40 px are 60 × 40 by both.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund sharp@0.35.5 image-size@2.1.0
cat > try.mjs <<'JAVASCRIPT'
import assert from 'node:assert';
import {imageSize} from 'image-size';
import sharp from 'sharp';

const seen = [];
for (const unit of ['mm', 'px']) {
  const data = Buffer.from(`<svg xmlns="http://www.w3.org/2000/svg" width="60${unit}" height="40${unit}"/>`);
  for (const {width, height} of [await sharp(data).metadata(), imageSize(data)]) {
    seen.push([width, height].join(' × '));
  }
}
console.log(seen);
assert.deepStrictEqual(seen, ['170 × 113', '227 × 151', '60 × 40', '60 × 40']);
JAVASCRIPT
node try.mjs
