"""The body of an upload: form data (RFC 7578) around one file, streamed, of a length known beforehand.

Written here and not by httpx2, because httpx2 rewinds files to their start instead of the caller's
offset, and reads them on the event loop.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator

from attrs import define, field, frozen

from imagehost_client.files import File, source_changed

CHUNK = 256 * 1024
"""Bytes that are read at a time: few hops to a thread for a large file, little memory for many files."""

Progress = Callable[[int, int], object]
"""Called with the file's bytes sent so far, and its size. Another try begins again at 0."""

_ESCAPES = str.maketrans({'"': "%22", "\r": "%0D", "\n": "%0A"})


def boundary_for(key: str) -> str:
    """Return the boundary of the request with this idempotency key.

    Every try must be the same request byte for byte, also in another process, so it follows from the
    key; the key is random, so no file's author can put the boundary into the file.
    """
    from hashlib import sha256  # slow to import

    return f"imagehost-{sha256(key.encode()).hexdigest()[:40]}"


@frozen
class Form:
    """The bytes before and after the file.

    Attributes:
        boundary: What separates the parts.
        head: All other fields, and the headers of the file's part.
        tail: What ends the form.
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


def form(
    fields: Iterable[tuple[str, str]], *, name: str, filename: str, media_type: str, boundary: str
) -> Form:
    """Return the form around one file; the fields come first, so the host knows them when the file comes.

    Names are written as browsers do (HTML, *multipart/form-data encoding algorithm*): in UTF-8, with
    `"`, CR and LF percent-encoded.

    Args:
        fields: Names and values.
        name: The name of the file's field.
        filename: The file's name.
        media_type: The type of the file's part.
        boundary: What separates the parts.
    """
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{quoted(key)}"\r\n\r\n{value}\r\n'
        for key, value in fields
    ]
    parts.append(
        f"--{boundary}\r\n"
        f'Content-Disposition: form-data; name="{quoted(name)}"; filename="{quoted(filename)}"\r\n'
        f"Content-Type: {media_type}\r\n\r\n"
    )
    return Form(boundary, _utf8("".join(parts)), f"\r\n--{boundary}--\r\n".encode())


def quoted(name: str) -> str:
    """Return `name` as it stands between the quotes of a `Content-Disposition`."""
    return name.translate(_ESCAPES)


def _utf8(text: str) -> bytes:
    """Encode; a file's name that is no text on disk (lone surrogates) gets question marks."""
    return text.encode("utf-8", "replace")


@define
class MultipartBody:
    """A form with its file: each call of `chunks` or `achunks` gives the whole body from its start.

    Attributes:
        form: The bytes around the file.
        file: The file.
        progress: Who is told how far sending has come.
        sha256: The file's hash, in hexadecimal, once a body was read to its end.
    """

    form: Form
    file: File
    progress: Progress | None = None
    sha256: str | None = field(default=None, init=False)

    @property
    def length(self) -> int:
        """The body's bytes, exactly."""
        return self.form.length(self.file.size)

    def chunks(self) -> Iterator[bytes]:
        """Return the body's bytes; reading is done by the caller's thread.

        Raises:
            SourceChangedError: The file has not the size that it had when it was opened.
        """
        count = _ProgressCounter(self)
        yield self.form.preamble
        self.file.rewind()
        while chunk := self.file.stream.read(CHUNK):
            yield count.check(chunk)
            count.report()
        yield count.finish()

    async def achunks(self) -> AsyncIterator[bytes]:
        """Return the body's bytes; reading is done by a thread, never by the event loop.

        Raises:
            SourceChangedError: The file has not the size that it had when it was opened.
        """
        from anyio.to_thread import run_sync  # comes with httpx2

        count = _ProgressCounter(self)
        yield self.form.preamble
        await run_sync(self.file.rewind)
        while chunk := await run_sync(self.file.stream.read, CHUNK):
            yield count.check(chunk)
            count.report()
        yield count.finish()


class _ProgressCounter:
    """Counts and hashes what is read of a body's file in one try."""

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
