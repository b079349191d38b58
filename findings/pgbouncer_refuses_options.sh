#!/usr/bin/env bash
# A connection string with options, such as one that sets statement_timeout, is refused by PgBouncer in session mode too.
# 
# PgBouncer 1.18.0 (Debian 12) with psycopg 3.3.9. In session mode a client has a connection of the server to itself, and
# settings cost nobody anything; but the parameter is refused before a session is assigned, also without any server.
# Seen: unsupported startup parameter: options.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
chmod 755 .
apt-get download -qq pgbouncer
dpkg -x pgbouncer_*.deb env
python3 -m venv python
python/bin/pip install --quiet psycopg[binary]==3.3.9
[[ $(env/usr/sbin/pgbouncer --version) == *' 1.18.0'* ]]
python/bin/python - <<'PYTHON'
import os
import socket
import subprocess
import time
from pathlib import Path

import psycopg

with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
Path("users").write_text('"postgres" ""\n')
Path("pgbouncer.ini").write_text(f"""
[databases]
* = host=127.0.0.1 port=1
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = users
pool_mode = session
""")
user = {"user": 65_534} if os.geteuid() == 0 else {}
command = ["env/usr/sbin/pgbouncer", "--quiet", "pgbouncer.ini"]
with subprocess.Popen(command, stderr=subprocess.DEVNULL, **user) as pooler:
    try:
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.1)
        url = f"postgresql://postgres@127.0.0.1:{port}/images?options=-c%20statement_timeout%3D5000"
        try:
            psycopg.connect(url, connect_timeout=5)
            received = "a connection"
        except psycopg.OperationalError as error:
            received = str(error).splitlines()[0].rpartition("FATAL: ")[2].strip()
    finally:
        pooler.terminate()
print(received)
assert received == "unsupported startup parameter: options", received
PYTHON
