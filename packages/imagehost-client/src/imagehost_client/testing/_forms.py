"""Parsing of requests to the in-memory host: form data, JSON, and the values in them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

from attrs import frozen

from imagehost_client.errors import (
    BadRequestError,
    PayloadTooLargeError,
    UnsupportedMediaTypeError,
    ValidationError,
)

T = TypeVar("T")

MAX_BYTES = 52_428_800
"""The maximum size of a file: 50 MiB."""
MAX_FILES = 20

MANY, ONE = ("files[]", "files"), ("image", "file")
"""The file fields of a batch upload, and of a single upload."""

BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
FORMATS = ("auto", "jpeg", "png", "webp")
FLAGS = ("remove_exif", "convertToWebP", "auto_rename", "is_public")
OPTIONS = ("album_id", "description", "quality", "format", *FLAGS)
"""The text fields of an upload; all others are ignored."""
MAX_DESCRIPTION = 2_000
"""The maximum length of a description, in characters."""

INTEGER = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)
"""A positive integer in canonical decimal form."""

_NAME = re.compile(r'\bname="([^"]*)"')
_FILENAME = re.compile(r'\bfilename="([^"]*)"')
_IMAGE_TYPE = re.compile(r"^content-type:\s*image/", re.IGNORECASE | re.MULTILINE)
_DECODED = (("%22", '"'), ("%0D", "\r"), ("%0A", "\n"))


@frozen
class Part:
    """One part of form data.

    Attributes:
        name: The name of its field.
        filename: The file name, or `None`.
        content: The text, or the bytes of the file.
        is_file: Whether it is a file: it has a file name or the content type of an image.
    """

    name: str
    filename: str | None
    content: bytes
    is_file: bool


@frozen
class UploadForm:
    """The parsed form data of an upload.

    Attributes:
        files: The files, in order.
        many: Whether it is a batch upload.
        fields: The options, by name.
        repeated: The names of options that occur more than once.
    """

    files: tuple[Part, ...]
    many: bool
    fields: Mapping[str, str]
    repeated: tuple[str, ...] = ()


def read_upload(content_type: str, body: bytes) -> UploadForm:
    """Return the form in a request's body.

    Raises:
        UnsupportedMediaTypeError: The body is not form data.
        BadRequestError: The form is malformed, has no files or too many, or mixes batch and single fields.
    """
    kind, _, rest = content_type.partition(";")
    if kind.strip().lower() != "multipart/form-data":
        raise UnsupportedMediaTypeError(
            f"expected multipart/form-data for the body but received {kind or 'nothing'}"
        )
    boundary = re.search(r'boundary="?([^";]+)"?', rest)
    if boundary is None:
        raise BadRequestError("expected a boundary for the body but received none")
    parts = _parts(body, boundary[1].encode())
    files = tuple(part for part in parts if _has_file(part) and part.name in MANY + ONE)
    forms = {part.name in MANY for part in files}
    if not files:
        raise _missing_file(parts)
    if len(forms) > 1 or (forms == {False} and len(files) > 1):
        raise BadRequestError(
            "expected files[] or one file for image but received both forms, or several images"
        )
    if len(files) > MAX_FILES:
        raise BadRequestError(f"expected at most {MAX_FILES} files for files[] but received {len(files)}")
    texts = [part for part in parts if part.filename is None and part.content and part.name in OPTIONS]
    fields = {part.name: part.content.decode("utf-8", "replace") for part in texts}
    names = [part.name for part in texts]
    repeated = tuple(name for name in fields if names.count(name) > 1)
    return UploadForm(files, forms == {True}, fields, repeated)


def require_size(part: Part) -> None:
    """Raise PayloadTooLargeError unless a file is at most `MAX_BYTES` long."""
    if len(part.content) > MAX_BYTES:
        raise PayloadTooLargeError(
            f"expected at most {MAX_BYTES} bytes for {part.filename} but received {len(part.content)}"
        )


def require_options(form: UploadForm) -> None:
    """Raise ValidationError, with all errors, unless the options of an upload are valid."""
    fields = form.fields
    errors = [f"expected one value for {name} but received several" for name in form.repeated]
    errors += [
        f"expected true, false, 0 or 1 for {name} but received {fields[name]!r}"
        for name in FLAGS
        if name in fields and fields[name].lower() not in BOOLEANS
    ]
    quality = fields.get("quality", "1")
    if not (re.fullmatch(r"[1-9][0-9]{0,2}", quality, re.ASCII) and int(quality) <= 100):
        errors.append(f"expected an integer from 1 to 100 for quality but received {quality!r}")
    stored_format = fields.get("format", "auto")
    if stored_format.lower() not in FORMATS:
        errors.append(f"expected one of {', '.join(FORMATS)} for format but received {stored_format!r}")
    errors += _description_errors(fields.get("description", ""))
    if errors:
        raise ValidationError("; ".join(errors))


def _description_errors(text: str) -> list[str]:
    if len(text) <= MAX_DESCRIPTION:
        return []
    return [f"expected at most {MAX_DESCRIPTION} characters for description but received {len(text)}"]


def parse_description(body: Mapping[str, object], default: str) -> str:
    """Return the description in a JSON object.

    Raises:
        ValidationError: The value is not a string, or is too long.
    """
    text = expect_type(body, "description", str, default)
    errors = _description_errors(text)
    if errors:
        raise ValidationError(errors[0])
    return text


def parse_bool(fields: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Return a boolean field."""
    return BOOLEANS.get(fields.get(name, "").lower(), default)


