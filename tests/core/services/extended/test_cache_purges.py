"""Cache purges: recorded with the change that hides an image, leased, repeated and retried."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import attrs
import pytest

from imagehost_core import ImageHost
from imagehost_core.cache_purges import PurgeAttempt
from imagehost_core.models import Image
from imagehost_core.settings import DeliverySettings, PurgeSettings, RenderingSettings, Settings
from imagehost_core.testing import FrozenClock, make_image

SETTINGS = Settings(
    base_url="https://img.example/v1",
    rendering=RenderingSettings(processes=1),
    delivery=DeliverySettings(shared_max_age_seconds=7 * 86_400),
    purge=PurgeSettings(url="https://cache.example.com/{tag}", timeout_seconds=5),
)


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def host(opened: Callable[..., ImageHost], tmp_path: Path, clock: FrozenClock) -> ImageHost:
    """A host with a shared cache in front of it."""
    return opened(tmp_path / "data", SETTINGS, clock=clock)


def upload(host: ImageHost, seed: int = 0, *, is_public: bool = True) -> Image:
    return host.upload(make_image(8, 8, seed=seed), owner="admin", is_public=is_public)


def leased(host: ImageHost) -> list[str]:
    """Lease all due purges; return the ids of their images."""
    return sorted(purge.image_id for purge in host.cache_purges.lease(1_000))


def hide_by_delete(host: ImageHost, image: Image) -> None:
    host.images.delete(image)


def hide_by_bulk_delete(host: ImageHost, image: Image) -> None:
    host.images.delete_many([image], owner="admin")


def hide_by_update(host: ImageHost, image: Image) -> None:
    host.images.update(image, is_public=False)


def hide_by_bulk_update(host: ImageHost, image: Image) -> None:
    host.images.update_many([image], owner="admin", is_public=False)


def hide_by_deleting_its_album(host: ImageHost, image: Image) -> None:
    album = host.albums.create(owner="admin", name="a")
    host.images.update(image, album_id=album.id)
    host.albums.delete(album, owner="admin", delete_images=True)


def rename(host: ImageHost, image: Image) -> None:
    host.images.update(image, filename="another")


CHANGES = (
    rename,
    hide_by_delete,
    hide_by_bulk_delete,
    hide_by_update,
    hide_by_bulk_update,
    hide_by_deleting_its_album,
)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_every_change_that_hides_a_public_image_or_its_name_purges_it_alone(
    host: ImageHost, change: Callable[[ImageHost, Image], None]
) -> None:
    image, _other = upload(host), upload(host, 1)
    assert leased(host) == []
    change(host, image)
    assert leased(host) == [image.id]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_an_image_that_no_shared_cache_stores_is_not_purged(
    host: ImageHost, change: Callable[[ImageHost, Image], None]
) -> None:
    change(host, upload(host, is_public=False))
    assert leased(host) == []


def test_a_change_that_hides_nothing_purges_nothing(host: ImageHost) -> None:
    image = upload(host)
    host.images.update(image, description="d", filename=image.filename, is_public=True)
    host.images.update_many([image], owner="admin", description="e")
    hidden = upload(host, 1, is_public=False)
    host.images.update(hidden, is_public=True)
    assert leased(host) == []


def test_a_suspension_purges_the_public_images_of_the_account(host: ImageHost) -> None:
    host.accounts.create("eve")
    images = [host.upload(make_image(8, 8, seed=seed), owner="eve") for seed in range(3)]
    host.upload(make_image(8, 8), owner="eve", is_public=False)
    upload(host)
    host.accounts.update("eve", suspended=True)
    assert leased(host) == sorted(image.id for image in images)
    host.accounts.update("eve", suspended=True)
    assert leased(host) == []


def test_without_a_url_nothing_is_recorded(opened: Callable[..., ImageHost], tmp_path: Path) -> None:
    host = opened(tmp_path / "data", attrs.evolve(SETTINGS, purge=PurgeSettings()))
    host.images.delete(upload(host))
    host.close()
    assert leased(opened(tmp_path / "data", SETTINGS)) == []


def test_a_change_that_is_rolled_back_purges_nothing(host: ImageHost) -> None:
    image = upload(host)
    with pytest.raises(TypeError):
        host.images.update(image, is_public=False, colour="red")  # type: ignore[call-arg]
    assert leased(host) == []


def test_a_purge_is_leased_by_one_sender_until_its_lease_expires(host: ImageHost, clock: FrozenClock) -> None:
    image = upload(host)
    host.images.delete(image)
    assert leased(host) == [image.id]
    clock.advance(seconds=34)
    assert leased(host) == []
    clock.advance(seconds=1)
    assert leased(host) == [image.id]


def test_a_successful_purge_is_repeated_once_after_a_minute(host: ImageHost, clock: FrozenClock) -> None:
    host.images.delete(upload(host))
    for expected in (1, 1, 0):
        purges = host.cache_purges.lease(9)
        assert len(purges) == expected
        host.cache_purges.report([PurgeAttempt(purge, 0.1) for purge in purges])
        clock.advance(seconds=59)
        assert host.cache_purges.lease(9) == ()
        clock.advance(seconds=1)


def test_a_failed_purge_is_retried_with_growing_delays_and_survives_a_restart(
    host: ImageHost, opened: Callable[..., ImageHost], tmp_path: Path, clock: FrozenClock
) -> None:
    image = upload(host)
    host.images.delete(image)
    for delay in (5, 20, 80):
        leases = host.cache_purges.lease(9)
        host.cache_purges.report([PurgeAttempt(purge, 0.1, "no response") for purge in leases])
        clock.advance(seconds=delay - 1)
        assert host.cache_purges.lease(9) == ()
        clock.advance(seconds=1)
    host.close()
    assert leased(opened(tmp_path / "data", SETTINGS, clock=clock)) == [image.id]


def test_a_purge_is_given_up_once_the_cache_has_dropped_the_image(
    host: ImageHost, clock: FrozenClock, caplog: pytest.LogCaptureFixture
) -> None:
    host.images.delete(upload(host))
    attempts = 0
    while purges := host.cache_purges.lease(9):
        attempts += 1
        host.cache_purges.report([PurgeAttempt(purge, 0.1, "no response") for purge in purges])
        clock.advance(hours=12)
    assert attempts == 16
    assert "cache purge given up" in caplog.text
    clock.advance(days=30)
    assert host.cache_purges.lease(9) == ()


def test_a_result_does_not_complete_the_purge_of_a_later_change(host: ImageHost, clock: FrozenClock) -> None:
    image = upload(host)
    host.images.update(image, is_public=False)
    (first,) = host.cache_purges.lease(9)
    clock.advance(seconds=1)
    host.images.update(image, is_public=True)
    host.images.update(image, is_public=False)
    host.cache_purges.report([PurgeAttempt(first, 0.1)])
    (second,) = host.cache_purges.lease(9)
    assert second.requested_at == first.requested_at + timedelta(seconds=1)
    assert not second.is_repetition


def test_a_repetition_does_not_end_the_purge_of_a_later_change(host: ImageHost, clock: FrozenClock) -> None:
    image = upload(host)
    host.images.update(image, is_public=False)
    host.cache_purges.report([PurgeAttempt(purge, 0.1) for purge in host.cache_purges.lease(9)])
    clock.advance(minutes=1)
    (repetition,) = host.cache_purges.lease(9)
    assert repetition.is_repetition
    host.images.update(image, is_public=True)
    host.images.update(image, is_public=False)
    host.cache_purges.report([PurgeAttempt(repetition, 0.1)])
    (later,) = host.cache_purges.lease(9)
    assert (later.image_id, later.is_repetition) == (image.id, False)


@pytest.mark.parametrize("failure", ["no response", None])
def test_a_purge_that_a_clock_an_hour_ahead_put_off_is_due_when_the_clock_is_right(
    host: ImageHost, clock: FrozenClock, failure: str | None
) -> None:
    host.images.delete(upload(host))
    right = clock.now
    clock.advance(hours=1)
    (purge,) = host.cache_purges.lease(9)
    host.cache_purges.report([PurgeAttempt(purge, 0.1, failure)])
    clock.now = right + timedelta(seconds=1)
    assert host.cache_purges.next_attempt_at() == clock.now
    assert len(host.cache_purges.lease(9)) == 1
    assert host.cache_purges.lease(9) == ()


def test_the_request_has_the_cache_tag_of_the_image(host: ImageHost) -> None:
    image = upload(host)
    host.images.delete(image)
    (purge,) = host.cache_purges.lease(9)
    assert host.cache_purges.request(purge).url == f"https://cache.example.com/img-{image.id}"
