"""The delivery route and the upload form in the OpenAPI document, which Litestar does not see.

The delivery route is an ASGI application, and the upload route reads its body as it arrives.
"""

from __future__ import annotations

from imagehost_core.formats import BY_EXTENSION, FORMATS
from imagehost_core.transform import FORMAT_NAMES, MAX_QUALITY, MAX_SIDE, Fit
from imagehost_core.uploads import MAX_DESCRIPTION, STORED_FORMATS
from imagehost_server.openapi.components import Schema

_FORMAT = "In any case. Takes precedence over `convertToWebP`, unless it is `auto`."
_FILE: Schema = {"type": "string", "format": "binary"}

UPLOAD_FIELDS: dict[str, Schema] = {
    "files[]": {
        "type": "array",
        "items": _FILE,
        "minItems": 1,
        "maxItems": 20,
        "description": "Form 1: 1 to 20 image files; the response has a list.",
    },
    "image": {**_FILE, "description": "Form 2: one image file; the response is its record."},
    "album_id": {"type": "integer", "minimum": 1, "description": "The album to add the images to."},
    "description": {
        "type": "string",
        "maxLength": MAX_DESCRIPTION,
        "description": "A text about the images.",
    },
    "quality": {"type": "integer", "minimum": 1, "maximum": 100, "description": "Compression quality."},
    "format": {"type": "string", "enum": list(STORED_FORMATS), "default": "auto", "description": _FORMAT},
    "remove_exif": {
        "type": "boolean",
        "description": "Remove EXIF, XMP and IPTC metadata. The default is a setting of the host.",
    },
    "convertToWebP": {
        "type": "boolean",
        "default": True,
        "description": "Convert to WebP if that is smaller. No effect beside `format`.",
    },
    "auto_rename": {"type": "boolean", "default": False, "description": "Generate a random file name."},
    "is_public": {"type": "boolean", "default": True, "description": "Whether the gallery shows the images."},
}
"""The fields of the upload forms."""

UPLOAD_FORM: Schema = {
    "type": "object",
    "description": "Either `files[]` (form 1, up to 20 files) or `image` (form 2, one file). An empty text "
    "field counts as absent; a boolean is `true`, `false`, `1` or `0`.",
    "properties": UPLOAD_FIELDS,
    "examples": [{"image": "the bytes of cat.jpg", "description": "A cat asleep on a keyboard"}],
}
"""Both forms as one schema: alternatives at the root are beyond most generators of clients."""

UPLOAD_BODY: Schema = {
    "required": True,
    "content": {"multipart/form-data": {"schema": {"$ref": "#/components/schemas/UploadForm"}}},
}

_SIDE: Schema = {"type": "integer", "minimum": 1, "maximum": MAX_SIDE}
_QUERY: dict[str, tuple[Schema, str]] = {
    "w": (_SIDE, "Width in pixels."),
    "h": (_SIDE, "Height in pixels."),
    "q": (
        {"type": "integer", "minimum": 1, "maximum": MAX_QUALITY},
        "Compression quality; ignored for PNG and GIF.",
    ),
    "fit": (
        {"type": "string", "enum": [fit.value for fit in Fit], "default": Fit.COVER.value},
        "How the image fits width and height, if both are given.",
    ),
    "fm": (
        {"type": "string", "enum": list(FORMAT_NAMES)},
        "Output format; `auto` negotiates by `Accept`.",
    ),
    "exp": ({"type": "integer"}, "Expiry of a signed URL, as a Unix timestamp."),
    "sig": ({"type": "string"}, "Signature of a signed URL."),
}
DELIVERY_QUERY: list[Schema] = [
    {"name": name, "in": "query", "description": text, "schema": schema}
    for name, (schema, text) in _QUERY.items()
]
"""The query parameters of image URLs."""

_ERRORS = (400, 403, 404, 405, 431, 500, 503)


def delivery_path(delivery_url: str) -> Schema:
    """Return the path item of the delivery route.

    Args:
        delivery_url: The base URL of images.
    """
    binary: Schema = {info.media_type: {"schema": _FILE} for info in FORMATS.values()}
    name = {
        "name": "file",
        "in": "path",
        "required": True,
        "description": f"An image id, optionally with an extension: {', '.join(BY_EXTENSION)}.",
        "schema": {"type": "string"},
    }
    get = {
        "operationId": "get_image_file",
        "summary": "Get an image as stored, or resized and converted.",
        "tags": ["delivery"],
        "security": [{}, {"token": ["images:read"]}, {"session": []}],
        "parameters": [name, *DELIVERY_QUERY],
        "responses": {
            "200": {"description": "The image.", "content": binary},
            "206": {"description": "The requested byte range of the image.", "content": binary},
            "304": {"description": "The image has not changed."},
            "412": {"$ref": "#/components/responses/400"},
            "416": {"$ref": "#/components/responses/400"},
            **{str(code): {"$ref": f"#/components/responses/{code}"} for code in _ERRORS},
        },
    }
    return {"servers": [{"url": delivery_url}], "get": get}
