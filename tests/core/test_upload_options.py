"""Upload options: every field of both forms, every spelling, and all faults at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.errors import ValidationError
from imagehost_core.formats import Format
from imagehost_core.ids import MAX_ALBUM_ID, AlbumId
from imagehost_core.uploads.options import (
    MAX_DESCRIPTION,
    STORED_FORMATS,
    UploadOptions,
    description_errors,
    parse_upload_options,
)

FLAGS = {
    "remove_exif": "remove_exif",
    "convertToWebP": "convert_to_webp",
    "auto_rename": "auto_rename",
    "is_public": "is_public",
}
"""The boolean fields of form 1, and the attributes that hold them."""

TRUE = ["true", "1", "TRUE", "True", "tRuE"]
FALSE = ["false", "0", "FALSE", "False", "fALSe"]
NO_BOOLEANS = [
    "",
    " ",
    "yes",
    "no",
    "on",
    "off",
    "2",
    "-1",
    "01",
    "1.0",
    "t",
    "f",
    "null",
    "None",
    " true",
    "0\n",
]
NO_BOOLEANS += ["true,false", "１", "ｔｒｕｅ", "trüe", "\0"]


def refused(*fields: tuple[str, str]) -> list[str]:
    """Return the names of the faults for which these fields are refused."""
    with pytest.raises(ValidationError) as caught:
        parse_upload_options(fields)
    return [fault.name for fault in caught.value.errors]


def test_without_fields_the_defaults_are_those_of_the_contract() -> None:
    options = parse_upload_options([])
    assert options == UploadOptions(
        album_id=None,
        description="",
        quality=None,
        format=None,
        remove_exif=False,
        convert_to_webp=None,
        auto_rename=False,
        is_public=True,
    )


def test_every_field_is_read() -> None:
    fields = [
        ("album_id", "7"),
        ("description", "A cat"),
        ("quality", "75"),
        ("format", "png"),
        ("remove_exif", "1"),
        ("convertToWebP", "0"),
        ("auto_rename", "true"),
        ("is_public", "false"),
    ]
    wanted = UploadOptions(
        album_id=AlbumId(7),
        description="A cat",
        quality=75,
        format=Format.PNG,
        remove_exif=True,
        convert_to_webp=False,
        auto_rename=True,
        is_public=False,
    )
    assert parse_upload_options(fields) == wanted
    assert parse_upload_options(reversed(fields)) == wanted


@pytest.mark.parametrize("name", FLAGS)
@pytest.mark.parametrize(
    ("text", "value"), [*((text, True) for text in TRUE), *((text, False) for text in FALSE)]
)
def test_booleans_are_true_false_0_and_1_in_any_case(name: str, text: str, value: bool) -> None:
    assert getattr(parse_upload_options([(name, text)]), FLAGS[name]) is value


@pytest.mark.parametrize("name", FLAGS)
@pytest.mark.parametrize("text", NO_BOOLEANS)
def test_any_other_spelling_of_a_boolean_is_refused(name: str, text: str) -> None:
    assert refused((name, text)) == [name]


@given(st.integers(1, 100))
def test_every_quality_from_1_to_100_is_taken(quality: int) -> None:
    assert parse_upload_options([("quality", str(quality))]).quality == quality
    assert UploadOptions(quality=quality).quality == quality


@pytest.mark.parametrize(
    "text",
    [
        "0",
        "101",
        "-1",
        "+80",
        "080",
        "80.0",
        "8e1",
        "80%",
        "",
        " 80",
        "80 ",
        "8_0",
        "８０",
        "٨٠",
        "high",
        "1" * 5000,
    ],
)
def test_any_other_quality_is_refused(text: str) -> None:
    assert refused(("quality", text)) == ["quality"]


@pytest.mark.parametrize("value", [0, 101, -5, True, 80.0, "80", pytest.param(10**5000, id="without a text")])
def test_options_cannot_be_built_with_another_quality(value: object) -> None:
    with pytest.raises(ValidationError):
        UploadOptions(quality=value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "fmt"),
    [
        ("auto", None),
        ("jpeg", Format.JPEG),
        ("png", Format.PNG),
        ("webp", Format.WEBP),
        ("AUTO", None),
        ("WebP", Format.WEBP),
    ],
)
def test_the_formats_are_the_four_of_the_specification(text: str, fmt: Format | None) -> None:
    assert parse_upload_options([("format", text)]).format is fmt


@pytest.mark.parametrize("text", ["jpg", "gif", "avif", "", "image/png", "png ", ".png", "none", "ＰＮＧ"])
def test_any_other_format_is_refused(text: str) -> None:
    assert refused(("format", text)) == ["format"]


@pytest.mark.parametrize("value", [Format.GIF, Format.AVIF, "gif", "jpg", ""])
def test_options_cannot_be_built_with_another_format(value: Format) -> None:
    with pytest.raises(ValidationError) as caught:
        UploadOptions(format=value)
    assert caught.value.details.startswith("expected one of auto, jpeg, png, webp for format but received '")


@pytest.mark.parametrize("name", STORED_FORMATS)
def test_an_embedding_program_may_name_the_format(name: str) -> None:
    fmt = UploadOptions(format=name).format
    assert fmt is STORED_FORMATS[name]


@given(st.integers(1, MAX_ALBUM_ID))
def test_an_album_is_named_by_an_integer_or_its_text(number: int) -> None:
    assert parse_upload_options([("album_id", str(number))]).album_id == number
    assert UploadOptions(album_id=str(number)) == UploadOptions(album_id=number)


@pytest.mark.parametrize("text", ["", "0", "-1", "007", "+1", "1.0", " 1", "１", "abc", "null", str(2**63)])
def test_any_other_album_id_is_refused(text: str) -> None:
    assert refused(("album_id", text)) == ["album_id"]
    with pytest.raises(ValidationError):
        UploadOptions(album_id=text)


@pytest.mark.parametrize("value", [0, -1, 2**63, True, 1.0])
def test_options_cannot_be_built_with_another_album_id(value: object) -> None:
    with pytest.raises(ValidationError) as caught:
        UploadOptions(album_id=value)  # type: ignore[arg-type]
    assert [fault.name for fault in caught.value.errors] == ["album_id"]


@pytest.mark.parametrize("value", ["false", "0", 0, 1, "", [], 0.0])
@pytest.mark.parametrize("name", FLAGS.values())
def test_options_cannot_be_built_with_a_flag_that_is_no_boolean(name: str, value: object) -> None:
    with pytest.raises(ValidationError):
        UploadOptions(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["remove_exif", "auto_rename", "is_public"])
def test_only_the_conversion_to_webp_may_be_left_open(name: str) -> None:
    assert UploadOptions(convert_to_webp=None).convert_to_webp is None
    with pytest.raises(ValidationError):
        UploadOptions(**{name: None})  # type: ignore[arg-type]


@pytest.mark.parametrize("fmt", ["jpeg", "png"])
@pytest.mark.parametrize("text", TRUE)
def test_a_format_beside_an_explicit_conversion_to_webp_is_a_contradiction(fmt: str, text: str) -> None:
    assert refused(("format", fmt), ("convertToWebP", text)) == ["convertToWebP"]


@pytest.mark.parametrize(
    ("fmt", "convert"),
    [("webp", "true"), ("auto", "true"), ("jpeg", "false"), ("webp", "false"), ("png", "0"), ("auto", "0")],
)
def test_a_format_beside_a_conversion_that_agrees_with_it_is_taken(fmt: str, convert: str) -> None:
    options = parse_upload_options([("format", fmt), ("convertToWebP", convert)])
    assert options.convert_to_webp is (convert == "true")


@pytest.mark.parametrize("fmt", ["jpeg", "png"])
def test_a_format_alone_contradicts_no_default(fmt: str) -> None:
    assert parse_upload_options([("format", fmt)]).convert_to_webp is None


def test_a_description_may_have_2000_characters_of_any_width_and_no_more() -> None:
    for char in "x😀":
        assert parse_upload_options([("description", char * 2_000)]).description == char * MAX_DESCRIPTION
        assert refused(("description", char * 2_001)) == ["description"]


@pytest.mark.parametrize("text", ["\0", "a\0b", "\ud800", "a\udfffb"])
def test_a_description_that_no_database_can_hold_is_refused(text: str) -> None:
    assert refused(("description", text)) == ["description"]


@given(st.text(max_size=MAX_DESCRIPTION))
def test_every_description_is_kept_as_it_is_or_refused(text: str) -> None:
    if any(description_errors(text)):
        assert "\0" in text
    else:
        assert parse_upload_options([("description", text)]).description == text


def test_a_description_is_text() -> None:
    with pytest.raises(ValidationError) as caught:
        UploadOptions(description=None)  # type: ignore[arg-type]
    assert caught.value.details == "expected text for description but received None"


def test_all_faults_are_reported_together_each_once() -> None:
    fields = [
        ("quality", "0"),
        ("format", "bmp"),
        ("remove_exif", "maybe"),
        ("auto_rename", ""),
        ("is_public", "yes"),
        ("convertToWebP", "2"),
        ("album_id", "007"),
        ("description", "x" * 3_000),
    ]
    assert sorted(refused(*fields)) == sorted(name for name, _ in fields)


def test_the_contradiction_is_reported_beside_other_faults() -> None:
    assert sorted(refused(("format", "png"), ("convertToWebP", "1"), ("quality", "0"))) == [
        "convertToWebP",
        "quality",
    ]


@pytest.mark.parametrize("name", ["album_id", "description", "quality", "format", *FLAGS])
def test_a_field_that_is_given_twice_is_refused_even_with_the_same_value(name: str) -> None:
    with pytest.raises(ValidationError) as caught:
        parse_upload_options([(name, "1")] * 3)
    assert caught.value.details.count(f"expected one value for {name} but received several") == 1


@pytest.mark.parametrize(
    "name", ["name", "type", "QUALITY", "is-public", "converttowebp", "album_id[]", "", "\0"]
)
def test_unknown_fields_are_ignored_however_often_they_come(name: str) -> None:
    assert parse_upload_options([(name, "x"), (name, "y")]) == UploadOptions()


NAMES = st.sampled_from(["album_id", "description", "quality", "format", *FLAGS, "unknown"])
VALUES = st.text(max_size=8) | st.sampled_from([*TRUE, *FALSE, "1", "png", "webp", "auto", "80"])


@given(st.lists(st.tuples(NAMES, VALUES), max_size=10))
def test_any_fields_give_options_or_name_what_is_wrong_in_any_order(fields: list[tuple[str, str]]) -> None:
    def outcome(given_fields: list[tuple[str, str]]) -> object:
        try:
            return parse_upload_options(given_fields)
        except ValidationError as error:
            return {fault.name for fault in error.errors}

    names = {name for name, _ in fields}
    unique = list(dict(fields).items())
    assert outcome(unique) == outcome(unique[::-1])
    found = outcome(fields)
    assert isinstance(found, UploadOptions) or (isinstance(found, set) and found <= names)
