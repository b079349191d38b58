#!/usr/bin/env bash
# A gauge with set_function is 0.0 in the multiprocess mode of prometheus_client, without a word.
# 
# prometheus_client 0.26.0. In this mode values are read from files that each process maps; the function is called
# by a collector of one process only, so that the file keeps its first value.
# Seen: plain gauge 7.0, gauge with set_function 0.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet prometheus-client==0.26.0
env/bin/python - <<'PYTHON'
import os
import tempfile

os.environ["PROMETHEUS_MULTIPROC_DIR"] = tempfile.mkdtemp(dir=".")

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.multiprocess import MultiProcessCollector

Gauge("plain", "A value that was set.").set(7)
Gauge("computed", "A value by a function.").set_function(lambda: 7)
collected = CollectorRegistry()
MultiProcessCollector(collected)
seen = {sample.name: sample.value for metric in collected.collect() for sample in metric.samples}
print(seen)
assert seen == {"plain": 7.0, "computed": 0.0}, seen
PYTHON
