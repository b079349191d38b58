"""The OpenAPI document: Litestar's, made from the handlers, with what their annotations cannot express.

Added here: errors and headers, which middleware and guards produce; security, from the table of scopes; the
upload form and the delivery route, which read and send streams; webhooks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

import msgspec
from litestar import Litestar
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import OpenAPIConfig

from imagehost_server.api.operation import Operation
from imagehost_server.api.request import ApiRequest
from imagehost_server.auth.scopes import REGISTRATION
from imagehost_server.openapi.components import (
    ERROR,
    HEADERS,
    IDEMPOTENCY_KEY,
    SECURITY_SCHEMES,
    Schema,
    error_responses,
    operation_errors,
    security,
    success_headers,
)
from imagehost_server.openapi.delivery import UPLOAD_BODY, UPLOAD_FORM, delivery_path
from imagehost_server.openapi.descriptions import describe
from imagehost_server.openapi.examples import EXAMPLES
from imagehost_server.openapi.generators import adapt_to_generators
from imagehost_server.openapi.links import links
from imagehost_server.openapi.webhooks import webhooks

PREFIX = "/v1"
_ENVELOPE = re.compile(r"Success_(?:.*\.)?(\w+?)_$")
"""Litestar's name of the schema of a success envelope, with the name of its `data`."""


def document(
    routes: Iterable[HTTPRouteHandler], base_url: str, delivery_url: str, registration: bool = False
) -> dict[str, Any]:
    """Return the OpenAPI document.

    Args:
        routes: The routes to describe.
        base_url: The base URL of the API, which ends in `/v1`.
        delivery_url: The base URL of images.
        registration: Whether accounts can be created without a token.
    """
    routes = list(routes)
    config = OpenAPIConfig("imagehost", version("imagehost-server"), use_handler_docstrings=True)
    app = Litestar(routes, openapi_config=config, logging_config=None, request_class=ApiRequest)
    described = app.openapi_schema.to_schema()
    # A copy in types of JSON; Litestar's has enums.
    tree = msgspec.json.decode(msgspec.json.encode(described))
    operations = [(str(route.name), route.opt["operation"]) for route in routes]
    paths: dict[str, Any] = {}
    for route in routes:
        operation: Operation = route.opt["operation"]
        method, path = operation.route.split(" ")
        item = paths.setdefault(path.removeprefix(PREFIX), {})
        item[method.lower()] = _complete(
            tree["paths"][path][method.lower()], operation, links(operation, operations)
        )
        if not path.startswith(f"{PREFIX}/"):
            item["servers"] = [{"url": base_url.removesuffix(PREFIX)}]
        if registration and operation.route == REGISTRATION:
            item[method.lower()]["security"].append({})
    paths["/{file}"] = delivery_path(delivery_url)
    schemas = {name: _schema(name, schema) for name, schema in tree["components"]["schemas"].items()}
    result = {
        "openapi": tree["openapi"],
        "info": {**tree["info"], "description": _DESCRIPTION},
        "servers": [{"url": base_url}],
        "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
        "paths": _simplify(paths),
        "webhooks": webhooks(),
        "components": {
            "schemas": {**schemas, "ErrorResponse": ERROR, "UploadForm": UPLOAD_FORM},
            "responses": error_responses(),
            "headers": HEADERS,
            "securitySchemes": SECURITY_SCHEMES,
        },
    }
    renamed = dict(_rename_envelopes(result))
    adapt_to_generators(renamed)
    return renamed


def _complete(described: dict[str, Any], operation: Operation, linked: dict[str, Schema]) -> Schema:
    """Return an operation with its errors, headers, links, security and tag."""
    (status,) = (status for status in described["responses"] if status.startswith("2"))
    success = described["responses"][status]
    success["description"] = described["summary"]
    if operation.idempotent:
        described.setdefault("parameters", []).append(IDEMPOTENCY_KEY)
    if operation.route == "POST /v1/upload":
        described["requestBody"] = UPLOAD_BODY
    if operation.has_envelope:
        success["headers"] = success_headers(operation, status)
    else:
        success["content"] = {media_type: {} for media_type in success["content"]}
    if linked:
        success["links"] = linked
    has_body = "requestBody" in described
    return {
        **described,
        "tags": [_tag(operation)],
        "security": security(operation.requirement),
        "responses": {status: success, **operation_errors(operation, has_body=has_body)},
    }


def _schema(name: str, described: dict[str, Any]) -> Schema:
    """Return a schema with descriptions of its members and an example."""
    schema = describe(name, _simplify(described))
    return {**schema, "examples": [EXAMPLES[name]]} if name in EXAMPLES else schema


def _tag(operation: Operation) -> str:
    path = operation.route.partition(" ")[2]
    segment = path.removeprefix(PREFIX).strip("/").partition("/")[0]
    tag = _TAG_BY_SEGMENT.get(segment, segment)
    return tag if tag in TAGS else "service"


def _simplify(node: Any) -> Any:
    """Return a tree of schemas without unions that the annotations have but JSON does not.

    A member that may be omitted is a union with one alternative, a member of several types whose schema
    names the type has alternatives besides, and null is one of a schema's types instead of an alternative.
    """
    if isinstance(node, list):
        return [_simplify(item) for item in node]
    if not isinstance(node, dict):
        return node
    tree = {name: _simplify(item) for name, item in node.items()}
    alternatives = tree.get("oneOf")
    if not isinstance(alternatives, list):
        return tree
    null, others = {"type": "null"}, [item for item in alternatives if item != {"type": "null"}]
    if "type" in tree:
        del tree["oneOf"]
    elif len(others) == 1 and "$ref" not in others[0]:
        del tree["oneOf"]
        tree = {**others[0], **tree}
        if null in alternatives:
            tree["type"] = [tree["type"], "null"]
            if "enum" in tree:
                tree["enum"] = [*tree["enum"], None]
    elif len(others) == len(alternatives) == 1:
        tree = {**others[0], **{name: item for name, item in tree.items() if name != "oneOf"}}
    return tree


def _rename_envelopes(node: Any) -> Any:
    """Return a tree in which the schema of each success envelope is named `…Response`."""
    if isinstance(node, list):
        return [_rename_envelopes(item) for item in node]
    if isinstance(node, dict):
        return {_ENVELOPE.sub(r"\1Response", name): _rename_envelopes(item) for name, item in node.items()}
    return _ENVELOPE.sub(r"\1Response", node) if isinstance(node, str) else node


_DESCRIPTION = (
    "Hosts images: upload them, group them into albums, and serve them resized and re-encoded. "
    "Every JSON response is an envelope: `success` with `data`, or with `error`."
)

TAGS = {
    "upload": "Upload images.",
    "images": "List, change, delete and sign images.",
    "gallery": "Public images of all accounts.",
    "albums": "Group images.",
    "session": "Sign in and out.",
    "accounts": "Accounts, their usage and limits.",
    "keys": "API keys.",
    "webhooks": "Webhook endpoints and deliveries.",
    "integrations": "Configuration files for other programs.",
    "service": "Probes and the API's description.",
    "delivery": "Image files.",
    "events": "Requests that webhook endpoints receive.",
}
"""The tags of operations, in the order of the reference."""

_TAG_BY_SEGMENT = {"account": "accounts", "sessions": "session"}
"""Tags of paths that begin with another word."""