def read_json(content_type: str, body: bytes) -> dict[str, object]:
    """Return the object in a request's body.

    Raises:
        UnsupportedMediaTypeError: The content type is not JSON.
        BadRequestError: The body is not JSON.
        ValidationError: The JSON is not an object.
    """
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise UnsupportedMediaTypeError(
            f"expected application/json for the body but received {content_type!r}"
        )
    try:
        value = json.loads(body, parse_constant=_no_constant)
    except ValueError:
        raise BadRequestError("expected JSON for the body but received something else") from None
    if not isinstance(value, dict):
        raise ValidationError(f"expected an object for the body but received {value!r}")
    return value


def _no_constant(text: str) -> object:
    """Reject `NaN` and `Infinity`, which Python accepts and JSON does not have (RFC 8259, section 6)."""
    raise ValueError(text)


def expect_type(body: Mapping[str, object], name: str, kind: type[T], default: T) -> T:
    """Return a member of a JSON object.

    Raises:
        ValidationError: The value has another type.
    """
    value = body.get(name, default)
    if type(value) is not kind:
        raise ValidationError(f"expected {kind.__name__} for {name} but received {value!r}")
    return value


def expect_bool(body: Mapping[str, object], name: str, *, default: object) -> bool:
    """Return a boolean member of a JSON object, or `default`; 0 and 1 are booleans too.

    Raises:
        ValidationError: The value is not `true`, `false`, 0 or 1.
    """
    value = body.get(name, default)
    if type(value) not in {bool, int} or value not in {0, 1}:
        raise ValidationError(f"expected true, false, 0 or 1 for {name} but received {value!r}")
    return bool(value)


def required(body: Mapping[str, object], name: str) -> str:
    """Return a required string of a JSON object.

    Raises:
        ValidationError: The member is missing, or is not a string.
    """
    value = body.get(name)
    if not isinstance(value, str):
        raise ValidationError(f"expected text for {name} but received {value!r}")
    return value


def expect_list(
    body: Mapping[str, object], name: str, allowed: tuple[str, ...], default: Sequence[str]
) -> list[str]:
    """Return a list of strings of a JSON object, each one of `allowed`.

    Raises:
        ValidationError: The value is not such a list.
    """
    value = body.get(name, list(default))
    if not isinstance(value, list) or not set(map(str, value)) <= set(allowed):
        raise ValidationError(f"expected some of {', '.join(allowed)} for {name} but received {value!r}")
    return value


def parse_name(body: Mapping[str, object], minimum: int = 1) -> str:
    """Return the name in a JSON object, without leading and trailing whitespace.

    Raises:
        ValidationError: The name is not `minimum` to 100 characters long.
    """
    name = expect_type(body, "name", str, "").strip()
    if not minimum <= len(name) <= 100:
        raise ValidationError(f"expected {minimum} to 100 characters for name but received {len(name)}")
    return name


def integer(query: Mapping[str, str], name: str, default: int, maximum: int) -> int:
    """Return an integer query parameter, from 1 to `maximum`.

    Raises:
        BadRequestError: The value is not an integer in this range.
    """
    text = query.get(name, str(default))
    if not INTEGER.fullmatch(text) or int(text) > maximum:
        raise BadRequestError(f"expected an integer from 1 to {maximum} for {name} but received {text!r}")
    return int(text)


def _has_file(part: Part) -> bool:
    """Return whether a part has a file; browsers send an empty, nameless part where no file was chosen."""
    return part.is_file and bool(part.filename or part.content)


def _missing_file(parts: Sequence[Part]) -> BadRequestError:
    names = dict.fromkeys(part.name for part in parts)
    received = [f"{name} (without a file)" if name in MANY + ONE else name for name in names]
    fields = f"the field{'s' * (len(received) > 1)} {', '.join(received)}" if received else "no fields"
    return BadRequestError(f"expected a file in files[], files, image or file but received {fields}")


def _parts(body: bytes, boundary: bytes) -> list[Part]:
    chunks = (b"\r\n" + body).split(b"\r\n--" + boundary)
    if len(chunks) < 2 or not chunks[-1].startswith(b"--"):
        raise BadRequestError("expected form data up to its last boundary for the body but received less")
    return [_part(chunk) for chunk in chunks[1:-1]]


def _part(chunk: bytes) -> Part:
    head, separator, content = chunk.partition(b"\r\n\r\n")
    text = head.decode("utf-8", "replace")
    name = _NAME.search(text.replace("filename=", "file-name="))
    if not separator or name is None:
        raise BadRequestError("expected a name for each part of the form but received none")
    filename = _FILENAME.search(text)
    is_file = filename is not None or _IMAGE_TYPE.search(text) is not None
    return Part(_unescape(name[1]), None if filename is None else _unescape(filename[1]), content, is_file)


def _unescape(text: str) -> str:
    for code, character in _DECODED:
        text = text.replace(code, character)
    return text
