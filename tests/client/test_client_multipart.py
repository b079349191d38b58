"""The body of an upload: right for any name and value, of the length that was said, in little memory."""

from __future__ import annotations

import hashlib
import io
import threading
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from multipart import MultipartSegment, PushMultipartParser  # type: ignore[import-untyped]

from imagehost_client import SourceChangedError
from imagehost_client._multipart import CHUNK_BYTES, MultipartBody, boundary_for, build_form, escape_name
from imagehost_client.files import File, open_file

NAMES = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="%\\"), min_size=1, max_size=30
)
VALUES = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)


def parsed(body: bytes, boundary: str) -> list[tuple[str, str | None, bytes]]:
    """Read form data with a parser of others: name, file's name and content of each part."""
    parts: list[tuple[str, str | None, bytearray]] = []
    with PushMultipartParser(boundary, max_segment_size=len(body) + 1) as parser:
        for event in parser.parse(body):
            if isinstance(event, MultipartSegment):
                parts.append((event.name, event.filename, bytearray()))
            elif event:
                parts[-1][2].extend(event)
    return [(name, filename, bytes(content)) for name, filename, content in parts]


def body_of(
    content: bytes, *, fields: list[tuple[str, str]] | None = None, filename: str = "a.png"
) -> MultipartBody:
    around = build_form(
        fields or [], name="image", filename=filename, media_type="image/png", boundary=boundary_for("key")
    )
    return MultipartBody(around, open_file(content))


@given(st.lists(st.tuples(NAMES, VALUES), max_size=5), NAMES, st.binary(max_size=500))
def test_any_fields_name_and_content_come_out_as_they_went_in(
    fields: list[tuple[str, str]], filename: str, content: bytes
) -> None:
    body = body_of(content, fields=fields, filename=filename)
    sent = b"".join(body.chunks())
    assert len(sent) == body.length
    *texts, file = parsed(sent, body.form.boundary)
    assert [(name, value.decode()) for name, _, value in texts] == fields
    assert file[:2] == ("image", filename)
    assert file[2] == content


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_name_never_ends_its_quotes_or_its_line(name: str) -> None:
    assert not set('"\r\n') & set(escape_name(name))
    assert escape_name(name).replace("%22", '"').replace("%0D", "\r").replace("%0A", "\n") == name.replace(
        "%22", '"'
    ).replace("%0D", "\r").replace("%0A", "\n")


def test_a_name_that_is_no_text_gets_question_marks() -> None:
    body = body_of(b"x", filename="a\udcff.png")
    assert b'filename="a?.png"' in b"".join(body.chunks())


def test_the_boundary_follows_from_the_key_so_every_try_is_the_same_request() -> None:
    assert boundary_for("a") == boundary_for("a")
    assert boundary_for("a") != boundary_for("b")
    assert 1 <= len(boundary_for("a")) <= 70


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES])
def test_both_ways_of_reading_give_the_same_bytes_and_tell_of_progress(size: int) -> None:
    content = bytes(size)
    told: list[tuple[int, int]] = []
    body = body_of(content)
    body.progress = lambda sent, total: told.append((sent, total))
    first = b"".join(body.chunks())
    assert body.sha256 == hashlib.sha256(content).hexdigest()
    count = len(told)

    async def read() -> bytes:
        return b"".join([chunk async for chunk in body.achunks()])

    assert anyio.run(read) == first
    assert told[:count] == told[count:]
    assert told[0] == (0, size)
    assert told[count - 1] == (size, size)


def test_a_file_is_read_by_another_thread_than_the_event_loops() -> None:
    threads: set[int] = set()

    class Watched(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            threads.add(threading.get_ident())
            return super().read(size)

    body = MultipartBody(body_of(b"").form, open_file(Watched(b"abc")))

    async def read() -> None:
        async for _ in body.achunks():
            pass

    anyio.run(read)
    assert threads
    assert threading.get_ident() not in threads


@pytest.mark.parametrize(("promised", "received"), [(2, "more"), (4, "3")])
def test_a_file_that_has_another_size_than_was_promised_breaks_the_upload_off(
    promised: int, received: str
) -> None:
    file = File(name="a.png", size=promised, offset=0, stream=io.BytesIO(b"abc"), close_on_done=False)
    body = MultipartBody(body_of(b"").form, file)
    with pytest.raises(
        SourceChangedError, match=f"expected {promised} bytes for a.png but received {received}"
    ):
        list(body.chunks())
    assert body.sha256 is None

    async def read() -> None:
        async for _ in body.achunks():
            pass

    with pytest.raises(SourceChangedError):
        anyio.run(read)


def test_no_more_of_a_large_file_is_in_memory_than_a_chunk(tmp_path: Path) -> None:
    path = tmp_path / "large.png"
    with path.open("wb") as stream:
        stream.truncate(50 * 1024 * 1024)
    file = open_file(path)
    body = MultipartBody(body_of(b"").form, file)
    assert max(len(chunk) for chunk in body.chunks()) <= CHUNK_BYTES
    assert body.length == len(body.form.preamble) + 50 * 1024 * 1024 + len(body.form.epilogue)
    file.close()
