"""The delivery route over HTTP: headers, conditional requests, ranges and access."""

from __future__ import annotations

from collections.abc import Callable
from email.utils import parsedate_to_datetime

import httpx2
import pytest

from imagehost_core.formats import Format, detect, sniff
from imagehost_core.testing import make_image

SECURITY_HEADERS = {
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; sandbox",
    "cross-origin-resource-policy": "cross-origin",
    "access-control-allow-origin": "*",
}


@pytest.fixture(scope="module")
def stored(api: httpx2.Client, png: bytes) -> tuple[str, bytes]:
    """A public PNG that is stored unconverted: its id and its bytes."""
    form = {"convertToWebP": "false"}
    response = api.post("/v1/upload", files={"image": ("Kätzchen.png", png)}, data=form)
    return str(response.json()["data"]["id"]), png


def test_the_url_without_parameters_is_the_master(
    anonymous: httpx2.Client, stored: tuple[str, bytes]
) -> None:
    image_id, master = stored
    for path in (
        f"/img/{image_id}",
        f"/img/{image_id}.png",
        f"/v1/img/{image_id}",
        f"/api/v1/img/{image_id}",
    ):
        assert anonymous.get(path).content == master


def test_an_image_has_all_headers(anonymous: httpx2.Client, stored: tuple[str, bytes]) -> None:
    image_id, master = stored
    headers = anonymous.get(f"/img/{image_id}.png").headers
    assert {name: headers[name] for name in SECURITY_HEADERS} == SECURITY_HEADERS
    assert headers["content-type"] == "image/png"
    assert headers["content-length"] == str(len(master))
    assert headers["cache-control"] == "public, max-age=86400, s-maxage=0"
    assert headers["cache-tag"] == f"img-{image_id}"
    assert headers["accept-ranges"] == "bytes"
    assert headers["content-disposition"] == (
        "inline; filename=\"K_tzchen.png\"; filename*=UTF-8''K%C3%A4tzchen.png"
    )
    assert headers["etag"].startswith('"')
    assert parsedate_to_datetime(headers["last-modified"]).tzinfo is not None
    assert "vary" not in headers
    assert len(headers["x-request-id"]) == 24


@pytest.mark.parametrize(
    ("query", "expected"),
    [("fm=jpg", Format.JPEG), ("fm=webp&w=100", Format.WEBP), ("fm=png&w=9", Format.PNG)],
)
def test_a_variant_has_the_requested_format(
    anonymous: httpx2.Client, stored: tuple[str, bytes], query: str, expected: Format
) -> None:
    response = anonymous.get(f"/img/{stored[0]}?{query}")
    assert sniff(response.content) is expected
    assert response.headers["content-type"] == f"image/{expected}"


def test_auto_chooses_the_format_by_accept_and_sends_vary(
    anonymous: httpx2.Client, stored: tuple[str, bytes]
) -> None:
    path = f"/img/{stored[0]}.auto?w=50"
    modern = anonymous.get(path, headers={"Accept": "image/avif,image/webp,*/*"})
    plain = anonymous.get(path, headers={"Accept": "image/png"})
    for response, fmt in ((modern, Format.WEBP), (plain, Format.PNG)):
        assert detect(response.content[:16]) is fmt
        assert response.headers["content-type"] == f"image/{fmt}"
        assert f'.{fmt}";' in response.headers["content-disposition"]
    assert modern.headers["vary"] == plain.headers["vary"] == "Accept"
    assert modern.headers["etag"] != plain.headers["etag"]


@pytest.mark.parametrize("query", ["", "?w=64&fm=webp"])
@pytest.mark.parametrize("form", ["{}", "W/{}", '"x", {}', '"x",W/{} , "y"', "*"])
def test_304_for_a_matching_entity_tag(
    anonymous: httpx2.Client, stored: tuple[str, bytes], query: str, form: str
) -> None:
    path = f"/img/{stored[0]}{query}"
    first = anonymous.get(path)
    again = anonymous.get(path, headers={"If-None-Match": form.format(first.headers["etag"])})
    assert (again.status_code, again.content) == (304, b"")
    for name in ("etag", "cache-control", "last-modified", "cache-tag", *SECURITY_HEADERS):
        assert again.headers[name] == first.headers[name]
    assert "content-type" not in again.headers


