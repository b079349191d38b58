"""The state of the in-memory host: accounts, tokens, records and events."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from datetime import UTC, datetime, timedelta

from imagehost_client._wire import rfc3339
from imagehost_client.testing._store import Record, Table, TokenGrant, new_id, now

SESSION_LIFETIME = timedelta(days=7)
LIMITS = ("api_per_minute", "api_per_hour", "api_per_day", "uploads_per_minute", "bulk_ids_per_minute")
"""The limits of an account."""


class HostState:
    """Accounts, tokens, records and events of one in-memory host.

    Args:
        base_url: The base URL of the API.
        cdn_url: The base URL of image delivery.
        registration: Whether `POST /accounts` requires no token.
    """

    def __init__(self, *, base_url: str, cdn_url: str, registration: bool) -> None:
        self.base_url = base_url
        self.cdn_url = cdn_url
        self.registration = registration
        self.accounts: dict[str, str] = {}
        self.passwords: dict[str, str] = {}
        self.tokens: dict[str, TokenGrant] = {}
        self.events: list[Record] = []
        self.tables: dict[str, Table] = {
            name: Table(name)
            for name in ("accounts", "sessions", "images", "albums", "keys", "webhooks", "deliveries")
        }
        self._signing_key = secrets.token_bytes(32)

    def add_account(self, name: str, *, role: str = "user") -> str:
        """Create an account, and return a session token with all permissions on it.

        Args:
            name: The name.
            role: `user`, or `operator` for an account that manages others.
        """
        table = self.tables["accounts"]
        record = {
            "id": table.count + 1,
            "name": name,
            "role": role,
            "limits": dict.fromkeys(LIMITS),
            "quota_bytes": None,
            "suspended": False,
        }
        table.add(name, record)
        self.accounts[name] = self.add_session(name)
        return self.accounts[name]

    def account(self, name: str) -> Record:
        """Return the record of the account with a name."""
        return next(row.record for row in self.tables["accounts"].rows.values() if row.owner == name)

    def is_active(self, name: str) -> bool:
        """Return whether the account with a name is not suspended."""
        return not self.account(name)["suspended"]

    def add_session(self, name: str, user_agent: str = "") -> str:
        """Create a session of an account, and return its token."""
        token, timestamp = "ihs_" + secrets.token_hex(16), now()
        record = {
            "user_agent": user_agent,
            "ip_address": "127.0.0.1",
            "created_at": timestamp,
            "expires_at": rfc3339(datetime.now(UTC) + SESSION_LIFETIME),
            "last_used_at": timestamp,
        }
        session = self.tables["sessions"].add(name, record, secret=token).record["id"]
        self.tokens[token] = TokenGrant(name, session=session)
        return token

    def end_sessions(self, name: str, *, keep: str | None = None) -> None:
        """End the sessions of an account, except the one with the id `keep`."""
        sessions = self.tables["sessions"].rows
        for session in [row for key, row in sessions.items() if row.owner == name and key != keep]:
            del sessions[session.record["id"]]
            self.tokens.pop(session.secret, None)

    def signature(self, text: str) -> str:
        """Return the HMAC that signs a delivery URL."""
        return hmac.new(self._signing_key, text.encode(), hashlib.sha256).hexdigest()

    def emit(self, kind: str, data: Record, owner: str) -> None:
        """Record an event, and a delivery of it to each webhook of its owner that subscribes to its kind."""
        self.events.append({"type": str(kind), "timestamp": now(), "data": dict(data)})
        if not self.is_active(owner):
            return
        event = f"msg_{new_id()}"
        for row in self.tables["webhooks"].rows.values():
            kinds = row.record["events"]
            if row.owner == owner and row.record["is_active"] and (not kinds or kind in kinds):
                self.add_delivery(owner, row.record["id"], kind, event)

    def add_delivery(self, owner: str, webhook: str, kind: str, event: str) -> Record:
        """Record a delivery of one event to one webhook, as already delivered."""
        timestamp = now()
        record = {
            "webhook_id": webhook,
            "event_id": event,
            "event": kind,
            "status": "delivered",
            "attempts": 1,
            "next_attempt_at": None,
            "last_attempt_at": timestamp,
            "response_status": 200,
            "response_excerpt": "",
            "duration_ms": 0,
            "error": None,
            "created_at": timestamp,
        }
        return self.tables["deliveries"].add(owner, record).record
