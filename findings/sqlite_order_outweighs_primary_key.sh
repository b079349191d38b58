#!/usr/bin/env bash
# A query for two rows by primary key reads every row of an account, if it is ordered as an index is.
# 
# SQLite 3.54.1 by apsw. Without ANALYZE it takes each equality for one that few rows have, so that an index of (account,
# created) is cheaper than two keys and a sort. The answer is right and the time grows with the table: at a million images,
# a change of two by their ids takes as long as a page through all of them.
# Seen: by_account with ORDER BY and more than 100,000 steps for two rows; without it, or after ANALYZE, the key and below 1,000.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet apsw==3.54.1.0
env/bin/python - <<'PYTHON'
import apsw

STEPS = 100
db = apsw.Connection(":memory:")
db.execute("CREATE TABLE images (id TEXT PRIMARY KEY, account INTEGER, created INTEGER) WITHOUT ROWID")
db.execute("CREATE INDEX by_account ON images (account, created)")
db.execute("BEGIN")
db.executemany("INSERT INTO images VALUES (?, ?, ?)", ((f"{n:06}", n % 2, n) for n in range(100_000)))
db.execute("COMMIT")
QUERY = "SELECT id FROM images WHERE account = 1 AND id IN ('000001', '000003')"
ORDERED = f"{QUERY} ORDER BY created"


def seen(query: str) -> tuple[str, int, bool]:
    plan = " ".join(row[-1] for row in db.execute(f"EXPLAIN QUERY PLAN {query}"))
    calls = []
    db.set_progress_handler(lambda: bool(calls.append(1)), STEPS)
    rows = len(list(db.execute(query)))
    db.set_progress_handler(None)
    return "by_account" if "by_account" in plan else "PRIMARY KEY" * ("PRIMARY KEY" in plan), rows, len(calls) * STEPS > 100_000


plans = [seen(QUERY), seen(ORDERED)]
db.execute("ANALYZE")
plans.append(seen(ORDERED))
print(apsw.sqlite_lib_version(), *plans)
assert plans == [("PRIMARY KEY", 2, False), ("by_account", 2, True), ("PRIMARY KEY", 2, False)], plans
PYTHON