def test_304_for_an_image_that_is_not_newer(anonymous: httpx2.Client, stored: tuple[str, bytes]) -> None:
    path = f"/img/{stored[0]}"
    modified = anonymous.get(path).headers["last-modified"]
    assert anonymous.get(path, headers={"If-Modified-Since": modified}).status_code == 304
    older = {"If-Modified-Since": "Sun, 06 Nov 1994 08:49:37 GMT"}
    assert anonymous.get(path, headers=older).status_code == 200
    both = {"If-Modified-Since": modified, "If-None-Match": '"other"'}
    assert anonymous.get(path, headers=both).status_code == 200


@pytest.mark.parametrize("query", ["", "?w=64&fm=webp"])
def test_412_for_another_representation_than_the_one_that_a_client_wants(
    anonymous: httpx2.Client, stored: tuple[str, bytes], query: str
) -> None:
    path, old = f"/img/{stored[0]}{query}", "Sun, 06 Nov 1994 08:49:37 GMT"
    first = anonymous.get(path)
    tag, modified = first.headers["etag"], first.headers["last-modified"]
    for method in ("GET", "HEAD"):
        for failing in ({"If-Match": '"x"'}, {"If-Match": f"W/{tag}"}, {"If-Unmodified-Since": old}):
            headers = {**failing, "If-None-Match": tag, "Range": "bytes=0-3"}
            response = anonymous.request(method, path, headers=headers)
            assert (response.status_code, response.headers["cache-control"]) == (412, "no-store")
            if method == "GET":
                error = response.json()["error"]
                assert error["code"] == "BAD_REQUEST"
                assert f" for {next(iter(failing))} but received " in error["details"]
        for holding in ({"If-Match": f'"x", {tag}'}, {"If-Match": "*"}, {"If-Unmodified-Since": modified}):
            assert anonymous.request(method, path, headers=holding).status_code == 200
            both = {**holding, "If-None-Match": tag}
            assert anonymous.request(method, path, headers=both).status_code == 304
    precedence = {"If-Match": tag, "If-Unmodified-Since": old}
    assert anonymous.get(path, headers=precedence).status_code == 200
    missing = f"/img/{'0' * 16}{query}"
    assert anonymous.get(missing, headers={"If-Match": '"x"'}).status_code == 404


@pytest.mark.parametrize("query", ["", "?w=64&fm=webp"])
@pytest.mark.parametrize(
    ("requested", "start", "stop"), [("0-9", 0, 10), ("5-", 5, None), ("-7", -7, None), ("3-999999", 3, None)]
)
def test_206_for_one_range(
    anonymous: httpx2.Client,
    stored: tuple[str, bytes],
    query: str,
    requested: str,
    start: int,
    stop: int | None,
) -> None:
    path = f"/img/{stored[0]}{query}"
    whole = anonymous.get(path).content
    response = anonymous.get(path, headers={"Range": f"bytes={requested}"})
    first = start % len(whole)
    last = (stop or len(whole)) - 1
    assert (response.status_code, response.content) == (206, whole[start:stop])
    assert response.headers["content-range"] == f"bytes {first}-{last}/{len(whole)}"


@pytest.mark.parametrize("requested", ["bytes=0-1,3-4", "bytes=x", "lines=0-1", "bytes=9-3", "bytes=-"])
def test_multiple_and_invalid_ranges_get_the_whole_image(
    anonymous: httpx2.Client, stored: tuple[str, bytes], requested: str
) -> None:
    response = anonymous.get(f"/img/{stored[0]}", headers={"Range": requested})
    assert (response.status_code, response.content) == (200, stored[1])


def test_416_for_a_range_beyond_the_end(anonymous: httpx2.Client, stored: tuple[str, bytes]) -> None:
    size = len(stored[1])
    response = anonymous.get(f"/img/{stored[0]}", headers={"Range": f"bytes={size}-"})
    assert response.status_code == 416
    assert response.headers["content-range"] == f"bytes */{size}"
    assert response.headers["cache-control"] == "no-store"
    assert response.json()["error"]["code"] == "BAD_REQUEST"


