"""The texts of the pages, and the choice of the language."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import Environment, nodes

from imagehost_core.errors import BY_CODE
from imagehost_core.lists import ImageSort
from imagehost_core.models import DeliveryStatus, Role
from imagehost_server.web import catalog
from imagehost_server.web.catalog import LANGUAGES, choose_language, texts_of
from imagehost_server.web.pages.admin import LIMITS, TIERS
from imagehost_server.web.pages.images import LIFETIMES
from imagehost_server.web.pages.settings import PRESETS
from imagehost_server.web.presentation import ratio_class, ratio_styles, size_text
from imagehost_server.web.request import OUTCOMES

WEB = Path(catalog.__file__).parent
TEMPLATES = WEB / "templates"


def placeholders(text: str) -> set[str]:
    return set(re.findall(r"\{(\w+)\}", text))


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_the_same_texts_with_the_same_values(language: str) -> None:
    english, translated = texts_of("en").entries, texts_of(language).entries
    assert list(english) == list(translated)
    for key, text in english.items():
        assert placeholders(text) == placeholders(translated[key]), key
        assert translated[key].strip() == translated[key] != ""


NAMED: dict[str, Iterable[object]] = {
    "admin.roles.": [role.value for role in Role],
    "admin.tiers.": TIERS,
    "camera.": [
        *("place", "taken_at", "camera", "lens", "exposure", "aperture", "iso", "focal_length", "software"),
        *("author", "copyright"),
    ],
    "error.field.": texts_of("en").section("error.field"),
    "error.text.": BY_CODE,
    "error.title.": BY_CODE,
    "image.": ("url", "html", "markdown", "bbcode"),
    "library.sorts.": [order.value for order in ImageSort],
    "login.": ("invalid", "throttled"),
    "months.": range(1, 13),
    "nav.": ("gallery", "upload", "images", "albums", "settings", "admin"),
    "outcome.": OUTCOMES,
    "own.lifetimes.": LIFETIMES,
    "settings.presets.": PRESETS,
    "settings.windows.": [*LIMITS, "bulk_ids_per_minute"],
    "webhooks.actions.": ("test", "rotate-secret", "delete"),
    "webhooks.confirm.": ("rotate-secret", "delete"),
    "webhooks.states.": [state.value for state in DeliveryStatus],
}
"""Texts whose names are values: the beginning of their keys, and all values."""
SCRIPT_TEXT = re.compile(r"(?<![-\w])texts\.(\w+)")
SCRIPT_CALL = re.compile(r"(?<![-\w.])(?:say|text|counted)\(([^{;]*)")
SCRIPT_IMPORT = re.compile(r'(?:from |import\()"\./([\w.]+)"')
LINK_FORMATS = {"url", "markdown", "html", "bbcode"}
"""The texts that `uploader.js` finds by the values of its constant `FORMATS`."""
SESSION_STATES = {"ended", "other", "unreachable"}
"""The texts that `session.js` finds by the states that `readSession` returns."""


def names_of(argument: nodes.Node) -> tuple[str, bool]:
    """Return the key in a call of `t`, and whether it is only the beginning, which a value completes."""
    if isinstance(argument, nodes.Const):
        return str(argument.value), False
    assert isinstance(argument, nodes.Concat), argument
    assert isinstance(argument.nodes[0], nodes.Const), argument
    return str(argument.nodes[0].value), True


def template_texts() -> tuple[set[str], set[str]]:
    """Return the keys in all templates, and the beginnings of keys."""
    keys, beginnings = set[str](), set[str]()
    for path in TEMPLATES.glob("*.html"):
        for call in Environment().parse(path.read_text()).find_all(nodes.Call):
            if isinstance(call.node, nodes.Name) and call.node.name == "t":
                name, is_beginning = names_of(call.args[0])
                (beginnings if is_beginning else keys).add(name)
    return keys, beginnings


def module_texts() -> tuple[set[str], set[str]]:
    """Return the keys in all modules, and the beginnings of keys."""
    keys, beginnings = set[str](), set[str]()
    for path in WEB.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(call, ast.Call)
                and getattr(call.func, "id", getattr(call.func, "attr", "")) == "texts"
            ):
                argument = call.args[0]
                if isinstance(argument, ast.JoinedStr):
                    assert isinstance(argument.values[0], ast.Constant)
                    beginnings.add(str(argument.values[0].value))
                else:
                    assert isinstance(argument, ast.Constant)
                    keys.add(str(argument.value))
    return keys, beginnings


def script_names(name: str) -> set[str]:
    """Return the names of the texts that a script and those that it imports use."""
    source = (WEB / "static" / name).read_text()
    names = set(SCRIPT_TEXT.findall(source))
    for arguments in SCRIPT_CALL.findall(source):
        names |= set(re.findall(r'"([\w.]+)"', arguments))
    if "texts[name]" in source:
        names |= LINK_FORMATS
    if "texts[state]" in source:
        names |= SESSION_STATES
    return names.union(*map(script_names, SCRIPT_IMPORT.findall(source)))


def script_texts() -> set[str]:
    """Return the keys that scripts use of the sections in the pages that load them."""
    keys = set()
    for path in TEMPLATES.glob("*.html"):
        source = path.read_text()
        sections = re.findall(r't\.section\("(\w+)"\)', source)
        scripts = re.findall(r"asset\('(\w+\.js)'\)", source)
        used = set[str]().union(*map(script_names, scripts))
        keys |= {f"{section}.{name}" for section in sections for name in used}
    return keys


def with_plural_forms(keys: set[str]) -> set[str]:
    """Return the keys, with those of both forms for each text that depends on a number."""
    counted = {key for key in keys if f"{key}.one" in texts_of("en").entries}
    return (keys - counted) | {f"{key}.{form}" for key in counted for form in ("one", "other")}


def test_every_text_of_a_template_or_module_exists_and_every_text_is_used() -> None:
    entries = set(texts_of("en").entries)
    keys, beginnings = (one | other for one, other in zip(template_texts(), module_texts(), strict=True))
    assert beginnings == set(NAMED)
    keys |= {f"{beginning}{value}" for beginning, values in NAMED.items() for value in values}
    keys = with_plural_forms(keys) | {"number.thousands", "number.decimal"}
    assert sorted(keys - entries) == []
    assert sorted(entries - keys - with_plural_forms(script_texts())) == []


def test_every_error_has_a_title_and_a_text() -> None:
    entries = texts_of("en").entries
    assert {f"error.{kind}.{code}" for code in BY_CODE for kind in ("title", "text")} <= set(entries)


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("", "en"),
        ("de", "de"),
        ("DE-ch", "de"),
        ("fr, es;q=0.9", "en"),
        ("en;q=0.4, de;q=0.5", "de"),
        ("de;q=0", "en"),
        ("de;q=x, en;q=0.1", "en"),
        ("de;level=1", "en"),
    ],
)
def test_the_language_is_the_one_with_the_highest_weight(header: str, language: str) -> None:
    assert choose_language(header) == language


@pytest.mark.parametrize(
    ("language", "count", "size"), [("en", "10,064 images", "1.4 MB"), ("de", "10.064 Bilder", "1,4 MB")]
)
def test_numbers_are_written_as_the_language_writes_them(language: str, count: str, size: str) -> None:
    texts = texts_of(language)
    assert texts("gallery.count", count=10_064) == count
    assert texts("image.pixels", width=4000, height=3000).startswith("4000 × 3000 ")
    assert size_text(1_400_000, texts) == size
    assert size_text(999, texts) == "999 B"


@given(st.text(max_size=200))
def test_any_header_gives_one_of_the_languages(header: str) -> None:
    assert choose_language(header) in LANGUAGES


@given(st.integers(1, 16_384), st.integers(1, 16_384))
def test_every_image_has_a_class_of_the_style_sheet_close_to_its_aspect_ratio(
    width: int, height: int
) -> None:
    name = ratio_class(width, height)
    assert f".{name}{{" in ratio_styles()
    ratio = width / height
    if 1 / 3 <= ratio <= 3:
        assert abs(int(name[1:]) / 100 - ratio) <= 0.0101
