"""Principals in memory: every change counts at once in every process, and time too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from tests.open_host import open_host

from imagehost_core import ImageHost, Scope, Settings, UnauthorizedError
from imagehost_core.authorization import SessionRequirement, authorize
from imagehost_core.coordination.generations import GenerationTable
from imagehost_core.coordination.locks import LockManager
from imagehost_core.db.engines.database import PRINCIPALS
from imagehost_core.db.engines.sqlite_database import SqliteDatabase
from imagehost_core.models import Principal, Role
from imagehost_core.services.principals import PrincipalCache
from imagehost_core.settings import RenderingSettings
from imagehost_core.testing import FrozenClock, make_image
from imagehost_core.tokens import TokenKind, new_token

SETTINGS = Settings(rendering=RenderingSettings(processes=1))


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def hosts(tmp_path: Path, clock: FrozenClock) -> Iterator[tuple[ImageHost, ImageHost]]:
    """Two hosts with one data directory, as in two processes."""
    with (
        open_host(tmp_path, settings=SETTINGS, clock=clock) as one,
        open_host(tmp_path, settings=SETTINGS, clock=clock) as other,
    ):
        one.accounts.create("ann")
        yield one, other


def authenticate(host: ImageHost, token: str) -> Principal | None:
    """Return the principal of a token, or `None`, from memory if it is there."""
    try:
        return host.keys.authenticate_cached(token) or host.authenticate(token)
    except UnauthorizedError:
        return None


ENDING: dict[str, Callable[[ImageHost, str, str], object]] = {
    "revoked key": lambda host, key, _: host.keys.delete(key, owner="ann"),
    "suspended account": lambda host, _key, _: host.accounts.update("ann", suspended=True),
    "deleted account": lambda host, _key, _: host.accounts.delete("ann"),
}


@pytest.mark.parametrize("change", ENDING.values(), ids=ENDING)
def test_a_key_stops_at_once_in_every_process(
    hosts: tuple[ImageHost, ImageHost], change: Callable[[ImageHost, str, str], object]
) -> None:
    created = hosts[0].keys.create(owner="ann")
    for host in hosts:
        assert authenticate(host, created.token) is not None
        assert host.keys.authenticate_cached(created.token) is not None
    change(hosts[0], created.id, "")
    for host in hosts:
        assert host.keys.authenticate_cached(created.token) is None
        assert authenticate(host, created.token) is None


def test_a_key_stops_when_its_account_is_deleted_though_another_process_has_ended_the_suspension(
    hosts: tuple[ImageHost, ImageHost],
) -> None:
    created = hosts[0].keys.create(owner="ann")
    hosts[0].upload(make_image(4, 3), owner="ann")

    def end_suspension(_: object) -> None:
        hosts[1].accounts.update("ann", suspended=False)
        assert authenticate(hosts[1], created.token) is not None

    hosts[0].subscribe(end_suspension)
    hosts[0].accounts.delete("ann")
    assert authenticate(hosts[1], created.token) is None


SESSION_ENDS: dict[str, Callable[[ImageHost, str, str], object]] = {
    "deleted": lambda host, session, _: host.sessions.delete(session, owner="ann"),
    "signed out": lambda host, _, token: host.sessions.delete(
        owner=authorize(host.authenticate(token), SessionRequirement.ONLY)
    ),
    "changed password": lambda host, _session, _: host.accounts.set_password_hash("ann", "hash"),
    "suspended account": lambda host, _session, _: host.accounts.update("ann", suspended=True),
}


@pytest.mark.parametrize("change", SESSION_ENDS.values(), ids=SESSION_ENDS)
def test_a_session_ends_at_once_in_every_process(
    hosts: tuple[ImageHost, ImageHost], change: Callable[[ImageHost, str, str], object]
) -> None:
    created = hosts[0].sessions.create(hosts[0].accounts.get("ann"))
    for host in hosts:
        assert authenticate(host, created.token) is not None
        assert host.keys.authenticate_cached(created.token) is not None
    change(hosts[1], created.id, created.token)
    for host in hosts:
        assert host.keys.authenticate_cached(created.token) is None
        assert authenticate(host, created.token) is None


def test_scopes_role_and_limits_change_at_once_in_every_process(hosts: tuple[ImageHost, ImageHost]) -> None:
    created = hosts[0].keys.create(owner="ann")
    for host in hosts:
        assert authenticate(host, created.token) is not None
    hosts[0].keys.update(created.id, owner="ann", scopes=["images:read"])
    for host in hosts:
        assert getattr(authenticate(host, created.token), "scopes", None) == {Scope.IMAGES_READ}
    hosts[0].accounts.update("ann", role="operator")
    hosts[1].accounts.update("ann", api_per_minute=7)
    for host in hosts:
        principal = authenticate(host, created.token)
        assert principal is not None
        assert principal.account.role is Role.OPERATOR
        assert principal.account.limits.api_per_minute == 7


def test_a_principal_in_memory_expires_with_its_token(
    hosts: tuple[ImageHost, ImageHost], clock: FrozenClock
) -> None:
    host = hosts[0]
    tokens = [
        host.keys.create(owner="ann", expires_at=clock() + timedelta(seconds=30)).token,
        host.sessions.create(host.accounts.get("ann")).token,
    ]
    clock.advance(seconds=29)
    assert all(authenticate(host, token) for token in tokens)
    clock.advance(seconds=1)
    assert [authenticate(host, token) is None for token in tokens] == [True, False]
    clock.now += timedelta(seconds=host.settings.sessions.lifetime_seconds - 60)
    assert authenticate(host, tokens[1]) is not None
    clock.advance(seconds=30)
    assert host.keys.authenticate_cached(tokens[1]) is None
    assert authenticate(host, tokens[1]) is None


def test_an_unknown_token_is_not_kept(hosts: tuple[ImageHost, ImageHost]) -> None:
    for token in (new_token(TokenKind.KEY), new_token(TokenKind.SESSION), "rubbish", "\ud800"):
        assert authenticate(hosts[0], token) is None
        assert hosts[0].keys.authenticate_cached(token) is None


def test_a_use_is_recorded_to_the_minute_by_every_process(
    hosts: tuple[ImageHost, ImageHost], clock: FrozenClock
) -> None:
    created = hosts[0].keys.create(owner="ann")
    for number in range(6):
        used_at = clock()
        assert authenticate(hosts[number % 2], created.token) is not None
        assert hosts[0].keys.get(created.id, owner="ann").last_used_at == used_at
        clock.advance(minutes=1)


@pytest.mark.parametrize("when", ["before", "during"])
def test_what_was_read_before_or_during_a_change_is_not_kept(
    tmp_path: Path, hosts: tuple[ImageHost, ImageHost], when: str, clock: FrozenClock
) -> None:
    principal = hosts[0].authenticate(hosts[0].keys.create(owner="ann").token)
    locks, generations = LockManager(tmp_path / "locks"), GenerationTable(tmp_path / "generations")
    database = SqliteDatabase(tmp_path / "other.db", locks)
    cache = PrincipalCache(locks, generations)
    before = cache.generation()
    with cache.invalidated_by(database.transaction()):
        during = cache.generation()
        read_at = {"before": before, "during": during}[when]
        cache.put("hash", principal, read_at, last_used_at=clock())
        assert cache.get("hash", clock()) is None
    assert cache.get("hash", clock()) is None
    cache.put("hash", principal, cache.generation(), last_used_at=clock())
    assert cache.get("hash", clock()) is principal
    generations.close()
    database.close()


def test_nothing_is_kept_after_a_process_died_during_a_change_until_the_directory_is_opened(
    tmp_path: Path, hosts: tuple[ImageHost, ImageHost], clock: FrozenClock
) -> None:
    host, token = hosts[0], hosts[0].keys.create(owner="ann").token
    generations = GenerationTable(tmp_path / "locks" / "principal-generations")
    # The block is as far as the process came.
    with generations.bump(PRINCIPALS):
        assert authenticate(host, token) is not None
        assert host.keys.authenticate_cached(token) is None
        with open_host(tmp_path, settings=SETTINGS, clock=clock):
            assert authenticate(host, token) is not None
            assert host.keys.authenticate_cached(token) is not None
    generations.close()
