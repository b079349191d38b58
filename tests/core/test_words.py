"""Words of file names, descriptions and search texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.lists import split_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ()),
        ("... -- !?", ()),
        ("IMG_2034.webp", ("img", "2034", "webp")),
        ("Summer-party at O'Hare", ("summer", "party", "at", "o", "hare")),
        ("Café CRÈME brûlée", ("cafe", "creme", "brulee")),
        ("Straße", ("strasse",)),
        ("Iğdır IĞDIR İzmir", ("igdir", "igdir", "izmir")),
        ("Łódź Tromsø ÆRØ Œuvre Þórr Ħamrun", ("lodz", "tromso", "aero", "oeuvre", "thorr", "hamrun")),
        ("ΟΔΥΣΣΕΥΣ", ("οδυσσευσ",)),
        ("שָׁלוֹם مُحَمَّد أحمد", ("שלום", "محمد", "احمد")),
        ("猫の写真.webp", ("猫", "の", "写", "真", "webp")),
        ("サッカー2024", ("サ", "ッ", "カ", "ー", "2024")),
        ("한국어 사진", ("한국어", "사진")),
        ("हिन्दी", ("हिन्दी",)),
        ("full width", ("full", "width")),
        ("🐈 cat\0dog\udc80", ("🐈", "cat", "dog")),
        ("cats🐈🐈.png", ("cats", "🐈", "🐈", "png")),
        ("👍🏽 ❤️ ☕", ("👍", "❤", "☕")),
        ("👩\u200d👧 🇩🇪", ("👩", "👧", "🇩", "🇪")),
    ],
)
def test_words_are_split_at_punctuation_and_between_characters_of_writing_without_spaces(
    text: str, words: tuple[str, ...]
) -> None:
    assert split_words(text) == words


@given(st.text())
def test_words_have_no_spaces_quotes_or_other_ascii_than_letters_and_digits(text: str) -> None:
    for word in split_words(text):
        assert word
        assert all(char.isalnum() for char in word if char.isascii())


@given(st.text(), st.sampled_from([" ", "-", "_", ".", "\0", '"', "*"]), st.text())
def test_a_text_has_the_words_of_its_parts(left: str, separator: str, right: str) -> None:
    assert split_words(left + separator + right) == split_words(left) + split_words(right)


@given(st.text(st.characters(max_codepoint=0x24F)))
def test_words_do_not_depend_on_case(text: str) -> None:
    assert split_words(text.upper()) == split_words(text) == split_words(text.lower())
