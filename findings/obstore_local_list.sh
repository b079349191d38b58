#!/usr/bin/env bash
# The local store of obstore lists in no order, takes a prefix by whole segments, and refuses attributes.
# 
# obstore 0.12.1. S3 lists in the order of keys and by any prefix; code that was tried on LocalStore only may rely on
# neither: offset= filters an unordered listing, so a page is not where the next one continues.
# Seen: prefix 'l/a' gives l/a/x and not l/a2; put with attributes NotImplementedError.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet obstore==0.12.1
env/bin/python - <<'PYTHON'
import tempfile

import obstore
from obstore.store import LocalStore

store = LocalStore(tempfile.mkdtemp(dir="."))
keys = ["l/a/x", "l/a2", "l/b", "l/c/y", "la"]
for key in keys:
    obstore.put(store, key, b"1")


def listed(**options: str) -> list[str]:
    return [entry["path"] for page in obstore.list(store, **options) for entry in page]


print("list", listed(), "prefix l/a", listed(prefix="l/a"))
assert sorted(listed()) == keys
assert listed(prefix="l/a") == ["l/a/x"], listed(prefix="l/a")
try:
    obstore.put(store, "q", b"1", attributes={"Content-Type": "image/png"})
except NotImplementedError as error:
    print("attributes", str(error).splitlines()[0][:60])
else:
    raise AssertionError("expected NotImplementedError")
PYTHON
