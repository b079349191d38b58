"""JSON bodies: malformed JSON is 400, wrong types are 422, and all errors are reported together."""

from __future__ import annotations

import json
import re
from contextlib import suppress

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import fields

from imagehost_core.errors import BadRequestError, FieldError, ValidationError
from imagehost_server.routes.accounts import AccountChanges
from imagehost_server.routes.albums import AlbumChanges, NewAlbum
from imagehost_server.routes.body import JsonBody, decode, set_fields
from imagehost_server.routes.images import ImageChanges, SignedUrlRequest, SignedUrlsRequest

KINDS = [NewAlbum, ImageChanges, AlbumChanges, SignedUrlRequest]
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=90),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(KINDS), st.binary(max_size=60))
def test_any_bytes_are_a_value_400_or_422(kind: type[NewAlbum], data: bytes) -> None:
    with suppress(BadRequestError, ValidationError):
        assert isinstance(decode(kind, data), kind)


KNOWN = {kind: [info.encode_name for info in fields(kind)] for kind in JsonBody.__subclasses__()}


@given(st.sampled_from([(kind, name) for kind, names in KNOWN.items() for name in names]), st.data())
def test_a_name_that_differs_by_case_underscores_or_hyphens_is_rejected_in_every_body(
    known: tuple[type[JsonBody], str], data: st.DataObject
) -> None:
    kind, name = known
    change = data.draw(
        st.sampled_from([str.upper, str.title, lambda text: text.replace("_", "-"), "_{}".format])
    )
    written = change(name)
    assume(written not in KNOWN[kind])
    value = data.draw(values)
    with pytest.raises(ValidationError) as caught:
        decode(kind, json.dumps({written: value, "unknown": value}).encode())
    expected = FieldError(name, "exactly this name", repr(written))
    assert expected in caught.value.errors
    assert "unknown" not in caught.value.details


def test_misspelled_names_are_rejected_in_nested_objects_too() -> None:
    for kind, tree, name in (
        (SignedUrlsRequest, {"items": [{"image_id": "x"}, {"image_id": "y", "W": 5}]}, "items[1].w"),
        (AccountChanges, {"limits": {"Api_Per_Minute": 5}}, "limits.api_per_minute"),
    ):
        with pytest.raises(ValidationError, match=re.escape(f"exactly this name for {name} but")):
            decode(kind, json.dumps(tree).encode())


@given(st.sampled_from(["", "a", "\U0001f600", "\\\\", '\\"']), st.integers(0xD800, 0xDFFF))
def test_a_lone_surrogate_is_named(before: str, surrogate: int) -> None:
    for text in (f'{{"name": "{before}\\u{surrogate:04x}x"}}', f'{{"{before}\\u{surrogate:04X}": 5}}'):
        with pytest.raises(BadRequestError) as caught:
            decode(NewAlbum, text.encode())
        assert caught.value.details == (
            f"expected text without lone surrogates for the body but received the escape \\u{surrogate:04x}"
        )
    for text in ('{"name": "\\\\ud800"', '{"name": "\\ud83d\\ude00"', '{"name": "\\ud800"'):
        with pytest.raises(BadRequestError, match="expected JSON for the body"):
            decode(NewAlbum, text.encode())


@given(values, values, values)
def test_a_body_is_accepted_exactly_if_its_types_are_right(
    name: object, description: object, is_public: object
) -> None:
    data = json.dumps({"name": name, "description": description, "is_public": is_public, "other": 1})
    members = [("name", name, str), ("description", description, str)]
    wrong = [member for member, value, kind in members if type(value) is not kind]
    if not isinstance(is_public, int) or is_public not in (0, 1):
        wrong.append("is_public")
    if not wrong:
        assert decode(NewAlbum, data.encode()).name == name
        return
    with pytest.raises(ValidationError) as caught:
        decode(NewAlbum, data.encode())
    assert [error.name for error in caught.value.errors] == wrong
    assert all(len(error.received) <= 62 for error in caught.value.errors)


def test_a_missing_required_member_is_an_error() -> None:
    with pytest.raises(ValidationError, match="expected text for name but received nothing"):
        decode(NewAlbum, b"{}")
    assert set_fields(decode(ImageChanges, b"{}")) == {}


@pytest.mark.parametrize(("text", "value"), [("true", True), ("false", False), ("1", True), ("0", False)])
def test_booleans_are_true_false_0_and_1(text: str, value: bool) -> None:
    assert decode(NewAlbum, f'{{"name": "", "is_public": {text}}}'.encode()).is_public is value
    assert decode(AlbumChanges, f'{{"is_public": {text}}}'.encode()).is_public is value


@pytest.mark.parametrize("text", ["2", "-1", "1.0", "0.0", '"1"', '"true"', "null", "[]", "1e0"])
def test_any_other_boolean_is_rejected(text: str) -> None:
    for kind in (NewAlbum, ImageChanges, AlbumChanges):
        with pytest.raises(ValidationError, match="expected true, false, 0 or 1 for is_public"):
            decode(kind, f'{{"name": "", "is_public": {text}}}'.encode())


def test_null_is_a_value_and_not_an_omission() -> None:
    assert set_fields(decode(ImageChanges, b'{"album_id": null}')) == {"album_id": None}
    with pytest.raises(ValidationError, match="for is_public but received null"):
        decode(ImageChanges, b'{"is_public": null}')


@pytest.mark.parametrize("data", [b"[" * 100_000, b'{"a":' * 100_000])
def test_json_nested_too_deeply_is_400(data: bytes) -> None:
    with pytest.raises(BadRequestError):
        decode(NewAlbum, data)
