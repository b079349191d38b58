"""Reading an upload's form: any split of the bytes gives the same form, and every limit holds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.errors import (
    BadRequestError,
    ImageHostError,
    PayloadTooLargeError,
    UnsupportedMediaTypeError,
    ValidationError,
)
from imagehost_core.limits import MAX_FILE_BYTES
from imagehost_core.storage import StagedFile
from imagehost_server.http.multipart import (
    FIELD_BYTES,
    FIELDS_BYTES,
    FILE_FIELDS,
    MAX_PARTS,
    MultipartFormParser,
    UploadForm,
    boundary,
)

TYPE = "multipart/form-data; boundary=BoundarY"


class Stage:
    """Opens places for files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0

    def __call__(self) -> StagedFile:
        self.count += 1
        return StagedFile(self.folder / f"{id(self)}-{self.count}")

    def left(self) -> list[Path]:
        return list(self.folder.glob(f"{id(self)}-*"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("staged")


Part = tuple[str, str | None, bytes]


def encoded(parts: list[Part]) -> bytes:
    body = b""
    for name, filename, data in parts:
        disposition = f'form-data; name="{name}"'
        if filename is not None:
            disposition += f'; filename="{filename}"'
        body += f"--BoundarY\r\nContent-Disposition: {disposition}\r\n\r\n".encode() + data + b"\r\n"
    return body + b"--BoundarY--\r\n"


def read(folder: Path, pieces: Iterator[bytes] | list[bytes]) -> tuple[UploadForm, list[Part]]:
    """Return what a reader makes of the pieces, its files with the bytes that were staged.

    Whatever comes of it, nothing may be left.
    """
    stage = Stage(folder)
    try:
        with closing(MultipartFormParser(TYPE, stage)) as reader:
            for piece in pieces:
                reader.feed(piece)
            form = reader.finish()
            for file in form.files:
                file.staged.finish()
            files = [("", file.filename, file.staged.path.read_bytes()) for file in form.files]
            return form.kind, [*files, *((name, None, text.encode()) for name, text in form.fields)]
    finally:
        assert stage.left() == []


def fails(folder: Path, parts: list[Part], kind: type[ImageHostError]) -> str:
    """Return the details of the error that a form ends with."""
    with pytest.raises(kind) as caught:
        read(folder, [encoded(parts)])
    return caught.value.details


near = st.lists(st.sampled_from([b"\r\n", b"--", b"BoundarY", b"\r", b"\n", b"-", b"x", b"\0"])).map(b"".join)
contents = st.one_of(near, st.binary(max_size=200)).filter(
    lambda data: b"\r\n--BoundarY" not in b"\r\n" + data
)
field_names = st.sampled_from(["album_id", "description", "quality", "other"])
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@given(
    st.lists(st.tuples(field_names, texts), max_size=4),
    st.lists(contents.filter(bool), min_size=1, max_size=4),
    st.lists(st.integers(1, 60), max_size=40),
    st.randoms(),
)
def test_any_split_of_the_bytes_gives_the_same_form(
    folder: Path, fields: list[tuple[str, str]], files: list[bytes], cuts: list[int], random: object
) -> None:
    safe = [(name, text) for name, text in fields if "\r\n--BoundarY" not in "\r\n" + text]
    parts: list[Part] = [(name, None, text.encode()) for name, text in safe]
    parts += [("files[]", f"{number}.png", data) for number, data in enumerate(files)]
    random.shuffle(parts)  # type: ignore[attr-defined]
    body = encoded(parts)
    pieces = []
    for cut in cuts:
        pieces.append(body[:cut])
        body = body[cut:]
    kind, found = read(folder, [*pieces, body])
    expected: list[Part] = [("", name, data) for _, name, data in parts if name is not None]
    expected += [(name, None, data) for name, filename, data in parts if filename is None]
    assert (kind, found) == (UploadForm.BATCH, expected)


@pytest.mark.parametrize(("name", "kind"), FILE_FIELDS.items())
def test_each_name_of_a_file_part_says_which_form_it_is(folder: Path, name: str, kind: UploadForm) -> None:
    assert read(folder, [encoded([(name, "a.png", b"x")])])[0] is kind


def test_a_file_without_a_name_is_a_file(folder: Path) -> None:
    assert read(folder, [encoded([("image", None, b"data")])])[1] == [("", None, b"data")]


def test_files_of_other_names_are_ignored(folder: Path) -> None:
    parts: list[Part] = [("avatar", "a.png", b"y" * 100_000), ("image", "b.png", b"x")]
    assert read(folder, [encoded(parts)])[1] == [("", "b.png", b"x")]


def test_what_follows_the_end_is_ignored(folder: Path) -> None:
    assert read(folder, [encoded([("image", "b.png", b"x")]), b"and more", b"\r\n"])[0] is UploadForm.SINGLE


def test_a_file_above_the_limit_is_counted_to_its_end_and_not_kept(folder: Path) -> None:
    stage = Stage(folder)
    with closing(MultipartFormParser(TYPE, stage)) as reader:
        start, end = encoded([("image", "b.png", b"|")]).split(b"|")
        reader.feed(start)
        for _ in range(51):
            reader.feed(bytes(2**20))
        reader.feed(end)
        (file,) = reader.finish().files
        assert file.staged.size == 51 * 2**20
        assert file.staged.path.stat().st_size <= MAX_FILE_BYTES


def test_the_form_has_a_limit_of_files_parts_and_text(folder: Path) -> None:
    file: Part = ("files[]", "a.png", b"x")
    assert "1 to 20 files" in fails(folder, [file] * 21, BadRequestError)
    assert "1 to 20 files" in fails(folder, [("a", None, b"b")], BadRequestError)
    assert str(MAX_PARTS) in fails(folder, [("a", None, b"b")] * (MAX_PARTS + 1), BadRequestError)
    assert str(FIELD_BYTES) in fails(folder, [("a", None, bytes(FIELD_BYTES + 1))], PayloadTooLargeError)
    many: list[Part] = [("a", None, bytes(FIELD_BYTES))] * (FIELDS_BYTES // FIELD_BYTES + 1)
    assert str(FIELDS_BYTES) in fails(folder, many, PayloadTooLargeError)
    read(folder, [encoded([file, *many[1:]])])


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (b"caf\xe9.png", "caf\ufffd.png"),
        (b"\x83J\x83\x81.png", "\ufffdJ\ufffd\ufffd.png"),
        ("à la carte – ネコ.png".encode(), "à la carte – ネコ.png"),
        ("\U0001f600.png".encode()[1:], "\ufffd\ufffd\ufffd.png"),
        (b"a%22b\xff.png", 'a"b\ufffd.png'),
    ],
)
@pytest.mark.parametrize(
    "form", ['form-data; name="image"; filename="%s"', 'form-data;filename="%s"; name=image']
)
def test_a_file_s_name_is_kept_whatever_bytes_it_has(folder: Path, form: str, sent: bytes, kept: str) -> None:
    head = b"--BoundarY\r\nContent-Disposition: " + form.encode().replace(b"%s", sent)
    with closing(MultipartFormParser(TYPE, Stage(folder))) as reader:
        reader.feed(head + b"\r\n\r\nx\r\n--BoundarY--\r\n")
        assert reader.finish().files[0].filename == kept


def test_text_that_is_not_utf_8_is_told_by_its_names(folder: Path) -> None:
    parts: list[Part] = [("image", "a.png", b"x"), ("description", None, b"\xff"), ("quality", None, b"\xfe")]
    details = fails(folder, parts, ValidationError)
    assert "for description" in details
    assert "for quality" in details


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"hello",
        b"--BoundarY",
        b"--BoundarY\nContent-Disposition: form-data; name=image\n\nx\n--BoundarY--",
        b"--BoundarY\r\n\r\nx\r\n--BoundarY--\r\n",
        b'--BoundarY\r\nContent-Disposition: attachment; name="image"\r\n\r\nx\r\n--BoundarY--\r\n',
        b"--BoundarY\r\n" + b"X: " + b"y" * 9_999 + b"\r\n\r\nx\r\n--BoundarY--\r\n",
        b'--BoundarY\r\nContent-Disposition: form-data; name="image\xff"\r\n\r\nx\r\n--BoundarY--\r\n',
    ],
)
def test_bytes_that_are_no_form_are_a_bad_request(folder: Path, body: bytes) -> None:
    with pytest.raises(BadRequestError):
        read(folder, [body])


