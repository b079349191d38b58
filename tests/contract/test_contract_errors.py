"""Contract 2, in both houses: each error by its status and code, and by its class in the clients."""

from __future__ import annotations

import httpx2
import pytest
from tests.contract.conftest import Account, Connect, House, Visit, data_of, refused

from imagehost_client import (
    AsyncClient,
    BadRequestError,
    ConflictError,
    ForbiddenError,
    ImageHostError,
    InsufficientStorageError,
    NotFoundError,
    PayloadTooLargeError,
    RateLimitError,
    UnauthorizedError,
    UnsupportedMediaTypeError,
    ValidationError,
)
from imagehost_client.testing import make_gif, make_png

pytestmark = pytest.mark.anyio

LIMIT = 52_428_800
"""Bytes of the largest file: 50 MB."""
JSON = {"content-type": "application/json"}


def check(error: ImageHostError, status: int, code: str) -> None:
    """Check what every error of an answer tells."""
    assert (error.status, error.code) == (status, code)
    assert error.message
    assert error.details.startswith("expected ")
    assert error.request_id


async def test_400_wrong_parameters(client: AsyncClient) -> None:
    with pytest.raises(BadRequestError) as caught:
        await client.images.list(per_page=101).first_page()
    check(caught.value, 400, "BAD_REQUEST")
    assert caught.value.field == "per_page"


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"{", "application/json"),
        (b"", "application/json"),
        (b'{"name": NaN}', "application/json"),
        (b"\xff\xfe", "application/json; charset=utf-8"),
    ],
)
async def test_400_a_body_that_is_no_json(http: httpx2.AsyncClient, content: bytes, kind: str) -> None:
    answer = await http.post("/albums", content=content, headers={"content-type": kind})
    refused(answer, 400, "BAD_REQUEST", "JSON")


@pytest.mark.parametrize("body", [b"[]", b"1", b'"name"', b"null"])
async def test_422_json_that_is_no_object(http: httpx2.AsyncClient, body: bytes) -> None:
    refused(await http.post("/albums", content=body, headers=JSON), 422, "VALIDATION_ERROR", "an object")


async def test_400_form_data_without_a_boundary_or_cut_short(http: httpx2.AsyncClient) -> None:
    for kind, body in (("", b"x"), ("; boundary=B", b"--B\r\nContent-Disp")):
        headers = {"content-type": f"multipart/form-data{kind}"}
        refused(await http.post("/upload", content=body, headers=headers), 400, "BAD_REQUEST")


@pytest.mark.parametrize("token", ["ihk_wrong", "ihs_wrong", "nonsense", f"ihk_{'0' * 36}"])
async def test_401_a_token_that_is_malformed_or_unknown(connect: Connect, visit: Visit, token: str) -> None:
    with pytest.raises(UnauthorizedError) as caught:
        await connect(token).upload(make_png())
    check(caught.value, 401, "UNAUTHORIZED")
    assert token not in f"{caught.value!r}"
    answer = await visit(token).get("/images")
    refused(answer, 401, "UNAUTHORIZED")
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_401_without_a_token(connect: Connect) -> None:
    anybody = connect(None)
    for call in (anybody.account, anybody.images.list().first_page, anybody.keys.list().first_page):
        with pytest.raises(UnauthorizedError):
            await call()


async def test_401_comes_before_anything_is_said_of_the_body(visitor: httpx2.AsyncClient) -> None:
    refused(await visitor.post("/albums", content=b"{"), 401, "UNAUTHORIZED")


async def test_403_a_good_token_without_the_scope(client: AsyncClient, connect: Connect) -> None:
    key = await client.keys.create("reader", scopes=["images:read"])
    reader = connect(key.token)
    assert [image async for image in reader.images.list()] == []
    image = await client.upload(make_png())
    for call, scope in (
        (lambda: reader.upload(make_png()), "images:write"),
        (lambda: reader.images.update(image, description=""), "images:write"),
        (lambda: reader.images.delete(image), "images:delete"),
        (lambda: reader.albums.get(1), "albums:read"),
        (lambda: reader.albums.create("A"), "albums:write"),
        (lambda: reader.webhooks.list().first_page(), "webhooks:manage"),
        (lambda: reader.account(), "account:read"),
    ):
        with pytest.raises(ForbiddenError, match=scope) as caught:
            await call()
        check(caught.value, 403, "FORBIDDEN")


async def test_404_what_does_not_exist(client: AsyncClient) -> None:
    for call in (
        lambda: client.images.get("0" * 16),
        lambda: client.images.get("x"),
        lambda: client.albums.get(999_999),
        lambda: client.keys.get("x"),
        lambda: client.webhooks.get("x"),
        lambda: client.webhooks.deliveries("x").first_page(),
        lambda: client.webhooks.retry("x", "y"),
    ):
        with pytest.raises(NotFoundError) as caught:
            await call()
        check(caught.value, 404, "NOT_FOUND")


