"""Two hosts on one PostgreSQL database: what each decides, the other sees."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path

import attrs
import pytest
from tests.waiting import PATIENCE, wait_until

from imagehost_core import ConflictError, ImageHost, InsufficientStorageError, UnauthorizedError
from imagehost_core._util.clock import utc_now
from imagehost_core.authorization import SessionRequirement, authorize
from imagehost_core.cluster.postgres_database import PostgresDatabase
from imagehost_core.db.repositories.idempotency import StoredResponse
from imagehost_core.services import idempotency as idempotency_service
from imagehost_core.settings import LimitSettings, RenderingSettings, Settings, WebhookSettings
from imagehost_core.testing import FrozenClock, make_image
from imagehost_core.webhooks import Attempt, SenderLoad

pytestmark = pytest.mark.external
LIMITS = LimitSettings(api_per_minute=0, api_per_hour=0, api_per_day=0, uploads_per_minute=37)


@pytest.fixture
def open_host(postgres_url: str, tmp_path: Path) -> Iterator[Callable[..., ImageHost]]:
    """A function that opens one more host, with a data directory of its own and the same images."""
    (tmp_path / "images").mkdir()
    with ExitStack() as stack:
        numbers = iter(range(100))

        def open_host(**arguments: object) -> ImageHost:
            settings = Settings(
                base_url="https://img.example/v1",
                database=postgres_url,
                rendering=RenderingSettings(processes=1),
                limits=LIMITS,
                webhooks=WebhookSettings(allow_loopback=True),
            )
            path = tmp_path / f"host-{next(numbers)}"
            path.mkdir()
            (path / "images").symlink_to(tmp_path / "images")
            return stack.enter_context(ImageHost.open(path, settings=settings, **arguments))  # type: ignore[arg-type]

        yield open_host


def at_once(*actions: Callable[[], object]) -> list[object]:
    """Call functions in as many threads at the same moment; return their results and errors."""
    barrier = threading.Barrier(len(actions))

    def run(action: Callable[[], object]) -> object:
        barrier.wait(PATIENCE)
        try:
            return action()
        except Exception as error:
            return error

    with ThreadPoolExecutor(len(actions)) as threads:
        return list(threads.map(run, actions))


def wait_for_waiting(database: PostgresDatabase, count: int) -> None:
    """Wait until a number of transactions wait for advisory locks."""
    sql = "SELECT count(*) AS waiting FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    wait_until(lambda: database.fetch_one(sql, {}) == {"waiting": count})


def test_an_image_is_uploaded_listed_searched_and_deleted(open_host: Callable[..., ImageHost]) -> None:
    host = open_host()
    image = host.upload(make_image(), owner="admin", filename="IMG_2034 cat.png", description="ünder")
    for q in ("img", "IMG_2034", "2034", "under", "ca"):
        page = host.images.list(owner="admin", q=q)
        assert [found.id for found in page] == [image.id], q
    assert len(host.images.list(owner="admin", q="2034_img").items) == 0
    assert host.images.list(owner="admin").total == 1
    assert host.gallery().total == 1
    assert list(host.check()) == []
    host.images.delete(image)
    assert host.images.list(owner="admin").total == 0
    assert list(host.check()) == []


def test_hosts_sign_urls_with_one_secret(open_host: Callable[..., ImageHost]) -> None:
    first, second = open_host(), open_host()
    assert first._context.secret == second._context.secret


def test_a_session_ends_after_the_transaction_that_it_has_authorized(
    open_host: Callable[..., ImageHost],
) -> None:
    first, second = open_host(), open_host()
    session = first.sessions.create(first.accounts.get("admin"))
    owner = authorize(first.authenticate(session.token), SessionRequirement.ONLY)
    waiting = "SELECT count(*) AS waiting FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    units, database = first._context.units, first._context.records.database
    with ThreadPoolExecutor(1) as threads:
        with units.transaction(owner) as transaction:
            ended = threads.submit(second.sessions.delete, session, owner="admin")
            while database.fetch_one(waiting, {}) == {"waiting": 0}:
                assert not ended.done()
                time.sleep(0.01)
            units.verify(owner, transaction)
        ended.result(PATIENCE)
    with pytest.raises(UnauthorizedError):
        first.albums.create(owner=owner, name="a")


def test_concurrent_uploads_of_two_hosts_never_exceed_the_quota(open_host: Callable[..., ImageHost]) -> None:
    first, second = open_host(), open_host()
    data = make_image()
    size = first.upload(data, owner="admin").size
    first.accounts.update("admin", quota_bytes=4 * size)
    results = at_once(*(lambda host=host: host.upload(data, owner="admin") for host in (first, second) * 4))
    assert sum(isinstance(result, InsufficientStorageError) for result in results) == 5, results
    usage = first.accounts.usage("admin")
    assert (usage.images, usage.bytes) == (4, 4 * size)
    assert list(first.check(quick=True)) == []


def test_changes_of_albums_and_images_by_two_hosts_keep_all_counters_exact(
    open_host: Callable[..., ImageHost],
) -> None:
    hosts = open_host(), open_host()
    data = make_image()
    album = hosts[0].albums.create(owner="admin", name="cats")
    images = [hosts[0].upload(data, owner="admin") for _ in range(6)]
    users = [hosts[0].accounts.create(f"user{number}") for number in range(2)]

    def change(number: int) -> Callable[[], object]:
        host, image = hosts[number % 2], images[number % 6]

        def run() -> None:
            host.upload(data, owner=users[number % 2])
            with suppress(Exception):
                host.albums.add_images(album, [image], owner="admin")
            with suppress(Exception):
                host.images.update(image, is_public=number % 3 == 0)
            if number % 4 == 0:
                with suppress(Exception):
                    host.images.delete(image)

        return run

    assert at_once(*map(change, range(8))) == [None] * 8
    assert list(hosts[0].check(quick=True)) == []


def test_windows_are_exact_across_hosts(open_host: Callable[..., ImageHost]) -> None:
    clock = FrozenClock()
    hosts = open_host(clock=clock), open_host(clock=clock)
    account = hosts[0].accounts.get("admin")
    results = at_once(
        *(
            lambda host=host: sum(host.rate_limiter.admit(account, upload=True).admitted for _ in range(15))
            for host in hosts * 4
        )
    )
    assert sum(result for result in results if isinstance(result, int)) == 37
    assert not hosts[0].rate_limiter.admit(account, upload=True).admitted
    assert hosts[0].rate_limiter.try_admit(account, upload=True) is None
    windows = {window.name: window.remaining for window in hosts[1].rate_limiter.windows(account)}
    assert windows["uploads_per_minute"] == 0
    clock.advance(minutes=1)
    assert hosts[1].rate_limiter.admit(account, upload=True).remaining == 36


def test_a_host_whose_clock_is_wrong_counts_in_the_same_windows(open_host: Callable[..., ImageHost]) -> None:
    right, wrong = open_host(), open_host()
    object.__setattr__(wrong.rate_limiter, "_clock", lambda: utc_now() + timedelta(hours=1))
    account = right.accounts.get("admin")
    decisions = [host.rate_limiter.admit(account, upload=True) for host in (right, wrong) * 37]
    assert sum(decision.admitted for decision in decisions) in (37, 74), "74 if a minute ended meanwhile"


def test_a_request_runs_once_on_all_hosts(
    open_host: Callable[..., ImageHost], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency_service, "WAIT_SECONDS", 0.2)
    first, second = open_host(), open_host()
    account = first.accounts.get("admin")
    with first.idempotency.begin(account, "key", "fingerprint") as request:
        assert request.response is None
        with pytest.raises(ConflictError), second.idempotency.begin(account, "key", "fingerprint"):
            pass
        request.complete(200, b"body")
    with second.idempotency.begin(account, "key", "fingerprint") as request:
        assert request.response == StoredResponse(200, b"body")


def test_senders_of_two_hosts_never_have_the_same_delivery(open_host: Callable[..., ImageHost]) -> None:
    first, second = open_host(), open_host()
    for _ in range(4):
        first.webhooks.create(owner="admin", url="http://127.0.0.1:9/hook")
    data = make_image()
    for _ in range(10):
        first.upload(data, owner="admin")
    with first.webhooks.sender_slot() as slot:
        leased = at_once(
            *(
                lambda host=host, slot=slot: host.webhooks.report_and_lease((), SenderLoad(5), slot)
                for host, slot in [(first, slot), (second, None)] * 4
            )
        )
        deliveries = [due.delivery.id for batch in leased if isinstance(batch, tuple) for due in batch]
        assert len(deliveries) == len(set(deliveries)) > 0
        # The slots of one host are not those of another, whose data directory has other locks.
        with second.webhooks.sender_slot() as other:
            assert other != slot
        again = {due.delivery.id for due in second.webhooks.lease(1_000)}
        assert not again & set(deliveries)


def test_a_lease_is_held_though_the_clock_of_another_host_is_wrong(
    open_host: Callable[..., ImageHost],
) -> None:
    right, wrong = open_host(), open_host()
    right.webhooks.create(owner="admin", url="http://127.0.0.1:9/hook")
    right.upload(make_image(), owner="admin")
    (leased,) = right.webhooks.lease(10)
    env = attrs.evolve(wrong.webhooks._env, clock=lambda: utc_now() + timedelta(hours=1))
    object.__setattr__(wrong.webhooks, "_env", env)
    assert wrong.webhooks.lease(10) == ()
    right.webhooks.report([(leased, Attempt(at=utc_now(), status=200, response="", duration_ms=1))])
    assert wrong.webhooks.lease(10) == ()


def test_a_change_of_a_key_that_waits_for_its_revocation_is_refused(
    open_host: Callable[..., ImageHost], postgres_url: str
) -> None:
    """Both begin while the key is valid, and wait for the account's lock, which the test holds."""
    first, second = open_host(), open_host()
    key = first.keys.create(owner="admin", name="k")
    with ThreadPoolExecutor(2) as threads, closing(PostgresDatabase(postgres_url)) as database:
        with database.transaction(first.accounts.get("admin").id):
            revoked = threads.submit(first.keys.delete, key, owner="admin")
            wait_for_waiting(database, 1)
            changed = threads.submit(second.keys.update, key, owner="admin", name="changed")
            wait_for_waiting(database, 2)
        assert revoked.result(PATIENCE).deleted
        with pytest.raises(ConflictError):
            changed.result(PATIENCE)
    assert second.keys.get(key, owner="admin").revoked_at is not None


def test_a_key_that_is_revoked_while_it_is_changed_stays_revoked(open_host: Callable[..., ImageHost]) -> None:
    first, second = open_host(), open_host()
    for _ in range(5):
        key = first.keys.create(owner="admin", name="k")
        at_once(
            partial(first.keys.delete, key, owner="admin"),
            partial(second.keys.update, key, owner="admin", name="changed"),
        )
        assert first.keys.get(key, owner="admin").revoked_at is not None
