"""Parsing of uploads to the in-memory host: form data, and the options in it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from attrs import frozen

from imagehost_client.errors import BadRequestError, PayloadTooLargeError, UnsupportedMediaTypeError
from imagehost_client.testing._errors import ErrorCollector
from imagehost_client.testing._members import MAX_DESCRIPTION

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


def read_upload(
    content_type: str, body: bytes, errors: ErrorCollector, aliases: Mapping[str, str]
) -> UploadForm:
    """Return the form in a request's body.

    It is an error to send no file or too many, or files in the fields of both forms.

    Args:
        content_type: The content type, with its parameters.
        body: The whole body.
        errors: The collector of these errors.
        aliases: Other names of text fields, with the names of `OPTIONS`.

    Raises:
        UnsupportedMediaTypeError: The body is not form data.
        BadRequestError: The form data is malformed.
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
        errors.add(_missing_file(parts))
    if len(forms) > 1 or (forms == {False} and len(files) > 1):
        errors.add(
            BadRequestError(
                "expected files[] or one file for image but received both forms, or several images"
            )
        )
    if len(files) > MAX_FILES:
        errors.add(
            BadRequestError(f"expected at most {MAX_FILES} files for files[] but received {len(files)}")
        )
    texts = [
        (aliases.get(part.name, part.name), part.content.decode("utf-8", "replace"))
        for part in parts
        if part.filename is None and part.content
    ]
    fields = {name: text for name, text in texts if name in OPTIONS}
    names = [name for name, _ in texts]
    repeated = tuple(name for name in fields if names.count(name) > 1)
    return UploadForm(files, forms == {True}, fields, repeated)


def require_size(part: Part) -> None:
    """Raise PayloadTooLargeError unless a file is at most `MAX_BYTES` long."""
    if len(part.content) > MAX_BYTES:
        raise PayloadTooLargeError(
            f"expected at most {MAX_BYTES} bytes for {part.filename} but received {len(part.content)}"
        )


def option_errors(form: UploadForm) -> list[str]:
    """Return the errors in the options of an upload."""
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
    length = len(fields.get("description", ""))
    if length > MAX_DESCRIPTION:
        errors.append(f"expected at most {MAX_DESCRIPTION} characters for description but received {length}")
    return errors


def parse_bool(fields: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Return a boolean field."""
    return BOOLEANS.get(fields.get(name, "").lower(), default)


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
