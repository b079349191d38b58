"""Sessions, API keys and accounts: the principal of a token."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from attrs import evolve

from imagehost_core import (
    ConflictError,
    ImageHost,
    InsufficientStorageError,
    NotFoundError,
    Scope,
    UnauthorizedError,
    ValidationError,
)
from imagehost_core.models import AccountUsage
from imagehost_core.testing import FrozenClock, make_image
from imagehost_core.tokens import TokenKind, new_token


def test_an_expired_or_revoked_key_stops_at_once(host: ImageHost, clock: FrozenClock) -> None:
    ends = clock() + timedelta(hours=1)
    expiring = host.keys.create(owner="admin", name=" deploy ", scopes=["images:read"], expires_at=ends)
    revoked = host.keys.create(owner="admin")
    assert expiring.name == "deploy"
    assert expiring.token.startswith(expiring.prefix)
    assert expiring.token not in repr(expiring)
    principal = host.authenticate(expiring.token)
    assert (principal.scopes, principal.is_session) == (frozenset({Scope.IMAGES_READ}), False)
    clock.now = ends
    host.keys.delete(revoked.id, owner="admin")
    first = host.keys.get(revoked.id, owner="admin")
    host.keys.delete(revoked.id, owner="admin")
    assert host.keys.get(revoked.id, owner="admin") == first
    for token in (
        expiring.token,
        revoked.token,
        new_token(TokenKind.KEY),
        new_token(TokenKind.SESSION),
        "rubbish",
    ):
        with pytest.raises(UnauthorizedError):
            host.authenticate(token)


def test_last_used_at_has_a_resolution_of_a_minute(host: ImageHost, clock: FrozenClock) -> None:
    created = host.keys.create(owner="admin")
    seen: list[datetime | None] = []
    for seconds in (0, 59, 1):
        clock.advance(seconds=seconds)
        host.authenticate(created.token)
        seen.append(host.keys.get(created.id, owner="admin").last_used_at)
    assert seen[0] == seen[1]
    assert seen[2] == clock()


def test_a_keys_name_and_expiry_can_be_changed(host: ImageHost, clock: FrozenClock) -> None:
    created = host.keys.create(owner="admin", name="one")
    ends = clock() + timedelta(days=1)
    changed = host.keys.update(created.id, owner="admin", name="two", expires_at=ends)
    assert changed == evolve(host.keys.get(created.id, owner="admin"), name="two", expires_at=ends)
    assert host.keys.update(created.id, owner="admin", name="three").expires_at == ends
    assert host.keys.update(created.id, owner="admin", expires_at=None).expires_at is None
    host.keys.delete(created.id, owner="admin")
    with pytest.raises(ConflictError):
        host.keys.update(created.id, owner="admin", name="four")


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "x" * 101},
        {"name": "a\0b"},
        {"name": "a\ud800b"},
        {"scopes": []},
        {"scopes": ["images:everything"]},
        {"expires_at": datetime(2030, 1, 1)},
        {"expires_at": FrozenClock()()},
    ],
)
def test_an_invalid_key_is_422(host: ImageHost, fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        host.keys.create(owner="admin", **fields)  # type: ignore[arg-type]
    assert host.keys.list(owner="admin").total == 0


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b"])
def test_a_key_name_with_invalid_text_is_422(host: ImageHost, name: str) -> None:
    created = host.keys.create(owner="admin", name="one")
    with pytest.raises(ValidationError, match="without NUL and lone surrogates for name"):
        host.keys.update(created.id, owner="admin", name=name)
    assert host.keys.get(created.id, owner="admin").name == "one"


def test_another_accounts_key_is_404(host: ImageHost) -> None:
    host.accounts.create("ann")
    created = host.keys.create(owner="admin")
    for call in (host.keys.get, host.keys.delete, host.keys.update):
        with pytest.raises(NotFoundError):
            call(created.id, owner="ann")


def test_an_account_name_is_unique(host: ImageHost) -> None:
    host.accounts.create("ann", password_hash="x")
    with pytest.raises(ConflictError):
        host.accounts.create("ann")
    for name in ("", " ann", "a/b", "x" * 65, "-ann", "ä"):
        with pytest.raises(ValidationError):
            host.accounts.create(name)


def test_the_quota_of_an_account_overrides_that_of_the_host(host: ImageHost) -> None:
    first = host.upload(make_image(), owner="admin")
    assert host.accounts.usage("admin") == AccountUsage(images=1, albums=0, bytes=first.size)
    host.accounts.update("admin", quota_bytes=first.size)
    with pytest.raises(InsufficientStorageError):
        host.upload(make_image(seed=1), owner="admin")
    host.accounts.update("admin", quota_bytes=None)
    host.upload(make_image(seed=1), owner="admin")


def test_an_account_is_deleted_with_all_its_data(host: ImageHost) -> None:
    owner = host.accounts.create("ann")
    session, key = host.sessions.create(owner), host.keys.create(owner=owner)
    album = host.albums.create(owner=owner, name="Cats")
    host.webhooks.create(owner=owner, url="http://127.0.0.1:9/")
    image = host.upload(make_image(), owner=owner, album_id=album.id)
    host.render(image.id, "w=10")
    with host.idempotency.begin(owner, "key", "request") as claim:
        claim.complete(200, b"")
    stored = host.upload(make_image(), owner="admin")
    host.accounts.delete("ann")
    with pytest.raises(NotFoundError):
        host.accounts.get("ann")
    with pytest.raises(NotFoundError):
        host.images.get(image.id)
    for token in (session.token, key.token):
        with pytest.raises(UnauthorizedError):
            host.authenticate(token)
    folder = host.path
    assert list(folder.glob(f"*/*/{image.id}")) == []
    assert host.images.get(stored.id).id == stored.id
    assert (
        host.keys.list(
            owner="admin",
        ).total
        == 0
    )
