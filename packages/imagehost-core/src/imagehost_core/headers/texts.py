"""Texts of metadata, as they are shown: one bounded line."""

from __future__ import annotations

MAX_TEXT = 200
"""The most characters of a text."""


def one_line(text: str) -> str:
    """Return a text in one line of at most `MAX_TEXT` characters, without those that cannot be printed."""
    words = "".join(character if character.isprintable() else " " for character in text).split()
    return " ".join(words)[:MAX_TEXT].strip()


def decode(raw: bytes) -> str:
    """Return a text in UTF-8, or in Latin-1 if it is none."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")
