"""Share links of albums: what they show, and how they end, at once in every process."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from urllib.parse import urlsplit

import attrs
import pytest
from tests.core.services.conftest import ONE_WORKER, Stores

from imagehost_core import (
    Album,
    ForbiddenError,
    Image,
    ImageHost,
    NotFoundError,
    Role,
    UnauthorizedError,
    ValidationError,
)
from imagehost_core.ids import delivery_not_found_text
from imagehost_core.models import AlbumShare
from imagehost_core.services.albums import MAX_SHARES
from imagehost_core.services.delivery import ResolvedImage
from imagehost_core.settings import DeliverySettings
from imagehost_core.testing import FrozenClock, make_image

EACH_ENGINE = True
PNG = make_image(64, 48)


@pytest.fixture(scope="module")
def album(host: ImageHost) -> Album:
    return host.albums.create("Secret", owner="admin", is_public=False)


@pytest.fixture(scope="module")
def private(host: ImageHost, album: Album) -> Image:
    return host.upload(PNG, owner="admin", album_id=album.id, is_public=False)


@pytest.fixture(scope="module")
def share(host: ImageHost, album: Album) -> AlbumShare:
    return host.albums.create_share(album, owner="admin")


def see(host: ImageHost, image: Image, share: AlbumShare) -> ResolvedImage:
    """Resolve the image URL of a share's page."""
    url = urlsplit(attrs.evolve(host.urls, share=share.id).image(image, "w=20"))
    found = host.delivery.resolve(url.path.removeprefix("/img/"), url.query)
    host.delivery.open(found).close()
    return found


def revoke(host: ImageHost, album: Album, image: Image, share: AlbumShare, clock: FrozenClock) -> None:
    del image, clock
    host.albums.delete_share(album, share, owner="admin")


def expire(host: ImageHost, album: Album, image: Image, share: AlbumShare, clock: FrozenClock) -> None:
    del host, album, image, share
    clock.advance(hours=1)


def remove(host: ImageHost, album: Album, image: Image, share: AlbumShare, clock: FrozenClock) -> None:
    del share, clock
    host.albums.remove_images(album, [image], owner="admin")


def move(host: ImageHost, album: Album, image: Image, share: AlbumShare, clock: FrozenClock) -> None:
    del share, clock, album
    host.images.update(image, owner="admin", album_id=host.albums.create("Other", owner="admin").id)


def delete(host: ImageHost, album: Album, image: Image, share: AlbumShare, clock: FrozenClock) -> None:
    del image, share, clock
    host.albums.delete(album, owner="admin")


def suspend(host: ImageHost, album: Album, image: Image, share: AlbumShare, clock: FrozenClock) -> None:
    del album, image, share, clock
    host.accounts.create("other", role=Role.OPERATOR)
    host.accounts.update("admin", suspended=True)


ENDS_PAGE = (revoke, expire, delete, suspend)


@pytest.mark.parametrize("end", [*ENDS_PAGE, remove, move])
def test_a_share_ends_at_once_in_every_process(
    opened: Callable[..., ImageHost], end: Callable[..., None]
) -> None:
    clock = FrozenClock()
    one, other = opened(clock=clock), opened(clock=clock)
    album = one.albums.create("Secret", owner="admin", is_public=False)
    image = one.upload(PNG, owner="admin", album_id=album.id, is_public=False)
    expires_at = clock() + timedelta(hours=1)
    share = one.albums.create_share(album, owner="admin", expires_at=expires_at)
    for host in (one, other):
        assert host.albums.get_shared(share.token or "") == (
            attrs.evolve(share, token=None),
            one.albums.get(album, owner="admin"),
        )
        for _ in range(2):  # the second time with the image's record in memory
            found = see(host, image, share)
            assert (found.is_public, found.is_restricted) == (False, False)
            path, _, query = f"{image.id}?share={share.id}".partition("?")
            assert host.delivery.resolve_cached(path, query) is None
    end(one, album, image, share, clock)
    for host in (other, one):
        with pytest.raises(NotFoundError) as refused:
            see(host, image, share)
        assert refused.value.details == delivery_not_found_text(image.id)
        if end in ENDS_PAGE:
            with pytest.raises(NotFoundError):
                host.albums.get_shared(share.token or "")


def test_a_share_shows_the_images_of_its_album_only(
    host: ImageHost, album: Album, private: Image, share: AlbumShare
) -> None:
    other = host.albums.create("Other", owner="admin", is_public=False)
    host.accounts.create("bob")
    outside = [
        host.upload(PNG, owner="admin", album_id=other.id, is_public=False),
        host.upload(PNG, owner="admin", is_public=False),
        host.upload(PNG, owner="bob", is_public=False),
    ]
    other_share = host.albums.create_share(other, owner="admin")
    see(host, private, share)
    see(host, outside[0], other_share)
    for image, wrong in [(private, other_share), *((image, share) for image in outside)]:
        with pytest.raises(NotFoundError):
            see(host, image, wrong)
    added = host.upload(PNG, owner="admin", album_id=album.id, is_public=False)
    see(host, added, share)
    host.images.delete(added)


def test_the_shares_of_an_account_go_with_it(opened: Callable[..., ImageHost]) -> None:
    host = opened()
    album = host.albums.create("Secret", owner=host.accounts.create("gone"))
    share = host.albums.create_share(album, owner="gone")
    host.accounts.delete("gone")
    with pytest.raises(NotFoundError):
        host.albums.get_shared(share.token or "")
    assert list(host.check()) == []


