"""The state of the in-memory host: accounts, tokens, records and events."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from math import ceil

from attrs import frozen

from imagehost_client import webhooks
from imagehost_client.errors import RateLimitError
from imagehost_client.models import RateLimit, rfc3339
from imagehost_client.testing._store import HostClock, Record, Table, TokenGrant, current_time, new_id, now

SESSION_LIFETIME = timedelta(days=7)
LIMITS = ("api_per_minute", "api_per_hour", "api_per_day", "uploads_per_minute", "bulk_ids_per_minute")
"""The limits of an account."""


API_WINDOWS = ("api_per_minute", "api_per_hour", "api_per_day")
"""The limits of all requests."""

WINDOWS = {
    "api_per_minute": 60,
    "api_per_hour": 3_600,
    "api_per_day": 86_400,
    "uploads_per_minute": 60,
    "bulk_ids_per_minute": 60,
}
"""The lengths of the windows of the limits, in seconds."""


@frozen
class SignedEvent:
    """The request that delivers an event to a webhook.

    Attributes:
        headers: The headers, with the signature; names are in lower case.
    """

    body: bytes
    headers: dict[str, str]


class HostState:
    """Accounts, tokens, records and events of one in-memory host.

    Args:
        base_url: The base URL of the API.
        cdn_url: The base URL of image delivery.
        registration: Whether `POST /accounts` requires no token.
        limits: The rate limits of accounts without their own, by name; 0 and missing ones are unlimited.
        quota_bytes: The quota of accounts without their own; `None` and 0 are unlimited.
    """

    def __init__(
        self,
        *,
        base_url: str,
        cdn_url: str,
        registration: bool,
        limits: Mapping[str, int],
        quota_bytes: int | None,
    ) -> None:
        self.base_url = base_url
        self.cdn_url = cdn_url
        self.registration = registration
        self.accounts: dict[str, str] = {}
        self.passwords: dict[str, str] = {}
        self.tokens: dict[str, TokenGrant] = {}
        self.events: list[Record] = []
        self.clock: HostClock = HostClock()
        self.limits: dict[str, int] = dict(limits)
        self.quota_bytes: int | None = quota_bytes
        self._counts: dict[tuple[str, str, int], int] = {}
        self._payloads: dict[str, Record] = {}
        self.tables: dict[str, Table] = {
            name: Table(name)
            for name in ("accounts", "sessions", "images", "albums", "keys", "webhooks", "deliveries")
        }
        self.signing_keys: dict[str, bytes] = {}

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

    def find_name(self, name: str) -> str | None:
        """Return the name of the account with a name in any case, or `None`."""
        return next((other for other in self.accounts if other.lower() == name.lower()), None)

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
            "expires_at": rfc3339(current_time() + SESSION_LIFETIME),
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

    def signature(self, owner: str, text: str) -> str:
        """Return the HMAC that signs a delivery URL of an account's image."""
        key = self.signing_keys.setdefault(owner, secrets.token_bytes(32))
        return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()

    def emit(self, kind: str, data: Record, owner: str) -> None:
        """Record an event, and a delivery of it to each webhook of its owner that subscribes to its kind."""
        self.events.append({"type": str(kind), "timestamp": now(), "data": dict(data)})
        if not self.is_active(owner):
            return
        event = f"msg_{new_id()}"
        self._payloads[event] = self.events[-1]
        for row in self.tables["webhooks"].rows.values():
            kinds = row.record["events"]
            if row.owner == owner and row.record["is_active"] and (not kinds or kind in kinds):
                self.add_delivery(owner, row.record["id"], kind, event)

    def signed_events(self, webhook: str | None = None) -> list[SignedEvent]:
        """Return the requests with which the host delivers its events, signed now, for tests of receivers.

        Args:
            webhook: The id of a webhook; by default those of all webhooks are returned.
        """
        requests = []
        for row in self.tables["deliveries"].rows.values():
            endpoint = self.tables["webhooks"].rows.get(row.record["webhook_id"])
            if endpoint is None or webhook not in {None, row.record["webhook_id"]}:
                continue
            event, timestamp = row.record["event_id"], str(int(time.time()))
            payload = self._payloads.get(event) or {
                "type": row.record["event"],
                "timestamp": row.record["created_at"],
                "data": {},
            }
            body = json.dumps(payload).encode()
            headers = {
                "content-type": "application/json",
                webhooks.ID: event,
                webhooks.TIME: timestamp,
                webhooks.SIGNATURE: webhooks.sign(f"{event}.{timestamp}.".encode() + body, endpoint.secret),
            }
            requests.append(SignedEvent(body, headers))
        return requests

    def quota_of(self, name: str) -> int | None:
        """Return the quota of an account in bytes, or `None` without one."""
        own = self.account(name)["quota_bytes"]
        return (self.quota_bytes if own is None else own) or None

    def rate_windows(self, name: str, kinds: Iterable[str] = WINDOWS) -> list[Record]:
        """Return the rate limit windows of an account, as `GET /account` does.

        Args:
            name: The name of the account.
            kinds: The names of the limits.
        """
        own = self.account(name)["limits"] if name else {}
        windows = []
        for kind in kinds:
            limit = self.limits.get(kind, 0) if own.get(kind) is None else own[kind]
            if limit:
                start = int(self.clock.now().timestamp()) // WINDOWS[kind]
                used = self._counts.get((name, kind, start), 0)
                windows.append(
                    {
                        "name": kind,
                        "limit": limit,
                        "remaining": max(0, limit - used),
                        "reset": rfc3339(datetime.fromtimestamp((start + 1) * WINDOWS[kind], UTC)),
                    }
                )
        return windows

    def count_request(self, name: str, *, upload: bool) -> Record | None:
        """Count a request of an account, and return its tightest window; `None` without limits.

        Raises:
            RateLimitError: A limit is exceeded; the request is not counted.
        """
        return self._count(name, (*API_WINDOWS, "uploads_per_minute") if upload else API_WINDOWS)

    def count_bulk(self, name: str, ids: int) -> Record | None:
        """Count the image ids of a bulk request of an account, and return the window; `None` without a limit.

        Raises:
            RateLimitError: The limit is exceeded; no id is counted.
        """
        return self._count(name, ("bulk_ids_per_minute",), ids)

    def _count(self, name: str, kinds: Iterable[str], amount: int = 1) -> Record | None:
        windows = self.rate_windows(name, kinds)
        for window in windows:
            if window["remaining"] < amount:
                seconds = (datetime.fromisoformat(window["reset"]) - self.clock.now()).total_seconds()
                unit = "ids" if window["name"] == "bulk_ids_per_minute" else "requests"
                left = window["remaining"]
                received = "one more" if amount == 1 else f"{amount} more when {left} were left"
                raise RateLimitError(
                    f"expected at most {window['limit']} {unit} for {window['name']} but received {received}",
                    retry_after=max(1, ceil(seconds)),
                    rate_limit=RateLimit(
                        window["limit"], window["remaining"], datetime.fromisoformat(window["reset"])
                    ),
                )
        for window in windows:
            window["remaining"] -= amount
            start = int(self.clock.now().timestamp()) // WINDOWS[window["name"]]
            key = name, window["name"], start
            self._counts[key] = self._counts.get(key, 0) + amount
        return min(windows, key=lambda window: window["remaining"], default=None)

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
