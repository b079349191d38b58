"""The double's webhooks: destinations and deliveries in memory, and nothing is ever sent."""

from __future__ import annotations

import base64
import secrets
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from imagehost_client.errors import NotFoundError, ValidationError
from imagehost_client.models import EventKind
from imagehost_client.testing import _forms
from imagehost_client.testing._request import FakeRequest
from imagehost_client.testing._store import Record, new_id, now

if TYPE_CHECKING:
    from imagehost_client.testing._fake import FakeImageHost

TEST_EVENT = "webhook.test"


def list_webhooks(asked: FakeRequest) -> object:
    """List destinations."""
    return asked.table("webhooks").page(asked.query, lambda row: row.owner == asked.grant.account)


def create_webhook(asked: FakeRequest) -> object:
    """Add a destination."""
    defaults = {"url": "", "events": [], "description": "", "is_active": True}
    record = {**_values(asked.json(), defaults), "is_active": True, "disabled_reason": None}
    row = asked.table("webhooks").add(asked.grant.account, record, secret=_signing_secret())
    return {**row.record, "secret": row.secret}


def get_webhook(asked: FakeRequest) -> object:
    """Return a destination's record."""
    return asked.row("webhooks").record


def update_webhook(asked: FakeRequest) -> object:
    """Change a destination's record."""
    body, record = asked.json(), asked.row("webhooks").record
    record |= _values(body, record)
    if body.get("is_active"):
        record["disabled_reason"] = None
    return record


def delete_webhook(asked: FakeRequest) -> object:
    """Remove a destination, and all deliveries to it."""
    asked.table("webhooks").remove(asked.grant.account, asked.ids[0])
    deliveries = asked.table("deliveries").rows
    for number in [key for key, row in deliveries.items() if row.record["webhook_id"] == asked.ids[0]]:
        del deliveries[number]
    return {"id": asked.ids[0], "deleted": True}


def test_webhook(asked: FakeRequest) -> object:
    """Note a test delivery; the double sends nothing."""
    webhook = asked.row("webhooks").record["id"]
    return add_delivery(asked.host, asked.grant.account, webhook, TEST_EVENT, f"msg_{new_id()}")


def rotate_secret(asked: FakeRequest) -> object:
    """Give a destination a new secret."""
    row = asked.row("webhooks")
    row.secret = _signing_secret()
    return {**row.record, "secret": row.secret}


def list_deliveries(asked: FakeRequest) -> object:
    """List the deliveries to a destination."""
    number = asked.row("webhooks").record["id"]
    return asked.table("deliveries").page(asked.query, lambda row: row.record["webhook_id"] == number)


def retry_delivery(asked: FakeRequest) -> object:
    """Count one more attempt of a delivery."""
    number = asked.row("webhooks").record["id"]
    record = asked.row("deliveries", 1).record
    if record["webhook_id"] != number:
        raise NotFoundError(f"expected the id of a delivery to {number} but received {asked.ids[1]!r}")
    record["attempts"] += 1
    return record


def deliver_event(host: FakeImageHost, owner: str, kind: str) -> None:
    """Note a delivery of an event to each of its owner's destinations that gets events of its kind."""
    event = f"msg_{new_id()}"
    for row in host.tables["webhooks"].rows.values():
        wanted = row.record["events"]
        if row.owner == owner and row.record["is_active"] and (not wanted or kind in wanted):
            add_delivery(host, owner, row.record["id"], kind, event)


def add_delivery(host: FakeImageHost, owner: str, webhook: str, kind: str, event: str) -> Record:
    """Note one event on its way to one destination, as if it had arrived."""
    moment = now()
    record = {
        "webhook_id": webhook,
        "event_id": event,
        "event": kind,
        "status": "delivered",
        "attempts": 1,
        "next_attempt_at": None,
        "last_attempt_at": moment,
        "response_status": 200,
        "response_excerpt": "",
        "duration_ms": 0,
        "error": None,
        "created_at": moment,
    }
    return host.tables["deliveries"].add(owner, record).record


def _values(body: Record, record: Record) -> Record:
    url = _forms.expect_type(body, "url", str, record["url"])
    if not _is_destination(url):
        raise ValidationError(
            f"expected an https address that everybody can reach for url but received {url!r}"
        )
    return {
        "url": url,
        "events": _forms.texts(body, "events", tuple(EventKind), record["events"]),
        "description": _forms.parse_description(body, record["description"]),
        "is_active": _forms.expect_type(body, "is_active", bool, record["is_active"]),
    }


def _is_destination(url: str) -> bool:
    """Say whether a destination is allowed: https and public, or any on this machine (contract 10).

    The double is a host whose operator allows loopback, as hosts for tests do. It resolves no names.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return False
    if "@" in parts.netloc or parts.fragment or parts.scheme not in {"http", "https"}:
        return False
    if host == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return parts.scheme == "https" and "." in host
    return address.is_loopback or (parts.scheme == "https" and address.is_global)


def _signing_secret() -> str:
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
