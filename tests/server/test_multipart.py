"""Parsing an upload's form: the result does not depend on chunk borders, and limits hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

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
    FormKind,
    MultipartFormParser,
    parse_boundary,
)

TYPE = "multipart/form-data; boundary=BoundarY"


class Stage:
    """Creates staged files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0

    def __call__(self) -> StagedFile:
        self.count += 1
        return StagedFile(self.folder / f"{id(self)}-{self.count}")

    def remaining(self) -> list[Path]:
        return list(self.folder.glob(f"{id(self)}-*"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("staged")


Part = tuple[str, str | None, bytes]


def encode_form(parts: list[Part]) -> bytes:
    body = b""
    for name, filename, data in parts:
        disposition = f'form-data; name="{name}"'
        if filename is not None:
            disposition += f'; filename="{filename}"'
        body += f"--BoundarY\r\nContent-Disposition: {disposition}\r\n\r\n".encode() + data + b"\r\n"
    return body + b"--BoundarY--\r\n"


def parse(folder: Path, chunks: Iterator[bytes] | list[bytes]) -> tuple[FormKind, list[Part]]:
    """Return the parsed form, with the staged bytes of its files; check that no staged file remains."""
    stage = Stage(folder)
    try:
        with closing(MultipartFormParser(TYPE, stage)) as parser:
            for chunk in chunks:
                parser.feed(chunk)
            form = parser.finish()
            for file in form.files:
                file.staged.finish()
            files = [("", file.filename, file.staged.path.read_bytes()) for file in form.files]
            return form.kind, [*files, *((name, None, text.encode()) for name, text in form.fields)]
    finally:
        assert stage.remaining() == []


def error_details(folder: Path, parts: list[Part], kind: type[ImageHostError]) -> str:
    """Return the details of the error for a form."""
    with pytest.raises(kind) as caught:
        parse(folder, [encode_form(parts)])
    return caught.value.details


boundary_like = st.lists(st.sampled_from([b"\r\n", b"--", b"BoundarY", b"\r", b"\n", b"-", b"x", b"\0"])).map(
    b"".join
)
contents = st.one_of(boundary_like, st.binary(max_size=200)).filter(
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
def test_the_form_does_not_depend_on_chunk_borders(
    folder: Path, fields: list[tuple[str, str]], files: list[bytes], cuts: list[int], random: object
) -> None:
    safe = [(name, text) for name, text in fields if "\r\n--BoundarY" not in "\r\n" + text]
    parts: list[Part] = [(name, None, text.encode()) for name, text in safe]
    parts += [("files[]", f"{number}.png", data) for number, data in enumerate(files)]
    random.shuffle(parts)  # type: ignore[attr-defined]
    body = encode_form(parts)
    chunks = []
    for cut in cuts:
        chunks.append(body[:cut])
        body = body[cut:]
    kind, parsed = parse(folder, [*chunks, body])
    expected: list[Part] = [("", name, data) for _, name, data in parts if name is not None]
    expected += [(name, None, data) for name, filename, data in parts if filename is None]
    assert (kind, parsed) == (FormKind.BATCH, expected)


@pytest.mark.parametrize(("name", "kind"), FILE_FIELDS.items())
def test_the_name_of_the_file_part_determines_the_form(folder: Path, name: str, kind: FormKind) -> None:
    assert parse(folder, [encode_form([(name, "a.png", b"x")])])[0] is kind


@pytest.mark.parametrize("content_type", ["image/png", "IMAGE/JPEG; x=y"])
def test_an_image_without_a_file_name_is_a_file(folder: Path, content_type: str) -> None:
    head = f'--BoundarY\r\nContent-Disposition: form-data; name="image"\r\nContent-Type: {content_type}'
    body = head.encode() + b"\r\n\r\ndata\r\n--BoundarY--\r\n"
    assert parse(folder, [body])[1] == [("", None, b"data")]


@pytest.mark.parametrize("name", FILE_FIELDS)
def test_a_text_part_under_the_name_of_a_file_part_is_ignored(folder: Path, name: str) -> None:
    text: Part = (name, None, b"x" * (FIELD_BYTES + 1))
    for field in ("image", "files[]"):
        file: Part = (field, "b.png", b"x")
        for parts in ([text, file], [file, text]):
            assert parse(folder, [encode_form(parts)]) == (FILE_FIELDS[field], [("", "b.png", b"x")])


@pytest.mark.parametrize(
    ("parts", "received"),
    [
        ([], "no fields"),
        ([("a", None, b"x"), ("b", "b.png", b"x"), ("a", None, b"y")], "the fields a, b"),
        ([("a", None, b"")], "the field a"),
        (
            [("image", None, b"x"), ("file", "", b"")],
            "the fields image (without a file), file (without a file)",
        ),
        ([("\x07" + "x" * 80, None, b"x")], f"the field \ufffd{'x' * 58}…"),
        (
            [(f"f{number}", None, b"") for number in range(22)],
            f"the fields {', '.join(f'f{number}' for number in range(20))}, 2 more",
        ),
    ],
)
def test_a_form_without_a_file_is_an_error_with_the_field_names(
    folder: Path, parts: list[Part], received: str
) -> None:
    expected = f"expected a file in files[], files, image or file but received {received}"
    assert error_details(folder, parts, BadRequestError) == expected


def test_files_of_other_names_are_ignored(folder: Path) -> None:
    parts: list[Part] = [("avatar", "a.png", b"y" * 100_000), ("image", "b.png", b"x")]
    assert parse(folder, [encode_form(parts)])[1] == [("", "b.png", b"x")]


@pytest.mark.parametrize("name", ["Image", "FILES[]", "_file", "fi-les"])
def test_a_file_under_a_name_that_differs_by_case_underscores_or_hyphens_is_an_error(
    folder: Path, name: str
) -> None:
    parts: list[Part] = [(name, "a.png", b"y"), ("image", "b.png", b"x")]
    known = {"fi-les": "files"}.get(name, name.lower().strip("_"))
    expected = f"expected exactly this name for {known} but received {name!r}"
    assert error_details(folder, parts, ValidationError) == expected
    assert expected in error_details(folder, parts[:1], BadRequestError)


@pytest.mark.parametrize("size", [1, 12, 1_000])
def test_text_before_the_first_boundary_is_ignored(folder: Path, size: int) -> None:
    """A line that only ends in the boundary does not begin the form, also where a chunk begins there."""
    form = encode_form([("image", "a.png", b"PNG")])
    body = b"preamble....--BoundarY\r\n\r\n\r\n" + form
    chunks = [body[start : start + size] for start in range(0, len(body), size)]
    assert parse(folder, chunks) == (FormKind.SINGLE, [("", "a.png", b"PNG")])


@pytest.mark.parametrize("size", [1, 30, 1_000])
@pytest.mark.parametrize(
    "line",
    [
        b"Content-Disposition: form-data; name=a\nb",
        b"\nContent-Disposition: form-data; name=a",
        b"Content-Disposition\n: form-data; name=a",
        b"Content-Disposition: form-data; name=a\n",
    ],
)
def test_a_line_feed_in_a_header_is_a_bad_request_however_the_body_is_divided(
    folder: Path, line: bytes, size: int
) -> None:
    part = b"--BoundarY\r\n" + line + b"\r\n\r\ntext\r\n"
    body = part + encode_form([("image", "a.png", b"PNG")])
    chunks = [body[start : start + size] for start in range(0, len(body), size)]
    with pytest.raises(BadRequestError, match="Invalid line break"):
        parse(folder, chunks)


def test_data_after_the_end_of_the_form_is_ignored(folder: Path) -> None:
    assert (
        parse(folder, [encode_form([("image", "b.png", b"x")]), b"and more", b"\r\n"])[0] is FormKind.SINGLE
    )


def test_a_file_above_the_limit_is_measured_but_not_stored(folder: Path) -> None:
    stage = Stage(folder)
    with closing(MultipartFormParser(TYPE, stage)) as parser:
        start, end = encode_form([("image", "b.png", b"|")]).split(b"|")
        parser.feed(start)
        for _ in range(51):
            parser.feed(bytes(2**20))
        parser.feed(end)
        (file,) = parser.finish().files
        assert file.staged.size == 51 * 2**20
        assert file.staged.path.stat().st_size <= MAX_FILE_BYTES


def test_files_parts_and_text_are_limited(folder: Path) -> None:
    file: Part = ("files[]", "a.png", b"x")
    assert "1 to 20 files" in error_details(folder, [file] * 21, BadRequestError)
    assert str(MAX_PARTS) in error_details(folder, [("a", None, b"b")] * (MAX_PARTS + 1), BadRequestError)
    assert str(FIELD_BYTES) in error_details(
        folder, [("a", None, bytes(FIELD_BYTES + 1))], PayloadTooLargeError
    )
    body = encode_form([("a", None, bytes(FIELD_BYTES + 1))])
    with pytest.raises(PayloadTooLargeError, match=str(FIELD_BYTES)):
        parse(folder, [body[start : start + 1_000] for start in range(0, len(body), 1_000)])
    many: list[Part] = [("a", None, bytes(FIELD_BYTES))] * (FIELDS_BYTES // FIELD_BYTES + 1)
    assert str(FIELDS_BYTES) in error_details(folder, many, PayloadTooLargeError)
    parse(folder, [encode_form([file, *many[1:]])])


@pytest.mark.parametrize(
    ("sent", "filename"),
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
def test_a_file_name_may_have_any_bytes(folder: Path, form: str, sent: bytes, filename: str) -> None:
    head = b"--BoundarY\r\nContent-Disposition: " + form.encode().replace(b"%s", sent)
    with closing(MultipartFormParser(TYPE, Stage(folder))) as parser:
        parser.feed(head + b"\r\n\r\nx\r\n--BoundarY--\r\n")
        assert parser.finish().files[0].filename == filename


@pytest.mark.parametrize(
    ("parameters", "filename"),
    [
        ("filename*=UTF-8''na%C3%AFve%20%F0%9F%90%88.png", "naïve 🐈.png"),
        ("filename=\"x.png\"; filename*=utf-8'de'%22%25.png", '"%.png'),
        ("filename*=iso-8859-1''caf%E9.png; filename=\"x.png\"", "café.png"),
        ("filename*=UTF-8''%FF.png", "\ufffd.png"),
        ('filename="a*b.png"', "a*b.png"),
        ("filename=\"a; filename*=utf-8''b.png\"", "a; filename*=utf-8''b.png"),
        ("filename=\"a.png\"; filename*=koi8-r''%C1.png", "a.png"),
        ('filename="a.png"; filename*=nonsense', "a.png"),
        ('filename="=?UTF-8?B?w6kg8J+QiC5wbmc=?="', "é 🐈.png"),
        ('filename="=?utf-8?q?caf=C3=A9?= =?utf-8?q?_2=2Epng?="', "café 2.png"),
        ('filename="=?nonsense?q?a?="', "=?nonsense?q?a?="),
        ('filename="=?utf-8?b?=?="', "=?utf-8?b?=?="),
        ('filename="what=?.png"', "what=?.png"),
    ],
)
def test_a_file_name_may_be_encoded_as_in_other_headers(folder: Path, parameters: str, filename: str) -> None:
    head = f'--BoundarY\r\nContent-Disposition: form-data; name="image"; {parameters}\r\n\r\n'
    with closing(MultipartFormParser(TYPE, Stage(folder))) as parser:
        parser.feed(head.encode() + b"x\r\n--BoundarY--\r\n")
        assert parser.finish().files[0].filename == filename


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_an_extended_file_name_is_the_encoded_text(name: str) -> None:
    header = f"form-data; name=image; filename*=UTF-8''{quote(name, safe='')}"
    with TemporaryDirectory() as folder, closing(MultipartFormParser(TYPE, Stage(Path(folder)))) as parser:
        parser.feed(f"--BoundarY\r\nContent-Disposition: {header}\r\n\r\nx\r\n--BoundarY--\r\n".encode())
        assert parser.finish().files[0].filename == name


def test_all_text_fields_that_are_not_utf_8_are_reported(folder: Path) -> None:
    parts: list[Part] = [("image", "a.png", b"x"), ("description", None, b"\xff"), ("quality", None, b"\xfe")]
    details = error_details(folder, parts, ValidationError)
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
def test_an_invalid_form_is_a_bad_request(folder: Path, body: bytes) -> None:
    with pytest.raises(BadRequestError):
        parse(folder, [body])


@given(st.binary(max_size=300))
def test_random_bytes_raise_no_other_exception_than_a_public_error(folder: Path, data: bytes) -> None:
    with pytest.raises(ImageHostError):
        parse(folder, [b"--BoundarY\r\n" + data])


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        ("multipart/form-data; boundary=x", "x"),
        ('Multipart/Form-Data; charset=utf-8; Boundary="a b"', "a b"),
        (f"multipart/form-data; boundary={'x' * 70}", "x" * 70),
    ],
)
def test_the_boundary_may_be_quoted(content_type: str, expected: str) -> None:
    assert parse_boundary(content_type) == expected


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
def test_a_missing_or_invalid_boundary_is_a_bad_request(content_type: str) -> None:
    with pytest.raises(BadRequestError, match="boundary"):
        parse_boundary(content_type)


@pytest.mark.parametrize("content_type", [None, "", "multipart/mixed; boundary=x", "application/json"])
def test_other_content_types_are_unsupported(content_type: str | None) -> None:
    with pytest.raises(UnsupportedMediaTypeError, match="multipart/form-data"):
        parse_boundary(content_type)
