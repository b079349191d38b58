"""Tokens are random, catch typing errors, and are shown by nothing."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from imagehost_core.errors import ForbiddenError, UnauthorizedError
from imagehost_core.ids import ALPHABET, AccountId
from imagehost_core.models import ALL_SCOPES, Account, Principal, Scope
from imagehost_core.tokens import (
    CHECKSUM_LENGTH,
    PREFIX_LENGTH,
    SECRET_LENGTH,
    TokenKind,
    checksum,
    new_token,
    parse_token,
    require_scope,
    token_hash,
)

BODIES = st.text(ALPHABET, min_size=SECRET_LENGTH, max_size=SECRET_LENGTH)
TOKENS = st.builds(
    lambda kind, body: f"{kind}{body}{checksum(kind + body)}", st.sampled_from(TokenKind), BODIES
)


def refuses(text: str) -> bool:
    """Whether a text is no token; the error must not show it."""
    with pytest.raises(UnauthorizedError) as caught:
        parse_token(text)
    shown = f"{caught.value!r}{caught.value}{caught.value.details}{caught.value.args}"
    return len(text) < 20 or text not in shown


@pytest.mark.parametrize(("kind", "prefix"), [(TokenKind.KEY, "ihk_"), (TokenKind.SESSION, "ihs_")])
def test_a_new_token_tells_its_kind_and_is_recognised(kind: TokenKind, prefix: str) -> None:
    token = new_token(kind)
    assert re.fullmatch(prefix + r"[0-9A-Za-z]{36}", token)
    assert parse_token(token) is kind


def test_a_token_has_at_least_178_random_bits() -> None:
    assert SECRET_LENGTH * math.log2(62) >= 178
    assert len({new_token(TokenKind.KEY) for _ in range(1_000)}) == 1_000


def test_a_token_comes_from_the_given_source_alone() -> None:
    assert new_token(TokenKind.KEY, bytes) == "ihk_" + "0" * 30 + checksum("ihk_" + "0" * 30)


def test_the_checksum_is_the_same_on_every_machine() -> None:
    assert new_token(TokenKind.KEY, bytes) == "ihk_00000000000000000000000000000018ew5O"


@given(st.text())
@example("")
def test_a_checksum_has_six_digits_of_base62(body: str) -> None:
    assert 62**CHECKSUM_LENGTH > 2**32
    assert len(checksum(body)) == CHECKSUM_LENGTH
    assert set(checksum(body)) <= set(ALPHABET)


@given(TOKENS)
def test_every_well_formed_token_is_recognised(token: str) -> None:
    assert parse_token(token) is TokenKind(token[:4])


@given(TOKENS, st.data())
def test_any_one_wrong_character_is_caught(token: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.sampled_from(ALPHABET + "_- \n").filter(lambda char: char != token[place]))
    assert refuses(token[:place] + other + token[place + 1 :])


def test_every_one_wrong_character_of_one_token_is_caught() -> None:
    token = new_token(TokenKind.SESSION)
    for place, right in enumerate(token):
        for char in ALPHABET.replace(right, ""):
            assert refuses(token[:place] + char + token[place + 1 :])


@given(TOKENS, st.data())
def test_two_characters_that_changed_places_are_caught(token: str, data: st.DataObject) -> None:
    one = data.draw(st.integers(0, len(token) - 2))
    other = data.draw(st.integers(one + 1, len(token) - 1))
    chars = list(token)
    chars[one], chars[other] = chars[other], chars[one]
    if "".join(chars) != token:
        assert refuses("".join(chars))


@given(TOKENS, st.data())
def test_a_token_that_is_cut_short_or_has_something_added_is_refused(token: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(token) - 1))
    assert refuses(token[:place] + token[place + 1 :])
    assert refuses(token[:place] + data.draw(st.sampled_from(["0", " ", "\n", "é"])) + token[place:])


@pytest.mark.parametrize("prefix", ["ihx_", "IHK_", "ihk-", "ghp_", "ihk"])
def test_a_foreign_prefix_is_refused_even_with_a_right_checksum(prefix: str) -> None:
    body = prefix + "0" * SECRET_LENGTH
    assert refuses(body + checksum(body))


@pytest.mark.parametrize("char", ["!", "_", "é", "０", "\n", "\0", " "])
def test_a_foreign_character_is_refused_even_with_a_right_checksum(char: str) -> None:
    body = "ihk_" + char * SECRET_LENGTH
    assert refuses(body + checksum(body))


@given(st.text())
@example("ihk_")
@example("\ud800" * 40)
@example("ihk_" + "\udfff" * 36)
@example("Bearer ihk_" + "0" * 36)
def test_any_other_text_is_refused_without_showing_it(text: str) -> None:
    assert refuses(text)


@given(TOKENS)
def test_a_token_is_kept_as_its_sha_256(token: str) -> None:
    assert re.fullmatch("[0-9a-f]{64}", token_hash(token))
    assert token_hash(token) == token_hash(str(token))


def test_the_hash_is_plain_sha_256() -> None:
    assert token_hash("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_the_part_of_a_token_that_lists_show_leaves_enough_bits_unknown() -> None:
    assert len("ihk_") + 6 == PREFIX_LENGTH
    assert (SECRET_LENGTH - 6) * math.log2(62) > 128


def principal(*scopes: Scope) -> Principal:
    account = Account(id=AccountId(1), name="admin", created_at=datetime(2026, 1, 1, tzinfo=UTC))
    return Principal(account, frozenset(scopes))


@given(st.frozensets(st.sampled_from(Scope)), st.sampled_from(Scope))
def test_a_scope_allows_what_it_names_and_nothing_else(scopes: frozenset[Scope], need: Scope) -> None:
    if need in scopes:
        require_scope(principal(*scopes), need)
    else:
        with pytest.raises(ForbiddenError):
            require_scope(principal(*scopes), need)


def test_a_token_with_all_scopes_may_do_everything() -> None:
    for need in Scope:
        require_scope(principal(*ALL_SCOPES), need)


def test_a_refusal_names_the_scope_that_is_missing_and_those_that_are_there() -> None:
    with pytest.raises(ForbiddenError) as caught:
        require_scope(principal(Scope.IMAGES_READ, Scope.ALBUMS_READ), Scope.IMAGES_WRITE)
    assert caught.value.details == (
        "expected the scope images:write for this operation "
        "but received a token with albums:read, images:read"
    )
    with pytest.raises(ForbiddenError, match="a token with none"):
        require_scope(principal(), Scope.IMAGES_READ)
