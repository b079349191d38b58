"""Search for words in file names and descriptions, as the real host does it for alphabetic languages."""

from __future__ import annotations

import re
import unicodedata

from imagehost_client.testing._store import Record

MIN_PREFIX = 2
"""The minimum length of a word that also matches the beginning of a word, in characters."""


def is_found(record: Record, text: str) -> bool:
    """Return whether the file name or the description has each phrase of a search text.

    The parts of the text between spaces are phrases: `IMG_2034` is `img` followed by `2034`. The last word,
    of at least two characters, also matches the beginning of a word.
    """
    phrases = [words for part in text.split() if (words := _split(part))]
    texts = [_split(record[name]) for name in ("filename", "description")]
    return bool(phrases) and all(
        any(_has_phrase(words, phrase, is_last=phrase is phrases[-1]) for words in texts)
        for phrase in phrases
    )


def _has_phrase(words: list[str], phrase: list[str], *, is_last: bool) -> bool:
    *rest, last = phrase
    is_prefix = is_last and len(last) >= MIN_PREFIX
    for start in range(len(words) - len(rest)):
        end = words[start + len(rest)]
        if words[start : start + len(rest)] == rest and (end == last or (is_prefix and end.startswith(last))):
            return True
    return False


def _split(text: str) -> list[str]:
    """Return the words of a text, in lower case and without diacritics."""
    folded = unicodedata.normalize("NFKD", text.casefold()).replace("ı", "i")
    return re.findall(r"[^\W_]+", "".join(one for one in folded if not unicodedata.combining(one)))
