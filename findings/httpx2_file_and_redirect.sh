#!/usr/bin/env bash
# A file that is sent as content= is lost at a redirect by 307 or 308, and the error is none of httpx2's.
# 
# httpx2 2.16.2. The second request has the Content-Length of the first and no body, as the file is at its end. requests
# 2.34.2 goes back and sends it again, and httpx2 itself does so for files=. A host that moves its uploads to another
# address breaks one way of two to send them, and "except httpx2.HTTPError" does not catch it.
# Seen: "Too little data for declared Content-Length" of h11; requests and files= are answered 200.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet httpx2==2.16.2 requests==2.34.2
env/bin/python - <<'PYTHON'
import http.server
import threading
from io import BytesIO

import httpx2
import requests


class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(307 if self.path == "/old" else 200)
        self.send_header("Location", "/new")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}/old"
seen = [
    requests.put(url, data=BytesIO(b"image")).status_code,
    httpx2.put(url, files={"file": BytesIO(b"image")}, follow_redirects=True).status_code,
]
try:
    httpx2.put(url, content=BytesIO(b"image"), follow_redirects=True)
except Exception as error:
    seen.append((type(error).__module__.partition(".")[0], str(error), isinstance(error, httpx2.HTTPError)))
print(seen)
assert seen == [200, 200, ("h11", "Too little data for declared Content-Length", False)], seen
PYTHON