@pytest.mark.parametrize("path", ["/nothing", "/images/x/y/z", "/Images"])
async def test_404_an_address_that_there_is_not(http: httpx2.AsyncClient, path: str) -> None:
    refused(await http.get(path), 404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/images", {"GET"}),
        ("GET", "/upload", {"POST"}),
        ("PATCH", "/albums", {"GET", "POST"}),
        ("POST", "/account", {"GET"}),
    ],
)
async def test_405_names_the_methods_that_there_are(
    http: httpx2.AsyncClient, method: str, path: str, allowed: set[str]
) -> None:
    answer = await http.request(method, path)
    refused(answer, 405, "METHOD_NOT_ALLOWED", *allowed)
    assert allowed <= set(answer.headers["allow"].split(", ")) <= allowed | {"HEAD", "OPTIONS"}


async def test_409_another_request_under_the_same_key(client: AsyncClient) -> None:
    await client.albums.create("A", idempotency_key="one")
    with pytest.raises(ConflictError) as caught:
        await client.albums.create("B", idempotency_key="one")
    check(caught.value, 409, "CONFLICT")


async def test_413_is_for_one_byte_above_50_megabytes_and_not_for_exactly_these(client: AsyncClient) -> None:
    picture = make_gif(1)
    image = await client.upload(picture + bytes(LIMIT - len(picture)), convert_to_webp=False)
    assert image.size == len(picture)
    with pytest.raises(PayloadTooLargeError) as caught:
        await client.upload(("big.gif", picture + bytes(LIMIT + 1 - len(picture))))
    check(caught.value, 413, "PAYLOAD_TOO_LARGE")
    for text in (str(LIMIT), str(LIMIT + 1), "big.gif"):
        assert text in caught.value.details


@pytest.mark.parametrize(
    "content", [b"text", b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"%PDF-1.7", b"BM" + bytes(60), b""]
)
async def test_415_goes_by_the_content_and_never_by_the_name(client: AsyncClient, content: bytes) -> None:
    with pytest.raises(UnsupportedMediaTypeError) as caught:
        await client.upload(content, filename="cat.png")
    check(caught.value, 415, "UNSUPPORTED_MEDIA_TYPE")
    image = await client.upload(make_png(), filename="cat.exe", convert_to_webp=False)
    assert image.mime_type == "image/png"


async def test_415_a_body_of_another_kind_than_the_endpoint_takes(http: httpx2.AsyncClient) -> None:
    for answer in (
        await http.post("/upload", json={"image": "x"}),
        await http.post("/upload", content=b"x"),
        await http.post("/albums", data={"name": "A"}),
        await http.post("/albums", content=b"{}"),
        await http.patch("/images/x", files={"image": make_png()}),
    ):
        refused(answer, 415, "UNSUPPORTED_MEDIA_TYPE", "application" if "albums" in str(answer.url) else "")


async def test_422_an_image_that_is_recognised_but_damaged(client: AsyncClient) -> None:
    for content in (make_png(40, 30)[:50], make_gif(2)[:-4], b"GIF89a" + bytes(20), b"\x89PNG\r\n\x1a\n"):
        with pytest.raises(ValidationError) as caught:
            await client.upload(content, filename="cat.png")
        check(caught.value, 422, "VALIDATION_ERROR")
        assert caught.value.field in {"image", "cat.png"}
    assert (await client.account()).usage.images == 0


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (429, RateLimitError, "RATE_LIMIT_EXCEEDED"),
        (507, InsufficientStorageError, "INSUFFICIENT_STORAGE"),
    ],
)
async def test_429_and_507_where_a_limit_or_the_quota_is_used_up(
    house: House,
    account: Account,
    client: AsyncClient,
    status: int,
    kind: type[ImageHostError],
    code: str,
) -> None:
    house.refuse_uploads(account, status)
    quick = client.with_options(max_retries=0)

    async def upload_some() -> None:
        for number in range(3):  # two may be admitted where a minute ends between them
            await quick.upload(make_png(number + 1, 9))

    with pytest.raises(kind) as caught:
        await upload_some()
    assert (caught.value.status, caught.value.code) == (status, code)
    if status == 429:
        assert caught.value.retry_after is not None
        assert 0 < caught.value.retry_after <= 60
        assert caught.value.rate_limit is not None


async def test_the_alias_of_the_interface_answers_and_is_never_printed(
    house: House, http: httpx2.AsyncClient
) -> None:
    alias = house.base_url.removesuffix("/v1") + "/api/v1"
    record = await data_of(http.post(f"{alias}/upload", files={"file": make_png(3, 3)}))
    assert "/api/v1" not in f"{record}"
    assert await data_of(http.get(f"{alias}/images/{record['id']}")) == record
    for address in (f"{house.base_url}/img/{record['id']}", f"{alias}/img/{record['id']}"):
        assert (await http.get(address)).content == (await http.get(record["url"])).content