def test_if_range_of_another_version_gets_the_whole_image(
    anonymous: httpx2.Client, stored: tuple[str, bytes]
) -> None:
    path, part = f"/img/{stored[0]}", {"Range": "bytes=0-3"}
    headers = anonymous.get(path).headers
    for same in (headers["etag"], headers["last-modified"]):
        assert anonymous.get(path, headers={**part, "If-Range": same}).status_code == 206
    for differs in ('"other"', f"W/{headers['etag']}", "Sun, 06 Nov 1994 08:49:37 GMT", "x"):
        assert anonymous.get(path, headers={**part, "If-Range": differs}).status_code == 200


@pytest.mark.parametrize("query", ["", "?w=33&fm=jpg"])
def test_head_is_get_without_the_body(
    anonymous: httpx2.Client, stored: tuple[str, bytes], query: str
) -> None:
    path = f"/img/{stored[0]}{query}"
    whole, head = anonymous.get(path), anonymous.head(path, headers={"Range": "bytes=0-1"})
    assert (head.status_code, head.content) == (200, b"")
    volatile = {"date", "x-request-id"}
    assert {item for item in head.headers.items() if item[0] not in volatile} == {
        item for item in whole.headers.items() if item[0] not in volatile
    }


def test_options_allows_scripts_of_other_origins_to_read_images(anonymous: httpx2.Client) -> None:
    response = anonymous.options("/img/0123456789abcdef")
    assert response.status_code == 204
    assert response.headers["access-control-allow-methods"] == "GET, HEAD, OPTIONS"
    assert "Authorization" in response.headers["access-control-allow-headers"]


def test_an_extension_may_be_in_any_case(anonymous: httpx2.Client, stored: tuple[str, bytes]) -> None:
    lower, upper = (anonymous.get(f"/img/{stored[0]}.{extension}?w=20") for extension in ("png", "PnG"))
    assert (upper.status_code, upper.content) == (200, lower.content)
    assert upper.headers["content-type"] == "image/png"


@pytest.mark.parametrize(
    ("path", "status"),
    [("?w=0", 400), ("?w=0300", 400), ("?fit=crop", 400), ("?w=1&w=2", 400), (".tiff", 404), (".png/x", 404)],
)
def test_errors_are_not_cacheable(
    anonymous: httpx2.Client, stored: tuple[str, bytes], path: str, status: int
) -> None:
    response = anonymous.get(f"/img/{stored[0]}{path}")
    assert response.status_code == status
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["access-control-allow-origin"] == "*"
    assert response.json()["success"] is False


def test_all_errors_of_a_query_are_reported_together(
    anonymous: httpx2.Client, stored: tuple[str, bytes]
) -> None:
    details = anonymous.get(f"/img/{stored[0]}?w=0&q=101&fit=crop&fm=gif").json()["error"]["details"]
    assert [name for name in ("w", "q", "fit", "fm") if f"for {name} but" not in details] == []


def test_a_private_image_is_404_for_other_accounts(
    api: httpx2.Client,
    anonymous: httpx2.Client,
    account: httpx2.Client,
    client_of: Callable[..., httpx2.Client],
    png: bytes,
) -> None:
    form = {"is_public": "0", "convertToWebP": "0"}
    image = api.post("/v1/upload", files={"image": png}, data=form).json()["data"]
    path = f"/img/{image['id']}.png"
    for query in ("", "?w=20"):
        owned = api.get(path + query)
        assert owned.status_code == 200
        assert owned.headers["cache-control"] == "private, no-store"
        for client in (anonymous, account, client_of("admin", "images:write")):
            response = client.get(path + query)
            missing = client.get(f"/img/{'0' * 16}.png{query}")
            assert response.status_code == 404
            assert response.text.replace(image["id"], "0" * 16) == missing.text
            assert response.headers.keys() == missing.headers.keys()


def test_a_signed_url_gives_access_to_one_variant_of_a_private_image(
    api: httpx2.Client, anonymous: httpx2.Client, png: bytes
) -> None:
    image = api.post("/v1/upload", files={"image": png}, data={"is_public": "0"}).json()["data"]
    transform = {"w": 40, "fm": "jpg", "expires_in": 60}
    url = api.post(f"/v1/images/{image['id']}/signed-url", json=transform).json()["data"]["url"]
    shown = anonymous.get(url)
    assert (shown.status_code, sniff(shown.content)) == (200, Format.JPEG)
    assert anonymous.get(url.replace("w=40", "w=41")).status_code == 404
    assert anonymous.get(url.replace("sig=", "sig=x")).status_code == 404


