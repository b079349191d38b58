"""The double's keys, webhooks and sessions: records in memory, and no event is ever sent."""

from __future__ import annotations

import base64
import secrets
from datetime import UTC, datetime, timedelta

from imagehost_client.errors import UnauthorizedError, ValidationError
from imagehost_client.models import EventKind
from imagehost_client.testing import _forms
from imagehost_client.testing._asked import Asked
from imagehost_client.testing._store import SCOPES, Grant, Record, new_id


def list_keys(asked: Asked) -> object:
    """List keys."""
    return asked.table("keys").page(asked.query, lambda row: row.owner == asked.grant.account)


def create_key(asked: Asked) -> object:
    """Make a key, whose token works from now on."""
    body = asked.json()
    token = "ihk_" + secrets.token_hex(16)
    record: Record = {
        "name": _forms.name_in(body),
        "prefix": token[:8],
        "scopes": _forms.texts(body, "scopes", SCOPES),
        "expires_at": body.get("expires_at"),
        "last_used_at": None,
        "revoked_at": None,
    }
    row = asked.table("keys").add(asked.grant.account, record, secret=token)
    asked.host.tokens[token] = Grant(asked.grant.account, tuple(record["scopes"]), row.record["id"])
    return {**row.record, "token": token}


def get_key(asked: Asked) -> object:
    """Return a key's record."""
    return asked.row("keys").record


def update_key(asked: Asked) -> object:
    """Change a key's record."""
    row, body = asked.row("keys"), asked.json()
    changes: Record = {
        "name": _forms.name_in({**row.record, **body}),
        "expires_at": body.get("expires_at", row.record["expires_at"]),
    }
    changes["scopes"] = _forms.texts({**row.record, **body}, "scopes", SCOPES)
    row.record |= changes
    asked.host.tokens[row.secret] = Grant(row.owner, tuple(changes["scopes"]), row.record["id"])
    return row.record


def delete_key(asked: Asked) -> object:
    """Revoke a key."""
    row = asked.table("keys").remove(asked.grant.account, asked.ids[0])
    del asked.host.tokens[row.secret]
    return {"id": row.record["id"], "deleted": True}


def list_webhooks(asked: Asked) -> object:
    """List destinations."""
    return asked.table("webhooks").page(asked.query, lambda row: row.owner == asked.grant.account)


def create_webhook(asked: Asked) -> object:
    """Add a destination."""
    record = {
        **_webhook_values(asked.json(), {"description": "", "is_active": True}),
        "disabled_reason": None,
    }
    row = asked.table("webhooks").add(asked.grant.account, record, secret=_signing_secret())
    return {**row.record, "secret": row.secret}


def get_webhook(asked: Asked) -> object:
    """Return a destination's record."""
    return asked.row("webhooks").record


def update_webhook(asked: Asked) -> object:
    """Change a destination's record."""
    record = asked.row("webhooks").record
    record |= _webhook_values(asked.json(), record)
    return record


def delete_webhook(asked: Asked) -> object:
    """Remove a destination."""
    asked.table("webhooks").remove(asked.grant.account, asked.ids[0])
    return {"id": asked.ids[0], "deleted": True}


def test_webhook(asked: Asked) -> object:
    """Note a test delivery; the double sends nothing."""
    webhook = asked.row("webhooks").record["id"]
    record = {"event_id": f"msg_{new_id()}", "event": "webhook.test", "status": "delivered", "attempts": 1}
    row = asked.table("deliveries").add(asked.grant.account, {**record, "webhook_id": webhook})
    return row.record


def rotate_secret(asked: Asked) -> object:
    """Give a destination a new secret."""
    row = asked.row("webhooks")
    row.secret = _signing_secret()
    return {**row.record, "secret": row.secret}


def list_deliveries(asked: Asked) -> object:
    """List the deliveries to a destination."""
    number = asked.row("webhooks").record["id"]
    return asked.table("deliveries").page(asked.query, lambda row: row.record["webhook_id"] == number)


def retry_delivery(asked: Asked) -> object:
    """Count one more attempt of a delivery."""
    asked.row("webhooks")
    record = asked.row("deliveries", 1).record
    record["attempts"] += 1
    return record


def get_account(asked: Asked) -> object:
    """Return what the account is, uses and may use."""
    mine = [row for row in asked.table("images").rows.values() if row.owner == asked.grant.account]
    reset = int(datetime.now(UTC).timestamp()) + 60
    return {
        "account": {"name": asked.grant.account, "created_at": asked.host.started},
        "usage": {"bytes": sum(row.record["size"] for row in mine), "images": len(mine)},
        "quota": {"bytes": None, "remaining": None},
        "limits": [{"name": "api_per_minute", "limit": 60, "remaining": 59, "reset": reset}],
    }


def create_session(asked: Asked) -> object:
    """Sign in: any account that the double has, with the password `secret`."""
    body = asked.json()
    name = str(body.get("username", ""))
    if name not in asked.host.accounts or body.get("password") != "secret":
        raise UnauthorizedError("expected an account and the password 'secret' but received others")
    token = "ihs_" + secrets.token_hex(16)
    asked.host.tokens[token] = Grant(name)
    expires = (datetime.now(UTC) + timedelta(days=1)).isoformat().replace("+00:00", "Z")
    return {"token": token, "expires_at": expires, "account": {"name": name}}


def delete_session(asked: Asked) -> object:
    """Sign out: the double lets its tokens be."""
    return {"deleted": bool(asked.grant.account)}


def _webhook_values(body: Record, record: Record) -> Record:
    merged = {**record, **body}
    url = _forms.typed(merged, "url", str, "")
    if not url.startswith("https://"):
        raise ValidationError(f"expected an https address for url but received {url!r}")
    return {
        "url": url,
        "events": _forms.texts(merged, "events", tuple(EventKind)),
        "description": _forms.typed(merged, "description", str, ""),
        "is_active": _forms.typed(merged, "is_active", bool, True),
    }


def _signing_secret() -> str:
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
