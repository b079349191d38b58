#!/usr/bin/env bash
# An object that is renamed to its own name is deleted, without an error, by the store in memory; the local one keeps it.
# 
# obstore 0.12.1. rename is a copy followed by the deletion of the source. Code that gives an object the name it computes for
# it, and computes the one it has, loses the image with one store and not with the other.
# Seen: MemoryStore FileNotFoundError afterwards, LocalStore 5 bytes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet obstore==0.12.1
env/bin/python - <<'PYTHON'
import tempfile

import obstore
from obstore.store import LocalStore, MemoryStore

seen = {}
for store in (MemoryStore(), LocalStore(tempfile.mkdtemp(dir="."))):
    obstore.put(store, "photo.jpg", b"image")
    obstore.rename(store, "photo.jpg", "photo.jpg")
    try:
        seen[type(store).__name__] = obstore.head(store, "photo.jpg")["size"]
    except FileNotFoundError:
        seen[type(store).__name__] = None
print(seen)
assert seen == {"MemoryStore": None, "LocalStore": 5}, seen
PYTHON
