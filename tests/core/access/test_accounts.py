"""Accounts: roles, limits, lists, and the guard of the last operator."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.open_host import open_host

from imagehost_core import ConflictError, ForbiddenError, ImageHost, NotFoundError, Role, ValidationError
from imagehost_core.models import AccountLimits, own_limits
from imagehost_core.services.accounts import LIMITS, MAX_LIMIT
from imagehost_core.services.references import AccountRef
from imagehost_core.testing import FrozenClock


@pytest.fixture(scope="module")
def shared_host() -> Iterator[ImageHost]:
    with open_host() as host:
        yield host


def test_an_operator_who_is_one_no_longer_changes_no_account(host: ImageHost) -> None:
    former = host.accounts.create("former", role=Role.OPERATOR)
    host.accounts.update("former", role=Role.USER)
    with pytest.raises(ForbiddenError):
        host.accounts.create("another", operator=former)
    with pytest.raises(ForbiddenError):
        host.accounts.update("former", operator=former, role=Role.OPERATOR)
    assert [account.name for account in host.accounts.iter()] == ["former", "admin"]
    assert host.accounts.get("former").role is Role.USER


def test_the_account_of_a_new_data_directory_is_an_operator(host: ImageHost) -> None:
    assert host.accounts.get("admin").role is Role.OPERATOR
    assert host.accounts.create("ann").role is Role.USER
    assert host.accounts.get_or_create("bob").role is Role.USER
    assert host.accounts.create("eve", role="operator", quota_bytes=7) == host.accounts.get("eve")
    assert (host.accounts.get("eve").limits, host.accounts.get("eve").quota_bytes) == (AccountLimits(), 7)


def test_an_account_is_named_by_its_name_its_id_or_its_record(host: ImageHost) -> None:
    account = host.accounts.create("7")
    for reference in (account, account.id, "7"):
        assert host.accounts.get(reference) == account
        assert host.accounts.usage(reference).images == 0


NAMES = st.from_regex(r"[0-9A-Za-z][0-9A-Za-z._@+-]{0,63}", fullmatch=True)


@given(name=NAMES, changed=st.lists(st.booleans(), min_size=64, max_size=64))
def test_names_that_differ_in_their_case_only_are_one_account(
    shared_host: ImageHost, name: str, changed: list[bool]
) -> None:
    other = "".join(letter.swapcase() if change else letter for letter, change in zip(name, changed))  # noqa: B905
    account = shared_host.accounts.get_or_create(name)
    assert shared_host.accounts.get_or_create(other) == shared_host.accounts.get(other) == account
    with pytest.raises(ConflictError):
        shared_host.accounts.create(other)
    shared_host.accounts.set_password_hash(other, f"hash of {account.id}")
    assert shared_host.accounts.password_hash(name) == f"hash of {account.id}"


def test_a_name_is_stored_as_given_and_found_in_any_case(host: ImageHost) -> None:
    account = host.accounts.create("Ann")
    for name in ("ann", "ANN", "Ann"):
        assert host.accounts.get(name) == account
        assert host.albums.create(owner=name, name="a").account_id == account.id
    # The sign of the unit kelvin is a lower-case k to some, but no letter of a name.
    host.accounts.create("k")
    for name in ("\u212a", "ＡＮＮ", "ann ", ""):
        with pytest.raises(NotFoundError):
            host.accounts.get(name)


def test_two_names_that_differ_in_their_case_cannot_be_stored(host: ImageHost) -> None:
    host.accounts.create("ann")
    context = host._context
    insert = context.records.accounts.insert
    with pytest.raises(Exception, match=r"(?i)unique"), context.records.database.transaction() as transaction:
        insert(transaction, "ANN", None, b"secret", host.now())


@pytest.mark.parametrize("reference", ["unknown", 0, -1, 999, 2**63, -(2**70)])
def test_an_unknown_account_is_404(host: ImageHost, reference: AccountRef) -> None:
    for call in (host.accounts.get, host.accounts.update, host.accounts.usage, host.accounts.delete):
        with pytest.raises(NotFoundError):
            call(reference)


def test_only_the_given_properties_of_an_account_change(host: ImageHost, clock: FrozenClock) -> None:
    host.accounts.create("ann", uploads_per_minute=3)
    changed = host.accounts.update("ann", api_per_hour=0, quota_bytes=5, role=Role.OPERATOR)
    assert changed == host.accounts.get("ann")
    assert changed.limits == AccountLimits(uploads_per_minute=3, api_per_hour=0)
    assert changed.quota_bytes == 5
    assert (changed.role, changed.suspended_at) == (Role.OPERATOR, None)
    assert host.accounts.update("ann") == changed
    assert host.accounts.update("ann", api_per_hour=None).limits.api_per_hour is None
    suspended = host.accounts.update("ann", suspended=True)
    assert suspended.suspended_at == clock()
    clock.advance(seconds=9)
    assert host.accounts.update("ann", suspended=True) == suspended
    assert host.accounts.update("ann", suspended=False).suspended_at is None


def test_changes_of_an_account_are_logged_once_with_its_name(
    host: ImageHost, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "imagehost.accounts")
    host.accounts.create("ann")
    for _ in range(2):
        host.accounts.update("ann", role="operator", suspended=True, quota_bytes=5)
    host.accounts.set_password_hash("ann", "hash")
    host.accounts.delete("ann")
    assert [(record.message, vars(record)["fields"]) for record in caplog.records] == [
        ("account created", {"account": "ann", "role": "user"}),
        (
            "account changed",
            {"account": "ann", "role": "operator", "suspended": True, "quota_bytes": 5},
        ),
        ("password changed", {"account": "ann"}),
        (
            "account deleted",
            {"account": "ann", "images": 0, "bytes": 0, "albums": 0, "keys": 0, "webhooks": 0},
        ),
    ]


def test_all_invalid_properties_are_reported_together(host: ImageHost) -> None:
    wrong: Any = {"role": "x", "suspended": 1, "api_per_minute": -1, "quota_bytes": True, "api_per_day": "5"}
    names = ["role", "suspended", "api_per_minute", "api_per_day", "quota_bytes"]
    with pytest.raises(ValidationError) as caught:
        host.accounts.update("admin", **wrong)
    assert [error.name for error in caught.value.errors] == names
    with pytest.raises(ValidationError) as caught:
        host.accounts.create("a/b", **wrong)
    assert [error.name for error in caught.value.errors] == ["name", *names]
    assert host.accounts.get("admin").limits == AccountLimits()
    with pytest.raises(TypeError, match="received quota"):
        host.accounts.update("admin", quota=1)  # type: ignore[call-arg]


@given(name=st.sampled_from(LIMITS), value=st.integers())
def test_a_limit_is_a_number_from_0_to_what_the_database_stores(
    shared_host: ImageHost, name: str, value: int
) -> None:
    changes: Any = {name: value}
    try:
        changed = shared_host.accounts.update("admin", **changes)
    except ValidationError:
        assert not 0 <= value <= MAX_LIMIT
    else:
        assert own_limits(changed)[name] == value
        assert 0 <= value <= MAX_LIMIT


def test_accounts_are_listed_newest_first_by_page_and_cursor(host: ImageHost, clock: FrozenClock) -> None:
    for name in ("ann", "bob", "eve"):
        clock.advance(seconds=1)
        host.accounts.create(name)
    page = host.accounts.list(page=2, per_page=3)
    assert ([account.name for account in page], page.total) == (["admin"], 4)
    assert [account.name for account in host.accounts.iter()] == ["eve", "bob", "ann", "admin"]
    host.accounts.delete("bob")
    assert host.accounts.list().total == 3


def demote(host: ImageHost, name: str) -> None:
    host.accounts.update(name, role="user")


def suspend(host: ImageHost, name: str) -> None:
    host.accounts.update(name, suspended=True)


def delete(host: ImageHost, name: str) -> None:
    host.accounts.delete(name)


@pytest.mark.parametrize("end", [demote, suspend, delete])
def test_the_last_operator_cannot_be_demoted_suspended_or_deleted(host: ImageHost, end: object) -> None:
    assert callable(end)
    host.accounts.create("ann")
    session = host.sessions.create(host.accounts.get("admin"))
    before = host.accounts.get("admin")
    with pytest.raises(ConflictError, match=r"another operator .* received admin alone"):
        end(host, "admin")
    assert host.accounts.get("admin") == before
    assert host.authenticate(session.token).account == before
    # A suspended operator does not count.
    host.accounts.create("bob", role="operator")
    host.accounts.update("bob", suspended=True)
    with pytest.raises(ConflictError):
        end(host, "admin")
    host.accounts.update("ann", role="operator")
    end(host, "admin")
    with pytest.raises(ConflictError):
        end(host, "ann")
    host.accounts.update("bob", suspended=False)
    end(host, "ann")


@pytest.mark.parametrize("end", [demote, suspend, delete])
def test_of_two_operators_that_end_each_other_at_once_one_remains(host: ImageHost, end: object) -> None:
    assert callable(end)
    for number in range(10):
        names = [f"one{number}", f"two{number}"]
        for name in names:
            host.accounts.create(name, role="operator")
        if number == 0:
            host.accounts.update("admin", role="user")
        else:
            for name in (f"one{number - 1}", f"two{number - 1}"):
                if any(account.name == name for account in host.accounts.list()):
                    host.accounts.delete(name)
        barrier = threading.Barrier(2)

        def run(name: str, barrier: threading.Barrier = barrier) -> bool:
            barrier.wait()
            try:
                end(host, name)
            except ConflictError:
                return False
            return True

        with ThreadPoolExecutor(2) as pool:
            assert sorted(pool.map(run, names)) == [False, True]
        assert sum(account.is_active_operator for account in host.accounts.iter()) == 1


def test_a_role_holds_from_the_next_request(host: ImageHost, clock: FrozenClock) -> None:
    host.accounts.create("ann")
    token = host.sessions.create(host.accounts.get("ann")).token
    assert host.authenticate(token).account.role is Role.USER
    host.accounts.update("ann", role="operator")
    clock.now += timedelta(seconds=1)
    assert host.authenticate(token).account.role is Role.OPERATOR
