"""The queries of leases: they seek in indexes, however long the queues are."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from imagehost_core.coordination.locks import LockManager
from imagehost_core.db.engines.database import SqlRow, SqlValue, Transaction
from imagehost_core.db.engines.sqlite_database import SqliteDatabase, SqliteTransaction
from imagehost_core.db.repositories import leases
from imagehost_core.webhooks import SenderLoad

NOW = datetime(2026, 1, 1, tzinfo=UTC)
INDEXES = ("webhook_deliveries_pending", "webhook_deliveries_leased")


class QueryPlans(SqliteTransaction):
    """A transaction that records the plan of each query (https://sqlite.org/eqp.html)."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self.plans: list[list[str]] = []

    def fetch_all(
        self, sql: str, values: Mapping[str, SqlValue], *, deadline: float | None = None
    ) -> list[SqlRow]:
        plan = self._transaction.fetch_all(f"EXPLAIN QUERY PLAN {sql}", values)
        self.plans.append([str(step["detail"]) for step in plan])
        return self._transaction.fetch_all(sql, values, deadline=deadline)

    def fetch_one(self, sql: str, values: Mapping[str, SqlValue]) -> SqlRow | None:
        return self._transaction.fetch_one(sql, values)

    def execute(self, sql: str, values: Mapping[str, SqlValue]) -> int:
        return self._transaction.execute(sql, values)


@pytest.fixture
def plans(tmp_path: Path) -> list[list[str]]:
    """The plans of all queries that find and lease a due delivery."""
    database = SqliteDatabase(tmp_path / "imagehost.sqlite3", LockManager(tmp_path / "locks"))
    with database.transaction() as transaction:
        transaction.insert("accounts", {"name": "admin", "signing_secret": b"", "created_at": 0})
        event: SqlRow = {"id": "msg_1", "type": "webhook.test", "created_at": 0, "body": zlib.compress(b"{}")}
        transaction.insert("events", event)
        transaction.insert(
            "webhooks",
            {
                "id": "wh_1",
                "account_id": 1,
                "url": "https://example.com",
                "events": "",
                "description": "",
                "is_active": 1,
                "secret": "whsec_1",
                "created_at": 0,
            },
        )
        delivery: SqlRow = {"id": "dlv_1", "webhook_id": "wh_1", "event_number": 1}
        transaction.insert(
            "webhook_deliveries", {**delivery, "state": "pending", "next_attempt_at": 0, "created_at": 0}
        )
        recorder = QueryPlans(transaction)
        assert leases.is_any_due(recorder, NOW, SenderLoad(32))
        leased = leases.lease_due(recorder, NOW, timedelta(seconds=30), SenderLoad(32), None)
        assert [due.delivery.id for due in leased] == ["dlv_1"]
        assert not leases.is_any_due(recorder, NOW, SenderLoad(32))
    database.close()
    return recorder.plans


def test_due_deliveries_are_found_by_indexes_however_long_the_queues_are(plans: list[list[str]]) -> None:
    assert len(plans) == 4, "endpoints with due deliveries twice, the due deliveries, and those left"
    for plan in plans:
        steps = [step for step in plan if "webhook_deliveries" in step]
        assert steps
        assert [step for step in steps if not any(index in step for index in INDEXES)] == []
        assert not any(step.startswith("SCAN") for step in steps), plan
