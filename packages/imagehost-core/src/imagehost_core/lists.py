"""Lists: page requests and cursors; the filters and the order of lists of images, and their words."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from datetime import datetime
from enum import StrEnum
from operator import attrgetter
from typing import Any, Literal, TypedDict, Unpack
from unicodedata import category, normalize

import attrs
from attrs import field, frozen

from imagehost_core._util.clock import to_micros
from imagehost_core._util.fields import (
    is_within,
    parse_choice,
    parse_int_field,
    range_error,
    require_known,
)
from imagehost_core.errors import BadRequestError, FieldError, ValidationError, quote_value
from imagehost_core.formats import MASTERS, Format
from imagehost_core.ids import AlbumId, parse_album_id
from imagehost_core.uploads import BOOLEANS

# Page requests: by page number, or by a cursor.
#
# A cursor encodes the sort position of the last item of a page, so that the next page neither skips nor
# repeats items while others are added or deleted. It belongs to one list: its filters, its order and its
# account.

DEFAULT_PER_PAGE = 20
MAX_PER_PAGE = 100
MAX_PAGE = 2**31 - 1


@frozen
class CursorPosition:
    """The sort position of an item in a list that is sorted by a column, then by id.

    Attributes:
        list_id: A hash of what selects and sorts the list's items: 12 hexadecimal digits.
        key: The value of the column that the list is sorted by.
        id: The item's id.
    """

    list_id: str
    key: int | str
    id: str


@frozen
class PageRequest:
    """A validated request for a page of a list.

    Attributes:
        page: The page number, from 1; 1 where `after` is given.
        per_page: The maximum number of items, 1–100.
        after: The position after which the page begins.

    Raises:
        BadRequestError: Values are out of range, or `page` and `after` are both given; every one is listed in
            `errors`.
    """

    page: int = 1
    per_page: int = DEFAULT_PER_PAGE
    after: CursorPosition | None = None

    def __attrs_post_init__(self) -> None:
        ranges = (("page", self.page, MAX_PAGE), ("per_page", self.per_page, MAX_PER_PAGE))
        errors = [
            range_error(name, maximum, value)
            for name, value, maximum in ranges
            if not is_within(value, maximum)
        ]
        if self.after is not None and self.page != 1:
            errors.append(_page_with_cursor_error(self.page))
        if errors:
            raise BadRequestError(errors=errors)

    @property
    def offset(self) -> int:
        """The number of items before the page."""
        return (self.page - 1) * self.per_page


class PageKeywords(TypedDict, total=False):
    """The page of a list as keywords, with the names of its query parameters.

    Without them, the page has the first 20 items.
    """

    page: int | str | None
    per_page: int | str | None
    cursor: str | None


def parse_page_request(
    page: str | int | None = None, per_page: str | int | None = None, cursor: str | None = None
) -> PageRequest:
    """Return the page request of a list's query parameters.

    Args:
        page: The page number, an integer or its canonical decimal text.
        per_page: The maximum number of items, likewise.
        cursor: The `next_cursor` of the previous page; excludes `page`.

    Raises:
        BadRequestError: Values are malformed or out of range, or there are a page number and a cursor; every
            one is listed in `errors`.
    """
    errors: list[FieldError] = []
    number = 1 if page is None else parse_int_field("page", page, MAX_PAGE, errors)
    count = (
        DEFAULT_PER_PAGE if per_page is None else parse_int_field("per_page", per_page, MAX_PER_PAGE, errors)
    )
    after = None if cursor is None else _parse_cursor(cursor, errors)
    if page is not None and number is not None and cursor is not None:
        errors.append(_page_with_cursor_error(page))
    if errors or number is None or count is None:
        raise BadRequestError(errors=errors)
    return PageRequest(number, count, after)


def _page_with_cursor_error(page: str | int) -> FieldError:
    return FieldError("page", "no page number together with a cursor", quote_value(page))


def encode_cursor(position: CursorPosition) -> str:
    """Return the cursor of a position, which `parse_page_request` reads."""
    key = str(position.key) if isinstance(position.key, int) else f'"{position.key}'
    text = f"{position.list_id}.{position.id}.{key}"
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


def cursor_errors(list_id: str, request: PageRequest) -> tuple[FieldError, ...]:
    """Return the error of a cursor that belongs to another list than that of the request."""
    if request.after is None or request.after.list_id == list_id:
        return ()
    received = quote_value(encode_cursor(request.after))
    return (FieldError("cursor", "a next_cursor of this list, with the same filters and sort,", received),)


def require_cursor_of(list_id: str, request: PageRequest) -> None:
    """Raise BadRequestError if the cursor of a request belongs to another list."""
    errors = cursor_errors(list_id, request)
    if errors:
        raise BadRequestError(errors=errors)


_CURSOR = re.compile(
    r"""
    (?P<list_id>[0-9a-f]{12}) \. (?P<id>[0-9A-Za-z_]{1,40}) \.
    (?: (?P<number>-?[0-9]{1,18}) | "(?P<text>[^\0]{0,1000}) )
    """,
    re.ASCII | re.VERBOSE,
)


def _parse_cursor(cursor: str, errors: list[FieldError]) -> CursorPosition | None:
    try:
        text = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except ValueError:
        text = ""
    match = _CURSOR.fullmatch(text)
    position = None
    if match is not None:
        key = match["text"] if match["number"] is None else int(match["number"])
        position = CursorPosition(match["list_id"], key, match["id"])
    # Base64 can encode one position in several ways; only the encoding of `encode_cursor` is accepted.
    if position is None or encode_cursor(position) != cursor:
        errors.append(FieldError("cursor", "a next_cursor of this list", quote_value(cursor)))
        return None
    return position


# Words: how file names, descriptions and search texts are split, regardless of case and diacritics.
#
# Emoji and the characters of writing systems without spaces between words are a word each, so that a
# search finds any part of their text as a sequence of words. Skin tones and variation selectors do not
# count. A change here needs a migration of the index, as `imagehost_core.db.schema` has one for FOLDED.

_ASCII_WORD = re.compile(r"[0-9a-z]+", re.ASCII)
MARKS = (
    "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"  # Hebrew points and accents
    "\u0640\u064b-\u065f\u0670"  # Arabic elongation, vowel signs and hamza above or below a letter
)
"""Ranges of characters that are optional in writing, beside the diacritics of European scripts."""
_IGNORED = re.compile(f"[\u0300-\u036f\ufe00-\ufe0f{MARKS}]")
"""Diacritics and variation selectors."""
FOLDED = {
    "ø": "o",
    "ł": "l",
    "đ": "d",
    "ħ": "h",
    "æ": "ae",
    "œ": "oe",
    "þ": "th",
    "ð": "d",
    "ı": "i",
}
"""What people type for letters that have no decomposition; casefolding replaces ß by ss."""
_FOLDED = str.maketrans(FOLDED)
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
    decomposed = normalize("NFKD", normalize("NFKD", text).casefold())
    return normalize("NFC", _IGNORED.sub("", decomposed).translate(_FOLDED))


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


# Lists of images: the filters and the order that a request can choose.
#
# `new_image_list_request` reads them, together with the page, and reports all errors at once.

MAX_SEARCH = 100
"""Characters of a search text."""
STORED: dict[str, Format] = {**{fmt.value: fmt for fmt in MASTERS}, "jpg": Format.JPEG}
"""The formats that images are stored in, by name."""


class ImageSort(StrEnum):
    """The order of a list of images; those with equal values are sorted by id, in the same direction.

    Images without a time at which they were taken are the last in both orders of it.
    """

    OLDEST = "created_at"
    NEWEST = "-created_at"
    FILENAME = "filename"
    FILENAME_DESCENDING = "-filename"
    SMALLEST = "size"
    LARGEST = "-size"
    TAKEN_FIRST = "taken_at"
    TAKEN_LAST = "-taken_at"

    @property
    def field(self) -> str:
        """The member of the record that the list is sorted by."""
        return self.value.removeprefix("-")

    @property
    def column(self) -> str:
        """The column of `images` that the list is sorted by; it has a value for every image."""
        return {"taken_at": "taken_ascending", "-taken_at": "taken_descending"}.get(self.value, self.field)

    @property
    def is_descending(self) -> bool:
        """Whether the largest value comes first."""
        return self.value.startswith("-")


@frozen
class FilterRule:
    """What a filter of a list of images does. The attributes of `ImageFilter` have one each.

    Attributes:
        parse: Returns the value of a keyword, which may be text, or appends an error.
        condition: The column of `images` and the operator that compares it with the value; empty for the
            search and the uploaded bytes.
        to_sql: Converts a value to that of the database.
        is_counted: Whether the images that meet it are counted, so that the list has a total.
        is_given: Whether a value selects images.
    """

    parse: Callable[[str, object, list[FieldError]], object]
    condition: str
    to_sql: Callable[[Any], str | int]
    is_counted: bool = False
    is_given: Callable[[Any], bool] = lambda value: value is not None


def _parse_search(name: str, value: object, errors: list[FieldError]) -> object:
    if not isinstance(value, str):
        errors.append(FieldError(name, "text", quote_value(value)))
    elif len(value) > MAX_SEARCH:
        errors.append(FieldError(name, f"at most {MAX_SEARCH} characters", f"{len(value)}"))
    return value


def _parse_boolean(name: str, value: object, errors: list[FieldError]) -> bool | None:
    return value if isinstance(value, bool) else parse_choice(name, value, BOOLEANS, errors, ignore_case=True)


def _parse_format(name: str, value: object, errors: list[FieldError]) -> Format | None:
    return parse_choice(name, value, STORED, errors, ignore_case=True)


_TIMESTAMP = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})",
    re.ASCII,
)
"""RFC 3339, section 5.6."""


def _parse_time(name: str, value: object, errors: list[FieldError]) -> datetime | None:
    try:
        if isinstance(value, str) and _TIMESTAMP.fullmatch(value):
            return datetime.fromisoformat(value.upper())
    except ValueError:
        pass
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value
    errors.append(FieldError(name, "a time by RFC 3339, such as 2026-01-31T12:00:00Z,", quote_value(value)))
    return None


def _parse_sha256(name: str, value: object, errors: list[FieldError]) -> str | None:
    text = value.lower() if isinstance(value, str) else ""
    if re.fullmatch("[0-9a-f]{64}", text, re.ASCII):
        return text
    errors.append(FieldError(name, "64 hexadecimal digits", quote_value(value)))
    return None


def _rule(*values: Any, **names: Any) -> dict[str, FilterRule]:
    return {"rule": FilterRule(*values, **names)}


@frozen(kw_only=True)
class ImageFilter:
    """The conditions of a list of images; an image is listed if it meets all of them.

    Attributes:
        q: Words that its filename or description has, up to 100 characters; blank for any image.
        is_public: Whether it is public; `None` for both.
        format: Its stored format; `None` for any.
        created_after: A time before its upload, with a time zone; `None` for any.
        created_before: A time after its upload, with a time zone; `None` for any.
        sha256: The SHA-256 of the bytes that were uploaded, 64 hexadecimal digits; `None` for any.
    """

    q: str = field(
        default="", metadata=_rule(_parse_search, "", str, is_given=lambda text: bool(text.strip()))
    )
    is_public: bool | None = field(
        default=None, metadata=_rule(_parse_boolean, "is_public =", int, is_counted=True)
    )
    format: Format | None = field(
        default=None, metadata=_rule(_parse_format, "format =", attrgetter("value"))
    )
    created_after: datetime | None = field(
        default=None, metadata=_rule(_parse_time, "created_at >", to_micros)
    )
    created_before: datetime | None = field(
        default=None, metadata=_rule(_parse_time, "created_at <", to_micros)
    )
    sha256: str | None = field(default=None, metadata=_rule(_parse_sha256, "", str))

    @property
    def given(self) -> dict[str, str | int]:
        """The value of each filter that selects images, as the database has it, by name."""
        return {
            name: rule.to_sql(value)
            for name, rule in FILTER_RULES.items()
            if rule.is_given(value := getattr(self, name))
        }

    @property
    def has_search(self) -> bool:
        """Whether images are searched by words."""
        return "q" in self.given

    @property
    def has_total(self) -> bool:
        """Whether the number of images is known without reading them all."""
        return all(FILTER_RULES[name].is_counted for name in self.given)


FILTER_RULES: dict[str, FilterRule] = {
    attribute.name: attribute.metadata["rule"] for attribute in attrs.fields(ImageFilter)
}
"""The rule of each filter, by the name of its query parameter."""


@frozen(kw_only=True)
class ImageListRequest:
    """A validated request for a page of images.

    Attributes:
        album_id: The album whose images are listed; `None` for all images of the account.
        filters: The conditions of the list.
        sort: The order of the list.
        page: The page.
    """

    album_id: AlbumId | None = None
    filters: ImageFilter = field(factory=ImageFilter)
    sort: ImageSort = ImageSort.NEWEST
    page: PageRequest = field(factory=PageRequest)


StoredFormat = Format | Literal["jpeg", "jpg", "png", "webp", "gif"]
"""The format of stored images; `jpg` and `jpeg` are the same."""
SortName = (
    ImageSort
    | Literal["created_at", "-created_at", "taken_at", "-taken_at", "filename", "-filename", "size", "-size"]
)
"""The order of a list of images, or its name."""


class ImageListKeywords(PageKeywords, total=False):
    """The conditions, the order and the page of a list of images as keywords; `None` is no condition.

    They are the query parameters of the HTTP interface, and may have texts as there.
    """

    q: str | None
    is_public: bool | None
    format: StoredFormat | None
    created_after: datetime | str | None
    created_before: datetime | str | None
    sha256: str | None
    sort: SortName | None


def new_image_list_request(
    album_id: int | str | None = None, **keywords: Unpack[ImageListKeywords]
) -> ImageListRequest:
    """Return the request of a list of images.

    Args:
        album_id: The id of the album whose images are listed; `None` for all images of the account.
        keywords: See `ImageListKeywords`. A tuple is several values, which is an error.

    Raises:
        BadRequestError: Values are malformed, not allowed or repeated; every one is listed in `errors`.
        TypeError: There is no such keyword.
    """
    given: dict[str, Any] = {"album_id": album_id, **keywords}
    require_known(given, LIST_PARAMETERS)
    values = {name: value for name, value in given.items() if value is not None}
    repeated = [name for name, value in values.items() if isinstance(value, tuple)]
    errors = [FieldError(name, "one value", f"{len(values.pop(name))}") for name in repeated]
    page = album = None
    try:
        page = parse_page_request(*map(values.get, ("page", "per_page", "cursor")))
    except BadRequestError as error:
        errors += error.errors
    try:
        album = None if "album_id" not in values else parse_album_id(values["album_id"])
    except ValidationError as error:
        errors += error.errors
    filters: dict[str, Any] = {
        name: rule.parse(name, values[name], errors) for name, rule in FILTER_RULES.items() if name in values
    }
    sort = parse_choice("sort", values.get("sort", ImageSort.NEWEST), _SORTS, errors)
    if errors or page is None or sort is None:
        raise BadRequestError(errors=errors)
    return ImageListRequest(album_id=album, filters=ImageFilter(**filters), sort=sort, page=page)


LIST_PARAMETERS = ("page", "per_page", "cursor", "album_id", *FILTER_RULES, "sort")
"""The query parameters of a list of images."""

_SORTS: dict[str, ImageSort] = {sort.value: sort for sort in ImageSort}
