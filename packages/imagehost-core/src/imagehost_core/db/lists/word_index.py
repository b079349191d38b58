"""The words of images: a full-text index of file names and descriptions.

Each word is stored with its account's id in front, so that a search reads the words of one account only,
however many images others have, and each word of a public image once more for the gallery, so that its
searches read no words of private images. `imagehost_core.lists` splits texts. In SQLite the index is of FTS5,
whose `ascii` tokenizer separates the words at spaces and accepts every character that is not ASCII. In
PostgreSQL it has the words of an image without their order (GIN of a `tsvector`); phrases are then found in
the texts.
"""

from __future__ import annotations

from attrs import frozen

from imagehost_core.db.engines.database import SqlRow, Transaction
from imagehost_core.db.engines.dialect import Dialect
from imagehost_core.ids import AccountId
from imagehost_core.lists import is_whole_word, split_words
from imagehost_core.models import Image

PUBLIC = AccountId(0)
"""The account whose words are those of the public images of all accounts."""
MIN_PREFIX = 2
"""Characters of the shortest text that also matches the beginning of a word."""
MAX_WORD = 400
"""Characters of a word that are indexed; PostgreSQL accepts 2,046 bytes."""
_TEXTS = tuple(f"' ' || image_words.{name} || ' '" for name in ("filename", "description"))


def to_words(image: Image) -> SqlRow:
    """Return the columns of an image's row in `image_words`."""
    texts = {"filename": image.filename, "description": image.description}
    accounts = (image.account_id, PUBLIC) if image.is_public else (image.account_id,)
    return {
        name: " ".join(token for account in accounts for token in _tokens(account, split_words(text)))
        for name, text in texts.items()
    }


def insert_words(transaction: Transaction, number: int, image: Image) -> None:
    """Insert the words of an image; `number` is that of its row in `images`."""
    transaction.insert("image_words", {"rowid": number, **to_words(image)})


def update_words(transaction: Transaction, image: Image) -> None:
    """Replace the words of an image."""
    columns = to_words(image)
    assignments = ", ".join(f"{name} = :{name}" for name in columns)
    transaction.execute(
        f"UPDATE image_words SET {assignments} "  # noqa: S608 - constants only
        "WHERE rowid = (SELECT number FROM images WHERE id = :id)",
        {"id": image.id, **columns},
    )


def publish_words(
    transaction: Transaction, account_id: AccountId, image_ids: str, *, is_public: bool
) -> None:
    """Add the words of images for the gallery, or remove them.

    Args:
        transaction: The transaction that makes the images public or private.
        account_id: The account that owns them.
        image_ids: Their ids, as a JSON array.
        is_public: Whether they become public.
    """
    assignments = []
    for name in ("filename", "description"):
        # Those of the account are first, and each token begins behind a space.
        own = words = transaction.dialect.before(name, f"' {PUBLIC}x'")
        if is_public:
            words = f"trim({own} || replace(' ' || {own}, ' {account_id}x', ' {PUBLIC}x'))"
        assignments.append(f"{name} = {words}")
    transaction.execute(
        f"UPDATE image_words SET {', '.join(assignments)} WHERE rowid IN "  # noqa: S608 - constants, an integer
        f"(SELECT number FROM images WHERE id IN {transaction.dialect.texts('ids')})",
        {"ids": image_ids},
    )


def delete_words(transaction: Transaction, image: Image) -> None:
    """Delete the words of an image, before its row in `images`."""
    sql = "DELETE FROM image_words WHERE rowid = (SELECT number FROM images WHERE id = :id)"
    transaction.execute(sql, {"id": image.id})


@frozen
class WordSearch:
    """A search for the images of an account, or the public ones, that have all words of a text.

    Attributes:
        indexed: The condition of rows of `image_words` that is answered by the index.
        by_text: The condition that reads the texts of a row.
        values: The parameters of both.
    """

    indexed: str
    by_text: str
    values: SqlRow


def parse_search(dialect: Dialect, account_id: AccountId, text: str) -> WordSearch | None:
    """Return the search for a text.

    The parts of the text between spaces are phrases: `IMG_2034` is `img` followed by `2034`. The last word
    also matches the beginning of a word.

    Returns:
        The search; `None` if the text has no words, so that nothing matches.
    """
    parts = [words for part in text.split() if (words := split_words(part))]
    if not parts:
        return None
    last = parts[-1][-1]
    has_prefix = len(last) >= MIN_PREFIX and not is_whole_word(last)
    phrases = [" ".join(_tokens(account_id, words)) for words in parts]
    texts = [f" {phrase} " for phrase in phrases]
    if has_prefix:
        texts[-1] = texts[-1].rstrip(" ")
    values: SqlRow = {f"phrase_{number}": text for number, text in enumerate(texts)}
    by_text = " AND ".join(
        f"({' OR '.join(dialect.contains(column, f':{name}') for column in _TEXTS)})" for name in values
    )
    if dialect.has_fts5:
        values["words"] = " AND ".join(f'"{phrase}"' for phrase in phrases) + " *" * has_prefix
        return WordSearch("image_words MATCH :words", by_text, values)
    lexemes = (f"'{token}'" for phrase in phrases for token in phrase.split(" "))
    values["words"] = " & ".join(lexemes) + ":*" * has_prefix
    return WordSearch(f"words @@ CAST(:words AS tsquery) AND {by_text}", by_text, values)


def _tokens(account_id: AccountId, words: tuple[str, ...]) -> tuple[str, ...]:
    # The number ends at the first `x`: no token of account 1 begins like those of account 12.
    return tuple(f"{account_id}x{word[:MAX_WORD]}" for word in words)
