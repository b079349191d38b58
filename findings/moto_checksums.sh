#!/usr/bin/env bash
# moto stores an object whose Content-MD5 or SHA-256 checksum is that of other bytes.
# 
# moto 5.2.5 with boto3 1.44.8. S3 refuses both (BadDigest), so a test of end-to-end integrity that runs on moto
# passes without the check.
# Seen: both accepted.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet moto[s3]==5.2.5 boto3==1.44.8
env/bin/python - <<'PYTHON'
import hashlib
from base64 import b64encode

import boto3
from moto import mock_aws

checksums = {
    "ContentMD5": b64encode(hashlib.md5(b"other bytes").digest()).decode(),
    "ChecksumSHA256": b64encode(hashlib.sha256(b"other bytes").digest()).decode(),
}
with mock_aws():
    client = boto3.client("s3", region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
    client.create_bucket(Bucket="images")
    for name, value in checksums.items():
        response = client.put_object(Bucket="images", Key=name, Body=b"bytes", **{name: value})
        print(name, response["ResponseMetadata"]["HTTPStatusCode"])
        assert response["ResponseMetadata"]["HTTPStatusCode"] == 200
PYTHON
