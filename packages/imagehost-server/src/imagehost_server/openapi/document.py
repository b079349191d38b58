"""The OpenAPI document, generated from the operations and the table of route scopes.

Schemas are generated from the classes that are encoded and decoded (`msgspec.json.schema_components`), so
document and implementation have the same members.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version

import msgspec

from imagehost_core.errors import BY_CODE, ImageHostError
from imagehost_core.events import event_schemas
from imagehost_core.formats import BY_EXTENSION, FORMATS
from imagehost_core.services.idempotency import MAX_KEY
from imagehost_core.transform import FORMAT_NAMES, MAX_QUALITY, MAX_SIDE, Fit
from imagehost_core.uploads import BOOLEANS, MAX_DESCRIPTION, STORED_FORMATS
from imagehost_server.api.operation import Operation, Parameter, Shape
from imagehost_server.auth.cookies import CSRF_COOKIE, SESSION_COOKIE
from imagehost_server.auth.scopes import Requirement, SessionRequirement

Schema = dict[str, object]

_REF = "#/components/schemas/{name}"

_BOOLEAN: Schema = {"type": "string", "enum": sorted(BOOLEANS)}
_FORMAT = "In any case. Takes precedence over `convertToWebP`, unless it is `auto`."
_FILE: Schema = {"type": "string", "contentMediaType": "application/octet-stream"}

UPLOAD_FIELDS: dict[str, Schema] = {
    "files[]": {"type": "array", "items": _FILE, "minItems": 1, "maxItems": 20},
    "image": _FILE,
    "album_id": {"type": "integer", "minimum": 1},
    "description": {"type": "string", "maxLength": MAX_DESCRIPTION},
    "quality": {"type": "integer", "minimum": 1, "maximum": 100},
    "format": {"type": "string", "enum": list(STORED_FORMATS), "default": "auto", "description": _FORMAT},
    "remove_exif": {**_BOOLEAN, "default": "false"},
    "convertToWebP": {**_BOOLEAN, "default": "true", "description": "No effect beside `format`."},
    "auto_rename": {**_BOOLEAN, "default": "false"},
    "is_public": {**_BOOLEAN, "default": "true"},
}
"""The fields of the upload forms."""

UPLOAD_FORM: Schema = {
    "type": "object",
    "description": "Either `files[]` (form 1, up to 20 files) or `image` (form 2, one file). "
    "An empty text field counts as absent.",
    "properties": UPLOAD_FIELDS,
    "oneOf": [{"required": ["files[]"]}, {"required": ["image"]}],
}

_SIDE: Schema = {"type": "integer", "minimum": 1, "maximum": MAX_SIDE}
DELIVERY_QUERY = (
    Parameter(name="w", schema=_SIDE, summary="Width in pixels."),
    Parameter(name="h", schema=_SIDE, summary="Height in pixels."),
    Parameter(
        name="q",
        schema={"type": "integer", "minimum": 1, "maximum": MAX_QUALITY},
        summary="Compression quality; ignored for PNG and GIF.",
    ),
    Parameter(
        name="fit",
        schema={"type": "string", "enum": [fit.value for fit in Fit], "default": Fit.COVER.value},
        summary="How the image fits width and height, if both are given.",
    ),
    Parameter(
        name="fm",
        schema={"type": "string", "enum": list(FORMAT_NAMES)},
        summary="Output format; `auto` negotiates by `Accept`.",
    ),
    Parameter(name="exp", schema={"type": "integer"}, summary="Expiry of a signed URL, as a Unix timestamp."),
    Parameter(name="sig", schema={"type": "string"}, summary="Signature of a signed URL."),
)
"""The query parameters of image URLs."""

_COMMON_ERRORS = (400, 403, 500, 503)
"""Error statuses of every operation: bad request, plain HTTP, internal error, overload."""


def document(operations: Iterable[Operation], base_url: str, delivery_url: str) -> Schema:
    """Return the OpenAPI document.

    Args:
        operations: The operations of all routes.
        base_url: The base URL of the API, which ends in `/v1`.
        delivery_url: The base URL of images.
    """
    operations = list(operations)
    classes = list(dict.fromkeys(kind for item in operations for kind in _classes(item)))
    schemas, components = msgspec.json.schema_components(classes, ref_template=_REF)
    by_class = dict(zip(classes, schemas, strict=True))
    paths: dict[str, dict[str, object]] = {}
    for item in operations:
        paths.setdefault(_path(item), {})[item.method.lower()] = _operation(item, by_class)
    for item in operations:
        if not item.path.startswith("/v1/"):
            paths[_path(item)]["servers"] = [{"url": base_url.removesuffix("/v1")}]
    paths["/{file}"] = {"servers": [{"url": delivery_url}], "get": _delivery()}
    return {
        "openapi": "3.1.0",
        "info": {"title": "imagehost", "version": version("imagehost-server")},
        "servers": [{"url": base_url}],
        "paths": paths,
        "webhooks": {name: {"post": _webhook(name, schema)} for name, schema in event_schemas().items()},
        "components": {
            "schemas": {**components, "Error": _ERROR},
            "responses": {str(kind.status): _error(kind) for kind in BY_CODE.values()},
            "securitySchemes": SECURITY_SCHEMES,
        },
    }


def _path(item: Operation) -> str:
    return item.path.removeprefix("/v1")


def _classes(item: Operation) -> Iterator[object]:
    yield from _shape_classes(item.response)
    if isinstance(item.body, type):
        yield item.body


def _shape_classes(shape: Shape | str) -> Iterator[object]:
    if isinstance(shape, Mapping):
        yield from shape.values()
    elif isinstance(shape, tuple):
        for alternative in shape:
            yield from _shape_classes(alternative)
    elif not isinstance(shape, str):
        yield shape


def _operation(item: Operation, schemas: dict[object, Schema]) -> Schema:
    path_parameters = [name.partition("}")[0] for name in item.path.split("{")[1:]]
    parameters: list[Schema] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in path_parameters
    ]
    parameters += map(_query, item.query)
    if item.idempotent:
        parameters.append(_IDEMPOTENCY_KEY)
    description: Schema = {
        "operationId": item.name,
        "summary": item.summary,
        "security": _security(item.requirement),
        "responses": {str(item.status): _success(item, schemas), **_errors(item)},
    }
    if parameters:
        description["parameters"] = parameters
    if item.body is not None:
        media_type = item.body if isinstance(item.body, str) else "application/json"
        schema = UPLOAD_FORM if isinstance(item.body, str) else schemas[item.body]
        description["requestBody"] = {"required": True, "content": {media_type: {"schema": schema}}}
    return description


def _security(requirement: Requirement | None) -> list[Schema]:
    if requirement is None:
        return []
    if requirement is SessionRequirement.ONLY:
        return [{"session": []}, {"cookie": [], "csrf": []}]
    return [{"token": [requirement.value]}, {"session": []}, {"cookie": [], "csrf": []}]


SECURITY_SCHEMES: Schema = {
    "token": {"type": "http", "scheme": "bearer", "description": "An API key with the named scope."},
    "session": {"type": "http", "scheme": "bearer", "description": "A session token, which has all scopes."},
    "cookie": {"type": "apiKey", "in": "cookie", "name": SESSION_COOKIE},
    "csrf": {
        "type": "apiKey",
        "in": "header",
        "name": "X-CSRF-Token",
        "description": f"The value of the cookie {CSRF_COOKIE}; required for unsafe methods only.",
    },
}


def _query(parameter: Parameter) -> Schema:
    return {
        "name": parameter.name,
        "in": "query",
        "description": parameter.summary,
        "schema": parameter.schema,
    }


def _success(item: Operation, schemas: dict[object, Schema]) -> Schema:
    if isinstance(item.response, str):
        return {"description": item.summary, "content": {item.response: {}}}
    body = _object({"success": {"const": True}, "data": _shape(item.response, schemas)})
    return {
        "description": item.summary,
        "headers": _headers(item),
        "content": {"application/json": {"schema": body}},
    }


def _headers(item: Operation) -> Schema:
    names = ["X-Request-Id"]
    if item.path.startswith("/v1/"):
        names += _RATE_LIMIT_HEADERS
    if item.idempotent:
        names.append("Idempotent-Replayed")
    return {name: {"schema": {"type": "string"}} for name in names}


_RATE_LIMIT_HEADERS = ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")

_IDEMPOTENCY_KEY: Schema = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "A repeated request with the same key returns the first response without a second effect.",
    "schema": {"type": "string", "minLength": 1, "maxLength": MAX_KEY, "pattern": "^[ -~]+$"},
}


def _shape(shape: Shape, schemas: dict[object, Schema]) -> Schema:
    if isinstance(shape, Mapping):
        return _object({name: schemas[kind] for name, kind in shape.items()})
    if isinstance(shape, tuple):
        return {"oneOf": [_shape(alternative, schemas) for alternative in shape]}
    return schemas[shape]


def _object(properties: dict[str, Schema]) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _errors(item: Operation) -> dict[str, Schema]:
    statuses = {*_COMMON_ERRORS, *item.errors}
    if item.idempotent:
        statuses |= {409}
    if item.requirement:
        statuses |= {401}
    if item.path.startswith("/v1/"):
        statuses |= {429}
    if "{" in item.path or any(parameter.name == "album_id" for parameter in item.query):
        statuses |= {404}
    if item.body is not None:
        statuses |= {413, 415, 422}
    if isinstance(item.body, str):
        statuses |= {507}
    return {str(status): {"$ref": f"#/components/responses/{status}"} for status in sorted(statuses)}


def _error(kind: type[ImageHostError]) -> Schema:
    content = {"application/json": {"schema": {"$ref": _REF.format(name="Error")}}}
    return {"description": kind.default_message, "content": content}


_ERROR: Schema = _object(
    {
        "success": {"const": False},
        "error": _object(
            {
                "code": {"type": "string", "enum": sorted(BY_CODE)},
                "message": {"type": "string"},
                "details": {"type": "string"},
            }
        ),
    }
)


WEBHOOK_HEADERS = {
    "webhook-id": "Id of the event, equal in every attempt: process each id once.",
    "webhook-timestamp": "Time of the attempt, as a Unix timestamp.",
    "webhook-signature": "`v1,` and a base64 HMAC-SHA256 of `id.timestamp.body`; two after a rotation.",
}
"""The headers of Standard Webhooks 1.0.0."""


def _webhook(name: str, schema: Mapping[str, object]) -> Schema:
    """Return the description of the request that a webhook endpoint receives for an event."""
    return {
        "operationId": name,
        "summary": f"The event `{name}`.",
        "security": [],
        "parameters": [
            {
                "name": header,
                "in": "header",
                "required": True,
                "description": text,
                "schema": {"type": "string"},
            }
            for header, text in WEBHOOK_HEADERS.items()
        ],
        "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
        "responses": {
            "2XX": {"description": "The event is delivered."},
            "410": {"description": "The webhook is disabled."},
            "default": {"description": "The delivery is retried later."},
        },
    }


def _delivery() -> Schema:
    images: Schema = {info.media_type: {} for info in FORMATS.values()}
    name = {
        "name": "file",
        "in": "path",
        "required": True,
        "description": f"An image id, optionally with an extension: {', '.join(BY_EXTENSION)}.",
        "schema": {"type": "string"},
    }
    codes = (400, 403, 404, 405, 500, 503)
    return {
        "operationId": "get_image_file",
        "summary": "Get an image as stored, or resized and converted.",
        "security": [{}, {"token": ["images:read"]}],
        "parameters": [name, *map(_query, DELIVERY_QUERY)],
        "responses": {
            "200": {"description": "The image.", "content": images},
            "206": {"description": "The requested byte range of the image.", "content": images},
            "304": {"description": "The image has not changed."},
            "416": _error(BY_CODE["BAD_REQUEST"]),
            **{str(code): {"$ref": f"#/components/responses/{code}"} for code in codes},
        },
    }
