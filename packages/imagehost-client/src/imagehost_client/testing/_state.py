"""The state of the in-memory host: accounts, tokens, records and events."""

from __future__ import annotations

import hashlib
import hmac
import secrets

from imagehost_client.testing._store import Record, Table, TokenGrant, new_id, now


class HostState:
    """Accounts, tokens, records and events of one in-memory host.

    Args:
        base_url: The base URL of the API.
        cdn_url: The base URL of image delivery.
        registration: Whether `POST /accounts` is open.
    """

    def __init__(self, *, base_url: str, cdn_url: str, registration: bool) -> None:
        self.base_url = base_url
        self.cdn_url = cdn_url
        self.registration = registration
        self.started: str = now()
        self.accounts: dict[str, str] = {}
        self.passwords: dict[str, str] = {}
        self.tokens: dict[str, TokenGrant] = {}
        self.events: list[Record] = []
        self.tables: dict[str, Table] = {
            name: Table(name) for name in ("images", "albums", "keys", "webhooks", "deliveries")
        }
        self._signing_key = secrets.token_bytes(32)

    def add_account(self, name: str) -> str:
        """Create an account, and return a session token with all permissions on it."""
        token = "ihs_" + secrets.token_hex(16)
        self.accounts[name] = token
        self.tokens[token] = TokenGrant(name)
        return token

    def signature(self, text: str) -> str:
        """Return the HMAC that signs a delivery URL."""
        return hmac.new(self._signing_key, text.encode(), hashlib.sha256).hexdigest()

    def emit(self, kind: str, data: Record, owner: str) -> None:
        """Record an event, and a delivery of it to each webhook of its owner that subscribes to its kind."""
        self.events.append({"type": str(kind), "timestamp": now(), "data": dict(data)})
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
