"""Multipart bodies: encoding, exact length, progress and memory."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import io
import sys
import threading
from contextlib import aclosing
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from multipart import MultipartSegment, PushMultipartParser  # type: ignore[import-untyped]

from imagehost_client import SourceChangedError
from imagehost_client._multipart import (
    CHUNK_BYTES,
    Multipart,
    MultipartBody,
    boundary_for,
    build_forms,
    escape_name,
)
from imagehost_client.files import File, open_file

NAMES = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="%\\"), min_size=1, max_size=30
)
VALUES = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)


def parsed(body: bytes, boundary: str) -> list[tuple[str, str | None, bytes]]:
    """Parse form data with the package multipart: name, file name and content of each part."""
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
    file = open_file(content, filename)
    (form,) = build_forms(fields or [], [file], name="image", boundary=boundary_for("key"))
    return MultipartBody(form, file)


@given(st.lists(st.tuples(NAMES, VALUES), max_size=5), NAMES, st.binary(max_size=500))
def test_fields_names_and_content_round_trip(
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
def test_escaped_names_have_no_quotes_and_line_breaks(name: str) -> None:
    assert not set('"\r\n') & set(escape_name(name))
    assert escape_name(name).replace("%22", '"').replace("%0D", "\r").replace("%0A", "\n") == name.replace(
        "%22", '"'
    ).replace("%0D", "\r").replace("%0A", "\n")


def test_undecodable_characters_of_a_name_become_question_marks() -> None:
    body = body_of(b"x", filename="a\udcff.png")
    assert b'filename="a?.png"' in b"".join(body.chunks())


def test_the_boundary_is_derived_from_the_idempotency_key() -> None:
    assert boundary_for("a") == boundary_for("a")
    assert boundary_for("a") != boundary_for("b")
    assert 1 <= len(boundary_for("a")) <= 70


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES])
def test_sync_and_async_chunks_have_the_same_bytes_and_progress(size: int) -> None:
    content = bytes(size)
    reports: list[tuple[int, int]] = []
    body = body_of(content)
    body.progress = lambda sent, total: reports.append((sent, total))
    first = b"".join(body.chunks())
    assert body.sha256 == hashlib.sha256(content).hexdigest()
    count = len(reports)

    async def read() -> bytes:
        return b"".join([chunk async for chunk in body.achunks()])

    assert anyio.run(read) == first
    assert reports[:count] == reports[count:]
    assert b"".join(body.chunks()) == first
    assert reports[0] == (0, size)
    assert reports[count - 1] == (size, size)


def test_a_file_is_not_read_in_the_thread_of_the_event_loop() -> None:
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


@pytest.mark.parametrize("chunks", [1, 2])
def test_a_body_that_is_not_read_to_its_end_is_closed_as_a_whole(chunks: int) -> None:
    body = Multipart((body_of(bytes(10)), body_of(bytes(10))))
    left: list[object] = []

    async def read() -> None:
        sys.set_asyncgen_hooks(finalizer=left.append)
        async with aclosing(body.achunks()) as content:
            for _ in range(chunks):
                await anext(content)
        gc.collect()

    asyncio.run(read())
    assert left == []


@pytest.mark.parametrize(("announced", "received"), [(2, "more"), (4, "3")])
def test_a_file_of_another_size_than_announced_is_an_error(announced: int, received: str) -> None:
    file = File(name="a.png", size=announced, offset=0, stream=io.BytesIO(b"abc"), close_on_done=False)
    body = MultipartBody(body_of(b"").form, file)
    with pytest.raises(
        SourceChangedError, match=f"expected {announced} bytes for a.png but received {received}"
    ):
        list(body.chunks())
    assert body.sha256 is None

    async def read() -> None:
        async for _ in body.achunks():
            pass

    with pytest.raises(SourceChangedError):
        anyio.run(read)


def test_a_large_file_is_read_in_chunks(tmp_path: Path) -> None:
    path = tmp_path / "large.png"
    with path.open("wb") as stream:
        stream.truncate(50 * 1024 * 1024)
    file = open_file(path)
    body = MultipartBody(body_of(b"").form, file)
    assert max(len(chunk) for chunk in body.chunks()) <= CHUNK_BYTES
    assert body.length == len(body.form.preamble) + 50 * 1024 * 1024 + len(body.form.epilogue)
    file.close()
