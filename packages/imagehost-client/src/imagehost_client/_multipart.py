"""Streaming multipart/form-data bodies (RFC 7578) with one file and a known Content-Length.

httpx2's own encoder is not used, because it rewinds files to their start instead of the caller's
offset, and reads them on the event loop.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing

from attrs import define, field, frozen

from imagehost_client._types import Progress
from imagehost_client.files import File, source_changed

URL_FIELD = "image_url"
"""The text field whose URL the host fetches. It is sent in place of a file, without the headers of one."""
CHUNK_BYTES = 256 * 1024
"""The size of a read, in bytes: few thread switches for large files, little memory for many files."""


_ESCAPES = str.maketrans({'"': "%22", "\r": "%0D", "\n": "%0A"})


def boundary_for(key: str) -> str:
    """Return the boundary for a request with this idempotency key.

    All attempts must be equal byte for byte, also in another process, so the boundary is derived from
    the key; the key is random, so the author of a file cannot predict the boundary.
    """
    from hashlib import sha256  # slow to import

    return f"imagehost-{sha256(key.encode()).hexdigest()[:40]}"


@frozen
class Form:
    """The bytes before and after the file.

    Attributes:
        preamble: The text fields, and the headers of the file part.
        epilogue: The closing boundary.
    """

    boundary: str
    preamble: bytes
    epilogue: bytes

    @property
    def content_type(self) -> str:
        """The request's `Content-Type`."""
        return f"multipart/form-data; boundary={self.boundary}"

    def length(self, size: int) -> int:
        """Return the request's `Content-Length` for a file of `size` bytes."""
        return len(self.preamble) + size + len(self.epilogue)


def build_forms(
    fields: Iterable[tuple[str, str]], files: Sequence[File], *, name: str, boundary: str
) -> list[Form]:
    """Return a form for each file, whose bytes in this order are one form.

    Text fields precede the files, so the host can validate them early. Names are encoded as browsers do
    (HTML, *multipart/form-data encoding algorithm*): in UTF-8, with `"`, CR and LF percent-encoded.

    Args:
        fields: Names and values of text fields.
        files: The files.
        name: The name of the file field.
        boundary: The boundary between parts.
    """
    before = "".join(
        f'--{boundary}\r\nContent-Disposition: form-data; name="{escape_name(key)}"\r\n\r\n{value}\r\n'
        for key, value in fields
    )
    forms = []
    for position, file in enumerate(files, 1):
        headers = f'filename="{escape_name(file.name)}"\r\nContent-Type: {file.media_type}'
        preamble = (
            f"{before}--{boundary}\r\n"
            f'Content-Disposition: form-data; name="{escape_name(name)}"'
            f"{'' if name == URL_FIELD else f'; {headers}'}\r\n\r\n"
        )
        epilogue = f"\r\n--{boundary}--\r\n" if position == len(files) else ""
        forms.append(Form(boundary, _utf8(preamble), epilogue.encode()))
        before = "\r\n"
    return forms


def escape_name(name: str) -> str:
    """Return `name` escaped for a quoted parameter of `Content-Disposition`."""
    return name.translate(_ESCAPES)


def _utf8(text: str) -> bytes:
    """Encode as UTF-8, with `?` for lone surrogates, which undecodable file names contain."""
    return text.encode("utf-8", "replace")


@define
class MultipartBody:
    """A form with its file; each call of `chunks` or `achunks` returns the whole body from its start.

    Attributes:
        progress: The progress callback.
        sha256: The SHA-256 of the file in hexadecimal, after the body was read to its end.
    """

    form: Form
    file: File
    progress: Progress | None = None
    sha256: str | None = field(default=None, init=False)

    @property
    def length(self) -> int:
        """The exact length of the body, in bytes."""
        return self.form.length(self.file.size)

    def chunks(self) -> Iterator[bytes]:
        """Return the body in chunks; the file is read in the calling thread.

        Raises:
            SourceChangedError: The file's size has changed since it was opened.
        """
        count = _ProgressCounter(self)
        yield self.form.preamble
        self.file.rewind()
        while chunk := self.file.stream.read(CHUNK_BYTES):
            yield count.check(chunk)
            count.report()
        yield count.finish()

    async def achunks(self) -> AsyncGenerator[bytes, None]:
        """Return the body in chunks; the file is read in a worker thread, not on the event loop.

        Raises:
            SourceChangedError: The file's size has changed since it was opened.
        """
        from anyio.to_thread import run_sync  # comes with httpx2

        count = _ProgressCounter(self)
        yield self.form.preamble
        await run_sync(self.file.rewind)
        while chunk := await run_sync(self.file.stream.read, CHUNK_BYTES):
            yield count.check(chunk)
            count.report()
        yield count.finish()


@frozen
class Multipart:
    """The body of an upload: the form of each file with its file, one after another."""

    bodies: tuple[MultipartBody, ...]

    @property
    def form(self) -> Form:
        """The form of the first file, which has the content type of all."""
        return self.bodies[0].form

    @property
    def length(self) -> int:
        """The exact length of the body, in bytes."""
        return sum(body.length for body in self.bodies)

    def chunks(self) -> Iterator[bytes]:
        """Return the body in chunks; the files are read in the calling thread.

        Raises:
            SourceChangedError: The size of a file has changed since it was opened.
        """
        for body in self.bodies:
            yield from body.chunks()

    async def achunks(self) -> AsyncGenerator[bytes, None]:
        """Return the body in chunks; the files are read in a worker thread, not on the event loop.

        Raises:
            SourceChangedError: The size of a file has changed since it was opened.
        """
        for body in self.bodies:
            # A cancelled request closes this generator; the inner one would be left to the garbage collector.
            async with aclosing(body.achunks()) as chunks:
                async for chunk in chunks:
                    yield chunk


class _ProgressCounter:
    """A counter and hash of the file's bytes in one attempt."""

    def __init__(self, body: MultipartBody) -> None:
        from hashlib import sha256

        self._body = body
        self._hash = sha256()
        self._sent = 0
        self.report()

    def check(self, chunk: bytes) -> bytes:
        self._sent += len(chunk)
        if self._sent > self._body.file.size:
            raise source_changed(self._body.file, self._sent)
        self._hash.update(chunk)
        return chunk

    def report(self) -> None:
        if self._body.progress is not None:
            self._body.progress(self._sent, self._body.file.size)

    def finish(self) -> bytes:
        if self._sent != self._body.file.size:
            raise source_changed(self._body.file, self._sent)
        self._body.sha256 = self._hash.hexdigest()
        return self._body.form.epilogue
