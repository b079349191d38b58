"""Uploads by URL: the host fetches the image, from public addresses only, and within its limits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import anyio
import httpx2
import pytest
from tests.server.conftest import NO_LIMITS
from tests.waiting import PATIENCE, wait_until

from imagehost_client import Client, ValidationError
from imagehost_core import ImageHost
from imagehost_core.limits import MAX_FILE_BYTES
from imagehost_core.models import Scope
from imagehost_core.settings import WebhookSettings
from imagehost_core.testing import make_image
from imagehost_server.app import create_app
from imagehost_server.routes import upload as route
from imagehost_server.settings import ServerSettings
from imagehost_server.testing import RunningServer, running


class Origin(ThreadingHTTPServer):
    """A server of images on loopback, which counts its requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[str] = []

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}{path}"


class Handler(BaseHTTPRequestHandler):
    server: Origin

    def do_GET(self) -> None:
        self.server.requests.append(self.path)
        path = self.path.partition("?")[0]
        status = int(path[1:]) if path[1:].isdigit() else 200
        body = b"<html>" if path == "/page" else make_image(64, 48)
        size = MAX_FILE_BYTES + 2**20 if path == "/large" else len(body)
        self.send_response(status)
        self.send_header("Location", self.server.url("/cat.png"))
        if path != "/unknown-length":
            self.send_header("Content-Length", str(size + 10 * (path == "/cut")))
        self.end_headers()
        try:
            for _ in range(size // 2**20 if path == "/large" else 0):
                self.wfile.write(bytes(2**20))
            self.wfile.write(body)
        except OSError:
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def origin() -> Iterator[Origin]:
    server = Origin()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def fetching(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that may fetch from loopback."""
    variables = {**NO_LIMITS, "IMAGEHOST_WEBHOOKS_ALLOW_LOOPBACK": "true"}
    with running(tmp_path_factory.mktemp("fetching") / "data", variables=variables) as server:
        yield server


@pytest.fixture(scope="module")
def client(fetching: RunningServer) -> Iterator[httpx2.Client]:
    headers = {"Authorization": f"Bearer {fetching.token}"}
    with httpx2.Client(base_url=fetching.base_url, headers=headers, timeout=PATIENCE) as client:
        yield client


def upload(client: httpx2.Client, url: str, **headers: str) -> httpx2.Response:
    return client.post("/upload", files={"image_url": (None, url)}, headers=headers)


@pytest.mark.parametrize("path", ["/a%20cat.png?size=1", "/a%20cat.png#part", "/unknown-length"])
def test_the_image_at_a_url_is_stored_under_its_name(
    client: httpx2.Client, origin: Origin, path: str
) -> None:
    record = upload(client, origin.url(path)).json()["data"]
    assert (record["width"], record["height"]) == (64, 48)
    expected = "a cat.png" if "cat" in path else "unknown-length"
    assert record["original_filename"] == expected
    assert httpx2.get(record["url"]).status_code == 200


def test_the_client_takes_a_url_as_a_source(fetching: RunningServer, origin: Origin) -> None:
    url = origin.url("/a%20cat.png")
    with Client(fetching.base_url, fetching.token) as client:
        image = client.upload(url, description="From a URL", is_public=False)
        assert (image.original_filename, image.description, image.is_public) == (
            "a cat.png",
            "From a URL",
            False,
        )
        results = list(client.upload_many([url, make_image(8, 8), origin.url("/404")]))
        assert [result.image is not None for result in results] == [True, True, False]
        assert isinstance(results[2].error, ValidationError)


def test_options_apply(client: httpx2.Client, origin: Origin) -> None:
    fields = {"image_url": origin.url("/cat.png"), "format": "png", "is_public": "false"}
    response = client.post("/upload", files={name: (None, value) for name, value in fields.items()})
    record = response.json()["data"]
    assert (record["format"], record["is_public"]) == ("png", False)


@pytest.mark.parametrize(
    ("path", "status", "details"),
    [
        ("/404", 422, "expected an image for image_url but received the status 404"),
        (
            "/302",
            422,
            "image_url but received redirects are not followed: the status 302",
        ),
        ("/cut", 422, "expected an image for image_url but received the response was not HTTP"),
        ("/page", 415, "received HTML"),
        (
            "/large",
            413,
            f"{MAX_FILE_BYTES} bytes for the image but received {MAX_FILE_BYTES + 2**20}",
        ),
    ],
)
def test_what_is_no_image_within_the_limits_is_refused_and_leaves_nothing(
    fetching: RunningServer, client: httpx2.Client, origin: Origin, path: str, status: int, details: str
) -> None:
    before = client.get("/account").json()["data"]["usage"]
    response = upload(client, origin.url(path))
    assert response.status_code == status
    assert details in response.json()["error"]["details"]
    assert client.get("/account").json()["data"]["usage"] == before
    staged = [entry for entry in (fetching.data / "staging").rglob("*") if entry.is_file()]
    assert [entry for entry in staged if entry.stat().st_size > 1_000] == []


def test_nothing_private_is_requested(api: httpx2.Client, origin: Origin) -> None:
    """The server of this client may not fetch from loopback."""
    before = len(origin.requests)
    port = origin.server_address[1]
    for url in (
        origin.url("/cat.png"),
        f"https://127.0.0.1:{port}/cat.png",
        f"https://localhost:{port}/cat.png",
        "https://10.0.0.1/cat.png",
        "https://169.254.169.254/latest/meta-data",
        "ftp://example.com/cat.png",
        "file:///etc/passwd",
    ):
        response = api.post("/v1/upload", files={"image_url": (None, url)})
        assert response.status_code == 422, url
        assert "for image_url but received" in response.json()["error"]["details"]
    assert len(origin.requests) == before


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ([("image_url", (None, "{url}")), ("image", ("a.png", b"x"))], 400),
        ([("image_url", (None, "{url}")), ("files[]", ("a.png", b"x"))], 400),
        ([("image_url", (None, "{url}")), ("image_url", (None, "{url}"))], 400),
        ([("image_url", (None, ""))], 400),
        ([("imageUrl", (None, "{url}")), ("image", ("a.png", b"x"))], 422),
        ([("image_url", (None, "{url}")), ("quality", (None, "0"))], 422),
        ([("image_url", (None, "{url}")), ("album_id", (None, "999"))], 422),
    ],
)
def test_a_wrong_form_is_refused_without_a_request(
    client: httpx2.Client,
    origin: Origin,
    fields: list[tuple[str, tuple[str | None, str | bytes]]],
    status: int,
) -> None:
    before = len(origin.requests)
    files = [
        (name, (filename, value.replace("{url}", origin.url("/a.png")) if isinstance(value, str) else value))
        for name, (filename, value) in fields
    ]
    assert client.post("/upload", files=files).status_code == status
    assert len(origin.requests) == before


def test_a_repeated_request_fetches_once(client: httpx2.Client, origin: Origin) -> None:
    before = len(origin.requests)
    key = {"Idempotency-Key": "fetched"}
    first, second = (upload(client, origin.url("/cat.png"), **key) for _ in range(2))
    assert first.json() == second.json()
    assert second.headers["Idempotent-Replayed"] == "true"
    assert len(origin.requests) == before + 1
    assert upload(client, origin.url("/other.png"), **key).status_code == 409


def test_a_failed_fetch_is_counted_and_logged_as_an_upload_that_failed(
    fetching: RunningServer, client: httpx2.Client, origin: Origin
) -> None:
    def count() -> float:
        text = httpx2.get(f"{fetching.origin}/metrics").text
        name = 'imagehost_uploads_total{result="VALIDATION_ERROR"} '
        return sum(float(line.removeprefix(name)) for line in text.splitlines() if line.startswith(name))

    before = count()
    upload(client, origin.url("/404"))
    upload(client, origin.url("/cut"))
    assert count() == before + 2
    wait_until(lambda: "file=cut" in fetching.log.read_text("utf-8"))
    lines = [line for line in fetching.log.read_text("utf-8").splitlines() if "upload failed" in line]
    assert {line.split(" reason=")[0].partition(" file=")[2] for line in lines} >= {
        "404 size=0 code=VALIDATION_ERROR",
        f"cut size={len(make_image(64, 48))} code=VALIDATION_ERROR",
    }


def test_a_slow_origin_ends_the_upload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, origin: Origin
) -> None:
    silent = ThreadingHTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=True)
    monkeypatch.setattr(route, "FETCH_SECONDS", 0.2)
    settings = ServerSettings(webhooks=WebhookSettings(allow_loopback=True))
    with ImageHost.open(tmp_path / "data", settings=settings) as host:
        token = host.keys.create(owner=host.accounts.get_or_create("admin")).token
        transport = httpx2.ASGITransport(create_app(host, settings))  # type: ignore[arg-type]
        url = f"http://127.0.0.1:{silent.server_address[1]}/cat.png"

        async def send() -> httpx2.Response:
            async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                headers = {"Authorization": f"Bearer {token}"}
                return await client.post("/v1/upload", files={"image_url": (None, url)}, headers=headers)

        response = anyio.run(send)
    silent.server_close()
    assert response.status_code == 422
    assert "no response within 0.2 seconds" in response.json()["error"]["details"]


def test_a_key_that_is_narrowed_while_the_form_arrives_causes_no_fetch(
    fetching: RunningServer, origin: Origin
) -> None:
    url = origin.url("/narrowed.png")
    body = (f'--x\r\nContent-Disposition: form-data; name="image_url"\r\n\r\n{url}\r\n--x--\r\n').encode()
    with ImageHost.open(fetching.data) as host:
        key = host.keys.create(owner="admin", scopes=[Scope.IMAGES_WRITE, Scope.IMAGES_READ])
        connection = HTTPConnection("127.0.0.1", fetching.port, timeout=PATIENCE)
        connection.putrequest("POST", "/v1/upload")
        connection.putheader("Authorization", f"Bearer {key.token}")
        connection.putheader("Content-Type", "multipart/form-data; boundary=x")
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body[:-1])
        # A response to another request: the form has begun to arrive.
        assert httpx2.get(
            f"{fetching.base_url}/images", headers={"Authorization": f"Bearer {key.token}"}
        ).is_success
        host.keys.update(key.id, owner="admin", scopes=[Scope.IMAGES_READ])
        connection.send(body[-1:])
        assert connection.getresponse().status == 403
        connection.close()
    assert "/narrowed.png" not in origin.requests
