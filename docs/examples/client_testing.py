import pytest

from imagehost_client import Client, RateLimitError, UnavailableError, webhooks
from imagehost_client.testing import FakeImageHost, make_png


def publish(image: bytes) -> str:
    """Your code: upload an image and return its URL."""
    with Client() as client:
        return client.upload(image, filename="cover.png").url


def test_a_published_image_has_a_url(imagehost_fake: FakeImageHost) -> None:
    """The fixture comes with the package, and replaces the host of every client."""
    assert publish(make_png()).endswith(".webp")
    assert imagehost_fake.requests == [("POST", "/upload")]


# The same without the fixture, with limits, failures and signed events.
host = FakeImageHost(limits={"uploads_per_minute": 2})
with host.patch():
    print(publish(make_png()).endswith(".webp"), host.requests, len(host.events))

    host.fail(503, times=4, path="/upload")
    with pytest.raises(UnavailableError):  # after three retries, without waiting
        publish(make_png())

with host.client(max_retries=0) as client:
    webhook = client.webhooks.create("https://example.com/hook")
    client.upload(make_png())
    with pytest.raises(RateLimitError):
        client.upload(make_png())
    host.clock.advance(60)
    client.upload(make_png())

    for request in host.signed_events():
        print(webhooks.unwrap(request.body, request.headers, webhook.secret).kind)
# True [('POST', '/upload')] 1
# image.uploaded
# image.uploaded
