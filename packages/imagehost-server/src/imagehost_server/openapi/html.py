"""The description of the interface, as a document and as a page, both made once at the start.

The page is plain HTML with one style and no script, and its policy lets it load nothing at all.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from hashlib import sha256
from html import escape
from typing import Any

import msgspec
from attrs import frozen

from imagehost_server.api.operation import Operation
from imagehost_server.http.responses import JSON_HEADERS, RawResponse
from imagehost_server.openapi.document import document

STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1c2430}
section{border-top:1px solid #d6dbe1;padding:1rem 0}h2{font-size:1.1rem;margin:0}
code{font:.95em ui-monospace,monospace;background:#f1f3f5;padding:.1em .3em;border-radius:3px}
b{display:inline-block;min-width:4.5rem;color:#0b5fa5}table{border-collapse:collapse;margin:.5rem 0}
td{padding:.15rem 1rem .15rem 0;vertical-align:top}p{margin:.3rem 0}
"""

_HASH = b64encode(sha256(STYLE.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; frame-ancestors 'none'"


@frozen
class ApiDescription:
    """The two answers that describe the interface."""

    document: RawResponse
    docs: RawResponse


def build_description(operations: Iterable[Operation], base_url: str, delivery_url: str) -> ApiDescription:
    """Return both answers.

    Args:
        operations: All routes.
        base_url: The address of the interface.
        delivery_url: The address of the processing route.
    """
    tree = document(operations, base_url, delivery_url)
    headers = (
        ("content-type", "text/html"),
        ("content-security-policy", POLICY),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
    )
    return ApiDescription(
        RawResponse(200, msgspec.json.encode(tree), JSON_HEADERS),
        RawResponse(200, render_html(tree).encode(), headers),
    )


def render_html(tree: Mapping[str, Any]) -> str:
    """Return an OpenAPI document as an HTML page."""
    sections = []
    for path, methods in tree["paths"].items():
        servers = methods.get("servers") or tree["servers"]
        for method, told in methods.items():
            if method != "servers":
                sections.append(_section(method, servers[0]["url"] + path, told))
    title = escape(tree["info"]["title"])
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body>'
        f"<h1>{title} {escape(tree['info']['version'])}</h1>"
        '<p>The same as <a href="openapi.json">an OpenAPI document</a>.</p>'
        f"{''.join(sections)}</body></html>"
    )


def _section(method: str, address: str, told: Mapping[str, Any]) -> str:
    needs = [scope for option in told["security"] for scopes in option.values() for scope in scopes]
    token = f"Needs a token with <code>{escape(', '.join(needs))}</code>." if needs else "Needs no token."
    if {} in told["security"] and needs:
        token = f"Needs no token; private pictures need one with <code>{escape(', '.join(needs))}</code>."
    rows = [
        (item["name"], item.get("description", ""), item["schema"]) for item in told.get("parameters", [])
    ]
    for media_type, content in told.get("requestBody", {}).get("content", {}).items():
        fields = content["schema"].get("properties", {})
        rows += [(name, "", schema) for name, schema in fields.items()]
        token += f" Takes <code>{escape(media_type)}</code>."
    cells = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{escape(text)}</td><td>{_values(schema)}</td></tr>"
        for name, text, schema in rows
    )
    statuses = ", ".join(told["responses"])
    return (
        f"<section><h2><b>{method.upper()}</b><code>{escape(address)}</code></h2>"
        f"<p>{escape(told['summary'])} {token}</p><table>{cells}</table><p>Answers {statuses}.</p></section>"
    )


def _values(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        words = " · ".join(map(str, schema["enum"]))
    elif "minimum" in schema:
        words = f"{schema['type']}, {schema['minimum']}–{schema.get('maximum', '')}"
    else:
        words = str(schema.get("type", ""))
    default = f" (default {schema['default']})" if "default" in schema else ""
    return escape(words + default)
