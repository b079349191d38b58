"""Derived values, immutability and hidden secrets of models."""

from __future__ import annotations

from datetime import UTC, datetime

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.formats import FORMATS, Format
from imagehost_core.ids import AccountId, KeyId
from imagehost_core.models import ALL_SCOPES, Account, ApiKeyWithToken, Image, Page, Principal, Scope

SCOPES = "images:read images:write images:delete albums:read albums:write webhooks:manage account:read"


def test_the_scopes_are_as_documented() -> None:
    assert sorted(ALL_SCOPES) == sorted(SCOPES.split())
    assert frozenset(map(Scope, SCOPES.split())) == ALL_SCOPES


@pytest.mark.parametrize("fmt", Format)
def test_the_media_type_of_an_image_is_that_of_its_stored_format(image: Image, fmt: Format) -> None:
    assert attrs.evolve(image, format=fmt).mime_type == FORMATS[fmt].media_type


@pytest.mark.parametrize(("frames", "animated"), [(1, False), (2, True), (1_000, True)])
def test_an_image_with_more_than_one_frame_is_animated(image: Image, frames: int, animated: bool) -> None:
    assert attrs.evolve(image, frames=frames).is_animated is animated


def test_an_image_is_immutable(image: Image) -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        image.is_public = True  # type: ignore[misc]


def test_the_repr_of_a_new_key_does_not_contain_its_token() -> None:
    new = ApiKeyWithToken(
        id=KeyId("0" * 16),
        account_id=AccountId(1),
        name="laptop",
        prefix="ihk_abcdef",
        scopes=tuple(ALL_SCOPES),
        expires_at=None,
        last_used_at=None,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        revoked_at=None,
        token="ihk_abcdefSECRET",
    )
    assert new.token == "ihk_abcdefSECRET"
    assert "SECRET" not in f"{new!r}{new}"


@pytest.mark.parametrize(("key_id", "is_session"), [(None, True), (KeyId("0" * 16), False)])
def test_a_principal_without_a_key_is_a_session(key_id: KeyId | None, is_session: bool) -> None:
    account = Account(id=AccountId(1), name="admin", created_at=datetime(2026, 1, 1, tzinfo=UTC))
    assert Principal(account, ALL_SCOPES, key_id).is_session is is_session


@given(total=st.integers(0, 10**9), per_page=st.integers(1, 100))
def test_total_pages_holds_all_items_without_empty_pages(total: int, per_page: int) -> None:
    pages = Page[int](items=(), page=1, per_page=per_page, total=total, next_cursor=None).total_pages
    assert pages is not None
    assert (pages - 1) * per_page < total or pages == total == 0
    assert total <= pages * per_page


def test_a_page_is_iterable_and_has_a_length() -> None:
    page = Page(items=("a", "b"), page=2, per_page=2, total=5, next_cursor="x")
    assert list(page) == ["a", "b"]
    assert len(page) == 2
    assert page.total_pages == 3
    assert attrs.evolve(page, total=None).total_pages is None
