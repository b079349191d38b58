"""A bad call is the same error of the client, of HTTP and of the core, with the same list of faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

import httpx2
import pytest

import imagehost_core
from imagehost_client import BadRequestError, Client, ValidationError
from imagehost_client.errors import BY_CODE, ImageHostError
from imagehost_client.testing import FakeImageHost, make_png
from imagehost_core import BadRequestError as BadRequest
from imagehost_core import ImageHost
from imagehost_core import ValidationError as Validation
from imagehost_core import errors as core_errors

LONG, NAIVE = "x" * 2_001, datetime(2026, 1, 1)
NAIVE_TEXT = "2026-01-01T00:00:00"
YEAR = 365 * 24 * 3600


class World(NamedTuple):
    """A host with a record of each kind, and the three ways to it."""

    double: FakeImageHost
    client: Client
    http: httpx2.Client
    core: ImageHost
    image: str
    album: int
    webhook: str
    key: str
    cursor: str


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """A host in memory that the client, HTTP and the core share."""
    double = FakeImageHost()
    with double.client() as client, httpx2.Client(transport=double, base_url=double.base_url) as http:
        http.headers["authorization"] = f"Bearer {double.token_for(None)}"
        image, _ = client.upload(make_png()), client.upload(make_png())
        cursor = client.images.list(per_page=1).first_page().next_cursor
        assert cursor is not None
        album, key = client.albums.create("A"), client.keys.create("k")
        webhook = client.webhooks.create("https://93.184.215.14/hook")
        yield World(double, client, http, double.core, image.id, album.id, webhook.id, key.id, cursor)


class Bad(NamedTuple):
    """A bad call: of the client and of the core by name and arguments, and as an HTTP request.

    Without a request, HTTP ignores what a call refuses.
    """

    verb: str
    arguments: tuple[Any, ...] = ()
    keywords: dict[str, Any] = {}  # noqa: RUF012 - never changed
    http: tuple[str, str] = ("", "")
    sent: dict[str, Any] = {}  # noqa: RUF012 - never changed
    in_core: bool = True


def get(path: str, **query: Any) -> dict[str, Any]:
    """Return an HTTP request with a query."""
    return {"http": ("GET", path), "sent": {"params": query}}


def send(method: str, path: str, **body: Any) -> dict[str, Any]:
    """Return an HTTP request with a JSON body."""
    return {"http": (method, path), "sent": {"json": body}}


def form(**fields: Any) -> dict[str, Any]:
    """Return an HTTP request with an image and form fields."""
    return {"http": ("POST", "upload"), "sent": {"data": fields, "files": {"image": ("a.png", make_png())}}}


IMAGE, ALBUM, WEBHOOK, KEY, CURSOR = "{image}", "{album}", "{webhook}", "{key}", "{cursor}"
MANY_FILTERS = {"per_page": 101, "q": "x" * 101, "sort": "x", "format": "bmp"}
TRANSFORM = {"w": 0, "h": 8193, "q": 101, "fit": "crop", "fm": "bmp"}

BAD_CALLS: dict[str, Bad] = {
    **{
        f"images.{verb} {name}": Bad(f"images.{verb}", (), {name: value}, **get("images", **{name: sent}))
        for verb in ("list", "iter")
        for name, value, sent in (
            ("per_page", 101, 101),
            ("per_page", 0, 0),
            ("page", 0, 0),
            ("sort", "x", "x"),
            ("q", "x" * 101, "x" * 101),
            ("format", "bmp", "bmp"),
            ("created_after", NAIVE, NAIVE_TEXT),
            ("created_before", "soon", "soon"),
            ("album_id", 0, 0),
            ("album_id", "x", "x"),
            ("is_public", "maybe", "maybe"),
        )
    },
    "images.list page and cursor": Bad(
        "images.list", (), {"page": 2, "cursor": CURSOR}, **get("images", page=2, cursor=CURSOR)
    ),
    "images.list all": Bad(
        "images.list",
        (),
        {**MANY_FILTERS, "created_after": NAIVE, "page": 2, "cursor": CURSOR},
        **get("images", **MANY_FILTERS, created_after=NAIVE_TEXT, page=2, cursor=CURSOR),
    ),
    "gallery per_page": Bad("gallery", (), {"per_page": 101}, **get("gallery", per_page=101)),
    "gallery all": Bad(
        "gallery",
        (),
        {"per_page": 101, "page": 0, "album_id": "x", "q": "x" * 101},
        **get("gallery", per_page=101, page=0, album_id="x", q="x" * 101),
    ),
    **{
        f"{group}.list": Bad(
            f"{group}.list", (), {"per_page": 101, "page": 0}, **get(group, per_page=101, page=0)
        )
        for group in ("albums", "keys", "sessions", "webhooks", "accounts")
    },
    "webhooks.deliveries": Bad(
        "webhooks.deliveries",
        (WEBHOOK,),
        {"per_page": 0, "page": 0},
        **get(f"webhooks/{WEBHOOK}/deliveries", per_page=0, page=0),
    ),
    **{
        f"render {name}={value}": Bad(
            "render", (IMAGE,), {name: value}, **get(f"img/{IMAGE}", **{name: value})
        )
        for name, value in (
            ("w", 0),
            ("w", -1),
            ("w", 8193),
            ("h", 0),
            ("q", 0),
            ("q", 101),
            ("fit", "crop"),
            ("fm", "bmp"),
        )
    },
    "render all": Bad("render", (IMAGE,), TRANSFORM, **get(f"img/{IMAGE}", **TRANSFORM)),
    "images.signed_url w": Bad(
        "images.signed_url", (IMAGE,), {"w": 0}, **send("POST", f"images/{IMAGE}/signed-url", w=0)
    ),
    **{
        f"images.signed_url expires_in={seconds}": Bad(
            "images.signed_url",
            (IMAGE,),
            {"expires_in": seconds},
            **send("POST", f"images/{IMAGE}/signed-url", expires_in=seconds),
        )
        for seconds in (0, -1, YEAR + 1)
    },
    "images.signed_url all": Bad(
        "images.signed_url",
        (IMAGE,),
        {**TRANSFORM, "expires_in": 0},
        **send("POST", f"images/{IMAGE}/signed-url", **TRANSFORM, expires_in=0),
    ),
    "images.signed_urls none": Bad("images.signed_urls", ([],), {}, **send("POST", "signed-urls", items=[])),
    "images.signed_urls all": Bad(
        "images.signed_urls",
        ([(IMAGE, {"w": 0}), (IMAGE, {"fit": "crop", "q": 0})],),
        {"expires_in": -1},
        **send(
            "POST",
            "signed-urls",
            items=[{"image_id": IMAGE, "w": 0}, {"image_id": IMAGE, "fit": "crop", "q": 0}],
            expires_in=-1,
        ),
    ),
    "images.signed_urls name": Bad("images.signed_urls", ([(IMAGE, {"width": 5})],), {}),
    **{
        f"images.update {name}": Bad(
            "images.update", (IMAGE,), {name: value}, **send("PATCH", f"images/{IMAGE}", **{name: value})
        )
        for name, value in (
            ("description", LONG),
            ("description", 5),
            ("is_public", "yes"),
            ("filename", ""),
            ("album_id", 0),
        )
    },
    "images.update all": Bad(
        "images.update",
        (IMAGE,),
        {"description": LONG, "is_public": "yes", "filename": "", "album_id": "x"},
        **send("PATCH", f"images/{IMAGE}", description=LONG, is_public="yes", filename="", album_id="x"),
    ),
    "images.update_many none": Bad("images.update_many", ([],), {}, **send("PATCH", "images", image_ids=[])),
    "images.update_many all": Bad(
        "images.update_many",
        ([],),
        {"description": LONG, "is_public": 1.5},
        **send("PATCH", "images", image_ids=[], description=LONG, is_public=1.5),
    ),
    "images.delete_many none": Bad(
        "images.delete_many", ([],), {}, **send("POST", "images/delete", image_ids=[])
    ),
    **{
        f"albums.create {name!r}": Bad("albums.create", (name,), {}, **send("POST", "albums", name=name))
        for name in ("", "x" * 101, 5, "  ")
    },
    "albums.create all": Bad(
        "albums.create",
        ("",),
        {"description": LONG, "is_public": "yes"},
        **send("POST", "albums", name="", description=LONG, is_public="yes"),
    ),
    "albums.update name": Bad(
        "albums.update", (ALBUM,), {"name": ""}, **send("PATCH", f"albums/{ALBUM}", name="")
    ),
    "albums.add_images none": Bad(
        "albums.add_images", (ALBUM, []), {}, **send("PUT", f"albums/{ALBUM}/images", image_ids=[])
    ),
    "albums.remove_images none": Bad(
        "albums.remove_images", (ALBUM, []), {}, **send("DELETE", f"albums/{ALBUM}/images", image_ids=[])
    ),
    "keys.create name": Bad("keys.create", ("x" * 101,), {}, **send("POST", "keys", name="x" * 101)),
    "keys.create scope": Bad(
        "keys.create", ("a",), {"scopes": ["images:raed"]}, **send("POST", "keys", scopes=["images:raed"])
    ),
    "keys.create expires_at": Bad(
        "keys.create", ("a",), {"expires_at": NAIVE}, **send("POST", "keys", expires_at=NAIVE_TEXT)
    ),
    "keys.create all": Bad(
        "keys.create",
        ("x" * 101,),
        {"scopes": 5, "expires_at": NAIVE},
        **send("POST", "keys", name="x" * 101, scopes=5, expires_at=NAIVE_TEXT),
    ),
    "keys.update all": Bad(
        "keys.update",
        (KEY,),
        {"name": "x" * 101, "expires_at": NAIVE},
        **send("PATCH", f"keys/{KEY}", name="x" * 101, expires_at=NAIVE_TEXT),
    ),
    "webhooks.create url": Bad(
        "webhooks.create", ("ftp://example.com",), {}, **send("POST", "webhooks", url="ftp://example.com")
    ),
    "webhooks.create event": Bad(
        "webhooks.create",
        ("https://93.184.215.14",),
        {"events": ["image.everything"]},
        **send("POST", "webhooks", url="https://93.184.215.14", events=["image.everything"]),
    ),
    "webhooks.create all": Bad(
        "webhooks.create",
        ("example.com",),
        {"description": LONG, "events": 5},
        **send("POST", "webhooks", url="example.com", description=LONG, events=5),
    ),
    "webhooks.update all": Bad(
        "webhooks.update",
        (WEBHOOK,),
        {"description": LONG, "is_active": "yes"},
        **send("PATCH", f"webhooks/{WEBHOOK}", description=LONG, is_active="yes"),
    ),
    **{
        f"upload {name}={value}": Bad("upload", (make_png(),), {name: value}, **form(**{name: str(value)}))
        for name, value in (
            ("quality", 0),
            ("quality", 101),
            ("format", "bmp"),
            ("album_id", 0),
            ("album_id", 999_999),
        )
    },
    "upload all": Bad(
        "upload",
        (make_png(),),
        {"quality": 0, "format": "gif", "description": LONG, "album_id": "x", "convert_to_webp": "maybe"},
        **form(quality="0", format="gif", description=LONG, album_id="x", convertToWebP="maybe"),
    ),
    "accounts.create all": Bad(
        "accounts.create",
        ("", "correct horse"),
        {"role": "admin", "quota_bytes": -1},
        **send("POST", "accounts", name="", password="correct horse", role="admin", quota_bytes=-1),
        in_core=False,
    ),
    "accounts.update all": Bad(
        "accounts.update",
        (1,),
        {"role": "admin", "quota_bytes": -1, "suspended": "yes"},
        **send("PATCH", "accounts/1", role="admin", quota_bytes=-1, suspended="yes"),
    ),
    "request": Bad("images.get", ("x",), {}, **get("images/x")),
}

OF_TWO_STEPS = {
    "images.update all",
    "images.update_many all",
    "albums.create all",
    "keys.create all",
    "webhooks.create all",
    "webhooks.update all",
    "accounts.update all",
}
"""Calls with a wrong type and a wrong value: HTTP looks at the values once the types are right."""

NAMES = {"convert_to_webp": "convertToWebP"}
"""Parameters of the client by the names that the host has for them."""
WITHOUT_OWNER = ("gallery", "render", "accounts.")


def filled(value: Any, world: World) -> Any:
    """Return a value with the ids of a host."""
    if isinstance(value, str) and value[:1] == "{" and value[-1] == "}":
        return getattr(world, value[1:-1])
    if isinstance(value, list | tuple):
        return type(value)(filled(item, world) for item in value)
    return {name: filled(item, world) for name, item in value.items()} if isinstance(value, dict) else value


def outcome(call: Callable[[], Any]) -> tuple[str, str, set[str]]:
    """Return class, code and fields of the error that a call raises."""
    try:
        result = call()
        if isinstance(result, Iterator):
            next(result)
    except (ImageHostError, core_errors.ImageHostError) as error:
        fields = {NAMES.get(name, name) for name in ImageHostError(error.details).fields}
        return type(error).__name__, error.code, fields
    raise AssertionError("expected an error but received a result")


def verb_of(owner: object, verb: str) -> Any:
    for name in verb.split("."):
        owner = getattr(owner, name)
    return owner


def of_client(world: World, bad: Bad) -> tuple[str, str, set[str]]:
    verb = verb_of(world.client, bad.verb)
    arguments, keywords = filled(bad.arguments, world), filled(bad.keywords, world)

    def call() -> object:
        result = verb(*arguments, **keywords)
        return result.first_page() if hasattr(result, "first_page") else result

    return outcome(call)


def of_http(world: World, bad: Bad) -> tuple[str, str, set[str]]:
    method, path = bad.http
    for name in ("image", "album", "webhook", "key"):
        path = path.replace(f"{{{name}}}", str(getattr(world, name)))
    error = world.http.request(method, path, **filled(bad.sent, world)).json()["error"]
    return BY_CODE[error["code"]].__name__, error["code"], set(ImageHostError(error["details"]).fields)


def of_core(world: World, bad: Bad) -> tuple[str, str, set[str]]:
    owner = {} if bad.verb.startswith(WITHOUT_OWNER) else {"owner": "admin"}
    keywords = filled(bad.keywords, world) | owner
    return outcome(lambda: verb_of(world.core, bad.verb)(*filled(bad.arguments, world), **keywords))


@pytest.mark.parametrize("name", BAD_CALLS)
def test_a_bad_call_is_the_same_error_of_client_http_and_core(world: World, name: str) -> None:
    bad = BAD_CALLS[name]
    found = of_client(world, bad)
    if bad.in_core:
        assert of_core(world, bad) == found
    if bad.http[0]:
        *error, fields = of_http(world, bad)
        assert error == list(found[:2])
        assert fields < found[2] if name in OF_TWO_STEPS else fields == found[2]


def test_the_table_has_the_bad_calls_of_all_groups() -> None:
    assert len(BAD_CALLS) >= 60


def test_a_bad_call_is_a_value_error_with_all_its_faults_and_nothing_is_sent(world: World) -> None:
    before = list(world.double.requests)
    with pytest.raises(ValueError, match="per_page") as caught:
        world.client.images.list(per_page=101, sort="x").first_page()  # type: ignore[arg-type]
    assert isinstance(caught.value, BadRequestError)
    assert (caught.value.status, caught.value.fields) == (None, ("per_page", "sort"))
    with pytest.raises(ValueError, match="for quality") as raised:
        world.client.upload(b"", quality=0, description=LONG, album_id="x")
    assert isinstance(raised.value, ValidationError)
    assert raised.value.fields == ("description", "quality", "album_id")
    assert world.double.requests == before


def test_a_name_that_is_no_parameter_is_a_type_error_of_client_and_core(world: World) -> None:
    unknown: dict[str, Any] = {"width": 50}
    for call in (
        lambda: world.client.images.signed_url(world.image, **unknown),
        lambda: world.core.images.signed_url(world.image, **unknown),
        lambda: world.client.render(world.image, **unknown),
        lambda: world.core.render(world.image, **unknown),
        lambda: world.client.images.list(**unknown),
        lambda: world.core.images.list(owner="admin", **unknown),
    ):
        with pytest.raises(TypeError, match="width"):
            call()


QUERIES: dict[str, Any] = {
    "?w=100": "params",
    "width=100": "params",
    "w=100&exp=5": "params",
    "w": "w",
    "fm=": "fm",
    "=3": "params",
    "?": "params",
}
"""Parameters in one text that a call of the core refuses, and a URL would not: the fault's field."""


