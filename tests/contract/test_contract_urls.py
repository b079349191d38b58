"""Image URLs, with both clients: the clients build URLs that are delivered as requested."""

from __future__ import annotations

import io
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx2
import pytest
from attrs import evolve
from hypothesis import example, given
from hypothesis import strategies as st
from tests.contract.conftest import Backend, Connect, assert_error, data_of

from imagehost_client import AsyncClient, urls
from imagehost_client.models import Image, Links
from imagehost_client.testing import make_png
from imagehost_core import parse_transform
from imagehost_core._util.clock import utc_now
from imagehost_core.errors import BadRequestError
from imagehost_core.formats import FORMATS, Format
from imagehost_core.headers.scanner import scan
from imagehost_core.transform import FORMAT_NAMES, Fit, Size, Transform, plan

IMAGE = Image(
    id="0123456789abcdef",
    album_id=None,
    filename="cat.webp",
    original_filename="cat.png",
    description="",
    is_public=True,
    format="webp",
    mime_type="image/webp",
    size=1,
    width=6000,
    height=4000,
    is_animated=False,
    frames=1,
    has_alpha=False,
    sha256="0" * 64,
    placeholder="",
    url="https://img.example/0123456789abcdef.webp",
    thumb_url="",
    links=Links(url="", html="", markdown="", bbcode=""),
    created_at=utc_now(),
    updated_at=utc_now(),
)
NAMES = {"w": "width", "h": "height", "q": "quality", "fit": "fit", "fm": "format"}
SIDES = st.integers(-1, 8193) | st.sampled_from([0, 1, 8192, 8193])
VALUES = {
    "w": st.none() | SIDES,
    "h": st.none() | SIDES,
    "q": st.none() | st.integers(-1, 102),
    "fit": st.none() | st.sampled_from([*(fit.value for fit in Fit), "crop", "", "COVER"]),
    "fm": st.none() | st.sampled_from([*FORMAT_NAMES, "jpeg", "gif", "", "WEBP"]),
}


def parse_url(url: str) -> Transform:
    """Return the transform that the core parses from a URL."""
    parts = urlsplit(url)
    return parse_transform(parts.query, extension=parts.path.rpartition(".")[2])


@given(params=st.fixed_dictionaries({}, optional=VALUES))
def test_client_and_core_accept_the_same_parameters(
    params: dict[str, Any],
) -> None:
    sent = {name: value for name, value in params.items() if value is not None}
    if sent.get("fm") == "jpeg":  # a synonym in programs, and never in URLs
        sent["fm"] = "jpg"
    try:
        expected = parse_transform(sent)
    except BadRequestError:
        expected = None
    try:
        url = urls.image_url(IMAGE, **params)
    except ValueError:
        assert expected is None
        return
    assert expected is not None
    stored = FORMAT_NAMES["webp"]
    assert parse_url(url) == evolve(expected, format=expected.format or stored)
    by_id = urls.image_url(IMAGE.id, cdn_url="https://img.example/x/", **params)
    assert parse_transform(urlsplit(by_id).query) == expected
    for name, value in sent.items():
        value_of_core = getattr(expected, NAMES[name])
        assert value_of_core == (FORMAT_NAMES[value] if name == "fm" else value)


@given(
    width=st.integers(1, 65_535),
    height=st.integers(1, 65_535),
    asked=st.integers(1, 70_000),
    fm=st.sampled_from(["png", *FORMAT_NAMES]),
)
@example(width=1, height=65_535, asked=1, fm="webp")
def test_every_url_of_a_srcset_is_within_the_limits_of_the_host(
    width: int, height: int, asked: int, fm: str
) -> None:
    params: dict[str, Any] = {"fm": fm}
    text = urls.srcset(evolve(IMAGE, width=width, height=height), [asked], **params)
    if not text:
        assert fm == "webp" or height > 32_768
        assert width < height / 16_383
        return
    query = urlsplit(text.split(" ")[0]).query
    fmt = FORMAT_NAMES[fm]
    max_side = FORMATS[fmt].max_side if isinstance(fmt, Format) else None
    output = plan(Size(width, height), parse_transform(query), max_side=max_side).output
    assert output.width <= min(width, asked)


