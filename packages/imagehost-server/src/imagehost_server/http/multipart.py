"""The body of an upload: multipart form data, streamed to staged files as it arrives.

`MultipartFormParser` is fed bytes in chunks of any size and does no I/O; `parse_form` feeds it from a request
in threads, so that neither hashing nor the disk holds up the event loop. Memory does not grow with the
body: what is kept is one batch of pieces and the text fields.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from enum import Enum
from typing import TYPE_CHECKING

from attrs import frozen
from multipart import (  # type: ignore[import-untyped]
    MultipartError,
    MultipartSegment,
    ParserLimitReached,
    PushMultipartParser,
    parse_options_header,
)

from imagehost_core.errors import (
    BadRequestError,
    FieldError,
    PayloadTooLargeError,
    ValidationError,
    quote_value,
)
from imagehost_core.limits import MAX_FILES_PER_REQUEST, require_file_count
from imagehost_core.storage import StagedFile
from imagehost_server._executors import ThreadLimiter
from imagehost_server.http.body import iter_body, unsupported_media_type
from imagehost_server.settings import HttpSettings

if TYPE_CHECKING:
    from litestar.types import Receive

FIELD_BYTES = 16 * 2**10
"""The longest text field: twice the 2,000 characters of a description at 4 bytes each."""
FIELDS_BYTES = 64 * 2**10
"""All text fields of a form together."""
MAX_PARTS = MAX_FILES_PER_REQUEST + 80
"""Parts of a form. An upload has 8 fields of ours; programs add a few of their own for each file."""
BATCH_BYTES = 2**20
"""How many bytes are gathered before a thread parses, hashes and writes them."""


class UploadForm(Enum):
    """The two forms of an upload (SPEC 4.1)."""

    BATCH = "files[]"
    SINGLE = "image"


FILE_FIELDS: dict[str, UploadForm] = {
    "files[]": UploadForm.BATCH,
    "files": UploadForm.BATCH,
    "files%5B%5D": UploadForm.BATCH,
    "image": UploadForm.SINGLE,
    "file": UploadForm.SINGLE,
}
"""The names of file parts. Some clients percent-encode names (aiohttp does), hence the third."""


@frozen
class UploadedFile:
    """A file of a form.

    Attributes:
        filename: The name that it came with, or `None`.
        staged: Its bytes, on disk.
    """

    filename: str | None
    staged: StagedFile


@frozen
class ParsedForm:
    """A form that was read to its end.

    Attributes:
        kind: Which of the two forms it is.
        fields: Names and values of the text fields, in order.
        files: At least one file, in order.
    """

    kind: UploadForm
    fields: tuple[tuple[str, str], ...]
    files: tuple[UploadedFile, ...]


class MultipartFormParser:
    """Makes a form of pieces of bytes. The files that it has staged vanish with `close`.

    Args:
        content_type: The request's content type.
        stage: Opens a place for a file's bytes.

    Raises:
        UnsupportedMediaTypeError: The content type is not multipart form data.
        BadRequestError: It names no boundary.
    """

    def __init__(self, content_type: str | None, stage: Callable[[], StagedFile]) -> None:
        # Latin-1 keeps the bytes of names as they came; `_name` reads them.
        self._parser = PushMultipartParser(
            boundary(content_type), max_segment_count=MAX_PARTS, header_charset="latin-1"
        )
        self._stage = stage
        self._stack = ExitStack()
        self._part: _FilePart | _TextPart | None = None
        self._files: list[_FilePart] = []
        self._texts: list[_TextPart] = []
        self._text_bytes = 0

    def close(self) -> None:
        """Throw away the files that nobody took."""
        self._stack.close()

    def feed(self, piece: bytes) -> None:
        """Take the next bytes of the body; what follows the form's end is ignored (RFC 2046, 5.1.1).

        Raises:
            BadRequestError: They are not multipart form data as it should be, or the forms are mixed.
            PayloadTooLargeError: The text fields are too long.
        """
        if self._parser.closed or not piece:
            return
        try:
            for event in self._parser.parse(piece):
                if isinstance(event, MultipartSegment):
                    self._part = self._on_part(event)
                elif event is not None:
                    self._on_data(event)
        except MultipartError as error:
            raise _broken(error) from error

    def finish(self) -> ParsedForm:
        """Return the form, once the body has ended.

        Raises:
            BadRequestError: The form has not ended, has no file, or has files of both forms.
            ValidationError: A text field is not UTF-8.
        """
        try:
            self._parser.close()
        except MultipartError as error:
            raise _broken(error) from error
        # A browser sends an empty part without a name for a file input that nobody filled.
        files = [part for part in self._files if part.filename or part.staged.size]
        require_file_count(len(files))
        kinds = {part.kind for part in files}
        if len(kinds) > 1:
            # Contract 4: one form or the other.
            raise BadRequestError(errors=[FieldError("the form", "files[] or image", "both")])
        uploaded = tuple(UploadedFile(part.filename, part.staged) for part in files)
        form = ParsedForm(kinds.pop(), tuple(_texts(self._texts)), uploaded)
        if form.kind is UploadForm.SINGLE and len(files) > 1:
            raise BadRequestError(
                errors=[FieldError("image", "one file", f"{len(files)}; files[] takes several")]
            )
        return form

    def _on_part(self, segment: MultipartSegment) -> _FilePart | _TextPart | None:
        name = _name(segment.name) or ""
        if name in FILE_FIELDS:
            require_file_count(len(self._files) + 1)
            filename, staged = _name(segment.filename), self._stack.enter_context(self._stage())
            part = _FilePart(FILE_FIELDS[name], filename, staged)
            self._files.append(part)
            return part
        # Unknown files are ignored like unknown fields, but a text may be an option.
        if segment.filename is not None:
            return None
        text = _TextPart(name)
        self._texts.append(text)
        return text

    def _on_data(self, data: bytes) -> None:
        if isinstance(self._part, _FilePart):
            self._part.staged.write(data)
        elif isinstance(self._part, _TextPart):
            self._part.data += data
            self._text_bytes += len(data)
            _require_text_size("the form's text fields", self._text_bytes, FIELDS_BYTES)
            _require_text_size(self._part.name, len(self._part.data), FIELD_BYTES)


async def parse_form(
    receive: Receive, reader: MultipartFormParser, room: ThreadLimiter, deadlines: HttpSettings
) -> ParsedForm:
    """Return the form that a request's body holds.

    Args:
        receive: Where the body comes from.
        reader: Takes it.
        room: Where it is parsed and written.
        deadlines: How long it may take.

    Raises:
        ImageHostError: As `MultipartFormParser`, and for bodies that are too slow or cut short.
    """
    batch: list[bytes] = []
    size = 0
    async for piece in iter_body(
        receive, deadlines.body_idle_timeout_seconds, deadlines.body_timeout_seconds
    ):
        batch.append(piece)
        size += len(piece)
        if size >= BATCH_BYTES:
            await room.run(reader.feed, b"".join(batch))
            batch, size = [], 0
    await room.run(reader.feed, b"".join(batch))
    return await room.run(reader.finish)


def boundary(content_type: str | None) -> str:
    """Return the boundary that a content type names.

    Raises:
        UnsupportedMediaTypeError: It is not multipart form data.
        BadRequestError: It is, but names no boundary of 1 to 70 characters (RFC 2046, 5.1.1).
    """
    media_type, options = parse_options_header(content_type or "")
    if media_type != "multipart/form-data":
        raise unsupported_media_type("multipart/form-data", content_type)
    text = options.get("boundary", "")
    if not (1 <= len(text) <= MAX_BOUNDARY and text.isascii() and text.isprintable()):
        received = quote_value(text) if text else "none"
        raise BadRequestError(
            errors=[FieldError("Content-Type", "a boundary of 1 to 70 characters", received)]
        )
    return str(text)


MAX_BOUNDARY = 70


@frozen
class _FilePart:
    kind: UploadForm
    filename: str | None
    staged: StagedFile


class _TextPart:
    def __init__(self, name: str) -> None:
        self.name = name
        self.data = bytearray()


def _name(latin: str | None) -> str | None:
    """Return the name of a field or a file.

    RFC 7578, 5.1: in UTF-8. Programs that are older than that send what their system writes, and contract 4
    wants a file's name *always kept*: what is no UTF-8 in it is kept as U+FFFD.
    """
    return None if latin is None else latin.encode("latin-1").decode(errors="replace")


def _require_text_size(name: str, size: int, limit: int) -> None:
    if size > limit:
        raise PayloadTooLargeError(
            message="The form's text is too large",
            errors=[FieldError(name, f"at most {limit} bytes", f"at least {size} bytes")],
        )


def _texts(parts: list[_TextPart]) -> list[tuple[str, str]]:
    fields, faults = [], []
    for part in parts:
        try:
            fields.append((part.name, part.data.decode()))
        except UnicodeDecodeError:
            faults.append(FieldError(part.name, "UTF-8 text", "other bytes"))
    if faults:
        raise ValidationError(errors=faults)
    return fields


def _broken(error: MultipartError) -> BadRequestError:
    if isinstance(error, ParserLimitReached):
        return BadRequestError(f"expected a form of at most {MAX_PARTS} parts with short headers: {error}")
    return BadRequestError(f"expected whole multipart form data but received something else: {error}")
