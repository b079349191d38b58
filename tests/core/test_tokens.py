"""Generation, parsing and hashing of tokens."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from imagehost_core.authorization import require_scope
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
    token_hash,
)

BODIES = st.text(ALPHABET, min_size=SECRET_LENGTH, max_size=SECRET_LENGTH)
TOKENS = st.builds(
    lambda kind, body: f"{kind}{body}{checksum(kind + body)}", st.sampled_from(TokenKind), BODIES
)


def is_rejected(text: str) -> bool:
    """Return whether a text is rejected as a token with an error that does not contain it."""
    with pytest.raises(UnauthorizedError) as caught:
        parse_token(text)
    error_text = f"{caught.value!r}{caught.value}{caught.value.details}{caught.value.args}"
    return len(text) < 20 or text not in error_text


@pytest.mark.parametrize(("kind", "prefix"), [(TokenKind.KEY, "ihk_"), (TokenKind.SESSION, "ihs_")])
def test_a_new_token_has_the_prefix_of_its_kind_and_is_recognised(kind: TokenKind, prefix: str) -> None:
    token = new_token(kind)
    assert re.fullmatch(prefix + r"[0-9A-Za-z]{36}", token)
    assert parse_token(token) is kind


def test_a_token_has_at_least_178_random_bits() -> None:
    assert SECRET_LENGTH * math.log2(62) >= 178
    assert len({new_token(TokenKind.KEY) for _ in range(1_000)}) == 1_000


def test_a_token_depends_on_the_random_source_only() -> None:
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
def test_any_changed_character_is_detected(token: str, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.sampled_from(ALPHABET + "_- \n").filter(lambda char: char != token[position]))
    assert is_rejected(token[:position] + other + token[position + 1 :])


def test_every_changed_character_of_a_token_is_detected() -> None:
    token = new_token(TokenKind.SESSION)
    for position, original in enumerate(token):
        for char in ALPHABET.replace(original, ""):
            assert is_rejected(token[:position] + char + token[position + 1 :])


@given(TOKENS, st.data())
def test_two_swapped_characters_are_detected(token: str, data: st.DataObject) -> None:
    one = data.draw(st.integers(0, len(token) - 2))
    other = data.draw(st.integers(one + 1, len(token) - 1))
    chars = list(token)
    chars[one], chars[other] = chars[other], chars[one]
    if "".join(chars) != token:
        assert is_rejected("".join(chars))


@given(TOKENS, st.data())
def test_a_token_with_a_missing_or_additional_character_is_rejected(token: str, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(token) - 1))
    assert is_rejected(token[:position] + token[position + 1 :])
    assert is_rejected(
        token[:position] + data.draw(st.sampled_from(["0", " ", "\n", "é"])) + token[position:]
    )


@pytest.mark.parametrize("prefix", ["ihx_", "IHK_", "ihk-", "ghp_", "ihk"])
def test_an_unknown_prefix_is_rejected_even_with_a_valid_checksum(prefix: str) -> None:
    body = prefix + "0" * SECRET_LENGTH
    assert is_rejected(body + checksum(body))


@pytest.mark.parametrize("char", ["!", "_", "é", "０", "\n", "\0", " "])
def test_an_invalid_character_is_rejected_even_with_a_valid_checksum(char: str) -> None:
    body = "ihk_" + char * SECRET_LENGTH
    assert is_rejected(body + checksum(body))


@given(st.text())
@example("ihk_")
@example("\ud800" * 40)
@example("ihk_" + "\udfff" * 36)
@example("Bearer ihk_" + "0" * 36)
def test_any_other_text_is_rejected_without_repeating_it(text: str) -> None:
    assert is_rejected(text)


@given(TOKENS)
def test_a_token_hash_is_a_hexadecimal_sha_256(token: str) -> None:
    assert re.fullmatch("[0-9a-f]{64}", token_hash(token))
    assert token_hash(token) == token_hash(str(token))


def test_the_hash_is_unsalted_sha_256() -> None:
    assert token_hash("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_at_least_128_bits_of_a_token_are_not_in_its_prefix() -> None:
    assert len("ihk_") + 6 == PREFIX_LENGTH
    assert (SECRET_LENGTH - 6) * math.log2(62) > 128


def principal(*scopes: Scope) -> Principal:
    account = Account(id=AccountId(1), name="admin", created_at=datetime(2026, 1, 1, tzinfo=UTC))
    return Principal(account, frozenset(scopes))


@given(st.frozensets(st.sampled_from(Scope)), st.sampled_from(Scope))
def test_a_scope_is_required_exactly(scopes: frozenset[Scope], required: Scope) -> None:
    if required in scopes:
        require_scope(principal(*scopes), required)
    else:
        with pytest.raises(ForbiddenError):
            require_scope(principal(*scopes), required)


def test_a_token_with_all_scopes_has_every_permission() -> None:
    for scope in Scope:
        require_scope(principal(*ALL_SCOPES), scope)


def test_the_error_names_the_missing_scope_and_the_granted_ones() -> None:
    with pytest.raises(ForbiddenError) as caught:
        require_scope(principal(Scope.IMAGES_READ, Scope.ALBUMS_READ), Scope.IMAGES_WRITE)
    assert caught.value.details == (
        "expected the scope images:write for this operation "
        "but received a token with albums:read, images:read"
    )
    with pytest.raises(ForbiddenError, match="a token with none"):
        require_scope(principal(), Scope.IMAGES_READ)