@given(
    width=st.integers(1, 16_384),
    widths=st.lists(st.integers(1, 20_000), min_size=1, max_size=6),
    params=st.fixed_dictionaries(
        {},
        optional={
            "q": st.integers(1, 100),
            "fit": st.sampled_from(list(Fit)),
            "fm": st.sampled_from([*FORMAT_NAMES]),
        },
    ),
)
def test_each_url_of_a_srcset_has_the_width_of_its_descriptor(
    width: int, widths: list[int], params: dict[str, Any]
) -> None:
    widths_of_urls: list[int] = []
    for candidate in urls.srcset(evolve(IMAGE, width=width), widths, **params).split(", "):
        url, _, descriptor = candidate.partition(" ")
        transform = parse_url(url)
        assert descriptor == f"{transform.width}w"
        assert (transform.quality, transform.fit) == (params.get("q"), params.get("fit", Fit.COVER))
        widths_of_urls.append(transform.width or 0)
    assert widths_of_urls == sorted(set(widths_of_urls))
    assert max(widths_of_urls) <= min(width, 8192)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("params", "size", "kind"),
    [
        ({}, (60, 40), "png"),
        ({"w": 30}, (30, 20), "png"),
        ({"h": 80, "fm": "webp"}, (120, 80), "webp"),
        ({"w": 10, "h": 10, "fit": "cover", "fm": "jpg", "q": 50}, (10, 10), "jpeg"),
        ({"w": 10, "h": 10, "fit": "contain", "fm": "avif"}, (10, 10), "avif"),
        ({"w": 10, "h": 30, "fit": "fill"}, (10, 30), "png"),
        ({"w": 30, "h": 30, "fit": "inside"}, (30, 20), "png"),
        ({"w": 30, "h": 30, "fit": "outside"}, (45, 30), "png"),
        ({"w": 1, "fm": "auto"}, (1, 1), "png"),
    ],
)
async def test_an_image_url_returns_the_requested_size_and_format(
    client: AsyncClient,
    anonymous_http: httpx2.AsyncClient,
    params: dict[str, Any],
    size: tuple[int, int],
    kind: str,
) -> None:
    image = await client.upload(make_png(60, 40), convert_to_webp=False)
    for url in (client.image_url(image, **params), client.image_url(image.id, **params)):
        response = await anonymous_http.get(url)
        assert response.status_code == 200
        assert response.headers["content-type"] == f"image/{kind}"
        if kind != "avif":  # the header scanner does not read AVIF
            header = scan(io.BytesIO(response.content), len(response.content))
            assert (header.width, header.height) == size


@pytest.mark.anyio
async def test_every_url_of_a_srcset_and_the_thumbnail_are_delivered(
    client: AsyncClient, anonymous_http: httpx2.AsyncClient
) -> None:
    image = await client.upload(make_png(60, 40))
    candidates = client.srcset(image, [10, 20, 100], fm="webp").split(", ")
    assert [candidate.partition(" ")[2] for candidate in candidates] == ["10w", "20w", "60w"]
    for url in (*(candidate.partition(" ")[0] for candidate in candidates), image.thumb_url):
        response = await anonymous_http.get(url)
        assert (response.status_code, response.headers["content-type"][:6]) == (200, "image/")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("query", "field_name"),
    [
        ("w=0", "w"),
        ("w=8193", "w"),
        ("w=0300", "w"),
        ("w=%2B3", "w"),
        ("w=300px", "w"),
        ("w=", "w"),
        ("h=1.5", "h"),
        ("q=101", "q"),
        ("fit=crop", "fit"),
        ("fm=jpeg", "fm"),
        ("fm=gif", "fm"),
        ("w=3&w=3", "w"),
    ],
)
async def test_an_invalid_parameter_is_400(
    http: httpx2.AsyncClient, anonymous_http: httpx2.AsyncClient, png: bytes, query: str, field_name: str
) -> None:
    record = await data_of(http.post("/upload", files={"image": png}))
    assert_error(
        await anonymous_http.get(f"{record['url']}?{query}"), 400, "BAD_REQUEST", f"for {field_name}"
    )
    assert (await anonymous_http.get(f"{record['url']}?utm=1&w=5")).status_code == 200


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["{}.bmp", "0000000000000000.png", "x", "{}.png.png"])
async def test_an_unknown_extension_or_id_is_404(
    backend: Backend, http: httpx2.AsyncClient, anonymous_http: httpx2.AsyncClient, png: bytes, name: str
) -> None:
    record = await data_of(http.post("/upload", files={"image": png}))
    assert_error(await anonymous_http.get(f"{backend.cdn_url}/{name.format(record['id'])}"), 404, "NOT_FOUND")


@pytest.mark.anyio
async def test_a_signed_url_delivers_a_private_image_without_a_token(
    backend: Backend, client: AsyncClient, anonymous_http: httpx2.AsyncClient, png: bytes
) -> None:
    image = await client.upload(png, is_public=False)
    plain = await client.images.signed_url(image)
    sized = await client.images.signed_url(image, w=20, fit="inside", fm="png", expires_in=60)
    for signed in (plain, sized):
        assert signed.url.startswith(f"{backend.cdn_url}/{image.id}.")
        assert (await anonymous_http.get(signed.url)).status_code == 200
        assert signed.expires_at is not None
        assert dict(parse_qsl(urlsplit(signed.url).query))["exp"] == str(int(signed.expires_at.timestamp()))
    assert plain.expires_at is not None
    assert sized.expires_at is not None
    assert 3400 < (plain.expires_at - sized.expires_at).total_seconds() < 3600
    assert (await anonymous_http.get(image.url)).status_code == 404
    await client.images.delete(image)
    assert (await anonymous_http.get(plain.url)).status_code == 404


