"""The OpenAPI document: Litestar's, made from the handlers, with what their annotations cannot express.

Added here: errors and headers, which middleware and guards produce; security, from the routes' requirements;
the upload form and the delivery route, which read and send streams; webhooks.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from inspect import cleandoc
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
from litestar import Litestar
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import Schema as LitestarSchema
from litestar.plugins.attrs import AttrsSchemaPlugin

from imagehost_core.authorization import Requirement
from imagehost_core.errors import BY_CODE, ImageHostError
from imagehost_core.events import event_schemas
from imagehost_core.formats import BY_EXTENSION, FORMATS
from imagehost_core.models import Scope
from imagehost_core.services.idempotency import MAX_KEY
from imagehost_core.services.webhooks import TEST_EVENT
from imagehost_core.transform import TRANSFORM_PARAMETERS
from imagehost_server.auth.cookies import CSRF_COOKIE, SESSION_COOKIE, cookie_name
from imagehost_server.auth.identity import RATE_LIMIT_HEADERS, REGISTRATION
from imagehost_server.middleware.header_checks import HeadersTooLargeError
from imagehost_server.routes.handler import ApiRequest, Operation
from imagehost_server.routes.upload import UploadForm

if TYPE_CHECKING:
    from litestar._openapi.schema_generation import SchemaCreator
    from litestar.typing import FieldDefinition

PREFIX = "/v1"
Schema = dict[str, Any]

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

_DESCRIPTION = (
    "Hosts images: upload them, group them into albums, and serve them resized and re-encoded. "
    "Every JSON response is an envelope: `success` with `data`, or with `error`."
)


def _header(description: str, **schema: object) -> Schema:
    return {"description": description, "schema": schema}


HEADERS = {
    "X-Request-Id": _header("The id of the request, as in the server's log.", type="string"),
    **{name: _header(meaning, type="integer") for name, meaning in RATE_LIMIT_HEADERS.items()},
    "Retry-After": _header("Seconds after which a retry can succeed.", type="integer"),
    "WWW-Authenticate": _header("`Bearer`.", type="string"),
    "Idempotent-Replayed": _header(
        "`true` if this is the stored response of an earlier request with the same key.",
        type="string",
        const="true",
    ),
    "Location": _header("The URL of the new resource.", type="string", format="uri"),
}
_ERROR_HEADERS = {401: "WWW-Authenticate", 409: "Retry-After", 429: "Retry-After", 503: "Retry-After"}
_COMMON_ERRORS = (400, 403, 431, 500, 503)
"""Error statuses of every operation: bad request, plain HTTP, too large headers, internal error, overload."""

ERROR: Schema = {
    "type": "object",
    "description": "The body of an error.",
    "required": ["success", "error"],
    "properties": {
        "success": {"type": "boolean", "description": "Always false."},
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


def _security_schemes(root_path: str) -> Schema:
    session, csrf = (cookie_name(name, root_path) for name in (SESSION_COOKIE, CSRF_COOKIE))
    return {
        "token": {"type": "http", "scheme": "bearer", "description": "An API key with the named scope."},
        "session": {
            "type": "http",
            "scheme": "bearer",
            "description": "A session token, which has all scopes.",
        },
        "cookie": {"type": "apiKey", "in": "cookie", "name": session},
        "csrf": {
            "type": "apiKey",
            "in": "header",
            "name": "X-CSRF-Token",
            "description": f"The value of the cookie {csrf}; required for unsafe methods only.",
        },
    }


def _parameter(name: str, place: str, schema: Schema) -> Schema:
    """Return a parameter with the description of its schema; one in a path or of a webhook is required."""
    described = {"name": name, "in": place, "description": schema.pop("description"), "schema": schema}
    return {**described, "required": True} if place == "path" else described


IDEMPOTENCY_KEY = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAX_KEY,
    "pattern": "^[ -~]+$",
    "description": "A repeated request with the same key returns the first response without a second effect.",
}


class RecordSchemas(AttrsSchemaPlugin):
    """Schemas of records, with the descriptions of members from the docstrings of their classes."""

    def to_openapi_schema(
        self, field_definition: FieldDefinition, schema_creator: SchemaCreator
    ) -> LitestarSchema:
        """Return the schema of a record."""
        schema = super().to_openapi_schema(field_definition, schema_creator)
        descriptions = member_descriptions(field_definition.type_)
        for name, item in (schema.properties or {}).items():
            if isinstance(item, LitestarSchema):
                item.description = descriptions.get(name)
        return schema


def member_descriptions(kind: type) -> dict[str, str]:
    """Return the descriptions in the section `Attributes` of the docstrings of a class and its bases."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        section = cleandoc(each.__doc__ or "").partition("Attributes:\n")[2]
        found |= {name: " ".join(text.split()) for name, text in _MEMBER.findall(section)}
    return found


_MEMBER = re.compile(r"^ {4}(\w+): (.+(?:\n {5,}.+)*)", re.MULTILINE)


