"""Authorization at the effect: an operation whose token has ended since it was authenticated changes nothing.

Each operation runs for an account that was authorized before its token ended, in another process or on
another host, as that of a request whose body was still arriving.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import attrs
import pytest
from attrs import define, frozen
from tests.open_host import open_host

from imagehost_core import (
    Account,
    ForbiddenError,
    ImageHost,
    NotFoundError,
    Scope,
    Settings,
    UnauthorizedError,
)
from imagehost_core.authorization import AuthorizedAccount, Requirement, SessionRequirement, authorize
from imagehost_core.models import ALL_SCOPES, Role
from imagehost_core.settings import SQLITE, RenderingSettings, WebhookSettings
from imagehost_core.testing import FrozenClock, make_image

EACH_ENGINE = True
LIFETIME = timedelta(hours=1)
TABLES = (
    "accounts",
    "albums",
    "api_keys",
    "events",
    "idempotency_keys",
    "images",
    "sessions",
    "tombstones",
    "webhook_deliveries",
    "webhooks",
)


class EndingFile(io.BytesIO):
    """A file that calls a function when it is read, as a body that arrives slowly."""

    def __init__(self, data: bytes, end: Callable[[], object]) -> None:
        super().__init__(data)
        self._end = end

    def read(self, size: int | None = -1) -> bytes:
        if self.tell() == 0:
            self._end()
        return super().read(size)


@define
class Owned:
    """An account and a resource of each kind that it owns."""

    account: Account
    image_id: str
    album_id: int
    key_id: str
    webhook_id: str
    delivery_id: str
    session_id: str

    def create_another(self) -> str:
        """Return the name of an account that does not exist."""
        return f"{self.account.name}-new"


@frozen
class World:
    """Two hosts of one database: requests come to the first, tokens end on the second."""

    host: ImageHost
    other: ImageHost
    clock: FrozenClock

    def own(self, name: str) -> Owned:
        host, account = self.host, self.host.accounts.create(name, password_hash="hash")
        album = host.albums.create(owner=account, name="album")
        image = host.upload(make_image(8, 8), owner=account, filename="a.png", album_id=album.id)
        with host.idempotency.begin(account, "key", "fingerprint") as request:
            request.complete(200, b"{}")
        webhook = host.webhooks.create(owner=account, url="http://127.0.0.1:9/hook")
        return Owned(
            account=account,
            image_id=image.id,
            album_id=album.id,
            key_id=host.keys.create(owner=account).id,
            webhook_id=webhook.id,
            delivery_id=host.webhooks.test(webhook, owner=account).id,
            session_id=host.sessions.create(account).id,
        )

    def authorize(self, account: Account, requirement: Requirement, *, by_key: bool) -> AuthorizedAccount:
        """Return an account as a new token with no more than the requirement acts for it."""
        if by_key:
            assert isinstance(requirement, Scope)
            expires_at = self.clock() + LIFETIME
            token = self.host.keys.create(owner=account, scopes=[requirement], expires_at=expires_at).token
        else:
            if requirement is SessionRequirement.OPERATOR:
                self.host.accounts.update(account, role=Role.OPERATOR)
            token = self.host.sessions.create(account).token
        return authorize(self.host.authenticate(token), requirement)

    def state(self) -> object:
        """Return everything that is stored."""
        database = self.host._context.records.database
        rows = {table: database.fetch_all(f"SELECT * FROM {table}", {}) for table in TABLES}
        files = sorted(str(path) for path in (self.host.path / "images").rglob("*") if path.is_file())
        return {table: sorted(map(repr, found)) for table, found in rows.items()}, files


Operation = Callable[[ImageHost, Account, Owned], object]


def replay(host: ImageHost, owner: Account, _owned: Owned) -> object:
    with host.idempotency.begin(owner, "key", "fingerprint") as repeated:
        return repeated.response


def changes(owned: Owned) -> dict[str, Any]:
    return {"description": "changed", "album_id": None, "filename": f"{owned.image_id}.png"}


OPERATIONS: dict[str, tuple[Requirement, Operation]] = {
    "upload": (
        Scope.IMAGES_WRITE,
        lambda host, owner, _: host.upload(make_image(9, 9), owner=owner, filename="b.png"),
    ),
    "update": (
        Scope.IMAGES_WRITE,
        lambda host, owner, owned: host.images.update(owned.image_id, owner=owner, **changes(owned)),
    ),
    "update without a change": (
        Scope.IMAGES_WRITE,
        lambda host, owner, owned: host.images.update(owned.image_id, owner=owner),
    ),
    "update many": (
        Scope.IMAGES_WRITE,
        lambda host, owner, owned: host.images.update_many([owned.image_id], owner=owner, **changes(owned)),
    ),
    "update many without a change": (
        Scope.IMAGES_WRITE,
        lambda host, owner, owned: host.images.update_many([owned.image_id], owner=owner),
    ),
    "delete": (
        Scope.IMAGES_DELETE,
        lambda host, owner, owned: host.images.delete(owned.image_id, owner=owner),
    ),
    "delete many": (
        Scope.IMAGES_DELETE,
        lambda host, owner, owned: host.images.delete_many([owned.image_id], owner=owner),
    ),
    "sign": (
        Scope.IMAGES_READ,
        lambda host, owner, owned: host.images.signed_url(owned.image_id, owner=owner),
    ),
    "sign many": (
        Scope.IMAGES_READ,
        lambda host, owner, owned: host.images.signed_urls([{"image_id": owned.image_id}], owner=owner),
    ),
    "create album": (
        Scope.ALBUMS_WRITE,
        lambda host, owner, _: host.albums.create(owner=owner, name="b"),
    ),
    "replay": (Scope.ALBUMS_WRITE, replay),
    "update album": (
        Scope.ALBUMS_WRITE,
        lambda host, owner, owned: host.albums.update(owned.album_id, owner=owner, name="c"),
    ),
    "add images": (
        Scope.ALBUMS_WRITE,
        lambda host, owner, owned: host.albums.add_images(owned.album_id, [owned.image_id], owner=owner),
    ),
    "remove images": (
        Scope.ALBUMS_WRITE,
        lambda host, owner, owned: host.albums.remove_images(owned.album_id, [owned.image_id], owner=owner),
    ),
    "delete album": (
        Scope.ALBUMS_WRITE,
        lambda host, owner, owned: host.albums.delete(owned.album_id, owner=owner),
    ),
    "delete album with images": (
        Scope.ALBUMS_WRITE,
        lambda host, owner, owned: host.albums.delete(owned.album_id, owner=owner, delete_images=True),
    ),
    "create webhook": (
        Scope.WEBHOOKS_MANAGE,
        lambda host, owner, _: host.webhooks.create(owner=owner, url="http://127.0.0.1:9/other"),
    ),
    "update webhook": (
        Scope.WEBHOOKS_MANAGE,
        lambda host, owner, owned: host.webhooks.update(owned.webhook_id, owner=owner, is_active=False),
    ),
    "delete webhook": (
        Scope.WEBHOOKS_MANAGE,
        lambda host, owner, owned: host.webhooks.delete(owned.webhook_id, owner=owner),
    ),
    "test webhook": (
        Scope.WEBHOOKS_MANAGE,
        lambda host, owner, owned: host.webhooks.test(owned.webhook_id, owner=owner),
    ),
    "rotate secret": (
        Scope.WEBHOOKS_MANAGE,
        lambda host, owner, owned: host.webhooks.rotate_secret(owned.webhook_id, owner=owner),
    ),
    "retry delivery": (
        Scope.WEBHOOKS_MANAGE,
        lambda host, owner, owned: host.webhooks.retry(owned.webhook_id, owned.delivery_id, owner=owner),
    ),
    "create key": (SessionRequirement.ONLY, lambda host, owner, _: host.keys.create(owner=owner)),
    "update key": (
        SessionRequirement.ONLY,
        lambda host, owner, owned: host.keys.update(owned.key_id, owner=owner, name="d"),
    ),
    "revoke key": (
        SessionRequirement.ONLY,
        lambda host, owner, owned: host.keys.delete(owned.key_id, owner=owner),
    ),
    "end session": (
        SessionRequirement.ONLY,
        lambda host, owner, owned: host.sessions.delete(owned.session_id, owner=owner),
    ),
    "change password": (
        SessionRequirement.ONLY,
        lambda host, owner, _: host.accounts.set_password_hash(owner, "other hash"),
    ),
    "change password by an operator": (
        SessionRequirement.ONLY,
        lambda host, owner, _: host.accounts.set_password_hash(
            owner, "other hash", operator=host.accounts.get("admin")
        ),
    ),
    "change a password of others": (
        SessionRequirement.OPERATOR,
        lambda host, owner, _: host.accounts.set_password_hash("admin", "other hash", operator=owner),
    ),
    "create account": (
        SessionRequirement.OPERATOR,
        lambda host, owner, owned: host.accounts.create(owned.create_another(), operator=owner),
    ),
    "update account": (
        SessionRequirement.OPERATOR,
        lambda host, owner, _: host.accounts.update("admin", operator=owner, quota_bytes=7),
    ),
    "update nothing": (
        Scope.IMAGES_WRITE,
        lambda host, owner, owned: host.images.update(owned.image_id, owner=owner, description=""),
    ),
}
"""What an account can do that has an effect, and what it requires of a token."""

End = Callable[[World, AuthorizedAccount], object]
Errors = tuple[type[Exception], ...]
INVALID: Errors = (UnauthorizedError,)
GONE: Errors = (UnauthorizedError, NotFoundError)
"""The errors after the account is deleted: also those of resources that went with it."""


def narrow(world: World, owner: AuthorizedAccount) -> None:
    key_id = owner.principal.key_id
    assert key_id is not None
    others = ALL_SCOPES - {*owner.requirements}
    world.other.keys.update(key_id, owner=owner.name, scopes=others)


def end_session(world: World, owner: AuthorizedAccount) -> None:
    assert owner.principal.session_id is not None
    world.other.sessions.delete(owner.principal.session_id, owner=owner.name)


SUSPENDED: End = lambda world, owner: world.other.accounts.update(owner.name, suspended=True)  # noqa: E731
DELETED: End = lambda world, owner: world.other.accounts.delete(owner.name)  # noqa: E731
KEY_ENDS: dict[str, tuple[End, Errors]] = {
    "revoked": (
        lambda world, owner: world.other.keys.delete(str(owner.principal.key_id), owner=owner.name),
        INVALID,
    ),
    "expired": (lambda world, _: world.clock.advance(hours=1), INVALID),
    "narrowed": (narrow, (ForbiddenError,)),
    "suspended": (SUSPENDED, INVALID),
    "deleted": (DELETED, GONE),
}
SESSION_ENDS: dict[str, tuple[End, Errors]] = {
    "ended": (end_session, INVALID),
    "expired": (lambda world, _: world.clock.advance(days=8), INVALID),
    "password changed": (
        lambda world, owner: world.other.accounts.set_password_hash(owner.name, "changed"),
        INVALID,
    ),
    "suspended": (SUSPENDED, INVALID),
    "deleted": (DELETED, GONE),
}
DEMOTED: End = lambda world, owner: world.other.accounts.update(owner.name, role=Role.USER)  # noqa: E731


def ends_of(requirement: Requirement) -> list[tuple[bool, str, End, Errors]]:
    """Return what can end the tokens that meet a requirement: whether it ends keys, its name, and it."""
    ends = [(False, name, *end) for name, end in SESSION_ENDS.items()]
    if isinstance(requirement, Scope):
        ends += [(True, name, *end) for name, end in KEY_ENDS.items()]
    if requirement is SessionRequirement.OPERATOR:
        ends.append((False, "demoted", DEMOTED, (ForbiddenError,)))
    return ends


@pytest.fixture(scope="module")
def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, engine: str
) -> Iterator[World]:
    clock, first = FrozenClock(), tmp_path_factory.mktemp("first")
    settings = Settings(
        base_url="https://img.example/v1",
        rendering=RenderingSettings(processes=1),
        webhooks=WebhookSettings(allow_loopback=True),
    )
    with ExitStack() as stack:
        second: Path = first
        if engine != SQLITE:
            server = request.getfixturevalue("postgres_server")
            settings = attrs.evolve(settings, database=stack.enter_context(server.empty_database()))
            second = tmp_path_factory.mktemp("second")
            (first / "images").mkdir()
            (second / "images").symlink_to(first / "images")
        host, other = (
            stack.enter_context(open_host(path, settings=settings, clock=clock)) for path in (first, second)
        )
        yield World(host, other, clock)


@pytest.mark.parametrize("tries_all", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", OPERATIONS)
def test_no_operation_has_an_effect_once_its_token_has_ended(
    world: World, engine: str, name: str, tries_all: bool
) -> None:
    """Try each operation with one of the ends in turn; the slow test with each, on PostgreSQL another."""
    requirement, operation = OPERATIONS[name]
    events: list[object] = []
    ends = ends_of(requirement)
    if not tries_all or engine != SQLITE:
        ends = [ends[([*OPERATIONS].index(name) + tries_all) % len(ends)]]
    for number, (by_key, end_name, end, error) in enumerate(ends):
        owned = world.own(f"{name.replace(' ', '.')}-{number}-{tries_all}")
        owner = world.authorize(owned.account, requirement, by_key=by_key)
        end(world, owner)
        before = world.state()
        unsubscribe = world.host.subscribe(events.append)
        with pytest.raises(error):
            operation(world.host, owner, owned)
        unsubscribe()
        assert (world.state(), events) == (before, []), end_name
        with suppress(NotFoundError):  # what is left would make each state larger
            world.other.accounts.delete(owned.account)


WITH_TOKENS = [(name, False) for name in OPERATIONS] + [
    (name, True) for name, (requirement, _) in OPERATIONS.items() if isinstance(requirement, Scope)
]


@pytest.mark.parametrize(("name", "by_key"), WITH_TOKENS)
def test_every_operation_has_its_effect_while_its_token_is_valid(
    world: World, name: str, by_key: bool
) -> None:
    requirement, operation = OPERATIONS[name]
    owned = world.own(f"{name.replace(' ', '.')}-{by_key}")
    operation(world.host, world.authorize(owned.account, requirement, by_key=by_key), owned)


@pytest.mark.parametrize("requirement", SessionRequirement)
def test_no_key_of_an_operator_meets_the_requirement_of_a_session(
    world: World, requirement: SessionRequirement
) -> None:
    account = world.host.accounts.create(f"key-for-{requirement.value}", role=Role.OPERATOR)
    principal = world.host.authenticate(world.host.keys.create(owner=account).token)
    with pytest.raises(ForbiddenError, match="expected a session's token"):
        authorize(principal, requirement)


def test_a_password_change_does_not_end_keys(world: World) -> None:
    owned = world.own("key-and-password")
    owner = world.authorize(owned.account, Scope.ALBUMS_WRITE, by_key=True)
    world.other.accounts.set_password_hash(owner.name, "changed")
    assert world.host.albums.create(owner=owner, name="b").account_id == owner.id


@pytest.mark.parametrize("end_name", KEY_ENDS)
def test_a_token_that_ends_while_its_image_is_processed_stores_nothing(world: World, end_name: str) -> None:
    end, error = KEY_ENDS[end_name]
    owned = world.own(f"processed-{end_name}")
    owner = world.authorize(owned.account, Scope.IMAGES_WRITE, by_key=True)
    before: list[object] = []

    def end_and_remember() -> None:
        end(world, owner)
        before.append(world.state())

    with pytest.raises(error):
        world.host.upload(EndingFile(make_image(9, 9), end_and_remember), owner=owner, filename="b.png")
    assert world.state() == before[0]


def test_an_account_that_is_deleted_while_its_image_is_processed_is_not_found(world: World) -> None:
    owned = world.own("processed-without-a-token")
    source = EndingFile(make_image(9, 9), lambda: world.other.accounts.delete(owned.account))
    with pytest.raises(NotFoundError):
        world.host.upload(source, owner=owned.account, filename="b.png")
