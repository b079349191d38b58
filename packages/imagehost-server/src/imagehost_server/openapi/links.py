"""Links in the OpenAPI document: from the operations that create a resource to those that take its id.

Generators of tests and of documentation follow them (OpenAPI 3.1, section 4.8.20).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from imagehost_server.api.operation import Operation
from imagehost_server.openapi.components import Schema

CREATED: dict[str, str] = {
    "POST /v1/upload": "/v1/images/{image_id}",
    "POST /v1/albums": "/v1/albums/{album_id}",
    "POST /v1/accounts": "/v1/accounts/{account_id}",
    "POST /v1/keys": "/v1/keys/{key_id}",
    "POST /v1/webhooks": "/v1/webhooks/{webhook_id}",
    "POST /v1/webhooks/{webhook_id}/test": "/v1/webhooks/{webhook_id}/deliveries/{delivery_id}",
}
"""The path of the resource that an operation creates. Its last parameter is the `id` of the response; of an
upload, only the response of form 2 has one."""

_CREATED_ID = "$response.body#/data/id"
_PARAMETER = re.compile(r"{(\w+)}")


def links(operation: Operation, others: Iterable[tuple[str, Operation]]) -> dict[str, Schema]:
    """Return the links of an operation's successful response, by the id of the linked operation.

    Args:
        operation: The operation.
        others: All operations with their ids.
    """
    path = CREATED.get(operation.route)
    if path is None:
        return {}
    parameters = _PARAMETER.findall(path)
    values = {name: f"$request.path.{name}" for name in parameters[:-1]}
    values[parameters[-1]] = _CREATED_ID
    return {
        operation_id: {"operationId": operation_id, "parameters": values}
        for operation_id, other in others
        if _is_below(path, other.route) and _PARAMETER.findall(other.route) == parameters
    }


def _is_below(path: str, route: str) -> bool:
    """Return whether a route is that of a resource, or of a part of it."""
    return f"{route.split(' ')[1]}/".startswith(f"{path}/")
