"""The words of images: a full-text index of file names and descriptions.

Each word is stored with its account's id in front, so that a search reads the words of one account only,
however many images others have. `imagehost_core.words` splits texts. In SQLite the index is of FTS5, whose
`ascii` tokenizer separates the words at spaces and accepts every character that is not ASCII. In PostgreSQL
it has the words of an image without their order (GIN of a `tsvector`); phrases are then found in the texts.
"""

from __future__ import annotations

from collections.abc import Iterable

from imagehost_core.db.database import SqlRow, SqlValue, Transaction
from imagehost_core.db.dialect import Dialect
from imagehost_core.db.word_bits import filter_of_words
from imagehost_core.ids import AccountId
from imagehost_core.models import Image
from imagehost_core.words import is_whole_word, split_words

IMAGE_WORDS = "image_words"
"""The name of the table."""
MIN_PREFIX = 2
"""Characters of the shortest text that also matches the beginning of a word."""
MAX_LEXEME = 400
"""Characters of a word that PostgreSQL indexes; it accepts 2,046 bytes."""
_PHRASE = "phrase_"
"""The beginning of the names of parameters for the phrases of a search."""


def to_words(image: Image) -> SqlRow:
    """Return the columns of an image's row in `image_words`."""
    texts = {"filename": image.filename, "description": image.description}
    return {name: " ".join(_tokens(image.account_id, split_words(text))) for name, text in texts.items()}


def insert_words(transaction: Transaction, number: int, image: Image) -> None:
    """Insert the words of an image; `number` is that of its row in `images`."""
    transaction.insert("image_words", {"rowid": number, **_columns(transaction.dialect, image)})


def update_words(transaction: Transaction, image: Image) -> None:
    """Replace the words of an image."""
    columns = _columns(transaction.dialect, image)
    assignments = ", ".join(f"{name} = :{name}" for name in columns)
    transaction.execute(
        f"UPDATE image_words SET {assignments} "  # noqa: S608 - constants only
        "WHERE rowid = (SELECT number FROM images WHERE id = :id)",
        {"id": image.id, **columns},
    )


def delete_words(transaction: Transaction, image: Image) -> None:
    """Delete the words of an image, before its row in `images`."""
    sql = "DELETE FROM image_words WHERE rowid = (SELECT number FROM images WHERE id = :id)"
    transaction.execute(sql, {"id": image.id})


def copy_words(transaction: Transaction, columns: tuple[str, ...], rows: list[tuple[SqlValue, ...]]) -> None:
    """Insert rows of the table of another database.

    Args:
        transaction: The transaction that inserts them.
        columns: The number of the image, then the columns with words.
        rows: The values of these columns.
    """
    if transaction.dialect.has_word_vectors:
        columns = (*columns, "words")
        rows = [(*row, _vector(row[1:])) for row in rows]
    transaction.insert_rows(IMAGE_WORDS, columns, rows)


def search_values(dialect: Dialect, account_id: AccountId, text: str) -> SqlRow | None:
    """Return the parameters of a search for the images of an account that have all words of a text.

    The parts of the text between spaces are phrases: `IMG_2034` is `img` followed by `2034`. The last word
    also matches the beginning of a word.

    Returns:
        The parameters; `None` if the text has no words, so that nothing matches.
    """
    phrases = [words for part in text.split() if (words := split_words(part))]
    if not phrases:
        return None
    last = phrases[-1][-1]
    has_prefix = len(last) >= MIN_PREFIX and not is_whole_word(last)
    tokens = [_tokens(account_id, words) for words in phrases]
    if dialect.has_word_vectors:
        expression, star = " & ".join(_lexeme(token) for phrase in tokens for token in phrase), ":*"
    else:
        expression, star = " AND ".join(f'"{" ".join(phrase)}"' for phrase in tokens), " *"
    sequences = [f" {' '.join(phrase)} " for phrase in tokens]
    if has_prefix:
        expression, sequences[-1] = f"{expression}{star}", sequences[-1].rstrip(" ")
    bits = filter_of_words(word for phrase in phrases for word in phrase)
    parameters = {f"{_PHRASE}{number}": part for number, part in enumerate(sequences)}
    return {"words": expression, "word_bits": bits, **parameters}


def matching_numbers(dialect: Dialect, search: SqlRow) -> str:
    """Return the query for the numbers of images that match a search, by the index of words."""
    query = f"SELECT rowid FROM image_words WHERE {dialect.matches_words}"  # noqa: S608 - constants only
    if dialect.has_phrases:
        return query
    return f"{query} AND {_has_phrases(dialect, search, ('filename', 'description'))}"


def matches_image(dialect: Dialect, search: SqlRow) -> str:
    """Return the condition under which the row `item` of `images`, or of its indexes, matches a search.

    The words of an image are read only if its filter has the bits of the search: by a scalar subquery, which
    is evaluated image by image in the order of a list, not for all matches first.
    """
    table, number, columns = dialect.word_texts
    phrases = _has_phrases(dialect, search, columns)
    image = "SELECT number FROM images WHERE images.id = item.id"
    has_phrases = f"SELECT {phrases} FROM {table} WHERE {number} = ({image})"  # noqa: S608 - constants only
    return f"(item.word_bits & :word_bits) = :word_bits AND ({has_phrases})"


def _has_phrases(dialect: Dialect, search: SqlRow, columns: tuple[str, str]) -> str:
    """Return the condition under which one of two texts has each phrase of a search."""
    first, second = (f"' ' || {column} || ' '" for column in columns)
    names = [f":{name}" for name in search if name.startswith(_PHRASE)]
    return " AND ".join(
        f"({dialect.contains(first, name)} OR {dialect.contains(second, name)})" for name in names
    )


def _columns(dialect: Dialect, image: Image) -> SqlRow:
    """Return the columns of an image's row, with its vector if the table has one."""
    columns = to_words(image)
    if dialect.has_word_vectors:
        columns["words"] = _vector(columns.values())
    return columns


def _vector(texts: Iterable[SqlValue]) -> str:
    """Return the `tsvector` of texts, which are separated by spaces."""
    tokens = {token for text in texts for token in str(text).split(" ") if token}
    return " ".join(map(_lexeme, sorted(tokens)))


def _lexeme(token: str) -> str:
    """Return a word as a lexeme of a `tsvector` or `tsquery`."""
    quoted = token[:MAX_LEXEME].replace("\\", "\\\\").replace("'", "''")
    return f"'{quoted}'"


def _tokens(account_id: AccountId, words: tuple[str, ...]) -> tuple[str, ...]:
    # The number ends at the first `x`: no token of account 1 begins like those of account 12.
    return tuple(f"{account_id}x{word}" for word in words)
