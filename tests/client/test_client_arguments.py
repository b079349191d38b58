"""Arguments of a wrong type or value raise before anything is sent, in every method of both clients."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.client.conftest import Caller
from tests.client.literals import literals

from imagehost_client import (
    AccountProperties,
    BadRequestError,
    Client,
    ValidationError,
    _batches,
    _types,
    models,
    urls,
    webhooks,
)
from imagehost_client._calls import arguments, uploads
from imagehost_client._methods import Method
from imagehost_client._types import PageOptions, PictureOptions
from imagehost_client.testing import FakeImageHost, make_png
from imagehost_core import events, image_url, limits, lists, transform
from imagehost_core import models as models_of_host
from imagehost_core import uploads as uploads_of_host

IMAGE = "0aZ0aZ0aZ0aZ0aZ0"
RESOURCES = ("images", "albums", "keys", "webhooks", "accounts", "sessions")

VALID: dict[str, Any] = {
    "source": make_png(),
    "image": IMAGE,
    "images": [IMAGE],
    "album": 1,
    "account": 1,
    "key": "k",
    "webhook": "w",
    "delivery": "d",
    "share": "s",
    "target": "x.png",
    "method": "GET",
    "path": "/images",
    "name": "A",
    "url": "https://example.com",
    "username": "bob",
    "password": "correct horse",
    "current_password": "correct horse",
    "new_password": "battery staple",
}
"""The required arguments."""

BOOLEAN: tuple[object, ...] = (1, "yes", [])
LIMIT = (-1, 1.5, "7", True)
RECORD = (None, 7, b"x", "", "..", object())
ID = (None, 0, -1, True, 1.0, "", "x", "07", object())
TEXT = (None, 7, b"x")

INVALID: dict[str, tuple[Any, ...]] = {
    "source": (None, 7, object()),
    "image": (None, 7, b"x", "", "https://example.com/", object()),
    "images": (None, 7, [None], [7], [""], [b"x"], "", ["https://example.com/"]),
    "album": ID,
    "account": ID,
    "album_id": ID[1:],
    "key": RECORD,
    "webhook": RECORD,
    "delivery": RECORD,
    "share": RECORD,
    "session": RECORD[1:],
    "page": (0, -1, 1.0, "1", True),
    "per_page": (0, 101, "20", True),
    "cursor": (7, "", b"x"),
    "q": (7, "x" * 101),
    "sort": ("name", "", 7, "--size"),
    "created_after": (7, "soon", "2026-01-01T00:00:00", datetime(2026, 1, 1)),
    "created_before": (7, "soon", "2026-01-01", datetime(2026, 1, 1)),
    "sha256": (7, "", "a" * 63, "g" * 64),
    "filename": ("", 7, b"x"),
    "description": (7, b"x", "x" * 2001),
    "quality": (0, 101, 50.0, "50", True),
    "format": ("jpg2", "", 7, "avif"),
    "remove_exif": BOOLEAN,
    "convert_to_webp": BOOLEAN,
    "auto_rename": BOOLEAN,
    "is_public": BOOLEAN,
    "delete_url": BOOLEAN,
    "reuse": BOOLEAN,
    "images_public": BOOLEAN,
    "is_active": (*BOOLEAN, None),
    "suspended": (*BOOLEAN, None),
    "delete_images": (*BOOLEAN, None),
    "checksum": (*BOOLEAN, None),
    "target": (None, 7, b"x", "", object()),
    "if_none_match": ("", 7, "ü", "a\n"),
    "method": (None, 7, "get", "HEAD", ""),
    "path": (None, 7, "", "images", "https://h/v1/images", "/a?b", "/a#b", "/a b", "/ü", "/a\n"),
    "json": (7, "x", [1], {7: 1}),
    "query": (7, "x", [1], {7: 1}),
    "idempotency_key": ("", 7, "ü", "x" * 256, "a\n"),
    "progress": (7, "x"),
    "expires_in": (0, -1, 365 * 24 * 3600 + 1, 1.5, None, True),
    "widths": (7, None, (), (0,), ("320",), (1.5,), (True,), "320"),
    "alt": TEXT,
    "loading": (7, None, "", "layz"),
    "sizes": (7, None, b"x", ""),
    "formats": (7, None, "avif", ("auto",), (None,)),
    "attributes": (7, "class", ["class"], {"src": "x"}, {"a b": "x"}, {7: "x"}),
    "expires_at": (7, "2026-01-01", datetime(2026, 1, 1)),
    "name": (*TEXT, "x" * 101),
    "scopes": (7, "images:read", [7], [""]),
    "events": (7, "image.uploaded", [None], [""]),
    "url": (*TEXT, "", "example.com", "ftp://example.com"),
    "username": (*TEXT, ""),
    "password": (*TEXT, ""),
    "current_password": (*TEXT, ""),
    "new_password": (*TEXT, ""),
    "role": (None, 7, "admin", ""),
    "quota_bytes": LIMIT,
    "api_per_minute": LIMIT,
    "api_per_hour": LIMIT,
    "api_per_day": LIMIT,
    "uploads_per_minute": LIMIT,
    "bulk_ids_per_minute": LIMIT,
    "params": (
        {"w": 0},
        {"w": 8193},
        {"h": 1.5},
        {"q": 101},
        {"q": True},
        {"fit": "insde"},
        {"fm": "jpeg2"},
        {"width": 1},
    ),
}
"""Wrong arguments by name; those of `params` are keyword arguments."""


def methods() -> Iterator[tuple[str, Method[Any, Any]]]:
    """Return all methods that send requests, by their dotted names."""
    client = Client("https://images.example/v1", "token")
    for resource in ("", *RESOURCES):
        owner = type(getattr(client, resource)) if resource else Client
        for name in dir(owner):
            method = inspect.getattr_static(owner, name)
            if isinstance(method, Method):
                yield f"{resource}.{name}".lstrip("."), method


METHODS = dict(methods())

KEYWORDS: dict[str, Any] = {"properties": AccountProperties, "paging": PageOptions, "options": PictureOptions}
"""The types of keyword arguments."""


def parameters(method: Method[Any, Any]) -> dict[str, inspect.Parameter]:
    """Return the parameters of a method, also of its keywords; `params` are those of a transform."""
    known = dict(inspect.signature(method.function).parameters)
    for keywords, options in KEYWORDS.items():
        if known.pop(keywords, None) is not None:
            for name, annotation in options.__annotations__.items():
                own = "params" if name in urls.TRANSFORM_CHECKS else name
                known[own] = inspect.Parameter(
                    own, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
                )
    return known


def invoke(name: str, arguments: dict[str, Any], client: Any) -> Any:
    """Call the method with the dotted name."""
    return attrgetter(name)(client)(**arguments)


@pytest.mark.parametrize("name", METHODS)
def test_wrong_arguments_raise_before_anything_is_sent(name: str, call: Caller, host: FakeImageHost) -> None:
    known = parameters(METHODS[name])
    required = {
        key: VALID[key]
        for key, parameter in known.items()
        if parameter.default is parameter.empty and key != "params"
    }
    for argument, parameter in known.items():
        for value in INVALID[argument]:
            wrong = value if argument == "params" else {argument: value}
            if value is None and "None" in str(parameter.annotation):
                continue

            # Of the parameters of a transform, some methods do not have all.
            unknown = (TypeError,) if argument == "params" else ()
            with pytest.raises((BadRequestError, ValidationError, *unknown)):
                call(partial(invoke, name, {**required, **wrong}))
    assert host.requests == []


@pytest.mark.parametrize("name", METHODS)
def test_unknown_arguments_raise_before_anything_is_sent(name: str, host: FakeImageHost) -> None:
    arguments = {key: VALID[key] for key in parameters(METHODS[name]) if key in VALID}
    with host.client() as client, pytest.raises(TypeError):
        invoke(name, {**arguments, "unknown": 1}, client)
    assert host.requests == []


@pytest.mark.parametrize(
    "arguments", [{"parallel": 0}, {"parallel": 1.5}, {"quality": 101}, {"album_id": 0}, {"unknown": 1}]
)
def test_wrong_arguments_of_a_batch_raise_before_anything_is_sent(
    arguments: dict[str, Any], call: Caller, host: FakeImageHost, tmp_path: Path
) -> None:
    for sources in ([], [make_png()]):

        def upload_many(client: Any, sources: list[bytes] = sources) -> Any:
            return client.upload_many(sources, journal=tmp_path / "j", **arguments)

        with pytest.raises(TypeError if "unknown" in arguments else ValidationError):
            call(upload_many)
    assert host.requests == []
    assert not (tmp_path / "j").exists()


def test_a_page_and_a_cursor_exclude_each_other(call: Caller, host: FakeImageHost) -> None:
    with pytest.raises(BadRequestError, match="together with a cursor for page"):
        call(lambda client: client.images.list(page=2, cursor="x"))
    assert host.requests == []


@given(st.integers())
def test_a_quality_is_accepted_exactly_from_1_to_100(quality: int) -> None:
    if 1 <= quality <= 100:
        assert uploads.upload(b"x", quality=quality).fields == (("quality", str(quality)),)
    else:
        with pytest.raises(ValidationError, match="for quality"):
            uploads.upload(b"x", quality=quality)


def test_a_password_is_not_in_an_error(host: FakeImageHost) -> None:
    with host.client() as client, pytest.raises(ValidationError) as caught:
        client.sessions.create("bob", b"hunter2")  # type: ignore[arg-type]
    assert "hunter2" not in str(caught.value)


def test_limits_have_the_values_and_the_names_of_the_host() -> None:
    for own, name, of_host in (
        (uploads, "MAX_FILES_PER_REQUEST", limits),
        (_batches, "MAX_FILE_BYTES", limits),
        (arguments, "MAX_DESCRIPTION", uploads_of_host),
        (arguments, "MAX_LIFETIME_SECONDS", image_url),
        (urls, "MAX_SIDE", transform),
    ):
        assert getattr(own, name) == getattr(of_host, name), name


@pytest.mark.parametrize(
    ("own", "of_host"),
    [
        (_types.Fit, transform.Fit),
        (_types.ImageSort, lists.ImageSort),
        (_types.UploadFormat, uploads_of_host.STORED_FORMATS),
        (models.BulkStatus, models_of_host.BulkStatus),
        (models.DeliveryStatus, models_of_host.DeliveryStatus),
        (models.EventKind, events.EVENT_TYPES),
        (models.EventName, events.EVENT_TYPES),
        (models.MemberStatus, models_of_host.MemberStatus),
        (models.Role, models_of_host.Role),
        (models.Scope, models_of_host.Scope),
    ],
)
def test_choices_have_the_values_of_the_host(own: object, of_host: Iterable[str]) -> None:
    assert literals(own) == set(map(str, of_host))


def test_tables_have_the_keys_of_the_host() -> None:
    assert webhooks.KINDS.keys() == events.EVENT_TYPES.keys()
    assert set(_types.STORED_FORMATS) == lists.STORED.keys()


@pytest.mark.parametrize("order", lists.ImageSort)
def test_every_order_of_images_is_accepted(host: FakeImageHost, order: lists.ImageSort) -> None:
    with host.client() as client:
        assert list(client.images.list(sort=order.value)) == []
