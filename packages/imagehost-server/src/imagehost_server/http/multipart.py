"""The body of an upload: multipart form data, streamed to staged files as it arrives.

`MultipartFormParser` takes the body in chunks of any size, independent of the network; `parse_form` feeds it
from a request in threads, so that neither hashing nor disk writes block the event loop. Memory use does not
grow with the body: one batch of chunks and the text fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from datetime import datetime
from email.errors import MessageError
from email.header import decode_header, make_header
from enum import Enum
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

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
    ErrorCollector,
    FieldError,
    PayloadTooLargeError,
    ValidationError,
    misspelled_names,
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
"""The longest text field: a description of 4,000 characters of 4 bytes."""
FIELDS_BYTES = 64 * 2**10
"""The size of all text fields of a form."""
MAX_PARTS = MAX_FILES_PER_REQUEST + 80
"""Parts of a form: an upload has 8 options, and programs may add fields for each file."""
BATCH_BYTES = 64 * 2**10
"""Bytes that are buffered before a thread parses, hashes and writes them: what a slow upload occupies."""


class FormKind(Enum):
    """The two forms of an upload: several files, or one image."""

    BATCH = "files[]"
    SINGLE = "image"


FILE_FIELDS: dict[str, FormKind] = {
    "files[]": FormKind.BATCH,
    "files": FormKind.BATCH,
    "image": FormKind.SINGLE,
    "file": FormKind.SINGLE,
}
"""Names of file parts."""
URL_FIELD = "image_url"
"""The name of the text field whose URL the host fetches, in place of a file of form 2."""
_INDEXED = re.compile(r"files\[\d{1,9}\]", re.ASCII)
"""`files[0]`, as programs name the files of an array."""
MAX_SHOWN_NAMES = 20
"""The most field names in the error for a form without a file."""
MAX_SHOWN_NAME = 60
"""The longest field name in this error that is not shortened, in characters."""


@frozen
class UploadedFile:
    """A file of a form.

    Attributes:
        filename: The file name in the form, or `None`.
        staged: The file on disk.
    """

    filename: str | None
    staged: StagedFile


@frozen
class ParsedForm:
    """A complete form.

    Attributes:
        kind: The form of the upload.
        fields: Names and values of the text fields, in order.
        files: The files, in order; none if there is a URL.
        url: The URL of the image to fetch, or `None`.
    """

    kind: FormKind
    fields: tuple[tuple[str, str], ...]
    files: tuple[UploadedFile, ...]
    url: str | None = None


class _Parser(PushMultipartParser):  # type: ignore[misc]
    """A parser that rejects a line feed in a header however the body is divided.

    Its base class does so only where the line ends in another chunk, and removes those around a name.
    """

    def _on_segment_headerline(self, line: bytes) -> None:
        if b"\n" in line:
            raise MultipartError("Invalid line break in segment header")
        super()._on_segment_headerline(line)


def url_filename(url: str) -> str:
    """Return the path of a URL, of which the file has its name; the query may be secret."""
    try:
        return unquote(urlsplit(url.strip()).path)
    except ValueError:
        return ""


class MultipartFormParser:
    """An incremental parser of an upload's form. `close` deletes the files that it has staged.

    Args:
        content_type: The `Content-Type` of the request.
        stage: Creates an empty staged file.

    Raises:
        UnsupportedMediaTypeError: The content type is not multipart form data.
        BadRequestError: It has no valid boundary.
    """

    def __init__(self, content_type: str | None, stage: Callable[[], StagedFile]) -> None:
        boundary = parse_boundary(content_type)
        # Latin-1 preserves the bytes of names; `_decode_name` decodes them.
        self._parser = _Parser(boundary, max_segment_count=MAX_PARTS, header_charset="latin-1")
        self._delimiter = b"\r\n--" + boundary.encode()
        # The body before the first boundary, which may be the first line.
        self._preamble: bytes | None = b"\r\n"
        self._stage = stage
        self._stack = ExitStack()
        self._part: _FilePart | _TextPart | None = None
        self._files: list[_FilePart] = []
        self._fetched: StagedFile | None = None
        self._texts: list[_TextPart] = []
        self._text_bytes = 0
        self._ignored_files: list[FormKind] = []
        self._unknown_files: list[str] = []
        self._names: dict[str, None] = {}

    def close(self) -> None:
        """Delete the staged files that were not moved elsewhere."""
        self._stack.close()

    def feed(self, chunk: bytes) -> None:
        """Parse the next bytes of the body; what follows the form's end is ignored (RFC 2046, 5.1.1).

        Raises:
            BadRequestError: They are not valid multipart form data, or there are too many files or parts.
            PayloadTooLargeError: The text fields are too long.
        """
        chunk = self._skip_preamble(chunk)
        if self._parser.closed or not chunk:
            return
        try:
            for event in self._parser.parse(chunk):
                if isinstance(event, MultipartSegment):
                    self._part = self._on_part(event)
                elif event is not None:
                    self._on_data(event)
        except MultipartError as error:
            raise _to_bad_request(error) from error

    def finish(self) -> ParsedForm:
        """Return the form at the end of the body.

        Raises:
            BadRequestError: The form is incomplete, has no file, too many, or files of both forms; the error
                also names every text field that is not UTF-8.
            ValidationError: Text fields are not UTF-8, or the name of a file part differs from a known one
                only by case, `_` or `-`; every error is listed in `errors`.
        """
        try:
            self._parser.close()
        except MultipartError as error:
            raise _to_bad_request(error) from error
        # A browser sends an empty part without a file name for an empty file input.
        files = [part for part in self._files if part.filename or part.staged.size]
        urls = [part for part in self._texts if part.name == URL_FIELD and part.data.strip()]
        kinds = [*(part.kind for part in files), *self._ignored_files, *(FormKind.SINGLE for _ in urls)]
        errors = ErrorCollector()
        with errors.catch():
            _require_files(kinds, self._names)
        with errors.catch():
            fields = tuple(_decode_fields(self._texts))
        misspelled = [
            *misspelled_names(self._unknown_files, FILE_FIELDS),
            *misspelled_names((part.name for part in self._texts), (URL_FIELD,)),
        ]
        if misspelled:
            errors.add(ValidationError(errors=misspelled))
        errors.raise_if_any()
        uploaded = tuple(UploadedFile(part.filename, part.staged) for part in files)
        url = dict(fields)[URL_FIELD].strip() if urls else None
        return ParsedForm(kinds[0], tuple(pair for pair in fields if pair[0] != URL_FIELD), uploaded, url)

    def stage_fetched(self) -> StagedFile:
        """Return an empty staged file for the image of a URL, which `close` deletes."""
        self._fetched = self._stack.enter_context(self._stage())
        return self._fetched

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """Names and values of the text fields that have been parsed, without those that are not UTF-8."""
        return tuple((part.name, part.data.decode()) for part in self._texts if part.is_text)

    @property
    def files(self) -> tuple[tuple[str | None, int], ...]:
        """Names of the files that have been received, or of the one to be fetched, and the bytes of each."""
        received = [(part.filename, part.staged.size) for part in self._files]
        urls = [text for name, text in self.fields if name == URL_FIELD and text.strip()]
        fetched = 0 if self._fetched is None else self._fetched.size
        return (*received, *((url_filename(url), fetched) for url in urls))

    def _skip_preamble(self, chunk: bytes) -> bytes:
        """Return what is not part of the preamble.

        The parser takes any chunk that begins with the boundary for the first line of a form.
        """
        if self._preamble is None:
            return chunk
        received = self._preamble + chunk
        start = received.find(self._delimiter)
        if start < 0:
            self._preamble = received[-len(self._delimiter) :]
            return b""
        self._preamble = None
        return received[start:]

    def _on_part(self, segment: MultipartSegment) -> _FilePart | _TextPart | None:
        name = _decode_name(segment.name) or ""
        filename = _parse_filename(segment)
        self._names[name] = None
        form = find_form(name)
        if form is not None:
            # A text part under the name of a file part is ignored, as unknown fields are.
            if filename is None and not (segment.content_type or "").startswith("image/"):
                return None
            if len(self._files) == MAX_FILES_PER_REQUEST:
                # The error comes at the end, together with those of later fields.
                self._ignored_files.append(form)
                return None
            part = _FilePart(form, filename, self._stack.enter_context(self._stage()))
            self._files.append(part)
            return part
        # Files of other names are ignored, as unknown text fields are by the upload options.
        if filename is not None:
            self._unknown_files.append(name)
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
    receive: Receive,
    parser: MultipartFormParser,
    executor: ThreadLimiter,
    timeouts: HttpSettings,
    clock: Callable[[], datetime],
) -> tuple[ParsedForm, datetime]:
    """Return the form in the body of a request, and when the body was complete.

    Args:
        receive: The ASGI callable.
        parser: A new parser.
        executor: Runs the parser.
        timeouts: Settings with the timeouts of bodies.
        clock: The clock of the host.

    Raises:
        ImageHostError: As `MultipartFormParser.feed` and `finish`, and as `iter_body`.
    """
    batch: list[bytes] = []
    size = 0
    async for chunk in iter_body(receive, timeouts.body_idle_timeout_seconds, timeouts.body_timeout_seconds):
        batch.append(chunk)
        size += len(chunk)
        if size >= BATCH_BYTES:
            await executor.run(parser.feed, b"".join(batch))
            batch, size = [], 0
    # Not later: the threads may have the end of another body first.
    received_at = clock()
    await executor.run(parser.feed, b"".join(batch))
    return await executor.run(parser.finish), received_at


def parse_boundary(content_type: str | None) -> str:
    """Return the boundary of a multipart content type.

    Raises:
        UnsupportedMediaTypeError: The content type is not multipart form data.
        BadRequestError: It has no boundary of 1 to 70 characters (RFC 2046, 5.1.1).
    """
    media_type, options = parse_options_header(content_type or "")
    if media_type != "multipart/form-data":
        # What curl sends with -d, and requests with data=.
        is_urlencoded = media_type == "application/x-www-form-urlencoded"
        advice = " (curl -F, files= in Python)" if is_urlencoded else ""
        raise unsupported_media_type(f"multipart/form-data{advice}", content_type)
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
    kind: FormKind
    filename: str | None
    staged: StagedFile


class _TextPart:
    def __init__(self, name: str) -> None:
        self.name = name
        self.data = bytearray()

    @property
    def is_text(self) -> bool:
        """Whether the data is UTF-8."""
        try:
            self.data.decode()
        except UnicodeDecodeError:
            return False
        return True


def find_form(name: str) -> FormKind | None:
    """Return the form that has files of a name, or `None`."""
    decoded = unquote(name)  # aiohttp percent-encodes names
    return FormKind.BATCH if _INDEXED.fullmatch(decoded) else FILE_FIELDS.get(decoded)


_QUOTED = re.compile(r'"(?:\\.|[^\\"])*"')
_EXTENDED_FILENAME = re.compile(
    r"; *filename\* *= *(?P<charset>utf-8|iso-8859-1)'[a-z0-9-]*'(?P<value>[a-z0-9!#$&+.^_`|~%-]+)",
    re.ASCII | re.IGNORECASE,
)
"""The extended parameter of RFC 5987, section 3.2.1."""


def _parse_filename(segment: MultipartSegment) -> str | None:
    """Return the file name of a part, or `None`.

    Programs also send `filename*` (RFC 5987, section 3.2), which replaces `filename`, and words of RFC 2047.
    """
    header = _QUOTED.sub('""', segment.header("Content-Disposition", ""))
    if extended := _EXTENDED_FILENAME.search(header):
        return unquote(extended["value"], extended["charset"], errors="replace")
    filename = _decode_name(segment.filename)
    if filename is None or "=?" not in filename:
        return filename
    try:
        return str(make_header(decode_header(filename))) or filename
    except (MessageError, ValueError, LookupError):
        return filename


def _decode_name(latin_1: str | None) -> str | None:
    """Return the name of a field or a file as UTF-8 (RFC 7578, 5.1).

    Older programs send names in other encodings; bytes that are not UTF-8 become U+FFFD.
    """
    return None if latin_1 is None else latin_1.encode("latin-1").decode(errors="replace")


def _require_files(kinds: Sequence[FormKind], names: Iterable[str]) -> None:
    """Raise BadRequestError unless a form has files of one form, and not too many.

    Args:
        kinds: The form of each file.
        names: The received field names.
    """
    count = len(kinds)
    if not count:
        raise _missing_file(names)
    errors = ErrorCollector()
    with errors.catch():
        require_file_count(count)
    if len(set(kinds)) > 1:
        errors.add(BadRequestError(errors=[FieldError("the form", "files[] or image", "both")]))
    elif count > 1 and kinds[0] is FormKind.SINGLE:
        error = FieldError("image", "one file", f"{count}; files[] takes several")
        errors.add(BadRequestError(errors=[error]))
    errors.raise_if_any()


def _missing_file(names: Iterable[str]) -> BadRequestError:
    """Return the error for a form without a file; it lists the accepted and the received field names."""
    received = [_describe_field(name) for name in names]
    if len(received) > MAX_SHOWN_NAMES:
        received[MAX_SHOWN_NAMES:] = [f"{len(received) - MAX_SHOWN_NAMES} more"]
    fields = f"the field{'s' * (len(received) > 1)} {', '.join(received)}" if received else "no fields"
    return BadRequestError(f"expected a file in files[], files, image or file but received {fields}")


def _describe_field(name: str) -> str:
    text = "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in name
    )
    if len(text) > MAX_SHOWN_NAME:
        text = f"{text[: MAX_SHOWN_NAME - 1]}…"
    return f"{text} (without a file)" if find_form(name) else text or "without a name"


def _require_text_size(name: str, size: int, limit: int) -> None:
    if size > limit:
        raise PayloadTooLargeError(
            message="The form's text is too large",
            errors=[FieldError(name, f"at most {limit} bytes", f"at least {size} bytes")],
        )


def _decode_fields(parts: list[_TextPart]) -> list[tuple[str, str]]:
    errors = [FieldError(part.name, "UTF-8 text", "other bytes") for part in parts if not part.is_text]
    if errors:
        raise ValidationError(errors=errors)
    return [(part.name, part.data.decode()) for part in parts]


def _to_bad_request(error: MultipartError) -> BadRequestError:
    if isinstance(error, ParserLimitReached):
        return BadRequestError(f"expected a form of at most {MAX_PARTS} parts with short headers: {error}")
    return BadRequestError(f"expected whole multipart form data but received something else: {error}")
