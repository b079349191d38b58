"""The texts of the pages, one TOML file per language, and the choice of the language."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from attrs import frozen

DEFAULT_LANGUAGE = "en"
"""The language of a client that prefers none of ours. Its file has every text."""
LANGUAGES = ("en", "de")
"""The languages of the pages, as BCP 47 tags: the names of the files in the directory `texts`."""


@frozen
class Texts:
    """The texts of one language.

    Attributes:
        language: The BCP 47 tag.
        entries: The texts by key, such as `gallery.title`.
    """

    language: str
    entries: Mapping[str, str]

    def __call__(self, key: str, /, **values: object) -> str:
        """Return a text, with `{name}` replaced by values.

        A text that depends on a number `count` has two entries: `key.one` and `key.other`.

        Raises:
            KeyError: There is no such text, or a value is missing.
        """
        if "count" in values:
            key = f"{key}.{'one' if values['count'] == 1 else 'other'}"
        if not values:
            return self.entries[key]
        return self.entries[key].format_map({name: self._show(value) for name, value in values.items()})

    def number(self, value: float, decimals: int = 0) -> str:
        """Return a number as the language writes it, such as `10,064.5` or `10.064,5`."""
        separators = {",": self.entries["number.thousands"], ".": self.entries["number.decimal"]}
        return "".join(separators.get(character, character) for character in f"{value:,.{decimals}f}")

    def _show(self, value: object) -> object:
        # As usual in running text, numbers of four digits have no separator.
        return self.number(value) if isinstance(value, int) and value >= _MIN_SEPARATED else value

    def section(self, name: str) -> dict[str, str]:
        """Return the texts of a section by their keys within it, for scripts."""
        prefix = f"{name}."
        return {
            key.removeprefix(prefix): text for key, text in self.entries.items() if key.startswith(prefix)
        }


@cache
def texts_of(language: str) -> Texts:
    """Return the texts of one of `LANGUAGES`."""
    tree = tomllib.loads(
        files("imagehost_server.web").joinpath("texts", f"{language}.toml").read_text(encoding="utf-8")
    )
    return Texts(language, dict(_flatten(tree)))


def choose_language(accept_language: str) -> str:
    """Return the one of `LANGUAGES` that a client prefers (RFC 9110, section 12.5.4; RFC 4647, lookup).

    Args:
        accept_language: The `Accept-Language` header, or "".
    """
    best, best_weight = DEFAULT_LANGUAGE, 0.0
    for entry in accept_language[:MAX_HEADER].split(","):
        tag, _, parameter = entry.partition(";")
        primary = tag.strip().lower().partition("-")[0]
        weight = _parse_weight(parameter)
        if primary in LANGUAGES and weight > best_weight:
            best, best_weight = primary, weight
    return best


_MIN_SEPARATED = 10_000
MAX_HEADER = 500
"""Characters of `Accept-Language` that are read."""


def _parse_weight(parameter: str) -> float:
    """Return the value of `q=`: 1 if there is none, and 0 if it is malformed."""
    name, _, value = parameter.strip().partition("=")
    if not name:
        return 1.0
    try:
        return min(max(float(value), 0.0), 1.0) if name == "q" else 0.0
    except ValueError:
        return 0.0


def _flatten(tree: Mapping[str, object], prefix: str = "") -> list[tuple[str, str]]:
    entries: list[tuple[str, str]] = []
    for name, value in tree.items():
        if isinstance(value, Mapping):
            entries.extend(_flatten(value, f"{prefix}{name}."))
        else:
            entries.append((f"{prefix}{name}", str(value)))
    return entries
