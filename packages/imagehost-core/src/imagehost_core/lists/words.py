"""Words: how file names, descriptions and search texts are split, regardless of case and diacritics.

Emoji and the characters of writing systems without spaces between words are a word each, so that a search
finds any part of their text as a sequence of words. Skin tones and variation selectors do not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from unicodedata import category, normalize

_ASCII_WORD = re.compile(r"[0-9a-z]+", re.ASCII)
_IGNORED = re.compile("[\u0300-\u036f\ufe00-\ufe0f]")
"""Diacritics and variation selectors."""
_WITHOUT_SPACES = re.compile(
    "["
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f"  # Myanmar
    "\u1780-\u17ff"  # Khmer
    "\u2e80-\u2fdf\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
    "\u3040-\u312f\u31a0-\u31bf\u31f0-\u31ff"  # Hiragana, Katakana, Bopomofo
    "]"
)
_WORD_CATEGORIES = "LMN"
"""The first letters of the general categories of letters, marks and numbers (Unicode, section 4.5)."""
_OTHER_SYMBOL = "So"
"""The general category of emoji."""


def split_words(text: str) -> tuple[str, ...]:
    """Return the words of a text, in lower case and without diacritics, in their order."""
    if text.isascii():
        return tuple(_ASCII_WORD.findall(text.lower()))
    return tuple(_split(_fold(text)))


def is_whole_word(word: str) -> bool:
    """Return whether a word is an emoji, or a character of a writing system without spaces between words."""
    return _WITHOUT_SPACES.fullmatch(word) is not None or (len(word) == 1 and category(word) == _OTHER_SYMBOL)


def _fold(text: str) -> str:
    # The capital letter of the Turkish dotless i is that of i.
    decomposed = normalize("NFKD", normalize("NFKD", text).casefold()).replace("ı", "i")
    return normalize("NFC", _IGNORED.sub("", decomposed))


def _split(text: str) -> Iterator[str]:
    word = ""
    for char in text:
        is_whole = is_whole_word(char)
        is_part = not is_whole and category(char)[0] in _WORD_CATEGORIES
        if word and not is_part:
            yield word
            word = ""
        if is_whole:
            yield char
        elif is_part:
            word += char
    if word:
        yield word
