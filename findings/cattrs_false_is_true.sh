#!/usr/bin/env bash
# cattrs structures the text "false" as True, and 1.9 as 1.
# 
# cattrs 26.2.1. Members of attrs classes are made by calling bool and int, so that each text but the empty one is true:
# a form or a query that says public=false makes an image public, without an error.
# Seen: public=True, count=1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet cattrs==26.2.1
env/bin/python - <<'PYTHON'
import attrs
import cattrs


@attrs.frozen
class Options:
    public: bool
    count: int


seen = cattrs.structure({"public": "false", "count": 1.9}, Options)
print(seen)
assert seen == Options(public=True, count=1), seen
PYTHON
