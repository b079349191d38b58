import os
from datetime import UTC, datetime, timedelta

from imagehost_client import Client

with Client() as client:
    account = client.account()
    print(account.usage.images, account.quota.remaining)  # None: no quota

    session = client.sessions.create(account.account.name, os.environ["PASSWORD"])

with Client(token=session.token) as signed_in:  # only sessions manage keys
    soon = datetime.now(UTC) + timedelta(days=90)
    key = signed_in.keys.create("website", scopes=["images:read", "images:write"], expires_at=soon)
    print(key.token.startswith(key.prefix))  # returned once: store it
    print([one.name for one in signed_in.keys.list()])
    signed_in.keys.update(key, scopes=["images:read"])
    signed_in.keys.delete(key)  # its token stops working at once
    signed_in.sessions.delete()  # sign out
# 0 None
# True
# ['website']
