"""Errors, with both clients: status and code, and the class in the clients."""

from __future__ import annotations

import httpx2
import pytest
from tests.animations import make_gif
from tests.contract.conftest import Account, Backend, Connect, OpenHttp, assert_error, data_of

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
from imagehost_client.testing import make_png

pytestmark = pytest.mark.anyio

LIMIT = 52_428_800
"""The maximum file size: 50 MiB."""
JSON = {"content-type": "application/json"}


def assert_attributes(error: ImageHostError, status: int, code: str) -> None:
    """Assert the attributes of an error with a response."""
    assert (error.status, error.code) == (status, code)
    assert error.message
    assert error.details.startswith("expected ")
    assert error.request_id


async def test_400_for_invalid_parameters(client: AsyncClient) -> None:
    with pytest.raises(BadRequestError) as caught:
        await client.images.list(cursor="unknown").first_page()
    assert_attributes(caught.value, 400, "BAD_REQUEST")
    assert caught.value.fields == ("cursor",)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"{", "application/json"),
        (b"", "application/json"),
        (b'{"name": NaN}', "application/json"),
        (b"\xff\xfe", "application/json; charset=utf-8"),
    ],
)
async def test_400_for_a_body_that_is_not_json(http: httpx2.AsyncClient, content: bytes, kind: str) -> None:
    response = await http.post("/albums", content=content, headers={"content-type": kind})
    assert_error(response, 400, "BAD_REQUEST", "JSON")


@pytest.mark.parametrize("body", [b"[]", b"1", b'"name"', b"null"])
async def test_422_for_json_that_is_not_an_object(http: httpx2.AsyncClient, body: bytes) -> None:
    assert_error(await http.post("/albums", content=body, headers=JSON), 422, "VALIDATION_ERROR", "an object")


async def test_400_for_form_data_without_a_boundary_or_truncated(http: httpx2.AsyncClient) -> None:
    for kind, body in (("", b"x"), ("; boundary=B", b"--B\r\nContent-Disp")):
        headers = {"content-type": f"multipart/form-data{kind}"}
        assert_error(await http.post("/upload", content=body, headers=headers), 400, "BAD_REQUEST")


async def test_booleans_in_json_are_true_false_0_and_1(http: httpx2.AsyncClient, png: bytes) -> None:
    image = (await data_of(http.post("/upload", files={"image": png})))["id"]
    album = (await data_of(http.post("/albums", json={"name": "A", "is_public": 0}), 201))["id"]
    endpoint = {"url": "http://127.0.0.1:9/"}
    webhook = (await data_of(http.post("/webhooks", json=endpoint), 201))["id"]
    members = {
        f"/images/{image}": "is_public",
        f"/albums/{album}": "is_public",
        f"/webhooks/{webhook}": "is_active",
    }
    assert (await data_of(http.get(f"/albums/{album}")))["is_public"] is False
    for path, name in members.items():
        for value in (0, 1, False, True):
            assert (await data_of(http.patch(path, json={name: value})))[name] is bool(value)
        for wrong in (2, -1, 1.0, "1", "true", None):
            response = await http.patch(path, json={name: wrong})
            assert_error(response, 422, "VALIDATION_ERROR", f"expected true, false, 0 or 1 for {name}")
        assert (await data_of(http.get(path)))[name] is True


@pytest.mark.parametrize("token", ["ihk_wrong", "ihs_wrong", "nonsense", f"ihk_{'0' * 36}"])
async def test_401_for_a_malformed_or_unknown_token(
    connect: Connect, open_http: OpenHttp, token: str
) -> None:
    with pytest.raises(UnauthorizedError) as caught:
        await connect(token).upload(make_png())
    assert_attributes(caught.value, 401, "UNAUTHORIZED")
    assert token not in f"{caught.value!r}"
    response = await open_http(token).get("/images")
    assert_error(response, 401, "UNAUTHORIZED")
    assert response.headers["www-authenticate"] == "Bearer"


async def test_401_without_a_token(connect: Connect) -> None:
    anonymous = connect(None)
    for call in (anonymous.account, anonymous.images.list().first_page, anonymous.keys.list().first_page):
        with pytest.raises(UnauthorizedError):
            await call()


async def test_401_precedes_validation_of_the_body(anonymous_http: httpx2.AsyncClient) -> None:
    assert_error(await anonymous_http.post("/albums", content=b"{"), 401, "UNAUTHORIZED")


async def test_403_for_a_valid_token_without_the_scope(client: AsyncClient, connect: Connect) -> None:
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
        assert_attributes(caught.value, 403, "FORBIDDEN")


async def test_404_for_missing_resources(client: AsyncClient) -> None:
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
        assert_attributes(caught.value, 404, "NOT_FOUND")


@pytest.mark.parametrize("path", ["/nothing", "/images/x/y/z", "/Images"])
async def test_404_for_an_unknown_route(http: httpx2.AsyncClient, path: str) -> None:
    assert_error(await http.get(path), 404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/gallery", {"GET"}),
        ("GET", "/upload", {"POST"}),
        ("PATCH", "/albums", {"GET", "POST"}),
        ("POST", "/account", {"GET"}),
    ],
)
async def test_405_has_the_allowed_methods(
    http: httpx2.AsyncClient, method: str, path: str, allowed: set[str]
) -> None:
    response = await http.request(method, path)
    assert_error(response, 405, "METHOD_NOT_ALLOWED", *allowed)
    assert allowed <= set(response.headers["allow"].split(", ")) <= allowed | {"HEAD", "OPTIONS"}


