#!/usr/bin/env bash
# An upload that is too large for request_body max_size gets 502 from reverse_proxy, after so many bytes went to the server.
# 
# caddy 2.6.2 (Debian 12). The limit is met while the body is passed on, so that it looks like a server that failed: clients
# try again, and the log has errors of the server. The Content-Length, which is above the limit, is sent to the server first.
# Seen: 201 for 500 bytes; 502 for 2,000 with a limit of 1 kB, and the server had got the head of the request.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
chmod 755 .
apt-get download -qq caddy
dpkg -x caddy_*.deb env
[[ $(env/usr/bin/caddy version) == 2.6.2* ]]
python3 - <<'PYTHON'
import http.client
import http.server
import os
import socket
import subprocess
import threading
import time
from pathlib import Path

lengths = []


class Server(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        lengths.append(int(self.headers["Content-Length"]))
        self.rfile.read(lengths[-1])
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


here = Path.cwd()
with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
server.handle_error = lambda *_: None
threading.Thread(target=server.serve_forever, daemon=True).start()
(here / "Caddyfile").write_text(f"""
{{
    admin off
}}
http://127.0.0.1:{port} {{
    request_body {{
        max_size 1kB
    }}
    reverse_proxy 127.0.0.1:{server.server_port}
}}
""")


def post(size: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("POST", "/upload", body=bytes(size))
    return connection.getresponse().status


environment = {**os.environ, "HOME": str(here), "XDG_CONFIG_HOME": str(here), "XDG_DATA_HOME": str(here)}
command = [here / "env/usr/bin/caddy", "run", "--config", here / "Caddyfile", "--adapter", "caddyfile"]
with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as caddy:
    try:
        for _ in range(300):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.1)
        seen = [post(size) for size in (500, 2000)]
    finally:
        caddy.terminate()

print(seen, lengths)
assert (seen, lengths) == ([201, 502], [500, 2000]), (seen, lengths)
PYTHON
