"""Parts of the OpenAPI document that all operations share: errors, headers and security schemes."""

from __future__ import annotations

from imagehost_core.authorization import Requirement
from imagehost_core.errors import BY_CODE, ImageHostError
from imagehost_core.models import Scope
from imagehost_core.services.idempotency import MAX_KEY
from imagehost_server.api.operation import Operation
from imagehost_server.auth.cookies import CSRF_COOKIE, SESSION_COOKIE
from imagehost_server.middleware.security import HeadersTooLargeError

Schema = dict[str, object]

ERROR: Schema = {
    "type": "object",
    "description": "The body of an error.",
    "required": ["success", "error"],
    "properties": {
        "success": {"type": "boolean", "const": False},
        "error": {
            "type": "object",
            "required": ["code", "message", "details"],
            "properties": {
                "code": {"type": "string", "enum": sorted(BY_CODE)},
                "message": {"type": "string", "description": "A short summary."},
                "details": {
                    "type": "string",
                    "description": "*expected … but received …* for every invalid parameter or field.",
                },
            },
        },
    },
}

HEADERS: dict[str, Schema] = {
    "X-Request-Id": {
        "description": "The id of the request, as in the server's log.",
        "schema": {"type": "string"},
    },
    "X-RateLimit-Limit": {
        "description": "The limit of the window that is closest to refusal.",
        "schema": {"type": "integer"},
    },
    "X-RateLimit-Remaining": {
        "description": "What remains in that window.",
        "schema": {"type": "integer"},
    },
    "X-RateLimit-Reset": {
        "description": "When that window ends, as a Unix timestamp.",
        "schema": {"type": "integer"},
    },
    "Retry-After": {
        "description": "Seconds after which a retry can succeed.",
        "schema": {"type": "integer"},
    },
    "WWW-Authenticate": {"description": "`Bearer`.", "schema": {"type": "string"}},
    "Idempotent-Replayed": {
        "description": "`true` if this is the stored response of an earlier request with the same key.",
        "schema": {"type": "string", "const": "true"},
    },
    "Location": {
        "description": "The URL of the new resource.",
        "schema": {"type": "string", "format": "uri"},
    },
}

RATE_LIMIT_HEADERS = ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")

_ERROR_HEADERS = {
    401: ("WWW-Authenticate",),
    409: ("Retry-After",),
    429: ("Retry-After",),
    503: ("Retry-After",),
}

IDEMPOTENCY_KEY: Schema = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "A repeated request with the same key returns the first response without a second effect.",
    "schema": {"type": "string", "minLength": 1, "maxLength": MAX_KEY, "pattern": "^[ -~]+$"},
}

SECURITY_SCHEMES: Schema = {
    "token": {"type": "http", "scheme": "bearer", "description": "An API key with the named scope."},
    "session": {
        "type": "http",
        "scheme": "bearer",
        "description": "A session token, which has all scopes.",
    },
    "cookie": {"type": "apiKey", "in": "cookie", "name": SESSION_COOKIE},
    "csrf": {
        "type": "apiKey",
        "in": "header",
        "name": "X-CSRF-Token",
        "description": f"The value of the cookie {CSRF_COOKIE}; required for unsafe methods only.",
    },
}

_COMMON_ERRORS = (400, 403, 431, 500, 503)
"""Error statuses of every operation: bad request, plain HTTP, too large headers, internal error, overload."""


def error_responses() -> dict[str, Schema]:
    """Return the shared error responses, by status."""
    kinds: list[type[ImageHostError]] = [*BY_CODE.values(), HeadersTooLargeError]
    return {str(kind.status): _error(kind) for kind in kinds}


def _error(kind: type[ImageHostError]) -> Schema:
    return {
        "description": kind.default_message,
        "headers": header_references("X-Request-Id", *_ERROR_HEADERS.get(kind.status, ())),
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorResponse"}}},
    }


def header_references(*names: str) -> dict[str, Schema]:
    """Return references to shared headers."""
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def security(requirement: Requirement | None) -> list[Schema]:
    """Return the alternatives that meet a route's requirement; none if no token is required."""
    if requirement is None:
        return []
    session: list[Schema] = [{"session": []}, {"cookie": [], "csrf": []}]
    return [{"token": [requirement.value]}, *session] if isinstance(requirement, Scope) else session


def success_headers(operation: Operation, status: str) -> dict[str, Schema]:
    """Return the headers of a successful response."""
    names = ["X-Request-Id"]
    if operation.is_counted:
        names += RATE_LIMIT_HEADERS
    if operation.idempotent:
        names.append("Idempotent-Replayed")
    if status == "201":
        names.append("Location")
    return header_references(*names)


def operation_errors(operation: Operation, *, has_body: bool) -> dict[str, Schema]:
    """Return the error responses of an operation, by status.

    Args:
        operation: The operation.
        has_body: Whether it has a request body.
    """
    statuses = {*_COMMON_ERRORS, *operation.errors}
    if operation.idempotent:
        statuses.add(409)
    if operation.requirement:
        statuses.add(401)
    if operation.is_counted:
        statuses.add(429)
    if "{" in operation.route:
        statuses.add(404)
    if not operation.route.startswith("GET "):
        # A change needs space on the disk of the database.
        statuses.add(507)
    if has_body:
        statuses |= {413, 415, 422}
    return {str(status): {"$ref": f"#/components/responses/{status}"} for status in sorted(statuses)}
