#!/usr/bin/env bash
# Varnish compares If-None-Match with one tag only, and refuses a request for two ranges or another unit.
# 
# varnish 7.1.1 (Debian 12). A list of tags or an asterisk never matches, so that a second cache behind it fetches whole
# images again; RFC 9110 lets a server ignore a Range that it does not like, and has it do so for units it does not know.
# Readers that ask for two ranges at once, as of a large TIFF or PDF, get an error where the server alone gives the image.
# Seen: 304 for the tag, 200 for a list with it and for *; 206 for one range, 416 for two and for items=0-1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
chmod 755 .
apt-get download -qq varnish libvarnishapi3
for package in ./*.deb; do dpkg -x "$package" env; done
export LD_LIBRARY_PATH="$folder/env/usr/lib/x86_64-linux-gnu:$folder/env/usr/lib/x86_64-linux-gnu/varnish"
[[ $(env/usr/sbin/varnishd -V 2>&1) == *varnish-7.1.1* ]]
python3 - <<'PYTHON'
import http.client
import http.server
import socket
import subprocess
import threading
import time
from pathlib import Path

requests = []


class Origin(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        requests.append(self.path)
        self.send_response(200)
        self.send_header("Cache-Control", "public, max-age=60")
        self.send_header("ETag", '"image"')
        self.send_header("Content-Length", "100")
        self.end_headers()
        self.wfile.write(bytes(100))

    def log_message(self, *_: object) -> None: ...


here = Path.cwd()
with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
origin = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Origin)
threading.Thread(target=origin.serve_forever, daemon=True).start()
(here / "default.vcl").write_text(
    f'vcl 4.1; backend default {{ .host = "127.0.0.1"; .port = "{origin.server_port}"; }}'
)


def get(name: str = "Accept", value: str = "*/*") -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/image", headers={name: value})
    return connection.getresponse().status


command = [here / "env/usr/sbin/varnishd", "-F", "-f", here / "default.vcl", "-a", f"127.0.0.1:{port}", "-n", here / "work"]
with subprocess.Popen([*command, "-j", "none"], stdout=subprocess.DEVNULL) as varnish:
    try:
        for _ in range(300):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.1)
        seen = [get()]
        seen += [get("If-None-Match", value) for value in ('"image"', '"older", "image"', "*")]
        seen += [get("Range", value) for value in ("bytes=0-1", "bytes=0-1,4-5", "items=0-1")]
    finally:
        varnish.terminate()

print(seen, requests)
assert (seen, requests) == ([200, 304, 200, 200, 206, 416, 416], ["/image"])
PYTHON
