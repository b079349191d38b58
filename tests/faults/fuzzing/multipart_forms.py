"""Forms: the reader's result does not depend on how a body is divided, and it reads what the client writes.

The first byte of an input is the size of the chunks. The rest is a body, and also the names and values of a
form that the client writes.
"""

from __future__ import annotations

import io
from typing import Any, cast

from imagehost_client._multipart import boundary_for, build_forms
from imagehost_client.files import File
from imagehost_core.errors import ImageHostError
from imagehost_core.storage import StagedFile
from imagehost_server.http.multipart import MultipartFormParser

BOUNDARY = "BoundarY"
DICTIONARY = (
    *(
        b"--BoundarY\r\n",
        b"\r\n--BoundarY--\r\n",
        b"\r\n--BoundarY",
        b"--",
        b"\r\n\r\n",
        b"\r",
        b"\n",
        b'"',
        b"%22",
    ),
    *(
        b'Content-Disposition: form-data; name="',
        b'; filename="',
        b"filename*=UTF-8''",
        b"Content-Type: image/png",
    ),
    *(
        b'"files[]"',
        b'"image"',
        b'"album_id"',
        b"\\",
        b";",
        b"Content-Length: 3",
        b"Content-Transfer-Encoding: ",
        b"\0",
    ),
)
FINDINGS = (
    b"\x00--BoundarY\r\nContent-Disposition: form-data; name=\n--BoundarY\r\n"
    b'Content-Disposition: form-data; name="files[]"; filename="a.png"\r\n\r\nPNG\r\n--BoundarY--\r\n',
    b"\x01--BoundarY\r\n\nContent-Disposition: form-data; name=a\r\n\r\n7\r\n--BoundarY\r\n"
    b'Content-Disposition: form-data; name="image"; filename="a.png"\r\n\r\nPNG\r\n--BoundarY--\r\n',
    b"\x0bpreamble....--BoundarY\r\n"
    b'Content-Disposition: form-data; name="image"; filename="a"\r\n\r\nPNG\r\n--BoundarY--\r\n',
)
"""A line feed in a header, one before it, and a boundary within a line of the preamble at which a chunk
begins."""


class MemoryFile:
    """A staged file in memory."""

    def __init__(self) -> None:
        self.data = b""

    @property
    def size(self) -> int:
        return len(self.data)

    def write(self, data: bytes) -> None:
        self.data += data

    def __enter__(self) -> MemoryFile:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def seeds() -> list[bytes]:
    part = '--BoundarY\r\nContent-Disposition: form-data; name="{}"{}\r\n\r\n{}\r\n'
    text, file = part.format("album_id", "", "7"), part.format("files[]", '; filename="a.png"', "PNG")
    one = part.format("image", '; filename="é.png"\r\nContent-Type: image/png', "\r\n--Boundar")
    return [
        *(
            f"\x01{body}--BoundarY--\r\n".encode()
            for body in (text + file, file + file, one, one + file, text)
        ),
        b"\x07preamble\r\n" + file.encode() + b"--BoundarY--\r\nepilogue",
        b"\x03" + file.encode(),
    ]


def check(data: bytes) -> None:
    step, body = (data[0] % 64 + 1 if data else 1), data[1:]
    chunks = [body[start : start + step] for start in range(0, len(body), step)]
    whole, divided = read([body], BOUNDARY), read(chunks, BOUNDARY)
    assert whole == divided, f"{whole} differs from {divided}"
    check_client(body.decode("utf-8", "replace"), step)


def read(chunks: list[bytes], boundary: str) -> Any:
    """Return the form, or the class of the error; of several errors, any can come first."""
    staged: list[MemoryFile] = []

    def stage() -> StagedFile:
        staged.append(MemoryFile())
        return cast("StagedFile", staged[-1])

    parser = MultipartFormParser(f"multipart/form-data; boundary={boundary}", stage)
    try:
        for chunk in chunks:
            parser.feed(chunk)
        form = parser.finish()
    except ImageHostError as error:
        return type(error)
    finally:
        parser.close()
    files = [(file.filename, cast("MemoryFile", file.staged).data) for file in form.files]
    return form.kind, form.fields, files


def check_client(text: str, step: int) -> None:
    """Assert that the server reads what the client writes."""
    filename, *lines = text.split("\n")
    fields = [("description", line.replace("\0", "")) for line in lines[:20]]
    content = text.encode()
    boundary = boundary_for(filename)
    file = File(
        name=f"{filename}.png", size=len(content), offset=0, stream=io.BytesIO(content), close_on_done=True
    )
    (form,) = build_forms(fields, [file], name="image", boundary=boundary)
    body = io.BytesIO(form.preamble + content + form.epilogue)
    received = read(list(iter(lambda: body.read(step * 16), b"")), boundary)
    if any(character in filename for character in "\0\\"):
        return  # A quoted string of HTTP has escapes; browsers and this client write `\` as it is.
    expected = f"{filename}.png"
    for character, escape in (('"', "%22"), ("\r", "%0D"), ("\n", "%0A")):
        expected = expected.replace(escape, character)
    assert received[1:] == (tuple(fields), [(expected, content)]), f"{received} differs from {fields}"
