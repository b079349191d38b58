"""Webhooks of all accounts that were disabled because they failed, on each engine."""

from __future__ import annotations

from datetime import timedelta

from tests.core.db.conftest import START

from imagehost_core.db.engines.database import Database
from imagehost_core.db.repositories.accounts import AccountRepository
from imagehost_core.db.repositories.webhooks import WebhookRepository
from imagehost_core.ids import WebhookId
from imagehost_core.models import Webhook


def test_disabled_webhooks_of_all_accounts_are_listed_the_newest_first(database: Database) -> None:
    accounts, webhooks = AccountRepository(database), WebhookRepository(database)
    with database.transaction() as transaction:
        for name in ("admin", "berta"):
            accounts.insert(transaction, name, None, b"secret", START)
    owners = [account.id for name in ("admin", "berta") if (account := accounts.get_by_name(name))]
    with database.transaction() as transaction:
        for index in range(6):
            webhook = Webhook(
                id=WebhookId(f"wh_{index}"),
                account_id=owners[index % 2],
                url="https://example.com",
                events=(),
                description="",
                is_active=True,
                disabled_reason=None,
                created_at=START + timedelta(seconds=index),
            )
            webhooks.insert(transaction, webhook, "whsec_1")
        for index in (1, 2, 4):
            webhooks.disable(transaction, WebhookId(f"wh_{index}"), "gone")
    assert [(item.id, item.disabled_reason) for item in webhooks.list_disabled(2)] == [
        ("wh_4", "gone"),
        ("wh_2", "gone"),
    ]
    assert [item.id for item in webhooks.list_disabled(9)] == ["wh_4", "wh_2", "wh_1"]
