"""What pages say of errors: a sentence for each code and field in their language, never the API's words."""

from __future__ import annotations

import ast
import html
import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from tests.server.web.conftest import SignedIn

import imagehost_core
import imagehost_server
from imagehost_core import ImageHost
from imagehost_core.errors import BY_CODE, FieldError
from imagehost_core.testing import make_image
from imagehost_server.web import catalog
from imagehost_server.web.catalog import LANGUAGES, texts_of
from imagehost_server.web.failures import OF_FILES, describe_failure
from imagehost_server.web.pages.admin import LIMITS

SOURCES = [Path(imagehost_core.__file__).parent, Path(imagehost_server.__file__).parent]
TEMPLATES = Path(catalog.__file__).parent / "templates"

PROTOCOL = {
    *("Content-Type", "Host", "Idempotency-Key", "Transfer-Encoding", "X-CSRF-Token", "all headers"),
    *("the body", "the body's length", "the form", "the query", "the request target", "the version"),
}
"""Parts of requests that people do not write: browsers and pages do."""
PROGRAMS = {
    *("PATH", "attributes", "formats", "image_ids", "items", "loading", "source", "the event", "the format"),
    *("the parameters", "widths"),
}
"""Arguments of functions, of commands and of requests that only programs send."""
LISTS = {"fit", "format", "is_active", "page", "suspended"}
"""Parameters whose values pages offer as a list, so that no form has another."""


def literal_fields() -> Iterator[str]:
    """Yield the names in the field errors of the core and the server, as far as they are literals."""
    for path in (path for directory in SOURCES for path in directory.rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(call, ast.Call) or not call.args:
                continue
            function, first = call.func, call.args[0]
            is_of = isinstance(function, ast.Attribute) and function.attr == "of"
            owner = ast.unparse(function.value) if is_of and isinstance(function, ast.Attribute) else ""
            is_error = ast.unparse(function) == "FieldError" or owner.endswith("Error")
            if is_error and isinstance(first, ast.Constant):
                yield str(first.value)


def form_fields() -> Iterator[str]:
    """Yield the names of the fields that people write in forms of pages."""
    yield from LIMITS
    for path in TEMPLATES.glob("*.html"):
        source = path.read_text(encoding="utf-8")
        for tag in re.findall(r"<(?:input|textarea)\b.*?>(?=[\s<{]|$)", source):
            name = re.search(r'\bname="([^"{]+)"', tag)
            if name and not re.search(r'type="(?:hidden|checkbox|radio|file)"', tag):
                yield name[1]


def sentences(language: str) -> dict[str, str]:
    return texts_of(language).section("error.field")


def test_each_field_that_people_write_has_a_sentence() -> None:
    of_programs, literals, written = PROTOCOL | PROGRAMS | LISTS, {*literal_fields()}, {*form_fields()}
    assert sorted(of_programs - literals) == []
    for language in LANGUAGES:
        known = sentences(language).keys()
        assert sorted((literals | written) - of_programs - known) == []
        assert sorted(known - literals - written) == []


@pytest.mark.parametrize("code", BY_CODE)
def test_each_error_is_described_in_the_language_of_the_page_without_the_words_of_the_api(code: str) -> None:
    english = {text for key, text in texts_of("en").entries.items() if key.startswith("error.")}
    fields = [*sentences("en"), "unknown", "files[0] expected x for y but received z.png: image"]
    for field in fields:
        details = str(FieldError(field, "one value for once", "'for x but received y'"))
        shown = {language: describe_failure(code, details, texts_of(language)) for language in LANGUAGES}
        for text in shown.values():
            assert text
            assert not re.search("expected|received|unknown", text)
        assert shown["de"] not in english
        assert not any(sentence in shown["de"] for sentence in english)
        if field in sentences("en") and code not in OF_FILES:
            assert shown == {language: sentences(language)[field] for language in LANGUAGES}


def test_no_template_and_no_script_shows_the_words_of_the_api() -> None:
    static = TEMPLATES.parent / "static"
    for path in (*TEMPLATES.glob("*.html"), *static.glob("*.js")):
        if path.name not in ("failures.js", "api.js"):
            source = path.read_text(encoding="utf-8")
            assert not re.search(r"(failure|error|api_error)\)?\.(details|message)\b", source), path.name


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_page_with_scripts_that_describe_errors_has_the_sentence_of_each_code_it_can_meet(
    host: ImageHost, owner: httpx2.Client, language: str
) -> None:
    image = host.upload(make_image(41, 30), owner="admin")
    album = host.albums.create(owner="admin", name="Errors")
    host.albums.add_images(album.id, [image.id], owner="admin")
    busy = {
        "RATE_LIMIT_EXCEEDED",
        "INSUFFICIENT_STORAGE",
        "SERVICE_UNAVAILABLE",
        "INTERNAL_ERROR",
    }
    codes = {
        "/images": busy,
        f"/albums/{album.id}": busy,
        f"/images/{image.id}": {*BY_CODE},
        "/upload": {*BY_CODE},
    }
    templates = [path for path in TEMPLATES.glob("*.html") if "error-texts" in path.read_text("utf-8")]
    assert {path.name for path in templates} == {"selection.html", "own_image.html", "upload.html"}
    for path, expected in codes.items():
        shown = owner.get(path, headers={"Accept-Language": language}).text
        found = re.search('class="error-texts">(.*?)</script>', shown)
        assert found, path
        all_texts = texts_of(language).section("error.text")
        assert json.loads(found[1])["text"] == {code: all_texts[code] for code in expected}, path


def post(owner: httpx2.Client, session: SignedIn, path: str, language: str, **fields: str) -> httpx2.Response:
    form = {"csrf_token": session.csrf, **fields}
    return owner.post(path, data=form, headers={"Accept-Language": language})


@pytest.mark.parametrize("language", LANGUAGES)
def test_forms_say_what_is_wrong_and_what_to_do(
    host: ImageHost, owner: httpx2.Client, session: SignedIn, language: str
) -> None:
    image = host.upload(make_image(40, 30), owner="admin")
    forms = [
        (
            "/settings/password",
            {"current_password": "wrong words", "new_password": "x" * 9},
            "current_password",
        ),
        ("/settings/password", {"current_password": "wrong words", "new_password": "x"}, "new_password"),
        ("/settings/keys", {"name": "x" * 101, "preset": "all"}, "name"),
        ("/settings/webhooks", {"url": "ftp://example.com"}, "url"),
        ("/albums", {"name": " "}, "name"),
        (f"/images/{image.id}", {"description": "x" * 3_000}, "description"),
        (f"/images/{image.id}/sign", {"expires_in": "0"}, "expires_in"),
        ("/admin/accounts", {"name": "two words", "password": "long enough"}, "username"),
        ("/admin/accounts", {"name": "ADMIN", "password": "long enough"}, "username"),
        ("/admin/accounts/1", {"suspended": "true"}, "this change"),
        ("/admin/accounts/1", {"api_per_day": "many"}, "api_per_day"),
        ("/admin/accounts/1", {"quota_bytes": "a lot"}, "quota_bytes"),
    ]
    for path, fields, name in forms:
        response = post(owner, session, path, language, **fields)
        assert 400 <= response.status_code < 500
        page = html.unescape(response.text)
        assert sentences(language)[name] in page, path
        assert "expected" not in page[page.index("<main") :], path
