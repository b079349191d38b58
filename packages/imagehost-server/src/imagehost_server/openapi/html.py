"""The API description as OpenAPI JSON and as an HTML page; made at the first request.

The page is plain HTML with one inline style and no script; its Content-Security-Policy forbids any other
resource.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from functools import cached_property
from hashlib import sha256
from html import escape
from typing import Any

import msgspec
from litestar.handlers import HTTPRouteHandler

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


class ApiDescription:
    """The responses of `/v1/openapi.json` and `/v1/docs`, made at the first request.

    Args:
        routes: The routes of the API.
        base_url: The base URL of the API, which ends in `/v1`.
        delivery_url: The base URL of images.
    """

    def __init__(self, routes: Iterable[HTTPRouteHandler], base_url: str, delivery_url: str) -> None:
        self._arguments = (tuple(routes), base_url, delivery_url)

    @cached_property
    def document(self) -> RawResponse:
        """The OpenAPI document."""
        return RawResponse(200, msgspec.json.encode(self._tree), JSON_HEADERS)

    @cached_property
    def docs(self) -> RawResponse:
        """The HTML page."""
        headers = (
            ("content-type", "text/html"),
            ("content-security-policy", POLICY),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
        )
        return RawResponse(200, render_html(self._tree).encode(), headers)

    @cached_property
    def _tree(self) -> dict[str, Any]:
        return document(*self._arguments)


def render_html(tree: Mapping[str, Any]) -> str:
    """Return an OpenAPI document as an HTML page."""
    sections = []
    for path, methods in tree["paths"].items():
        servers = methods.get("servers") or tree["servers"]
        for method, operation in methods.items():
            if method != "servers":
                sections.append(_section(method, servers[0]["url"] + path, operation))
    title = escape(tree["info"]["title"])
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body>'
        f"<h1>{title} {escape(tree['info']['version'])}</h1>"
        '<p>Also available as <a href="openapi.json">OpenAPI document</a>.</p>'
        f"{''.join(sections)}</body></html>"
    )


def _section(method: str, url: str, operation: Mapping[str, Any]) -> str:
    security = operation["security"]
    scopes = [scope for option in security for values in option.values() for scope in values]
    notes = f"Requires a token with <code>{escape(', '.join(scopes))}</code>." if scopes else "No token."
    if {} in security and scopes:
        notes = f"Private images require a token with <code>{escape(', '.join(scopes))}</code>."
    rows = [
        (item["name"], item.get("description", ""), item["schema"])
        for item in operation.get("parameters", [])
    ]
    for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
        fields = content["schema"].get("properties", {})
        rows += [(name, "", schema) for name, schema in fields.items()]
        notes += f" Body: <code>{escape(media_type)}</code>."
    cells = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{escape(text)}</td><td>{_values(schema)}</td></tr>"
        for name, text, schema in rows
    )
    statuses = ", ".join(operation["responses"])
    return (
        f"<section><h2><b>{method.upper()}</b><code>{escape(url)}</code></h2>"
        f"<p>{escape(operation['summary'])} {notes}</p><table>{cells}</table>"
        f"<p>Statuses: {statuses}.</p></section>"
    )


def _values(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        text = " · ".join(map(str, schema["enum"]))
    elif "minimum" in schema:
        text = f"{schema['type']}, {schema['minimum']}–{schema.get('maximum', '')}"
    else:
        text = str(schema.get("type", ""))
    default = f" (default {schema['default']})" if "default" in schema else ""
    return escape(text + default)
