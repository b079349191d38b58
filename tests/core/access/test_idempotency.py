"""Idempotency keys: a repeated request has no second effect."""

from __future__ import annotations

import threading

import pytest

from imagehost_core import BadRequestError, ConflictError, ImageHost, UnavailableError
from imagehost_core.coordination.locks import stripe
from imagehost_core.db.repositories.idempotency import StoredResponse
from imagehost_core.services import idempotency as once_module
from imagehost_core.testing import FrozenClock, make_image

EACH_ENGINE = True


def test_a_repeated_request_gets_the_first_response(host: ImageHost) -> None:
    account = host.accounts.get("admin")
    with host.idempotency.begin(account, "key", "request") as claim:
        assert claim.response is None
        claim.complete(201, b"body")
    with host.idempotency.begin(account, "key", "request") as claim:
        assert claim.response == StoredResponse(201, b"body")


def test_another_request_under_the_same_key_is_a_conflict(host: ImageHost) -> None:
    account = host.accounts.get("admin")
    with host.idempotency.begin(account, "key", "request"):
        pass
    with (
        pytest.raises(ConflictError, match="another request"),
        host.idempotency.begin(account, "key", "other"),
    ):
        pass


def test_accounts_do_not_share_idempotency_keys(host: ImageHost) -> None:
    with host.idempotency.begin(host.accounts.get("admin"), "key", "one") as claim:
        claim.complete(200, b"")
    with host.idempotency.begin(host.accounts.create("ann"), "key", "other") as claim:
        assert claim.response is None


def test_a_response_is_kept_for_24_hours(host: ImageHost, clock: FrozenClock) -> None:
    account = host.accounts.get("admin")
    with host.idempotency.begin(account, "key", "request") as claim:
        claim.complete(200, b"")
    clock.advance(hours=24)
    with host.idempotency.begin(account, "key", "request") as claim:
        assert claim.response is not None
    clock.advance(seconds=1)
    with host.idempotency.begin(account, "key", "another request") as claim:
        assert claim.response is None


@pytest.mark.parametrize("key", ["", "x" * 256, "ä", "a\nb", "a\x7fb"])
def test_a_key_is_1_to_255_printable_characters(host: ImageHost, key: str) -> None:
    account = host.accounts.get("admin")
    with (
        pytest.raises(BadRequestError, match="Idempotency-Key"),
        host.idempotency.begin(account, key, "request"),
    ):
        pass
    with host.idempotency.begin(account, "x" * 255, "request"):
        pass


def test_a_result_recorded_before_a_crash_is_not_created_again(host: ImageHost) -> None:
    """The first attempt creates two of three things and dies before it responds."""
    account = host.accounts.get("admin")

    def request(files: int) -> list[str]:
        with host.idempotency.begin(account, "key", "request") as claim:
            assert claim.response is None
            created: list[str] = [
                host.upload(make_image(seed=n), owner=account, idempotency=claim.sub_operation(n)).id
                for n in range(files)
            ]
            created.append(
                str(host.albums.create(owner=account, name="Cats", idempotency=claim.sub_operation(99)).id)
            )
        return created

    first, second = request(2), request(3)
    assert second[:2] == first[:2]
    assert second[-1] == first[-1]
    assert host.images.list(owner=account).total == 3
    assert host.albums.list(owner=account).total == 1


def test_an_image_deleted_meanwhile_is_created_anew(host: ImageHost) -> None:
    account = host.accounts.get("admin")
    created = []
    for _ in range(2):
        with host.idempotency.begin(account, "key", "request") as claim:
            created.append(host.upload(make_image(), owner=account, idempotency=claim.sub_operation(0)).id)
        host.images.delete(created[-1])
    assert created[0] != created[1]


def test_a_second_request_waits_for_the_first(host: ImageHost) -> None:
    account, begun = host.accounts.get("admin"), threading.Event()
    responses: list[StoredResponse | None] = []

    def second() -> None:
        begun.set()
        with host.idempotency.begin(account, "key", "request") as claim:
            responses.append(claim.response)

    with host.idempotency.begin(account, "key", "request") as claim:
        thread = threading.Thread(target=second)
        thread.start()
        begun.wait()
        thread.join(0.1)
        assert responses == []
        claim.complete(200, b"first")
    thread.join()
    assert responses == [StoredResponse(200, b"first")]


@pytest.mark.time_limit(30)
def test_a_second_request_is_409_after_the_wait(host: ImageHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(once_module, "WAIT_SECONDS", 0.05)
    account = host.accounts.get("admin")
    with (
        host.idempotency.begin(account, "key", "request"),
        pytest.raises(ConflictError) as refused,
        host.idempotency.begin(account, "key", "request"),
    ):
        pass
    assert refused.value.retry_after == 1


@pytest.mark.time_limit(30)
def test_a_key_that_shares_its_lock_with_another_is_503_with_retry_after(
    host: ImageHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(once_module, "WAIT_SECONDS", 0.05)
    account = host.accounts.get("admin")
    same = next(n for n in range(10_000) if stripe(f"{account.id}/{n}") == stripe(f"{account.id}/key"))
    with (
        host.idempotency.begin(account, "key", "request"),
        pytest.raises(UnavailableError),
        host.idempotency.begin(account, str(same), "request"),
    ):
        pass
