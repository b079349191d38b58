"""Changes to the OpenAPI document for generators of clients, which do not support every valid schema.

- openapi-generator compares a boolean that has `const` with text, so that no response is accepted.
- openapi-typescript makes a member of a body with `default` required, and openapi-python-client sends the
  default, although the host may have another one by its settings.
- A member that is always true is required, although its class has a default.
- A name in `title` takes precedence over the name of the schema.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

_REFERENCE = "#/components/schemas/"


def adapt_to_generators(document: dict[str, Any]) -> None:
    """Change the schemas of an OpenAPI document in place."""
    schemas: dict[str, Any] = document["components"]["schemas"]
    bodies = _reachable(schemas, list(_bodies(document)))
    for name, schema in schemas.items():
        schema.pop("title", None)
        for member, item in schema.get("properties", {}).items():
            if isinstance(item.get("const"), bool):
                value = json.dumps(item.pop("const"))
                item.setdefault("description", f"Always {value}.")
                schema["required"] = list(dict.fromkeys([*schema["required"], member]))
            if name in bodies and "default" in item:
                default = json.dumps(item.pop("default"))
                item["description"] = f"{item.get('description', '')} Default: `{default}`.".strip()


def _bodies(document: dict[str, Any]) -> Iterator[Any]:
    """Yield the request bodies of all operations."""
    for item in document["paths"].values():
        for operation in item.values():
            if isinstance(operation, dict) and "requestBody" in operation:
                yield operation["requestBody"]


def _reachable(schemas: dict[str, Any], node: Any) -> set[str]:
    """Return the names of the schemas that a part of the document refers to, directly or by others."""
    found: set[str] = set()
    pending = [node]
    while pending:
        item = pending.pop()
        if isinstance(item, list):
            pending += item
        elif isinstance(item, dict):
            pending += item.values()
        elif isinstance(item, str) and item.startswith(_REFERENCE):
            name = item.removeprefix(_REFERENCE)
            if name not in found:
                found.add(name)
                pending.append(schemas[name])
    return found