@pytest.mark.parametrize("query", ["", "?w=20"])
def test_pages_of_other_origins_can_use_private_images_by_signed_url_only(
    api: httpx2.Client, anonymous: httpx2.Client, png: bytes, query: str
) -> None:
    image = api.post("/v1/upload", files={"image": png}, data={"is_public": "0"}).json()["data"]
    body = {"w": 20} if query else {}
    signed = api.post(f"/v1/images/{image['id']}/signed-url", json=body).json()["data"]["url"]
    for headers in ({}, {"If-None-Match": "*"}, {"Range": "bytes=0-3"}):
        for method in ("GET", "HEAD"):
            owned = api.request(method, f"/img/{image['id']}{query}", headers=headers)
            assert owned.headers["cross-origin-resource-policy"] == "same-origin"
            assert "access-control-allow-origin" not in owned.headers
            for client in (anonymous, api):
                shared = client.request(method, signed, headers=headers)
                assert shared.status_code == owned.status_code
                assert shared.headers["cross-origin-resource-policy"] == "cross-origin"
                assert shared.headers["access-control-allow-origin"] == "*"
                assert shared.headers["cache-control"] == "private, no-store"


def test_an_invalid_token_does_not_prevent_access_to_a_public_image(
    anonymous: httpx2.Client, stored: tuple[str, bytes]
) -> None:
    response = anonymous.get(f"/img/{stored[0]}", headers={"Authorization": "Bearer unknown"})
    assert response.status_code == 200


def test_a_deleted_image_is_404_under_every_url(api: httpx2.Client, anonymous: httpx2.Client) -> None:
    image = api.post("/v1/upload", files={"image": make_image(seed=9)}).json()["data"]
    urls = [image["url"], f"{image['url']}?w=10", image["thumb_url"]]
    assert [anonymous.get(url).status_code for url in urls] == [200, 200, 200]
    assert api.delete(f"/v1/images/{image['id']}").json()["data"] == {"id": image["id"], "deleted": True}
    assert [anonymous.get(url).status_code for url in urls] == [404, 404, 404]
    etag = {"If-None-Match": "*"}
    assert [anonymous.get(url, headers=etag).status_code for url in urls] == [404, 404, 404]


def test_an_image_larger_than_a_chunk_is_complete(api: httpx2.Client, anonymous: httpx2.Client) -> None:
    content = gif_of_size(2_500_000)
    form = {"convertToWebP": "0"}
    image = api.post("/v1/upload", files={"image": content}, data=form).json()["data"]
    assert image["size"] > 2 * 2**20
    assert anonymous.get(image["url"]).content == content
    middle = anonymous.get(image["url"], headers={"Range": "bytes=1000-2100000"})
    assert middle.content == content[1000:2_100_001]


def gif_of_size(size: int) -> bytes:
    """Return a GIF of one pixel with a comment, of about `size` bytes."""
    comment = b"".join(b"\xff" + b"x" * 255 for _ in range(size // 256))
    start = b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff"
    pixel = b",\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;"
    return start + b"!\xfe" + comment + b"\x00" + pixel


@pytest.mark.parametrize("query", ["", "?w=9", "?sig=x&exp=1"])
def test_private_and_unknown_images_have_the_same_error(
    anonymous: httpx2.Client, account: httpx2.Client, png: bytes, query: str
) -> None:
    form = {"files": {"image": png}, "data": {"is_public": "false"}}
    private = account.post("/v1/upload", **form).json()["data"]["id"]  # type: ignore[arg-type]
    errors = {
        image_id: anonymous.get(f"/img/{image_id}{query}").json()["error"]
        for image_id in (private, "0123456789abcdef", "short")
    }
    for image_id, error in errors.items():
        expected = f"expected the URL of an image that you may see but received '{image_id}'"
        assert (error["code"], error["details"]) == ("NOT_FOUND", expected)
