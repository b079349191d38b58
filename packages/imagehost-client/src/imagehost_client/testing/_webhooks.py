"""Webhook routes of the in-memory host; deliveries are recorded, and never sent."""

from __future__ import annotations

import base64
import secrets
from functools import partial
from ipaddress import ip_address
from urllib.parse import urlsplit

from imagehost_client.errors import NotFoundError, ValidationError
from imagehost_client.models import EventKind
from imagehost_client.testing._lists import paginate
from imagehost_client.testing._members import Parser, parse_boolean, parse_list, parse_text
from imagehost_client.testing._request import FakeRequest
from imagehost_client.testing._store import new_id

TEST_EVENT = "webhook.test"


def list_webhooks(request: FakeRequest) -> object:
    """List webhooks."""
    return paginate(request, "webhooks", lambda row: row.owner == request.grant.account)


def create_webhook(request: FakeRequest) -> object:
    """Create a webhook."""
    values = request.created(NEW_MEMBERS, required={"url"})
    record = {"events": [], "description": "", **values, "is_active": True, "disabled_reason": None}
    row = request.table("webhooks").add(request.grant.account, record, secret=_signing_secret())
    return {**row.record, "secret": row.secret}


def get_webhook(request: FakeRequest) -> object:
    """Return a webhook."""
    return request.row("webhooks").record


def update_webhook(request: FakeRequest) -> object:
    """Change a webhook."""
    row, changes = request.changed("webhooks", {**NEW_MEMBERS, "is_active": parse_boolean})
    row.record |= changes
    if changes.get("is_active"):
        row.record["disabled_reason"] = None
    return row.record


def delete_webhook(request: FakeRequest) -> object:
    """Delete a webhook with its deliveries."""
    request.table("webhooks").remove(request.grant.account, request.ids[0])
    deliveries = request.table("deliveries").rows
    for key in [key for key, row in deliveries.items() if row.record["webhook_id"] == request.ids[0]]:
        del deliveries[key]
    return {"id": request.ids[0], "deleted": True}


def test_webhook(request: FakeRequest) -> object:
    """Record a test delivery."""
    webhook = request.row("webhooks").record["id"]
    return request.host.add_delivery(request.grant.account, webhook, TEST_EVENT, f"msg_{new_id()}")


def rotate_secret(request: FakeRequest) -> object:
    """Replace a webhook's signing secret."""
    row = request.row("webhooks")
    row.secret = _signing_secret()
    return {**row.record, "secret": row.secret}


def list_deliveries(request: FakeRequest) -> object:
    """List the deliveries of a webhook."""
    webhook = request.errors.attempt(request.row, "webhooks")
    return paginate(
        request,
        "deliveries",
        lambda row: webhook is not None and row.record["webhook_id"] == webhook.record["id"],
    )


def retry_delivery(request: FakeRequest) -> object:
    """Count one more attempt of a delivery."""
    webhook = request.row("webhooks").record["id"]
    record = request.row("deliveries", 1).record
    if record["webhook_id"] != webhook:
        raise NotFoundError(f"expected the id of a delivery to {webhook} but received {request.ids[1]!r}")
    record["attempts"] += 1
    return record


def parse_endpoint(name: str, value: object) -> str:
    """Return the URL of an endpoint."""
    if not isinstance(value, str) or not _is_allowed_endpoint(value):
        raise ValidationError(f"expected a public https URL for {name} but received {value!r}")
    return value


def _is_allowed_endpoint(url: str) -> bool:
    """Return whether a URL may be a webhook's endpoint: public and https, or on loopback.

    Loopback is allowed, as on a host that is configured for tests. Host names are not resolved.
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


NEW_MEMBERS: dict[str, Parser] = {
    "url": parse_endpoint,
    "events": partial(parse_list, choices=tuple(EventKind)),
    "description": parse_text,
}
"""The members of a new webhook."""
