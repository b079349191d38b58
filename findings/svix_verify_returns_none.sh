#!/usr/bin/env bash
# verify of svix returns None for a valid webhook, that of standardwebhooks the payload.
# 
# Python svix 2.9.1 and standardwebhooks 1.1.0, whose interfaces are otherwise the same: a receiver that is changed
# from one to the other fails at its first event. In npm both return the payload.
# Seen: svix None, standardwebhooks {'type': 'image.uploaded'}.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet svix==2.9.1 standardwebhooks==1.1.0
env/bin/python - <<'PYTHON'
from datetime import datetime, timezone

import standardwebhooks
import svix

secret, body, now = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", '{"type": "image.uploaded"}', datetime.now(timezone.utc)
seen = []
for package in (svix, standardwebhooks):
    webhook = package.Webhook(secret)
    names = {"id": "msg_1", "timestamp": str(int(now.timestamp())), "signature": webhook.sign("msg_1", now, body)}
    seen.append(webhook.verify(body, {f"webhook-{name}": value for name, value in names.items()}))
    print(package.__name__, seen[-1])
assert seen == [None, {"type": "image.uploaded"}], seen
PYTHON
