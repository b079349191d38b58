#!/usr/bin/env bash
# nginx's own 404 for a file that X-Accel-Redirect names has the Cache-Control of the server behind it.
# 
# nginx 1.22.1 (Debian 12). The server has said that the image may be cached for a day; if its file is gone when nginx opens
# it, that is said of the 404, with the server's Set-Cookie, and caches keep it. proxy_hide_header does not switch the
# redirect off.
# Seen: 404 with Cache-Control: public, max-age=86400, in both locations.
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


class Origin(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("X-Accel-Redirect", "/files/deleted.jpg")
        self.send_header("Cache-Control", "public, max-age=86400")
        self.send_header("Set-Cookie", "session=1")
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
        location / {{ proxy_pass http://127.0.0.1:{origin.server_port}; }}
        location /hidden {{
            proxy_pass http://127.0.0.1:{origin.server_port};
            proxy_hide_header X-Accel-Redirect;
        }}
        location /files/ {{ internal; alias {here}/files/; }}
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
        seen = [get("/image"), get("/hidden")]
    finally:
        nginx.terminate()

for status, headers in seen:
    print(status, headers.get("cache-control"), headers.get("set-cookie"))
    assert (status, headers["cache-control"], headers["set-cookie"]) == (404, "public, max-age=86400", "session=1")
PYTHON
