"""Clients that send requests of all kinds, and compare the responses with their models."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from io import BytesIO
from time import monotonic, sleep
from typing import Any

import httpx2
from attrs import define
from PIL import Image
from tests.faults.model_client import TIMEOUT, ModelClient

from imagehost_core.testing import make_image

FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
SIZES = ((48, 32), (160, 120), (320, 240), (640, 400), (1280, 960))
WARM_VARIANTS = ("w=120", "w=80&h=80&fm=webp", "h=64&fm=jpg&q=70")
MAX_IMAGES, MAX_ALBUMS = 40, 6
"""Images and albums of a client at a time, so that the amount of data does not grow."""
SIGNED_SECONDS = 30 * 86_400
"""Longer than any jump of the clock."""
BAD_REQUESTS: tuple[tuple[str, str, dict[str, Any], int], ...] = (
    ("GET", "/v1/images?per_page=101", {}, 400),
    ("GET", "/v1/images/0000000000000000", {}, 404),
    ("GET", "/v1/images?cursor=abc", {}, 400),
    ("POST", "/v1/albums", {"content": b"{", "headers": {"Content-Type": "application/json"}}, 400),
    ("POST", "/v1/albums", {"json": {"name": ""}}, 422),
    ("POST", "/v1/upload", {"files": {"image": ("a.png", b"not an image")}}, 415),
    ("POST", "/v1/upload", {"files": {"image": ("a.png", make_image(9, 9)[:-20])}}, 422),
    ("POST", "/v1/upload", {"files": {"other": ("a.png", b"")}}, 400),
    ("PATCH", "/v1/images", {"json": {"image_ids": []}}, 422),
    ("DELETE", "/v1/account", {}, 405),
    ("GET", "/img/0000000000000000.webp?w=10", {}, 404),
    ("GET", "/nothing", {}, 404),
    ("GET", "/v1/account", {"headers": {"Authorization": "Bearer ihk_wrong"}}, 401),
)
PAGES = (
    "/",
    "/login",
    "/healthz",
    "/metrics",
    "/v1/openapi.json",
    "/v1/gallery",
    "/v1/account",
    "/v1/webhooks",
)


def make_files() -> list[bytes]:
    """Return an image of each format and size, and an animation of each format that has them."""
    files = []
    for number, size in enumerate(SIZES):
        frames = [Image.open(BytesIO(make_image(*size, seed=number + each))) for each in range(3)]
        for name in FORMATS:
            file = BytesIO()
            frames[0].save(file, name)
            files.append(file.getvalue())
        if number < 3:
            for name in ("WEBP", "GIF"):
                file = BytesIO()
                frames[0].save(file, name, save_all=True, append_images=frames[1:], duration=100)
                files.append(file.getvalue())
    return files


@define
class TrafficClient(ModelClient):
    """A client that sends requests of all kinds."""

    def run(self, ended: threading.Event) -> None:
        """Send requests until an event is set."""
        headers = {"Authorization": f"Bearer {self.token}"}
        operations: dict[Callable[[], None], int] = {
            self.upload: 14,
            self.upload_batch: 2,
            self.repeat_upload: 3,
            self.read_master: 12,
            self.render_warm: 20,
            self.render_cold: 6,
            self.list_album: 8,
            self.search: 6,
            self.list_pages: 4,
            self.update: 6,
            self.delete: 5,
            self.delete_many: 1,
            self.update_many: 2,
            self.create_album: 2,
            self.change_album: 2,
            self.delete_album: 1,
            self.sign: 3,
            self.read_deleted: 3,
            self.send_bad_request: 5,
            self.get_page: 5,
            self.abort_upload: 2,
            self.abort_download: 2,
        }
        due = monotonic()
        with httpx2.Client(base_url=self.origin, headers=headers, timeout=TIMEOUT) as self.http:
            while not ended.is_set():
                (operation,) = self.random.choices([*operations], [*operations.values()])
                self.operation = operation.__name__
                try:
                    operation()
                except Exception as error:
                    self.wrong.append(f"{self.operation}: {error!r}")
                due = max(due + self.random.uniform(0, 2 * self.interval), monotonic() - 5)
                ended.wait(max(0.0, due - monotonic()))

    def upload(self) -> None:
        """Upload an image, with a content that no other upload has if the bytes are kept."""
        if len(self.images) >= MAX_IMAGES:
            self.delete()
            return
        word = self.new_word()
        content, form = self.random.choice(self.files), self.choose_form(word)
        if form.get("convertToWebP"):
            content = make_image(40, 30, seed=self.random.randrange(2**31))
        response = self.call("POST", "/v1/upload", files={"image": ("a.png", content)}, data=form)
        if response is None:
            self.unanswered.add(word)
            return
        record = response.json()["data"]
        self.add(record, word)
        if form.get("convertToWebP") and record["sha256"] != sha256(content).hexdigest():
            self.wrong.append(f"upload: {record['id']} has other bytes")

    def upload_batch(self) -> None:
        """Upload files, one of which is no image."""
        if len(self.images) >= MAX_IMAGES:
            self.delete_many()
            return
        word = self.new_word()
        contents = [*self.random.sample(self.files, 3), b"not an image"]
        files = [("files[]", (f"{number}.png", content)) for number, content in enumerate(contents)]
        response = self.call("POST", "/v1/upload", files=files, data=self.choose_form(word))
        if response is None:
            self.unanswered.add(word)
            return
        data = response.json()["data"]
        codes = [(error["index"], error["code"]) for error in data["errors"]]
        for record in data["images"]:
            self.add(record, word)
        # A worker that is killed makes files unavailable, which may have any index.
        if (3, "UNSUPPORTED_MEDIA_TYPE") not in codes or len(data["images"]) + len(codes) != 4:
            self.wrong.append(f"upload_batch: {codes}")

    def repeat_upload(self) -> None:
        """Upload an image under an idempotency key until there is a response, and once more."""
        word = self.new_word()
        options: dict[str, Any] = {
            "files": {"image": ("a.png", self.random.choice(self.files))},
            "data": self.choose_form(word),
            "headers": {"Idempotency-Key": word},
        }
        records = []
        for _ in range(100):
            response = self.call("POST", "/v1/upload", 200, 409, **options)
            if response is not None and response.status_code == 200:
                records.append(response.json()["data"])
                if len(records) == 2:
                    break
            else:
                sleep(0.3)
        if len(records) != 2 or records[0] != records[1]:
            self.wrong.append(f"repeat_upload: {word}: {[record['id'] for record in records]}")
            self.unanswered.add(word)
            return
        self.add(records[0], word)

    def read_master(self) -> None:
        """Read a master; with its ETag, only the headers; and a part of it."""
        if image_id := self.choose_image():
            image = self.images[image_id]
            response = self.call("GET", f"/img/{image_id}")
            if response is None:
                return
            if sha256(response.content).hexdigest() != image.sha256:
                self.wrong.append(f"read_master: {image_id} has other bytes")
            self.call("GET", f"/img/{image_id}", 304, headers={"If-None-Match": response.headers["etag"]})
            part = self.call("GET", f"/img/{image_id}", 206, headers={"Range": "bytes=5-20"})
            if part is not None and part.content != response.content[5:21]:
                self.wrong.append(f"read_master: {image_id} has another range")

    def render_warm(self) -> None:
        """Read a variant that is often requested."""
        self._render(self.random.choice(WARM_VARIANTS))

    def render_cold(self) -> None:
        """Read a variant that is rarely requested."""
        width, height = self.random.randrange(10, 400), self.random.randrange(10, 400)
        fit = self.random.choice(("cover", "contain", "inside", "fill"))
        format_name = self.random.choice(("jpg", "webp", "png", "avif"))
        self._render(f"w={width}&h={height}&fit={fit}&fm={format_name}")

    def _render(self, query: str) -> None:
        if image_id := self.choose_image():
            response = self.call("GET", f"/img/{image_id}?{query}")
            if response is not None:
                Image.open(BytesIO(response.content)).load()

    def _ids(self, query: str) -> set[str] | None:
        response = self.call("GET", f"/v1/images?per_page=100&{query}")
        if response is None:
            return None
        return {record["id"] for record in response.json()["data"]["images"]}

    def list_album(self) -> None:
        """List an album; all of its images are those of this client."""
        if self.albums:
            album_id = self.random.choice([*self.albums])
            expected = {key for key, image in self.images.items() if image.album_id == album_id}
            ids = self._ids(f"album_id={album_id}")
            # Uploads without a response may be in it too.
            if ids is not None and (not expected <= ids or len(ids - expected) > 4 * len(self.unanswered)):
                self.wrong.append(f"list_album: {album_id}: {expected ^ ids}")

    def search(self) -> None:
        """Find an image by its word."""
        if image_id := self.choose_image():
            ids = self._ids(f"q={self.images[image_id].word}")
            if ids is not None and image_id not in ids:
                self.wrong.append(f"search: {image_id} is not in {ids}")

    def list_pages(self) -> None:
        """Read two pages of a list, the second by its cursor."""
        query = self.random.choice(("", "&sort=-size", "&sort=filename", "&format=webp", "&is_public=false"))
        response = self.call("GET", f"/v1/images?per_page=10{query}")
        cursor = response and response.json()["data"]["pagination"]["next_cursor"]
        if cursor:
            self.call("GET", f"/v1/images?per_page=10{query}&cursor={cursor}")

    def update(self) -> None:
        """Change an image."""
        if image_id := self.choose_image():
            image = self.images.pop(image_id)
            album_id = self.random.choice([None, *self.albums])
            changes = {"is_public": not image.is_public, "album_id": album_id}
            if self.call("PATCH", f"/v1/images/{image_id}", json=changes) is not None:
                image.is_public, image.album_id = not image.is_public, album_id
                self.images[image_id] = image

    def update_many(self) -> None:
        """Change several images."""
        ids = self.random.sample([*self.images], min(5, len(self.images)))
        if ids:
            images = [self.images.pop(image_id) for image_id in ids]
            changes = {"image_ids": ids, "is_public": True}
            response = self.call("PATCH", "/v1/images", json=changes)
            if response is not None:
                for image_id, image in zip(ids, images, strict=True):
                    image.is_public = True
                    self.images[image_id] = image
                if any(
                    result["status"] not in ("updated", "unchanged")
                    for result in response.json()["data"]["results"]
                ):
                    self.wrong.append(f"update_many: {response.text}")

    def delete(self) -> None:
        """Delete an image."""
        if len(self.images) > 5 and (image_id := self.choose_image()):
            del self.images[image_id]
            if self.call("DELETE", f"/v1/images/{image_id}") is not None:
                self.deleted.add(image_id)

    def delete_many(self) -> None:
        """Delete several images."""
        if len(self.images) > 10:
            ids = self.random.sample([*self.images], 4)
            for image_id in ids:
                del self.images[image_id]
            if self.call("POST", "/v1/images/delete", json={"image_ids": ids}) is not None:
                self.deleted.update(ids)

    def read_deleted(self) -> None:
        """Request an image that was deleted, and a variant of it."""
        if self.deleted:
            image_id = self.random.choice([*self.deleted])
            self.call("GET", f"/img/{image_id}", 404)
            self.call("GET", f"/img/{image_id}?{WARM_VARIANTS[0]}", 404)

    def create_album(self) -> None:
        """Create an album."""
        if len(self.albums) < MAX_ALBUMS:
            response = self.call("POST", "/v1/albums", 201, json={"name": self.new_word()})
            if response is not None:
                data = response.json()["data"]
                self.albums[data["id"]] = data["name"]

    def change_album(self) -> None:
        """Rename an album, and add images to it."""
        if self.albums and self.images:
            album_id = self.random.choice([*self.albums])
            name = self.new_word()
            if self.call("PATCH", f"/v1/albums/{album_id}", json={"name": name}) is None:
                del self.albums[album_id]
                return
            self.albums[album_id] = name
            ids = self.random.sample([*self.images], min(3, len(self.images)))
            images = {image_id: self.images.pop(image_id) for image_id in ids}
            path = f"/v1/albums/{album_id}/images"
            if self.call("PUT", path, json={"image_ids": ids}) is not None:
                for image_id, image in images.items():
                    image.album_id = album_id
                    self.images[image_id] = image

    def delete_album(self) -> None:
        """Delete an album, half of the time with its images."""
        if self.albums:
            album_id = self.random.choice([*self.albums])
            del self.albums[album_id]
            with_images = self.random.random() < 0.5
            ids = [key for key, image in self.images.items() if image.album_id == album_id]
            images = {image_id: self.images.pop(image_id) for image_id in ids}
            flag = str(with_images).lower()
            if self.call("DELETE", f"/v1/albums/{album_id}?delete_images={flag}") is None:
                return
            if with_images:
                self.deleted.update(ids)
                return
            for image_id, image in images.items():
                image.album_id = None
                self.images[image_id] = image

    def sign(self) -> None:
        """Read a private image without a token: by a signed URL, and by an unsigned one."""
        image_id = next((key for key, image in self.images.items() if not image.is_public), None)
        if image_id is None:
            return
        body = {"w": 60, "expires_in": SIGNED_SECONDS}
        response = self.call("POST", f"/v1/images/{image_id}/signed-url", json=body)
        if response is not None:
            url = httpx2.URL(response.json()["data"]["url"])
            anonymous = {"Authorization": ""}
            self.call("GET", url.raw_path.decode(), headers=anonymous)
            self.call("GET", f"/img/{image_id}?w=60", 404, headers=anonymous)

    def send_bad_request(self) -> None:
        """Send a request that is refused."""
        method, path, options, status = self.random.choice(BAD_REQUESTS)
        self.call(method, path, status, **options)

    def get_page(self) -> None:
        """Request a web page, the gallery or a probe."""
        self.call("GET", self.random.choice(PAGES))

    def abort_upload(self) -> None:
        """Close the connection within the body of an upload."""
        head = (
            f"POST /v1/upload HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {self.token}\r\n"
            "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 99999\r\n\r\n"
            '--b\r\nContent-Disposition: form-data; name="image"; filename="a.png"\r\n\r\n'
        )
        with suppress(OSError), self._connect() as connection:
            connection.sendall(head.encode() + make_image(30, 20))
            sleep(self.random.uniform(0, 0.1))

    def abort_download(self) -> None:
        """Close the connection before the response of a render."""
        if image_id := self.choose_image():
            width = self.random.randrange(10, 900)
            headers = f"Host: a\r\nAuthorization: Bearer {self.token}"
            request = f"GET /img/{image_id}?w={width} HTTP/1.1\r\n{headers}\r\n\r\n"
            with suppress(OSError), self._connect() as connection:
                connection.sendall(request.encode())
                sleep(self.random.uniform(0, 0.1))

    def _connect(self) -> socket.socket:
        url = httpx2.URL(self.origin)
        return socket.create_connection((url.host, url.port or 80), TIMEOUT)


@contextmanager
def run_clients(clients: Sequence[TrafficClient]) -> Iterator[None]:
    """Run all clients in threads during a block, and close their connections at its end."""
    ended = threading.Event()
    threads = [threading.Thread(target=client.run, args=(ended,), daemon=True) for client in clients]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join(2 * TIMEOUT)
            if thread.is_alive():
                raise AssertionError("expected that a client ends")
