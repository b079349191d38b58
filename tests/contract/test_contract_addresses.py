"""Contract 5 and 7, in both houses: addresses that the clients make are answered, and mean what they say."""

from __future__ import annotations

import io
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx2
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from tests.contract.conftest import House, data_of, refused

from imagehost_client import AsyncClient, ValidationError, urls
from imagehost_client.models import Image, Links
from imagehost_client.testing import make_png
from imagehost_core import parse_transform
from imagehost_core._util.clock import utc_now
from imagehost_core.errors import BadRequestError
from imagehost_core.headers import scan
from imagehost_core.transform import FORMAT_NAMES, Fit, Transform

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


def read(address: str) -> Transform:
    """Return what the core reads in an address."""
    parts = urlsplit(address)
    return parse_transform(parts.query, extension=parts.path.rpartition(".")[2])


@given(params=st.fixed_dictionaries({}, optional=VALUES))
def test_client_and_core_agree_on_every_value_that_is_allowed_and_on_every_one_that_is_not(
    params: dict[str, Any],
) -> None:
    sent = {name: value for name, value in params.items() if value is not None}
    try:
        expected = parse_transform(sent)
    except BadRequestError:
        expected = None
    try:
        address = urls.image_url(IMAGE, **params)
    except ValueError:
        assert expected is None
        return
    assert expected is not None
    stored = FORMAT_NAMES["webp"]
    assert read(address) == evolve(expected, format=expected.format or stored)
    by_id = urls.image_url(IMAGE.id, cdn_url="https://img.example/x/", **params)
    assert parse_transform(urlsplit(by_id).query) == expected
    for name, value in sent.items():
        meant = getattr(expected, NAMES[name])
        assert meant == (FORMAT_NAMES[value] if name == "fm" else value)


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
def test_each_candidate_of_a_srcset_is_read_as_the_width_that_it_names(
    width: int, widths: list[int], params: dict[str, Any]
) -> None:
    shown: list[int] = []
    for candidate in urls.srcset(evolve(IMAGE, width=width), widths, **params).split(", "):
        address, _, described = candidate.partition(" ")
        transform = read(address)
        assert described == f"{transform.width}w"
        assert (transform.quality, transform.fit) == (params.get("q"), params.get("fit", Fit.COVER))
        shown.append(transform.width or 0)
    assert shown == sorted(set(shown))
    assert max(shown) <= min(width, 8192)


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
async def test_an_address_shows_what_it_asks_for(
    house: House,
    client: AsyncClient,
    visitor: httpx2.AsyncClient,
    params: dict[str, Any],
    size: tuple[int, int],
    kind: str,
) -> None:
    image = await client.upload(make_png(60, 40), convert_to_webp=False)
    for address in (client.image_url(image, **params), client.image_url(image.id, **params)):
        answer = await visitor.get(address)
        assert answer.status_code == 200
        if not house.renders:
            assert answer.headers["content-type"] == "image/png"  # the double shows the stored bytes
            continue
        assert answer.headers["content-type"] == f"image/{kind}"
        if kind != "avif":  # which may not be uploaded, so that the core reads no header of it
            header = scan(io.BytesIO(answer.content), len(answer.content))
            assert (header.width, header.height) == size


@pytest.mark.anyio
async def test_every_candidate_of_a_srcset_and_the_thumb_are_answered(
    client: AsyncClient, visitor: httpx2.AsyncClient
) -> None:
    image = await client.upload(make_png(60, 40))
    candidates = client.srcset(image, [10, 20, 100], fm="webp").split(", ")
    assert [candidate.partition(" ")[2] for candidate in candidates] == ["10w", "20w", "60w"]
    for address in (*(candidate.partition(" ")[0] for candidate in candidates), image.thumb_url):
        answer = await visitor.get(address)
        assert (answer.status_code, answer.headers["content-type"][:6]) == (200, "image/")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("query", "named"),
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
async def test_a_parameter_that_is_not_allowed_is_400(
    http: httpx2.AsyncClient, visitor: httpx2.AsyncClient, picture: bytes, query: str, named: str
) -> None:
    record = await data_of(http.post("/upload", files={"image": picture}))
    refused(await visitor.get(f"{record['url']}?{query}"), 400, "BAD_REQUEST", f"for {named}")
    assert (await visitor.get(f"{record['url']}?utm=1&w=5")).status_code == 200


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["{}.bmp", "{}.JPG", "0000000000000000.png", "x", "{}.png.png"])
async def test_an_extension_or_an_id_that_there_is_not_is_404(
    house: House, http: httpx2.AsyncClient, visitor: httpx2.AsyncClient, picture: bytes, name: str
) -> None:
    record = await data_of(http.post("/upload", files={"image": picture}))
    refused(await visitor.get(f"{house.cdn_url}/{name.format(record['id'])}"), 404, "NOT_FOUND")


