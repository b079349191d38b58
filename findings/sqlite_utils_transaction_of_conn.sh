#!/usr/bin/env bash
# 'with db.conn:' of sqlite-utils does not roll back what its table methods have written.
# 
# sqlite-utils 4.2.1. Each insert commits by itself, so the block of the connection has nothing left to roll back.
# A write by db.execute is committed at once as well; 'with db.atomic()' is the block that rolls back.
# Seen: rows [1, 2] after an exception in 'with db.conn', [1, 2] after one in 'with db.atomic()'.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet sqlite-utils==4.2.1
env/bin/python - <<'PYTHON'
import sqlite3
import tempfile
from contextlib import suppress
from pathlib import Path

import sqlite_utils

path = Path(tempfile.mkdtemp(dir="."), "data.db")
db = sqlite_utils.Database(path)
db["images"].insert({"id": 1}, pk="id")


def rows() -> list[int]:
    with sqlite3.connect(path) as other:
        return [row[0] for row in other.execute("SELECT id FROM images ORDER BY id")]


with suppress(RuntimeError), db.conn:
    db["images"].insert({"id": 2})
    raise RuntimeError
after_conn = rows()
with suppress(RuntimeError), db.atomic():
    db["images"].insert({"id": 3})
    raise RuntimeError
after_atomic = rows()
db.execute("INSERT INTO images VALUES (4)")
after_execute = rows()
print(after_conn, after_atomic, after_execute)
assert (after_conn, after_atomic, after_execute) == ([1, 2], [1, 2], [1, 2, 4])
PYTHON
