#!/usr/bin/env bash
# params= of httpx2 replaces the query that a URL has, so a signed URL loses its signature.
# 
# httpx2 2.16.2. requests appends params to the query; httpx2 drops the query for any params, also an empty one.
# Seen: https://img.example/a.jpg?w=300 of a URL with exp and sig; with params={} the query is empty.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet httpx2==2.16.2
env/bin/python - <<'PYTHON'
import httpx2

signed = "https://img.example/a.jpg?exp=1893456000&sig=c2lnbmF0dXJl"
with httpx2.Client() as client:
    widened = str(client.build_request("GET", signed, params={"w": "300"}).url)
    empty = str(client.build_request("GET", signed, params={}).url)
print(widened)
print(empty)
assert widened == "https://img.example/a.jpg?w=300", widened
assert empty in ("https://img.example/a.jpg", "https://img.example/a.jpg?"), empty
PYTHON
