#!/usr/bin/env bash
# A 304 that changes Cache-Control renews what nginx has stored, and nginx goes on sending the old header.
# 
# nginx 1.22.1 (Debian 12), proxy_cache_revalidate. RFC 9111 replaces stored headers by those of the 304. nginx keeps the
# response for the new time and tells browsers the first one's for ever: an image that was stored with a long max-age
# keeps it in browsers after the server was told to give a short one.
# Seen: X-Cache REVALIDATED, then HIT, both with max-age=1 and X-Version: 1; the 304 said max-age=600 and X-Version: 2.
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

states = []


class Origin(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        again = "If-None-Match" in self.headers
        states.append(304 if again else 200)
        self.send_response(states[-1])
        self.send_header("Cache-Control", f"public, max-age={600 if again else 1}")
        self.send_header("X-Version", "2" if again else "1")
        self.send_header("ETag", '"image"')
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
            proxy_cache_revalidate on;
            add_header X-Cache $upstream_cache_status;
        }}
    }}
}}""")


def get() -> tuple[str | None, ...]:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/image")
    response = connection.getresponse()
    response.read()
    return tuple(response.getheader(name) for name in ("X-Cache", "Cache-Control", "X-Version"))


with subprocess.Popen([here / "env/usr/sbin/nginx", "-p", here, "-c", here / "nginx.conf"]) as nginx:
    try:
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.1)
        seen = [get()]
        time.sleep(3)
        seen += [get(), get()]
    finally:
        nginx.terminate()

print(*seen, states)
assert seen == [(state, "public, max-age=1", "1") for state in ("MISS", "REVALIDATED", "HIT")], seen
assert states == [200, 304], states
PYTHON
