"""Parsing and validation of upload options."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from imagehost_core.errors import ValidationError
from imagehost_core.formats import Format
from imagehost_core.ids import MAX_ALBUM_ID, AlbumId
from imagehost_core.uploads import (
    FORM_FIELDS,
    MAX_DESCRIPTION,
    STORED_FORMATS,
    UploadKeywords,
    UploadOptions,
    description_errors,
    parse_upload_options,
)

FLAGS = {
    "remove_exif": "remove_exif",
    "convertToWebP": "convert_to_webp",
    "auto_rename": "auto_rename",
    "is_public": "is_public",
    "reuse": "reuse",
}
"""The boolean form fields, and their attributes."""

TRUE = ["true", "1", "TRUE", "True", "tRuE"]
FALSE = ["false", "0", "FALSE", "False", "fALSe"]
INVALID_BOOLEANS = [
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
INVALID_BOOLEANS += ["true,false", "１", "ｔｒｕｅ", "trüe", "\0"]


def rejected_fields(*fields: tuple[str, str]) -> list[str]:
    """Return the names of the fields in the error for invalid form fields."""
    with pytest.raises(ValidationError) as caught:
        parse_upload_options(fields)
    return [error.name for error in caught.value.errors]


def test_keywords_and_form_fields_are_those_of_the_options() -> None:
    names = [attribute.name for attribute in attrs.fields(UploadOptions)]
    assert list(UploadKeywords.__annotations__) == names
    assert list(FORM_FIELDS.values()) == names


def test_without_fields_the_options_have_their_defaults() -> None:
    options = parse_upload_options([])
    assert options == UploadOptions(
        album_id=None,
        description="",
        quality=None,
        format=None,
        remove_exif=None,
        convert_to_webp=True,
        auto_rename=False,
        is_public=None,
        reuse=False,
    )


def test_every_field_is_parsed_in_any_order() -> None:
    fields = [
        ("album_id", "7"),
        ("description", "A cat"),
        ("quality", "75"),
        ("format", "png"),
        ("remove_exif", "1"),
        ("convertToWebP", "0"),
        ("auto_rename", "true"),
        ("is_public", "false"),
        ("reuse", "1"),
    ]
    expected = UploadOptions(
        album_id=AlbumId(7),
        description="A cat",
        quality=75,
        format=Format.PNG,
        remove_exif=True,
        convert_to_webp=False,
        auto_rename=True,
        is_public=False,
        reuse=True,
    )
    assert parse_upload_options(fields) == expected
    assert parse_upload_options(reversed(fields)) == expected


@pytest.mark.parametrize("name", FLAGS)
@pytest.mark.parametrize(
    ("text", "value"), [*((text, True) for text in TRUE), *((text, False) for text in FALSE)]
)
def test_booleans_are_true_false_0_and_1_in_any_case(name: str, text: str, value: bool) -> None:
    assert getattr(parse_upload_options([(name, text)]), FLAGS[name]) is value


@pytest.mark.parametrize("name", FLAGS)
@pytest.mark.parametrize("text", INVALID_BOOLEANS)
def test_any_other_spelling_of_a_boolean_is_rejected(name: str, text: str) -> None:
    assert rejected_fields((name, text)) == [name]


@given(st.integers(1, 100))
def test_every_quality_from_1_to_100_is_accepted(quality: int) -> None:
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
        " 80",
        "80 ",
        "8_0",
        "８０",
        "٨٠",
        "high",
        "1" * 5000,
    ],
)
def test_any_other_quality_is_rejected(text: str) -> None:
    assert rejected_fields(("quality", text)) == ["quality"]


@pytest.mark.parametrize(
    "value", [0, 101, -5, True, 80.0, "80", pytest.param(10**5000, id="too long for str()")]
)
def test_options_with_an_invalid_quality_cannot_be_constructed(value: object) -> None:
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
def test_format_accepts_auto_jpeg_png_and_webp_in_any_case(text: str, fmt: Format | None) -> None:
    assert parse_upload_options([("format", text)]).format is fmt


@pytest.mark.parametrize("text", ["jpe", "gif", "avif", "image/png", "png ", ".png", "none", "ＰＮＧ"])
def test_any_other_format_is_rejected(text: str) -> None:
    assert rejected_fields(("format", text)) == ["format"]


@pytest.mark.parametrize("value", [Format.GIF, Format.AVIF, "gif", "jpe", ""])
def test_options_with_an_invalid_format_cannot_be_constructed(value: Format) -> None:
    with pytest.raises(ValidationError) as caught:
        UploadOptions(format=value)
    assert caught.value.details.startswith(
        "expected one of auto, jpeg, png, webp, jpg for format but received '"
    )


@pytest.mark.parametrize("name", STORED_FORMATS)
def test_options_accept_the_name_of_a_format(name: str) -> None:
    fmt = UploadOptions(format=name).format
    assert fmt is STORED_FORMATS[name]
    assert UploadOptions(format=name.upper()) == UploadOptions(format=name)


@given(st.integers(1, MAX_ALBUM_ID))
def test_an_album_id_is_an_integer_or_its_decimal_text(number: int) -> None:
    assert parse_upload_options([("album_id", str(number))]).album_id == number
    assert UploadOptions(album_id=str(number)) == UploadOptions(album_id=number)


@pytest.mark.parametrize("text", [" ", "0", "-1", "007", "+1", "1.0", " 1", "１", "abc", "null", str(2**63)])
def test_any_other_album_id_is_rejected(text: str) -> None:
    assert rejected_fields(("album_id", text)) == ["album_id"]
    with pytest.raises(ValidationError):
        UploadOptions(album_id=text)


@pytest.mark.parametrize("value", [0, -1, 2**63, True, 1.0])
def test_options_with_an_invalid_album_id_cannot_be_constructed(value: object) -> None:
    with pytest.raises(ValidationError) as caught:
        UploadOptions(album_id=value)  # type: ignore[arg-type]
    assert [error.name for error in caught.value.errors] == ["album_id"]


@pytest.mark.parametrize("value", ["false", "0", 0, 1, "", [], 0.0, None])
@pytest.mark.parametrize("name", FLAGS.values())
def test_options_with_a_flag_that_is_not_a_bool_cannot_be_constructed(name: str, value: object) -> None:
    if value is None and name in ("remove_exif", "is_public"):
        return  # the default of the host, or by the album
    with pytest.raises(ValidationError):
        UploadOptions(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("convert", [*TRUE, *FALSE])
@pytest.mark.parametrize("fmt", ["jpeg", "PNG", "webp", "auto"])
def test_a_format_is_accepted_beside_any_conversion(fmt: str, convert: str) -> None:
    options = parse_upload_options([("format", fmt), ("convertToWebP", convert)])
    assert options == UploadOptions(format=fmt, convert_to_webp=convert in TRUE)


@pytest.mark.parametrize("name", FORM_FIELDS)
def test_an_empty_field_counts_as_absent(name: str) -> None:
    assert parse_upload_options([(name, "")]) == UploadOptions()
    assert parse_upload_options([(name, ""), (name, "")]) == UploadOptions()
    assert parse_upload_options([("quality", "7"), ("quality", "")]).quality == 7


def test_a_description_has_at_most_2000_characters_of_any_width() -> None:
    for char in "x😀":
        assert parse_upload_options([("description", char * 2_000)]).description == char * MAX_DESCRIPTION
        assert rejected_fields(("description", char * 2_001)) == ["description"]


@pytest.mark.parametrize("text", ["\0", "a\0b", "\ud800", "a\udfffb"])
def test_a_description_that_a_database_cannot_store_is_rejected(text: str) -> None:
    assert rejected_fields(("description", text)) == ["description"]


@given(st.text(max_size=MAX_DESCRIPTION))
def test_every_description_is_kept_unchanged_or_rejected(text: str) -> None:
    if any(description_errors(text)):
        assert "\0" in text
    else:
        assert parse_upload_options([("description", text)]).description == text


def test_a_description_must_be_text() -> None:
    with pytest.raises(ValidationError) as caught:
        UploadOptions(description=None)  # type: ignore[arg-type]
    assert caught.value.details == "expected text for description but received None"


def test_all_errors_are_reported_together() -> None:
    fields = [
        ("quality", "0"),
        ("format", "bmp"),
        ("remove_exif", "maybe"),
        ("auto_rename", "-"),
        ("is_public", "yes"),
        ("convertToWebP", "2"),
        ("album_id", "007"),
        ("description", "x" * 3_000),
    ]
    assert sorted(rejected_fields(*fields)) == sorted(name for name, _ in fields)


@pytest.mark.parametrize("name", ["album_id", "description", "quality", "format", *FLAGS])
def test_a_repeated_field_is_rejected_even_with_the_same_value(name: str) -> None:
    with pytest.raises(ValidationError) as caught:
        parse_upload_options([(name, "1")] * 3)
    assert caught.value.details.count(f"expected one value for {name} but received several") == 1


@pytest.mark.parametrize(
    "name", ["name", "type", "qualities", "public", "permission", "album_id[]", "files[]", "", "\0", "_"]
)
def test_unknown_fields_are_ignored_even_if_repeated(name: str) -> None:
    assert parse_upload_options([(name, "x"), (name, "y")]) == UploadOptions()


@given(st.sampled_from([*FORM_FIELDS]), st.data())
def test_a_name_that_differs_by_case_underscores_or_hyphens_is_rejected(
    name: str, data: st.DataObject
) -> None:
    letters = [data.draw(st.sampled_from([each, each.upper(), each.lower()])) for each in name if each != "_"]
    gaps = data.draw(
        st.lists(st.sampled_from(["", "", "_", "-"]), min_size=len(letters), max_size=len(letters))
    )
    written = "".join(f"{gap}{letter}" for gap, letter in zip(gaps, letters, strict=True))
    assume(written != name)
    with pytest.raises(ValidationError) as caught:
        parse_upload_options([(written, "x"), (f"{written}2", "x")])
    (error,) = caught.value.errors
    assert (error.name, error.expected, error.received) == (name, "exactly this name", repr(written))
    assert parse_upload_options([(written, "")]) == UploadOptions()


def test_errors_of_a_field_with_another_name_name_both() -> None:
    aliases = {"permission": "is_public"}
    assert parse_upload_options([("permission", "0")], aliases) == UploadOptions(is_public=False)
    for fields, expected in (
        ([("permission", "0"), ("is_public", "0")], "one value for is_public and permission"),
        ([("permission", "7")], "one of true, 1, false, 0 for permission (is_public)"),
        ([("Permission", "0")], "exactly this name for permission"),
        ([("permission", "0")] * 2, "one value for permission"),
    ):
        with pytest.raises(ValidationError) as caught:
            parse_upload_options(fields, aliases)
        assert caught.value.details.startswith(f"expected {expected} but received ")


NAMES = st.sampled_from(["album_id", "description", "quality", "format", *FLAGS, "unknown"])
VALUES = st.text(max_size=8) | st.sampled_from([*TRUE, *FALSE, "1", "png", "webp", "auto", "80"])


@given(st.lists(st.tuples(NAMES, VALUES), max_size=10))
def test_any_fields_are_parsed_or_rejected_regardless_of_their_order(fields: list[tuple[str, str]]) -> None:
    def parse(fields: list[tuple[str, str]]) -> object:
        try:
            return parse_upload_options(fields)
        except ValidationError as error:
            return {field_error.name for field_error in error.errors}

    names = {name for name, _ in fields}
    unique = list(dict(fields).items())
    assert parse(unique) == parse(unique[::-1])
    result = parse(fields)
    assert isinstance(result, UploadOptions) or (isinstance(result, set) and result <= names)