@pytest.mark.anyio
async def test_a_renewed_secret_ends_all_signed_urls(
    client: AsyncClient, anonymous_http: httpx2.AsyncClient
) -> None:
    image = await client.upload(make_png(), filename="a.png", is_public=False)
    one, other = await client.images.signed_url(image), await client.images.signed_url(image, w=2)
    assert [(await anonymous_http.get(url.url)).status_code for url in (one, other)] == [200, 200]
    assert (await client.renew_signing_secret()).renewed
    assert [(await anonymous_http.get(url.url)).status_code for url in (one, other)] == [404, 404]
    renewed = await client.images.signed_url(image)
    assert (await anonymous_http.get(renewed.url)).status_code == 200


@pytest.mark.anyio
async def test_a_signed_url_expires_no_later_than_the_key_that_signs(
    client: AsyncClient, connect: Connect
) -> None:
    image = await client.upload(make_png(), filename="a.png", is_public=False)
    expires_at = datetime.now(UTC).replace(microsecond=0) + timedelta(minutes=9)
    key = await client.keys.create("short", scopes=["images:read"], expires_at=expires_at)
    program = connect(key.token)
    (many,) = await program.images.signed_urls([image], w=2)
    for signed in (await program.images.signed_url(image), many):
        assert signed.expires_at == expires_at
    short = (await program.images.signed_url(image, expires_in=60)).expires_at
    assert short is not None
    assert short < expires_at


@pytest.mark.anyio
async def test_a_signed_url_works_for_an_hour_by_default(
    http: httpx2.AsyncClient, anonymous_http: httpx2.AsyncClient, png: bytes
) -> None:
    record = await data_of(http.post("/upload", files={"image": png}, data={"is_public": "false"}))
    signed = await data_of(http.post(f"/images/{record['id']}/signed-url", json={"w": 20}))
    expires = int(dict(parse_qsl(urlsplit(signed["url"]).query))["exp"])
    assert 3_500 < expires - time.time() <= 3_600
    assert (await anonymous_http.get(signed["url"])).status_code == 200


@pytest.mark.anyio
async def test_a_signature_is_valid_for_its_image_and_parameters_only(
    http: httpx2.AsyncClient, anonymous_http: httpx2.AsyncClient, png: bytes
) -> None:
    form = {"is_public": "false"}
    record = await data_of(http.post("/upload", files={"image": png}, data=form))
    other = await data_of(http.post("/upload", files={"image": make_png(5, 5)}, data=form))
    body = {"w": 20, "fm": "png", "fit": "cover", "expires_in": 60}
    signed = (await data_of(http.post(f"/images/{record['id']}/signed-url", json=body)))["url"]
    url, _, query = signed.partition("?")
    pairs = dict(parse_qsl(query))

    async def status(changes: dict[str, str], where: str = url) -> int:
        return (await anonymous_http.get(f"{where}?{urlencode({**pairs, **changes})}")).status_code

    assert await status({}) == 200
    assert (await anonymous_http.get(f"{url}?{urlencode(list(pairs.items())[::-1])}")).status_code == 200
    assert await status({"utm": "1"}) == 200
    for changes in (
        {"w": "21"},
        {"h": "20"},
        {"fm": "webp"},
        {"exp": str(int(pairs["exp"]) + 1)},
        {"exp": "1"},
        {"exp": ""},
        {"sig": ""},
        {"sig": pairs["sig"][:-1]},
        {"sig": "é"},
    ):
        assert await status(changes) == 404, changes
    assert await status({}, other["url"]) == 404


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("body", "field_name"),
    [
        ({"expires_in": None}, "expires_in"),
        ({"expires_in": 0}, "expires_in"),
        ({"expires_in": 365 * 86_400 + 1}, "expires_in"),
        ({"expires_in": "60"}, "expires_in"),
        ({"expires_in": 60, "w": 0}, "w"),
        ({"expires_in": 60, "fit": "crop"}, "fit"),
        ({"expires_in": 60, "fm": "gif"}, "fm"),
    ],
)
async def test_an_invalid_request_for_a_signed_url_is_422(
    http: httpx2.AsyncClient, png: bytes, body: dict[str, object], field_name: str
) -> None:
    record = await data_of(http.post("/upload", files={"image": png}))
    response = await http.post(f"/images/{record['id']}/signed-url", json=body)
    assert_error(response, 422, "VALIDATION_ERROR", f"for {field_name}")


@pytest.mark.anyio
async def test_an_invalid_lifetime_is_refused_by_the_client(client: AsyncClient, png: bytes) -> None:
    image = await client.upload(png)
    for seconds in (0, 365 * 86_400 + 1):
        with pytest.raises(ValueError, match="for expires_in"):
            await client.images.signed_url(image, expires_in=seconds)
    assert (await client.images.signed_url(image, expires_in=365 * 86_400)).url
