"""A host that has rows in every table, and images of every kind."""

from __future__ import annotations

from collections.abc import Mapping

from tests.core.services.conftest import Stores

from imagehost_core import ImageHost
from imagehost_core.db.engines.database import SqlRow
from imagehost_core.models import Role
from imagehost_core.testing import make_image

LARGE = make_image(1_400, 1_100)
"""An image with derivatives."""
DESCRIPTIONS = ("", "Zoë — ñ 日本語 🐈 e\u0301", "\\N\t\n\\.'\"", "word " * 300)


def furnish(host: ImageHost, stores: Stores, samples: Mapping[str, bytes]) -> None:
    """Fill a host that has only the account `admin`."""
    context = stores(host)
    second = host.accounts.create(
        "second", password_hash="$argon2id$v=19$m=8,t=1,p=1$c2FsdA$aGFzaA", role=Role.OPERATOR
    )
    host.accounts.create("gone")
    host.accounts.delete("gone")
    host.accounts.create("suspended")
    host.webhooks.create(owner="admin", url="https://example.com/hook", description="all events")
    rotated = host.webhooks.create(owner="second", url="https://example.org/hook", events=["image.uploaded"])
    host.webhooks.rotate_secret(rotated.id, owner="second")
    host.keys.create(owner="admin", name="all")
    host.keys.delete(host.keys.create(owner="second", name="old").id, owner="second")
    host.sessions.create(second, user_agent="Mozilla/5.0", ip_address="192.0.2.1")
    albums = [host.albums.create(owner="admin", name=f"album {n}", is_public=n % 2 == 0) for n in range(3)]
    host.albums.create_share(
        albums[0], owner="admin", password_hash="$argon2id$v=19$m=8,t=1,p=1$c2FsdA$aGFzaA"
    )
    host.albums.create_share(albums.pop(), owner="admin")
    host.albums.delete(3, owner="admin")
    for number, (name, data) in enumerate([*samples.items(), ("large.png", LARGE), ("again.png", LARGE)]):
        host.upload(
            data,
            owner="admin" if number % 3 else "second",
            filename=name,
            album_id=albums[number % 2].id if number % 3 == 1 else None,
            description=DESCRIPTIONS[number % len(DESCRIPTIONS)],
            is_public=number % 4 != 0,
        )
    host.upload(make_image(40, 30), owner="suspended")
    host.accounts.update("suspended", suspended=True)
    deleted = host.upload(make_image(40, 31), owner="admin")
    host.images.delete(deleted.id)
    assert host.webhooks.lease(1)
    account = host.accounts.get("admin")
    key: SqlRow = {"account_id": account.id, "key": "b"}
    with host.idempotency.begin(account, "a key", "fingerprint"):
        pass
    with context.records.database.transaction() as transaction:
        tombstone: SqlRow = {"image_id": deleted.id, "account_id": account.id, "album_id": 2**40}
        transaction.insert("tombstones", {**tombstone, "deleted_at": -1})
        response: SqlRow = {"response_status": 200, "response_body": b"\0\xff\\x00"}
        fixed: SqlRow = {"request_fingerprint": "f", "created_at": 2**53 + 1}
        transaction.insert("idempotency_keys", {**key, **fixed, **response})
        transaction.insert("idempotency_results", {**key, "sub_operation": 0, "result_id": deleted.id})
        transaction.insert("cache_purges", {"image_id": deleted.id, "requested_at": 1, "next_attempt_at": 2})
        transaction.insert(
            "imports", {"account_id": account.id, "source": "directory a/b.png", "result_id": deleted.id}
        )