@pytest.mark.anyio
async def test_a_signed_address_shows_a_private_image_to_whoever_holds_it(
    house: House, client: AsyncClient, visitor: httpx2.AsyncClient, picture: bytes
) -> None:
    image = await client.upload(picture, is_public=False)
    plain = await client.images.signed_url(image)
    sized = await client.images.signed_url(image, w=20, fit="inside", fm="png", expires_in=60)
    for signed in (plain, sized):
        assert signed.url.startswith(f"{house.cdn_url}/{image.id}.")
        assert (await visitor.get(signed.url)).status_code == 200
        assert signed.expires_at is not None
        assert dict(parse_qsl(urlsplit(signed.url).query))["exp"] == str(int(signed.expires_at.timestamp()))
    assert plain.expires_at is not None
    assert sized.expires_at is not None
    assert 3400 < (plain.expires_at - sized.expires_at).total_seconds() < 3600
    assert (await visitor.get(image.url)).status_code == 404
    await client.images.delete(image)
    assert (await visitor.get(plain.url)).status_code == 404


@pytest.mark.anyio
async def test_a_signature_holds_for_what_was_meant_and_for_nothing_else(
    http: httpx2.AsyncClient, visitor: httpx2.AsyncClient, picture: bytes
) -> None:
    form = {"is_public": "false"}
    record = await data_of(http.post("/upload", files={"image": picture}, data=form))
    other = await data_of(http.post("/upload", files={"image": make_png(5, 5)}, data=form))
    body = {"w": 20, "fm": "png", "fit": "cover", "expires_in": 60}
    signed = (await data_of(http.post(f"/images/{record['id']}/signed-url", json=body)))["url"]
    address, _, query = signed.partition("?")
    pairs = dict(parse_qsl(query))

    async def status(changes: dict[str, str], where: str = address) -> int:
        return (await visitor.get(f"{where}?{urlencode({**pairs, **changes})}")).status_code

    assert await status({}) == 200
    assert (await visitor.get(f"{address}?{urlencode(list(pairs.items())[::-1])}")).status_code == 200
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
    ("body", "named"),
    [
        ({}, "expires_in"),
        ({"expires_in": 0}, "expires_in"),
        ({"expires_in": 365 * 86_400 + 1}, "expires_in"),
        ({"expires_in": "60"}, "expires_in"),
        ({"expires_in": 60, "w": 0}, "w"),
        ({"expires_in": 60, "fit": "crop"}, "fit"),
        ({"expires_in": 60, "fm": "gif"}, "fm"),
    ],
)
async def test_what_is_signed_is_checked(
    http: httpx2.AsyncClient, picture: bytes, body: dict[str, object], named: str
) -> None:
    record = await data_of(http.post("/upload", files={"image": picture}))
    answer = await http.post(f"/images/{record['id']}/signed-url", json=body)
    refused(answer, 422, "VALIDATION_ERROR", f"for {named}")


@pytest.mark.anyio
async def test_the_client_tells_a_lifetime_that_is_not_allowed(client: AsyncClient, picture: bytes) -> None:
    image = await client.upload(picture)
    with pytest.raises(ValidationError) as caught:
        await client.images.signed_url(image, expires_in=0)
    assert caught.value.field == "expires_in"
    assert (await client.images.signed_url(image, expires_in=365 * 86_400)).url