async def test_409_for_another_request_with_the_same_key(client: AsyncClient) -> None:
    await client.albums.create("A", idempotency_key="one")
    with pytest.raises(ConflictError) as caught:
        await client.albums.create("B", idempotency_key="one")
    assert_attributes(caught.value, 409, "CONFLICT")


async def test_413_for_one_byte_more_than_50_mebibytes(client: AsyncClient) -> None:
    gif = make_gif(1)
    image = await client.upload(gif + bytes(LIMIT - len(gif)), convert_to_webp=False)
    assert image.size == len(gif)
    with pytest.raises(PayloadTooLargeError) as caught:
        await client.upload(("big.gif", gif + bytes(LIMIT + 1 - len(gif))))
    assert_attributes(caught.value, 413, "PAYLOAD_TOO_LARGE")
    for text in (str(LIMIT), str(LIMIT + 1), "big.gif"):
        assert text in caught.value.details


@pytest.mark.parametrize(
    "content", [b"text", b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"%PDF-1.7", b"BM" + bytes(60), b""]
)
async def test_415_depends_on_the_content_and_not_on_the_name(client: AsyncClient, content: bytes) -> None:
    with pytest.raises(UnsupportedMediaTypeError) as caught:
        await client.upload(content, filename="cat.png")
    assert_attributes(caught.value, 415, "UNSUPPORTED_MEDIA_TYPE")
    image = await client.upload(make_png(), filename="cat.exe", convert_to_webp=False)
    assert image.mime_type == "image/png"


async def test_415_for_a_body_of_another_content_type(http: httpx2.AsyncClient) -> None:
    for response in (
        await http.post("/upload", json={"image": "x"}),
        await http.post("/upload", content=b"x"),
        await http.post("/albums", data={"name": "A"}),
        await http.post("/albums", content=b"{}"),
        await http.patch("/images/x", files={"image": make_png()}),
    ):
        assert_error(
            response, 415, "UNSUPPORTED_MEDIA_TYPE", "application" if "albums" in str(response.url) else ""
        )


async def test_422_for_a_corrupt_image(client: AsyncClient) -> None:
    for content in (make_png(40, 30)[:50], make_gif(2)[:-4], b"GIF89a" + bytes(20), b"\x89PNG\r\n\x1a\n"):
        with pytest.raises(ValidationError) as caught:
            await client.upload(content, filename="cat.png")
        assert_attributes(caught.value, 422, "VALIDATION_ERROR")
        assert caught.value.fields[0] in {"image", "cat.png"}
    assert (await client.account()).usage.images == 0


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (429, RateLimitError, "RATE_LIMIT_EXCEEDED"),
        (507, InsufficientStorageError, "INSUFFICIENT_STORAGE"),
    ],
)
async def test_429_and_507_for_an_exceeded_rate_limit_or_quota(
    backend: Backend,
    account: Account,
    client: AsyncClient,
    status: int,
    kind: type[ImageHostError],
    code: str,
) -> None:
    backend.refuse_uploads(account, status)
    without_retries = client.with_options(max_retries=0)

    async def upload_some() -> None:
        for number in range(3):  # two are accepted if a minute ends between them
            await without_retries.upload(make_png(number + 1, 9))

    with pytest.raises(kind) as caught:
        await upload_some()
    assert (caught.value.status, caught.value.code) == (status, code)
    if status == 429:
        assert caught.value.retry_after is not None
        assert 0 < caught.value.retry_after <= 60
        assert caught.value.rate_limit is not None


async def test_the_alias_of_the_api_works_and_is_not_in_responses(
    backend: Backend, http: httpx2.AsyncClient
) -> None:
    alias = backend.base_url.removesuffix("/v1") + "/api/v1"
    uploaded = await http.post(f"{alias}/upload", files={"file": make_png(3, 3)}, data={"permission": "0"})
    assert "/api/v1" not in uploaded.text
    envelope = uploaded.json()
    assert (envelope["success"], envelope["status"], envelope["message"]) == (True, True, "OK")
    record = await data_of(http.get(f"/images/{envelope['data']['id']}"))
    assert (await http.get(f"{alias}/images/{record['id']}")).json()["data"] == record
    assert record["is_public"] is False
    links = {
        **record["links"],
        "thumbnail_url": record["thumb_url"],
        "markdown_with_link": f"[{record['links']['markdown']}]({record['url']})",
    }
    names_of_lsky = {
        "key": record["id"],
        "name": record["filename"],
        "origin_name": record["original_filename"],
        "mimetype": record["mime_type"],
        "extension": record["url"].rpartition(".")[2],
        "links": links,
    }
    assert envelope["data"] == record | names_of_lsky
    missing = (await http.get(f"{alias}/images/{'0' * 16}")).json()
    error = missing["error"]
    assert (missing["status"], missing["message"]) == (False, f"{error['message']}: {error['details']}")
    for method in ("GET", "PUT"):
        assert "status" not in (await http.request(method, "/nothing")).json()
    for url in (f"{backend.base_url}/img/{record['id']}", f"{alias}/img/{record['id']}"):
        assert (await http.get(url)).content == (await http.get(record["url"])).content
