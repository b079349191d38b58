#!/usr/bin/env bash
# msgspec refuses 1.0 for an int and reports a lone surrogate as truncated input.
# 
# msgspec 0.22.0. JSON has one kind of number: JavaScript writes 1, other writers 1.0 or 1e2 for the same value.
# A body with the valid JSON string "\ud800" is refused as if its end were missing.
# Seen: 1.0 and 1e2 'Expected `int`, got `float`'; the surrogate 'Input data was truncated'.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet msgspec==0.22.0
env/bin/python - <<'PYTHON'
import msgspec

seen = []
for text, kind in ((b"1.0", int), (b"1e2", int), (rb'"\ud800"', str)):
    try:
        seen.append(repr(msgspec.json.decode(text, type=kind)))
    except msgspec.DecodeError as error:
        seen.append(str(error))
    print(text.decode(), seen[-1])
assert seen == ["Expected `int`, got `float`"] * 2 + ["Input data was truncated"], seen
PYTHON
