import pytest

from imagehost_client import Client, UnavailableError
from imagehost_client.testing import FakeImageHost, make_png


def publish(client: Client, image: bytes) -> str:
    """Your code: upload an image and return its URL."""
    return client.upload(image, filename="cover.png").url


host = FakeImageHost()
with host.client(max_retries=0) as client:
    url = publish(client, make_png())
    print(host.requests, len(host.events), url.endswith(".png"))

    host.fail(503)  # the next request fails
    with pytest.raises(UnavailableError):
        publish(client, make_png())
# [('POST', '/upload')] 1 True
