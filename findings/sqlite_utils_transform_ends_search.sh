#!/usr/bin/env bash
# After transform() of a table, full-text search finds no new row and goes on finding deleted ones.
# 
# sqlite-utils 4.2.1. The triggers of enable_fts(create_triggers=True) are dropped with the former table, as is each other
# trigger; detect_fts() still names the index. COLLATE NOCASE and generated columns are lost as well, CHECK and UNIQUE are not.
# Seen: three triggers, then none; the new title is not found; the column of NOCASE tells "Sea" from "sea".
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet sqlite-utils==4.2.1
env/bin/python - <<'PYTHON'
import sqlite_utils

db = sqlite_utils.Database(memory=True)
db.execute("CREATE TABLE images (id INTEGER PRIMARY KEY, title TEXT, tag TEXT COLLATE NOCASE, views INTEGER)")
images = db["images"]
images.insert({"title": "lake", "tag": "Sea"})
images.enable_fts(["title"], create_triggers=True)


def state() -> tuple[object, ...]:
    images.insert({"title": "forest", "tag": "Sea"})
    found = len(list(images.search("forest")))
    return len(images.triggers), images.detect_fts(), found, images.count_where("tag = 'sea'")


seen = [state()]
images.transform(types={"views": str})
seen.append(state())
print(*seen)
assert seen == [(3, "images_fts", 1, 2), (0, "images_fts", 1, 0)], seen
PYTHON
