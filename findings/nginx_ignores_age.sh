#!/usr/bin/env bash
# nginx caches a response for its whole max-age, however old the header Age says that it is already.
# 
# nginx 1.22.1 (Debian 12). RFC 9111 subtracts Age: a response of max-age=60 that was an hour in another cache is not fresh.
# Behind a CDN or a second proxy, the times for which an image is kept add up.
# Seen: MISS, then HIT with Age: 3600, and one request to the server.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
chmod 755 .
apt-get download -qq nginx
dpkg -x nginx_*.deb env
[[ $(env/usr/sbin/nginx -v 2>&1) == *1.22.1 ]]
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
        self.send_header("Age", "3600")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


here = Path.cwd()
with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
origin = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Origin)
threading.Thread(target=origin.serve_forever, daemon=True).start()
paths = "".join(f"{kind}_temp_path {here}/{kind}; " for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
(here / "nginx.conf").write_text(f"""
daemon off; pid {here}/pid; error_log {here}/error.log; events {{}}
http {{
    access_log off; {paths}
    proxy_cache_path {here}/cache keys_zone=images:1m;
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://127.0.0.1:{origin.server_port};
            proxy_cache images;
            add_header X-Cache $upstream_cache_status;
        }}
    }}
}}""")


def get(path: str) -> tuple[int, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", path)
    response = connection.getresponse()
    response.read()
    return response.status, {name.lower(): value for name, value in response.getheaders()}


with subprocess.Popen([here / "env/usr/sbin/nginx", "-p", here, "-c", here / "nginx.conf"]) as nginx:
    try:
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.1)
        seen = [get("/image")[1] for _ in range(2)]
    finally:
        nginx.terminate()

states = [(headers["x-cache"], headers["age"]) for headers in seen]
print(states, requests)
assert (states, requests) == ([("MISS", "3600"), ("HIT", "3600")], ["/image"])
PYTHON