def test_a_share_with_a_password_is_shown_only_to_who_proves_it(host: ImageHost, album: Album) -> None:
    asked = list[str]()
    share = host.albums.create_share(album, owner="admin", password_hash="a stored hash")
    for verify in (None, lambda _: False):
        with pytest.raises(ForbiddenError):
            host.albums.get_shared(share.token or "", verify=verify)

    def verify_password(password_hash: str) -> bool:
        asked.append(password_hash)
        return True

    found, shared = host.albums.get_shared(share.token or "", verify=verify_password)
    assert (found.id, shared.id, asked) == (share.id, album.id, ["a stored hash"])
    plain = host.albums.create_share(album, owner="admin")
    assert host.albums.get_shared(plain.token or "", verify=verify_password)[0].id == plain.id
    assert asked == ["a stored hash"]
    for each in (share, plain):
        host.albums.delete_share(album, each, owner="admin")


@pytest.mark.parametrize("value", ["", "x", "%00", "%FF", "0" * 16, "'", "{id} ", "{id}0", "{token}"])
def test_another_value_of_share_shows_nothing(
    host: ImageHost, private: Image, share: AlbumShare, value: str
) -> None:
    text = value.format(id=share.id, token=share.token)
    with pytest.raises(NotFoundError):
        host.delivery.resolve(f"{private.id}", f"share={text}")


@pytest.mark.parametrize("query", ["", "w=20", "h=20", "w=20&h=10&fit=fill", "q=50&fm=jpg", "fm=auto", "x=1"])
def test_a_share_gives_access_to_each_variant_and_is_no_part_of_its_key(
    host: ImageHost, private: Image, share: AlbumShare, query: str
) -> None:
    owner = host.accounts.get("admin")
    shown = host.delivery.resolve(private.id, f"{query}&share={share.id}".lstrip("&"))
    own = host.delivery.resolve(private.id, query, viewer=owner)
    assert (shown.key, shown.etag, shown.format) == (own.key, own.etag, own.format)


def test_a_share_signs_no_transform(opened: Callable[..., ImageHost]) -> None:
    host = opened(settings=attrs.evolve(ONE_WORKER, delivery=DeliverySettings(require_signed=True)))
    album = host.albums.create("Secret", owner="admin")
    image = host.upload(PNG, owner="admin", album_id=album.id, is_public=False)
    share = host.albums.create_share(album, owner="admin")
    host.delivery.resolve(image.id, f"share={share.id}")
    with pytest.raises(ForbiddenError):
        see(host, image, share)


def test_the_token_is_returned_once_stored_as_a_hash_and_no_bearer_token(
    host: ImageHost, share: AlbumShare, stores: Stores
) -> None:
    assert share.token
    assert share.token not in repr(share)
    (stored,) = stores(host).records.database.fetch_all(
        "SELECT * FROM album_shares WHERE id = :id", {"id": share.id}
    )
    assert share.token not in str(stored)
    with pytest.raises(UnauthorizedError):
        host.authenticate(share.token)
    for token in (share.id, share.token[:-1] + "!", host.keys.create(owner="admin").token):
        with pytest.raises(NotFoundError):
            host.albums.get_shared(token)


def test_shares_are_listed_newest_first_until_they_expire_and_are_limited(
    opened: Callable[..., ImageHost],
) -> None:
    clock = FrozenClock()
    host = opened(clock=clock)
    album = host.albums.create("Secret", owner="admin")
    in_an_hour = clock() + timedelta(hours=1)
    shares = []
    for _ in range(MAX_SHARES):
        shares.append(host.albums.create_share(album, owner="admin", expires_at=in_an_hour))
        clock.advance(seconds=1)
    with pytest.raises(ValidationError, match="at most 100 per album"):
        host.albums.create_share(album, owner="admin")
    listed = host.albums.list_shares(album, owner="admin", per_page=2)
    assert [each.id for each in listed] == [each.id for each in shares[:-3:-1]]
    assert (listed.total, {each.token for each in listed}) == (MAX_SHARES, {None})
    clock.now = in_an_hour
    assert host.albums.list_shares(album, owner="admin").total == 0
    lasting = host.albums.create_share(album, owner="admin", password_hash="hash")
    assert [each.password_hash for each in host.albums.list_shares(album, owner="admin")] == ["hash"]
    host.albums.delete_share(album, lasting, owner="admin")
    with pytest.raises(NotFoundError):
        host.albums.delete_share(album, lasting, owner="admin")


def test_a_share_needs_an_own_album_and_a_future_expiry(
    host: ImageHost, album: Album, share: AlbumShare
) -> None:
    host.accounts.create("eve")
    other = host.albums.create("Other", owner="eve")
    for action in (host.albums.create_share, host.albums.list_shares):
        with pytest.raises(NotFoundError):
            action(album, owner="eve")
    for where, who in ((album, "eve"), (other, "eve"), (other, "admin")):
        with pytest.raises(NotFoundError):
            host.albums.delete_share(where, share, owner=who)
    now = host.now()
    for expires_at in (now, now - timedelta(hours=1), (now + timedelta(hours=1)).replace(tzinfo=None)):
        with pytest.raises(ValidationError):
            host.albums.create_share(album, owner="admin", expires_at=expires_at)
