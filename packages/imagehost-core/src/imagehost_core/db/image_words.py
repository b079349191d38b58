"""The words of images: a full-text index (SQLite FTS5) of file names and descriptions.

Each word is stored with its account's id in front, so that a search reads the words of one account only,
however many images others have. `imagehost_core.words` splits texts; FTS5's `ascii` tokenizer separates
the words at spaces and accepts every character that is not ASCII.
"""

from __future__ import annotations

from imagehost_core.db.database import SqlRow, Transaction
from imagehost_core.ids import AccountId
from imagehost_core.models import Image
from imagehost_core.words import is_whole_word, split_words

MIN_PREFIX = 2
"""Characters of the shortest text that also matches the beginning of a word."""


def to_words(image: Image) -> SqlRow:
    """Return the columns of an image's row in `image_words`."""
    texts = {"filename": image.filename, "description": image.description}
    return {name: " ".join(_tokens(image.account_id, split_words(text))) for name, text in texts.items()}


def insert_words(transaction: Transaction, number: int, image: Image) -> None:
    """Insert the words of an image; `number` is that of its row in `images`."""
    transaction.insert("image_words", {"rowid": number, **to_words(image)})


def update_words(transaction: Transaction, image: Image) -> None:
    """Replace the words of an image."""
    transaction.execute(
        "UPDATE image_words SET filename = :filename, description = :description "
        "WHERE rowid = (SELECT number FROM images WHERE id = :id)",
        {"id": image.id, **to_words(image)},
    )


def delete_words(transaction: Transaction, image: Image) -> None:
    """Delete the words of an image, before its row in `images`."""
    sql = "DELETE FROM image_words WHERE rowid = (SELECT number FROM images WHERE id = :id)"
    transaction.execute(sql, {"id": image.id})


def match_expression(account_id: AccountId, text: str) -> str | None:
    """Return the FTS5 expression for the images of an account that have all words of a text.

    The parts of the text between spaces are phrases: `IMG_2034` is `img` followed by `2034`. The last word
    also matches the beginning of a word.

    Returns:
        The expression; `None` if the text has no words, so that nothing matches.
    """
    phrases = [words for part in text.split() if (words := split_words(part))]
    if not phrases:
        return None
    expression = " AND ".join(f'"{" ".join(_tokens(account_id, words))}"' for words in phrases)
    last = phrases[-1][-1]
    return expression if len(last) < MIN_PREFIX or is_whole_word(last) else f"{expression} *"


def _tokens(account_id: AccountId, words: tuple[str, ...]) -> tuple[str, ...]:
    # The number ends at the first `x`: no token of account 1 begins like those of account 12.
    return tuple(f"{account_id}x{word}" for word in words)