def document(
    routes: Iterable[HTTPRouteHandler], base_url: str, delivery_url: str, registration: bool = False
) -> Schema:
    """Return the OpenAPI document.

    Args:
        routes: The routes to describe.
        base_url: The base URL of the API, which ends in `/v1`.
        delivery_url: The base URL of images.
        registration: Whether accounts can be created without a token.
    """
    routes = list(routes)
    site_url = base_url.removesuffix(PREFIX)
    config = OpenAPIConfig("imagehost", version("imagehost-server"), use_handler_docstrings=True)
    app = Litestar(
        routes,
        openapi_config=config,
        plugins=[RecordSchemas()],
        logging_config=None,
        request_class=ApiRequest,
    )
    # Encoded and decoded: Litestar's document has enums.
    tree = _simplify(msgspec.json.decode(msgspec.json.encode(app.openapi_schema.to_schema())))
    schemas: Schema = tree["components"]["schemas"] | _form_schema()
    for schema in schemas.values():
        _describe_defaults(schema)
    _inline_enums_with_common_values(schemas)
    paths: Schema = {}
    for route in routes:
        operation: Operation = route.opt["operation"]
        method, path = operation.route.split(" ")
        described = _complete(tree["paths"][path][method.lower()], operation)
        paths.setdefault(path.removeprefix(PREFIX), {})[method.lower()] = described
        if not path.startswith(f"{PREFIX}/"):
            paths[path]["servers"] = [{"url": site_url}]
        if registration and operation.route == REGISTRATION:
            described["security"].append({})
    transform = {name: schemas["SignedUrlItem"]["properties"][name] for name in TRANSFORM_PARAMETERS}
    return {
        "openapi": tree["openapi"],
        "info": {**tree["info"], "description": _DESCRIPTION},
        "servers": [{"url": base_url}],
        "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
        "paths": {**paths, "/{file}": _delivery_path(delivery_url, transform)},
        "webhooks": webhooks(),
        "components": {
            "schemas": {**schemas, "ErrorResponse": ERROR},
            "responses": _error_responses(),
            "headers": HEADERS,
            "securitySchemes": _security_schemes(urlsplit(site_url).path),
        },
    }


def _form_schema() -> Schema:
    """Return the schema of the upload form, by its name; the route reads the body itself."""
    _, schemas = msgspec.json.schema_components([UploadForm])
    form: Schema = schemas["UploadForm"]
    form["properties"] = {
        name: {**item.pop("extra", {}), **item} for name, item in form["properties"].items()
    }
    return {"UploadForm": form}


def _describe_defaults(schema: Schema) -> None:
    """Write the defaults of members into their descriptions.

    Generators make a member with `default` required (https://openapi-ts.dev/cli, `--default-non-nullable`),
    or send the default, although the host may have another one by its settings.
    """
    for item in schema.get("properties", {}).values():
        if "default" in item:
            item["description"] += f" Default: `{json.dumps(item.pop('default'))}`."


def _inline_enums_with_common_values(schemas: Schema) -> None:
    """Write enums that have values in common in place of the references to them in members.

    In Go, openapi-generator makes each value of a schema that is an enum a constant of the one package.
    """
    enums = {name: schema for name, schema in schemas.items() if "enum" in schema}
    values = Counter(value for schema in enums.values() for value in schema["enum"])
    inlined: dict[str, Schema] = {}
    for name, schema in enums.items():
        if any(values[value] > 1 for value in schema["enum"]):
            inlined[f"#/components/schemas/{name}"] = schema
            del schemas[name], schema["title"]
    for schema in schemas.values():
        properties = schema.get("properties", {})
        for name, item in properties.items():
            properties[name] = inlined.get(item.get("$ref"), item)


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
    others = [item for item in alternatives if item != {"type": "null"}]
    is_nullable = len(others) < len(alternatives)
    if "type" in tree:
        del tree["oneOf"]
    elif len(others) == 1 and not (is_nullable and "$ref" in others[0]):
        del tree["oneOf"]
        tree = others[0] if "$ref" in others[0] else {**others[0], **tree}
        if is_nullable:
            tree["type"] = [tree["type"], "null"]
            if "enum" in tree:
                tree["enum"] = [*tree["enum"], None]
    return tree


def _complete(described: Schema, operation: Operation) -> Schema:
    """Return an operation with its errors, headers, security and tag."""
    (status,) = (status for status in described["responses"] if status.startswith("2"))
    success = described["responses"][status]
    success["description"] = described["summary"]
    if operation.idempotent:
        parameter = _parameter("Idempotency-Key", "header", {**IDEMPOTENCY_KEY})
        described.setdefault("parameters", []).append(parameter)
    if operation.route == "POST /v1/upload":
        form = {"schema": {"$ref": "#/components/schemas/UploadForm"}}
        described["requestBody"] = {"required": True, "content": {"multipart/form-data": form}}
    if operation.has_envelope:
        names = ["X-Request-Id", *(RATE_LIMIT_HEADERS if operation.is_counted else ())]
        names += ["Idempotent-Replayed"] if operation.idempotent else []
        success["headers"] = _header_references(*names, *(["Location"] if status == "201" else []))
    else:
        success["content"] = {media_type: {} for media_type in success["content"]}
    segment = operation.route.partition(" ")[2].removeprefix(PREFIX).strip("/").partition("/")[0]
    tag = _TAG_BY_SEGMENT.get(segment, segment)
    errors = _errors(operation, has_body="requestBody" in described)
    return {
        **described,
        "tags": [tag if tag in TAGS else "service"],
        "security": _security(operation.requirement),
        "responses": {status: success, **_response_references(errors)},
    }