@given(st.binary(max_size=300))
def test_no_bytes_end_in_anything_but_an_error_of_the_contract(folder: Path, noise: bytes) -> None:
    with pytest.raises(ImageHostError):
        read(folder, [b"--BoundarY\r\n" + noise])


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        ("multipart/form-data; boundary=x", "x"),
        ('Multipart/Form-Data; charset=utf-8; Boundary="a b"', "a b"),
        (f"multipart/form-data; boundary={'x' * 70}", "x" * 70),
    ],
)
def test_the_boundary_is_read_as_mime_writes_it(content_type: str, expected: str) -> None:
    assert boundary(content_type) == expected


@pytest.mark.parametrize(
    "content_type",
    [
        "multipart/form-data",
        "multipart/form-data; boundary=",
        'multipart/form-data; boundary=""',
        f"multipart/form-data; boundary={'x' * 71}",
        'multipart/form-data; boundary="é"',
    ],
)
def test_a_form_without_a_good_boundary_is_a_bad_request(content_type: str) -> None:
    with pytest.raises(BadRequestError, match="boundary"):
        boundary(content_type)


@pytest.mark.parametrize("content_type", [None, "", "multipart/mixed; boundary=x", "application/json"])
def test_anything_but_a_form_is_an_unsupported_type(content_type: str | None) -> None:
    with pytest.raises(UnsupportedMediaTypeError, match="multipart/form-data"):
        boundary(content_type)
