#!/usr/bin/env bash
# A ThumbHash of an image with any transparent pixel is a TypeError.
# 
# thumbhash 0.1.2 (PyPI). Opaque images get the same hash as with thumbhash 0.1.1 (npm), so that tests with photographs pass;
# the first logo or screenshot with an alpha channel fails when it is uploaded.
# Seen: equal hashes for opaque pixels; for half-transparent ones 25 bytes from npm, and from PyPI TypeError.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet thumbhash==0.1.2
npm install --silent --no-audit --no-fund thumbhash@0.1.1
cat > try.mjs <<'JAVASCRIPT'
import {rgbaToThumbHash} from 'thumbhash';

const pixels = (alpha) => Array.from({length: 20 * 14}, (_, pixel) => [10 * (pixel % 20), pixel % 200, 128, alpha]).flat();
console.log(JSON.stringify([255, 128].map((alpha) => [...rgbaToThumbHash(20, 14, pixels(alpha))])));
JAVASCRIPT
node try.mjs > hashes.json
env/bin/python - <<'PYTHON'
import json
from pathlib import Path

from thumbhash import rgba_to_thumb_hash

opaque, translucent = json.loads(Path("hashes.json").read_text())
pixels = {alpha: [v for pixel in range(280) for v in (10 * (pixel % 20), pixel % 200, 128, alpha)] for alpha in (255, 128)}
assert rgba_to_thumb_hash(20, 14, pixels[255]) == opaque
try:
    rgba_to_thumb_hash(20, 14, pixels[128])
except TypeError as error:
    print(f"opaque: {len(opaque)} bytes; translucent: {len(translucent)} bytes of npm, {type(error).__name__}: {error}")
    assert "__round__" in str(error), error
else:
    raise AssertionError("expected TypeError")
PYTHON