def _errors(operation: Operation, *, has_body: bool) -> set[int]:
    """Return the error statuses of an operation."""
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
    return statuses | {413, 415, 422} if has_body else statuses


def _security(requirement: Requirement | None) -> list[Schema]:
    """Return the alternatives that meet a route's requirement; none if no token is required."""
    if requirement is None:
        return []
    session: list[Schema] = [{"session": []}, {"cookie": [], "csrf": []}]
    return [{"token": [requirement.value]}, *session] if isinstance(requirement, Scope) else session


def _error_responses() -> Schema:
    """Return the shared error responses, by status."""
    kinds: list[type[ImageHostError]] = [*BY_CODE.values(), HeadersTooLargeError]
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorResponse"}}}
    return {
        str(kind.status): {
            "description": kind.default_message,
            "headers": _header_references(
                "X-Request-Id", *filter(None, [_ERROR_HEADERS.get(kind.status, "")])
            ),
            "content": content,
        }
        for kind in kinds
    }


def _header_references(*names: str) -> Schema:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _response_references(statuses: Iterable[int]) -> Schema:
    return {str(status): {"$ref": f"#/components/responses/{status}"} for status in sorted(statuses)}


def _delivery_path(delivery_url: str, transform: Schema) -> Schema:
    """Return the path item of the delivery route, an ASGI application that Litestar does not see.

    Args:
        delivery_url: The base URL of images.
        transform: The schemas of the transform parameters.
    """
    binary = {
        info.media_type: {"schema": {"type": "string", "format": "binary"}} for info in FORMATS.values()
    }
    extensions = ", ".join(BY_EXTENSION)
    file = {"type": "string", "description": f"An image id, optionally with an extension: {extensions}."}
    query: Schema = {
        **transform,
        "exp": {"type": "integer", "description": "Expiry of a signed URL, as a Unix timestamp."},
        "sig": {"type": "string", "description": "Signature of a signed URL."},
        "share": {"type": "string", "description": "Id of a share of the image's album."},
    }
    get = {
        "operationId": "get_image_file",
        "summary": "Get an image as stored, or resized and converted.",
        "tags": ["delivery"],
        "security": [{}, {"token": ["images:read"]}, {"session": []}],
        "parameters": [
            _parameter("file", "path", file),
            *(_parameter(name, "query", {**schema}) for name, schema in query.items()),
        ],
        "responses": {
            "200": {"description": "The image.", "content": binary},
            "206": {"description": "The requested byte range of the image.", "content": binary},
            "304": {"description": "The image has not changed."},
            "412": {"$ref": "#/components/responses/400"},
            "416": {"$ref": "#/components/responses/400"},
            **_response_references((400, 403, 404, 405, 431, 500, 503)),
        },
    }
    return {"servers": [{"url": delivery_url}], "get": get}


WEBHOOK_HEADERS = {
    "webhook-id": "Id of the event, equal in every attempt: process each id once.",
    "webhook-timestamp": "Time of the attempt, as a Unix timestamp.",
    "webhook-signature": "`v1,` and a base64 HMAC-SHA256 of `id.timestamp.body`; two after a rotation.",
}
"""The headers of Standard Webhooks 1.0.0."""

TEST_SCHEMA: Schema = {
    "type": "object",
    "description": "A test of the webhook, which no change causes.",
    "properties": {
        "type": {"const": TEST_EVENT},
        "timestamp": {"type": "string", "format": "date-time"},
        "data": {
            "type": "object",
            "properties": {"webhook_id": {"type": "string"}},
            "required": ["webhook_id"],
        },
    },
    "required": ["type", "timestamp", "data"],
}
"""The JSON Schema of the body that `POST /webhooks/{id}/test` sends."""


def webhooks() -> Schema:
    """Return the description of each event's request, and of the test's, by event type."""
    schemas = {**event_schemas(), TEST_EVENT: TEST_SCHEMA}
    return {name: {"post": _webhook(name, schema)} for name, schema in schemas.items()}


def _webhook(name: str, schema: Mapping[str, object]) -> Schema:
    return {
        "operationId": name.replace(".", "_"),
        "summary": f"The event `{name}`.",
        "tags": ["events"],
        "security": [],
        "parameters": [
            {**_parameter(header, "header", {"type": "string", "description": text}), "required": True}
            for header, text in WEBHOOK_HEADERS.items()
        ],
        "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
        "responses": {
            "2XX": {"description": "The event is delivered."},
            "410": {"description": "The webhook is disabled."},
            "default": {"description": "The delivery is retried later."},
        },
    }
