"""Fill the caches of all processes of a server, so that its memory can be measured after that.

A process keeps up to 10,000 image URLs and beginnings of responses, and 2,000 records. At the rate of
ordinary requests it takes hours until it has so many.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from urllib.parse import urlsplit

from tests.faults.conftest import client_of

from imagehost_core.testing import make_image
from imagehost_server.testing import RunningServer

IMAGES, VARIANTS = 2_200, 5
"""Their product is the number of URLs."""
CONNECTIONS = 4
"""Connections on which each URL is requested. The kernel chooses the process of each: of two processes, one
does not get an eighth of the URLs."""
THREADS = 4
MAX_BULK = 100


def fill_caches(server: RunningServer, token: str) -> None:
    """Upload images, request records and variants of them on many connections, and delete the images."""
    address = urlsplit(server.origin).netloc
    authorization = {"Authorization": f"Bearer {token}"}

    def upload(number: int) -> str:
        data = {"description": f"mixed c0n0w{number} of the caches", "convertToWebP": "false"}
        files = {"image": (f"{number}.png", make_image(24, 16, seed=number))}
        return str(client.post("/v1/upload", files=files, data=data).raise_for_status().json()["data"]["id"])

    def request(image_id: str) -> None:
        for _ in range(CONNECTIONS):
            connection = HTTPConnection(address, timeout=60)
            entity_tags = dict[str, str]()
            for path in [
                *(f"/img/{image_id}?w={10 + width}&h=10&fit=cover&fm=webp" for width in range(VARIANTS)),
                f"/v1/images/{image_id}",
            ]:
                for _ in range(2):
                    tag = {"If-None-Match": entity_tags[path]} if path in entity_tags else {}
                    connection.request("GET", path, headers=authorization | tag)
                    response = connection.getresponse()
                    response.read()
                    assert response.status == (304 if tag else 200), (path, response.status)
                    if etag := response.headers["etag"]:
                        entity_tags[path] = etag
            connection.close()

    with client_of(server, token) as client, ThreadPoolExecutor(THREADS) as threads:
        image_ids = list(threads.map(upload, range(IMAGES)))
        list(threads.map(request, image_ids))
        for start in range(0, IMAGES, MAX_BULK):
            body = {"image_ids": image_ids[start : start + MAX_BULK]}
            client.post("/v1/images/delete", json=body).raise_for_status()
