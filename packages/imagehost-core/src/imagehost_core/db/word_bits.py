"""A Bloom filter of the words of each image, by which a search skips most images without its words.

It is a number, and a column of the indexes that lists are read from: a search reads these indexes, and the
words of an image only if its filter has all bits of the search. Search engines call such filters signatures
(Faloutsos and Christodoulakis, "Signature files", ACM Transactions on Information Systems, 1984).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_
from zlib import crc32

from imagehost_core.models import Image
from imagehost_core.words import split_words

UNKNOWN = -1
"""The filter of an image whose words are not known, with all bits: it can have the words of any search."""
_BITS = 63
"""Bits of a filter: those of a BIGINT without its sign."""
_LENGTHS = (2, 3, 4, 6, 8)
"""Characters of the beginnings of a word that set a bit each, because searches are for beginnings too."""


def filter_of_words(words: Iterable[str]) -> int:
    """Return the bits of words. An image without one of the bits of a search lacks one of its words."""
    return reduce(or_, map(_bits, words), 0)


def filter_of_image(image: Image) -> int:
    """Return the bits of the words of an image."""
    return filter_of_words((*split_words(image.filename), *split_words(image.description)))


def _bits(word: str) -> int:
    beginnings = {word[:length] for length in _LENGTHS if length <= len(word)} or {word}
    return sum({1 << crc32(beginning.encode()) % _BITS for beginning in beginnings})
