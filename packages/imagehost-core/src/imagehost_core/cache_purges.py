"""Rules of cache purges: the request that removes an image from a shared cache, and its retries.

A shared cache that stores public images (`delivery.shared_max_age_seconds`) receives one request when an
image is deleted or becomes private, or gets another filename, which its response has, and the same request
again after `REPEAT_AFTER`: a response that the cache began to fetch before the change can be stored after the
first.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from attrs import field, frozen

from imagehost_core.ids import ImageId
from imagehost_core.settings import PurgeSettings

REPEAT_AFTER = timedelta(seconds=60)
"""The time between a successful request and its repetition: more than a cache's usual time to fetch an image
(`proxy_read_timeout` of nginx and `first_byte_timeout` of Varnish are 60 seconds)."""
OVERDUE_AFTER = timedelta(seconds=60)
"""An image waits for so long only if requests fail, or are not sent at all."""
FIRST_RETRY_DELAY = timedelta(seconds=5)
MAX_RETRY_DELAY = timedelta(minutes=10)
MAX_DELAY = MAX_RETRY_DELAY + timedelta(minutes=1)
"""An attempt that is further away was set by a clock that was ahead, and is due."""


@frozen
class CachePurge:
    """An image that a shared cache must remove.

    Attributes:
        image_id: The image, which need not exist any more.
        requested_at: The time of the change.
        attempts: Attempts of the current request so far.
        is_repetition: Whether the first request has succeeded.
    """

    image_id: ImageId
    requested_at: datetime
    attempts: int = 0
    is_repetition: bool = False


@frozen
class PurgeAttempt:
    """A request to a shared cache that has ended.

    Attributes:
        purge: The image that it removes, as it was leased.
        seconds: How long it took.
        failure: The reason of its failure; `None` if the cache has confirmed it.
    """

    purge: CachePurge
    seconds: float
    failure: str | None = None


@frozen
class PurgeRequest:
    """An HTTP request to a shared cache.

    Attributes:
        method: The method.
        url: The URL.
        headers: The headers by name; the values can be secrets.
        body: The body.
    """

    method: str
    url: str
    headers: dict[str, str] = field(repr=False)
    body: bytes


def cache_tag(image_id: ImageId) -> str:
    """Return the cache tag of an image and its variants."""
    return f"img-{image_id}"


def build_purge_request(settings: PurgeSettings, image_id: ImageId, image_url: str) -> PurgeRequest:
    """Return the request that purges an image.

    Args:
        settings: The settings, with a URL.
        image_id: The image.
        image_url: Its URL without an extension and parameters.
    """
    assert settings.url is not None

    def fill(template: str) -> str:
        filled = template.replace("{id}", image_id).replace("{tag}", cache_tag(image_id))
        return filled.replace("{url}", image_url)

    lines = (line.partition(":") for line in settings.headers)
    headers = {name: fill(value.strip()) for name, _, value in lines}
    return PurgeRequest(settings.method, fill(settings.url), headers, fill(settings.body or "").encode())


def retry_delay(attempts: int) -> timedelta:
    """Return the delay after a failed attempt: 5, 20, 80 and 320 seconds, then 10 minutes.

    Args:
        attempts: The number of attempts so far, at least 1.
    """
    factor: int = 4 ** min(attempts - 1, 10)
    return min(FIRST_RETRY_DELAY * factor, MAX_RETRY_DELAY)
