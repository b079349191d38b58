import pytest

from imagehost_client import Client, UnavailableError
from imagehost_client.testing import FakeImageHost, make_png


def publish(client: Client, picture: bytes) -> str:
    """Your code: it uploads a picture, and returns where it is."""
    return client.upload(picture, filename="cover.png").url


host = FakeImageHost()
with host.client(max_retries=0) as client:
    address = publish(client, make_png())
    print(host.requests, len(host.events), address.endswith(".png"))

    host.fail(503)  # the next request fails
    with pytest.raises(UnavailableError):
        publish(client, make_png())
# [('POST', '/upload')] 1 True
