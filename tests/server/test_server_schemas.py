"""JSON bodies: malformed JSON is 400, wrong types are 422, and all errors are reported together."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.errors import BadRequestError, ValidationError
from imagehost_server.api.schemas import (
    AlbumChanges,
    ImageChanges,
    NewAlbum,
    SignedUrlRequest,
    decode,
    set_fields,
)

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
def test_any_bytes_are_a_value_400_or_422(kind: type[NewAlbum], body: bytes) -> None:
    with suppress(BadRequestError, ValidationError):
        assert isinstance(decode(kind, body), kind)


@given(values, values, values)
def test_a_body_is_accepted_exactly_if_its_types_are_right(
    name: object, description: object, is_public: object
) -> None:
    body = json.dumps({"name": name, "description": description, "is_public": is_public, "other": 1})
    members = [("name", name, str), ("description", description, str), ("is_public", is_public, bool)]
    wrong = [member for member, value, kind in members if type(value) is not kind]
    if not wrong:
        assert decode(NewAlbum, body.encode()).name == name
        return
    with pytest.raises(ValidationError) as caught:
        decode(NewAlbum, body.encode())
    assert [error.name for error in caught.value.errors] == wrong
    assert all(len(error.received) <= 62 for error in caught.value.errors)


def test_a_missing_required_member_is_an_error() -> None:
    with pytest.raises(ValidationError, match="expected text for name but received nothing"):
        decode(NewAlbum, b"{}")
    assert set_fields(decode(ImageChanges, b"{}")) == {}


def test_null_is_a_value_and_not_an_omission() -> None:
    assert set_fields(decode(ImageChanges, b'{"album_id": null}')) == {"album_id": None}
    with pytest.raises(ValidationError, match="for is_public but received null"):
        decode(ImageChanges, b'{"is_public": null}')


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a":' * 100_000])
def test_json_nested_too_deeply_is_400(body: bytes) -> None:
    with pytest.raises(BadRequestError):
        decode(NewAlbum, body)
