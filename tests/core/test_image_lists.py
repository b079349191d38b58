"""Parsing of the parameters of image lists."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.errors import BadRequestError
from imagehost_core.formats import Format
from imagehost_core.lists import (
    LIST_PARAMETERS,
    ImageFilter,
    ImageListRequest,
    ImageSort,
    PageRequest,
    new_image_list_request,
)


def test_the_default_is_the_first_page_of_all_images_newest_first() -> None:
    assert new_image_list_request() == ImageListRequest()
    assert ImageListRequest().sort is ImageSort.NEWEST
    assert ImageListRequest().filters == ImageFilter()


def test_all_parameters_are_read_from_text() -> None:
    parameters: dict[str, Any] = {
        "page": "2",
        "per_page": "7",
        "album_id": "5",
        "q": "cat",
        "is_public": "False",
        "format": "PNG",
        "created_after": "2026-01-01T00:00:00Z",
        "created_before": "2026-01-02t03:04:05.5+02:00",
        "sha256": "AB" * 32,
        "sort": "-size",
    }
    assert new_image_list_request(**parameters) == ImageListRequest(
        album_id=5,  # type: ignore[arg-type]
        filters=ImageFilter(
            q="cat",
            is_public=False,
            format=Format.PNG,
            created_after=datetime(2026, 1, 1, tzinfo=UTC),
            created_before=datetime(2026, 1, 2, 3, 4, 5, 500_000, tzinfo=timezone(timedelta(hours=2))),
            sha256="ab" * 32,
        ),
        sort=ImageSort.LARGEST,
        page=PageRequest(2, 7),
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("album_id", "0"),
        ("album_id", "x"),
        ("q", "x" * 101),
        ("q", 5),
        ("q", ["cat"]),
        ("is_public", 1),
        ("is_public", ""),
        ("is_public", "yes"),
        ("format", "avif"),
        ("format", ""),
        ("format", Format.AVIF),
        ("created_after", datetime(2026, 1, 1)),
        ("created_after", "2026-01-01"),
        ("created_after", "2026-01-01T00:00:00"),
        ("created_after", "2026-W01-1T00:00:00Z"),
        ("created_before", "2026-02-30T00:00:00Z"),
        ("created_before", "2026-01-01T00:00:00 02:00"),
        ("created_before", ""),
        ("sha256", ""),
        ("sha256", "a" * 63),
        ("sha256", "g" * 64),
        ("sort", "name"),
        ("sort", "-"),
        ("sort", "--size"),
        ("sort", ""),
    ],
)
def test_a_value_that_is_not_allowed_is_rejected_with_its_name(name: str, value: Any) -> None:
    with pytest.raises(BadRequestError) as caught:
        new_image_list_request(**{name: value})
    assert [error.name for error in caught.value.errors] == [name]


def test_all_errors_are_reported_together() -> None:
    with pytest.raises(BadRequestError) as caught:
        new_image_list_request(**cast("Any", dict.fromkeys(LIST_PARAMETERS, "!" * 101)))
    assert {error.name for error in caught.value.errors} == set(LIST_PARAMETERS)


@pytest.mark.parametrize("name", LIST_PARAMETERS)
def test_a_repeated_parameter_is_rejected(name: str) -> None:
    with pytest.raises(BadRequestError, match=f"expected one value for {name} but received 2"):
        new_image_list_request(**cast("Any", {name: ("1", "1")}))


@given(st.dictionaries(st.sampled_from(LIST_PARAMETERS), st.text()))
def test_any_text_is_a_request_or_rejected(parameters: dict[str, Any]) -> None:
    with suppress(BadRequestError):
        new_image_list_request(**parameters)


def test_the_number_of_images_is_known_for_all_public_and_private_images_only() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert all(ImageFilter(is_public=flag, q=" ").has_total for flag in (None, True, False))
    others: list[dict[str, Any]] = [
        {"q": "a"},
        {"format": Format.PNG},
        {"created_after": now},
        {"created_before": now},
        {"sha256": "0" * 64},
    ]
    assert not any(ImageFilter(**fields).has_total for fields in others)