@pytest.mark.parametrize("query", QUERIES)
def test_a_call_refuses_what_a_url_may_have_of_others(world: World, query: str) -> None:
    for call in (
        lambda: imagehost_core.render(make_png(), query),
        lambda: world.core.render(world.image, query),
        lambda: world.core.images.signed_url(world.image, query),
    ):
        with pytest.raises((BadRequest, Validation)) as caught:
            call()
        assert {error.name for error in caught.value.errors} == {QUERIES[query]}
    for params in ({"width": 3}, {"w": ""}, {"w": None}, {"": 1}):
        with pytest.raises(BadRequest):
            world.core.render(world.image, params)
    assert world.http.get(f"/img/{world.image}?width=100&w=5").status_code == 200


def test_jpg_is_a_name_of_jpeg_for_client_http_and_core(world: World) -> None:
    assert world.client.upload(make_png(), format="jpg").format == "jpeg"
    assert world.http.post("upload", **form(format="jpg")["sent"]).json()["data"]["format"] == "jpeg"
    assert world.core.upload(make_png(), owner="admin", format="jpg").format == "jpeg"
    counts = (
        len(list(world.client.images.list(format="jpg"))),
        len(world.http.get("images", params={"format": "jpg"}).json()["data"]["images"]),
        len(world.core.images.list(owner="admin", format="jpg")),
    )
    assert counts == (3, 3, 3)
