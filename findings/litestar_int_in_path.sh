#!/usr/bin/env bash
# Litestar takes 1_0, 01 and +5 for an int in a path, and refuses 1_0 for the same type in a query.
# 
# Litestar 2.25.0. Parameters of a path are converted by int() of Python, those of a query by msgspec: one resource
# has many URLs, which caches and signatures tell apart. Of a repeated parameter of a query the last one counts.
# Seen: path 1_0 → 10, 01 → 1, +5 → 5; query 1_0 → 400; w=1&w=2 → 2.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet litestar==2.25.0 httpx
env/bin/python - <<'PYTHON'
import logging

from litestar import Litestar, get
from litestar.testing import TestClient

logging.disable()


@get("/images/{number:int}")
async def show(number: int, w: int | None = None) -> list[int | None]:
    return [number, w]


paths = ("1_0", "01", "+5", "1?w=1_0", "1?w=1&w=2")
with TestClient(Litestar([show])) as client:
    responses = [client.get(f"/images/{path}") for path in paths]
seen = [response.json() if response.is_success else response.status_code for response in responses]
print(*zip(paths, seen))
assert seen == [[10, None], [1, None], [5, None], 400, [1, 2]], seen
PYTHON
