#!/usr/bin/env bash
# A handler that returns a File sends an ETag and never answers 304 or 206 by it, and its URL refuses HEAD.
# 
# Litestar 2.25.0. Browsers and caches that ask again get the whole image each time, players and readers of large files no
# part of it, and programs that look at a link with HEAD before they show it get 405.
# Seen: 200 with ETag and Last-Modified; 200 for each of the conditions and for Range; 405 for HEAD.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet litestar==2.25.0 httpx==0.28.1
env/bin/python - <<'PYTHON'
import logging
from pathlib import Path

from litestar import Litestar, get
from litestar.response import File
from litestar.testing import TestClient

Path("photo.jpg").write_bytes(bytes(1000))
logging.disable()


@get("/photo.jpg")
async def photo() -> File:
    return File("photo.jpg", media_type="image/jpeg", content_disposition_type="inline")


with TestClient(Litestar([photo])) as client:
    headers = client.get("/photo.jpg").headers
    conditions = {
        "If-None-Match": headers["etag"],
        "If-Modified-Since": headers["last-modified"],
        "Range": "bytes=0-9",
    }
    seen = {name: client.get("/photo.jpg", headers={name: value}).status_code for name, value in conditions.items()}
    seen["HEAD"] = client.head("/photo.jpg").status_code
print(seen)
assert seen == {"If-None-Match": 200, "If-Modified-Since": 200, "Range": 200, "HEAD": 405}, seen
PYTHON
