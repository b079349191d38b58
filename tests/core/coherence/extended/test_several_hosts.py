"""Several hosts on one PostgreSQL: a change holds on every host when it returns."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from tests.core.coherence.conftest import OpenHost
from tests.waiting import PATIENCE, wait_until

from imagehost_core import ImageHost, NotFoundError, UnauthorizedError
from imagehost_core._util.clock import utc_now
from imagehost_core.models import Image
from imagehost_core.testing import make_image

pytestmark = pytest.mark.external
QUERY = "w=8"


def warm(host: ImageHost, image: Image) -> None:
    """Read a variant until it is in memory."""

    def is_in_memory() -> bool:
        resolved = host.delivery.resolve(image.id, QUERY)
        host.delivery.open(resolved).close()
        return host.delivery.resolve_cached(image.id, QUERY) is not None and bool(
            host.delivery.read_nowait(resolved)
        )

    wait_until(is_in_memory)


def upload(host: ImageHost, count: int) -> list[Image]:
    return [host.upload(make_image(20, 16 + n), owner="ann") for n in range(count)]


def test_a_deleted_image_is_gone_from_the_memory_and_the_disk_of_every_host(
    hosts: tuple[ImageHost, ImageHost],
) -> None:
    one, other = hosts
    for image in upload(one, 20):
        warm(other, image)
        one.images.delete(image)
        assert other.delivery.resolve_cached(image.id, QUERY) is None
        with pytest.raises(NotFoundError):
            other.delivery.resolve(image.id, QUERY)
        assert not list((other.path / "variants").glob(f"*/{image.id}/*"))


def test_a_private_image_is_restricted_on_every_host(hosts: tuple[ImageHost, ImageHost]) -> None:
    one, other = hosts
    for image in upload(one, 10):
        warm(other, image)
        one.images.update(image, is_public=False)
        assert other.delivery.resolve_cached(image.id, QUERY) is None
        with pytest.raises(NotFoundError):
            other.delivery.resolve(image.id, QUERY)
        other.images.update_many([image], owner="ann", is_public=True)
        assert one.delivery.resolve(image.id, QUERY).is_public


def test_a_revoked_key_is_refused_on_every_host(hosts: tuple[ImageHost, ImageHost]) -> None:
    one, other = hosts
    for _ in range(10):
        created = one.keys.create(owner="ann")

        def is_in_memory(token: str = created.token) -> bool:
            other.authenticate(token)
            return other.keys.authenticate_cached(token) is not None

        wait_until(is_in_memory)
        one.keys.delete(created, owner="ann")
        assert other.keys.authenticate_cached(created.token) is None
        with pytest.raises(UnauthorizedError):
            other.authenticate(created.token)


def test_a_suspended_account_is_refused_and_its_images_are_gone_on_every_host(
    hosts: tuple[ImageHost, ImageHost],
) -> None:
    one, other = hosts
    (image,), created = upload(one, 1), one.keys.create(owner="ann")
    for _ in range(5):
        warm(other, image)
        other.authenticate(created.token)
        one.accounts.update("ann", suspended=True)
        assert other.delivery.resolve_cached(image.id, QUERY) is None
        assert other.keys.authenticate_cached(created.token) is None
        with pytest.raises(NotFoundError):
            other.delivery.resolve(image.id, QUERY)
        with pytest.raises(UnauthorizedError):
            other.authenticate(created.token)
        one.accounts.update("ann", suspended=False)


@pytest.mark.parametrize("hours", [-1, 1])
def test_changes_hold_on_a_host_whose_clock_is_wrong(open_host: OpenHost, hours: int) -> None:
    one = open_host("one")
    other = open_host("other", clock=lambda: utc_now() + timedelta(hours=hours))
    one.accounts.get_or_create("ann")
    images = upload(one, 4)
    for number, image in enumerate(images):
        here, there = (one, other) if number % 2 else (other, one)
        warm(there, image)
        here.images.update(image, is_public=False)
        assert there.delivery.resolve_cached(image.id, QUERY) is None
        here.images.delete(image)
        with pytest.raises(NotFoundError):
            there.delivery.resolve(image.id, QUERY)


def test_crossing_changes_of_two_hosts_do_not_wait_for_each_other(
    hosts: tuple[ImageHost, ImageHost],
) -> None:
    images = upload(hosts[0], 48)
    for image in images[:16]:
        warm(hosts[0], image)
        warm(hosts[1], image)

    def delete(number: int) -> None:
        image, (here, there) = images[number], hosts if number % 2 else hosts[::-1]
        here.images.delete(image)
        assert there.delivery.resolve_cached(image.id, QUERY) is None

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(delete, range(len(images)), timeout=PATIENCE))


def test_a_host_that_closes_lets_no_change_wait(
    hosts: tuple[ImageHost, ImageHost], caplog: pytest.LogCaptureFixture
) -> None:
    one, other = hosts
    (image,) = upload(one, 1)
    warm(other, image)
    other.close()
    one.images.delete(image)
    assert "not acknowledged" not in caplog.text
