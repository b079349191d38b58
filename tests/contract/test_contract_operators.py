"""Sessions, passwords, and the accounts that operators manage, with both clients."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import httpx2
import pytest
from attrs import fields
from tests.contract.conftest import (
    PASSWORD,
    Account,
    Backend,
    Connect,
    OpenHttp,
    assert_error,
    data_of,
    members,
)

from imagehost_client import (
    AsyncClient,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    UnauthorizedError,
    ValidationError,
)
from imagehost_client.models import Account as AccountRecord
from imagehost_client.models import AccountLimits, AccountSummary, AccountUsage, Session
from imagehost_client.testing import make_png

pytestmark = pytest.mark.anyio

NEW_PASSWORD = "a longer password"


@pytest.fixture
def operator_account(backend: Backend) -> Account:
    """A new account of an operator."""
    return backend.create_account(role="operator")


@pytest.fixture
def operator(operator_account: Account, connect: Connect) -> AsyncClient:
    """A client of an operator."""
    return connect(operator_account.token)


@pytest.fixture
def operator_http(operator_account: Account, open_http: OpenHttp) -> httpx2.AsyncClient:
    """A plain HTTP client of an operator."""
    return open_http(operator_account.token)


async def find(operator: AsyncClient, name: str) -> AccountRecord:
    """Return the account with a name."""
    accounts = [account async for account in operator.accounts.list(per_page=100)]
    return next(account for account in accounts if account.name == name)


async def test_sessions_are_listed_newest_first_and_ended(
    client: AsyncClient, connect: Connect, account: Account
) -> None:
    token = (await connect(None).sessions.create(account.name, PASSWORD)).token
    second = connect(token)
    sessions = [session async for session in second.sessions.list(per_page=1)]
    assert [session.is_current for session in sessions] == [True, False]
    newest = sessions[0]
    assert "imagehost-client" in newest.user_agent
    assert newest.ip_address
    assert newest.created_at <= newest.last_used_at <= datetime.now(UTC) + timedelta(minutes=1)
    assert newest.expires_at > datetime.now(UTC)
    await client.sessions.delete(newest)
    with pytest.raises(UnauthorizedError):
        await second.account()
    with pytest.raises(NotFoundError):
        await client.sessions.delete(newest.id)
    assert [session.id async for session in client.sessions.list()] == [sessions[1].id]
    await client.sessions.delete(sessions[1])
    with pytest.raises(UnauthorizedError):
        await client.account()


async def test_a_listed_session_has_all_fields_and_no_token(
    http: httpx2.AsyncClient, account: Account
) -> None:
    response = await http.get("/sessions")
    assert [record.keys() for record in response.json()["data"]["sessions"]] == [members(Session)]
    assert account.token not in response.text


async def test_a_session_of_another_account_is_404(
    client: AsyncClient, connect: Connect, other: Account
) -> None:
    (session,) = [session async for session in client.sessions.list()]
    with pytest.raises(NotFoundError):
        await connect(other.token).sessions.delete(session)
    await client.account()


async def test_a_key_manages_neither_sessions_nor_the_password_nor_accounts(
    operator: AsyncClient, connect: Connect
) -> None:
    program = connect((await operator.keys.create("All")).token)
    for call in (
        program.sessions.list().first_page,
        lambda: program.sessions.delete("0" * 16),
        lambda: program.change_password(PASSWORD, NEW_PASSWORD),
        program.renew_signing_secret,
        program.accounts.list().first_page,
        lambda: program.accounts.get(1),
        lambda: program.accounts.update(1, suspended=True),
        lambda: program.accounts.create("x" * 20, NEW_PASSWORD, role="user"),
    ):
        with pytest.raises(ForbiddenError):
            await call()


async def test_a_name_is_one_in_any_case(operator: AsyncClient, connect: Connect) -> None:
    # The backend of other clients is the same.
    created = await operator.accounts.create(f"Name.{uuid4().hex}", NEW_PASSWORD)
    for name in (created.name.lower(), created.name.upper(), created.name):
        session = await connect(None).sessions.create(name, NEW_PASSWORD)
        assert session.account.name == created.name
        with pytest.raises(ConflictError):
            await operator.accounts.create(name, NEW_PASSWORD)


async def test_a_changed_password_ends_the_other_sessions(
    client: AsyncClient, connect: Connect, account: Account
) -> None:
    other_session = connect((await connect(None).sessions.create(account.name, PASSWORD)).token)
    program = connect((await client.keys.create("k")).token)
    assert (await client.change_password(PASSWORD, NEW_PASSWORD)).changed
    with pytest.raises(UnauthorizedError):
        await other_session.account()
    await client.account()
    await program.account()
    with pytest.raises(UnauthorizedError):
        await connect(None).sessions.create(account.name, PASSWORD)
    await connect(None).sessions.create(account.name, NEW_PASSWORD)


async def test_a_wrong_current_password_and_a_short_new_one_are_reported_together(
    client: AsyncClient, http: httpx2.AsyncClient, connect: Connect, account: Account
) -> None:
    body = {"current_password": "wrong-guess", "new_password": "2-short"}
    response = await http.post("/account/password", json=body)
    assert_error(response, 422, "VALIDATION_ERROR", "for current_password", "for new_password")
    assert all(secret not in response.text for secret in body.values())
    bodies: list[dict[str, object]] = [
        {},
        {"current_password": PASSWORD},
        {"current_password": 7, "new_password": NEW_PASSWORD},
    ]
    for missing in bodies:
        assert_error(await http.post("/account/password", json=missing), 422, "VALIDATION_ERROR", "password")
    with pytest.raises(ValidationError):
        await client.change_password("wrong-guess", NEW_PASSWORD)
    await connect(None).sessions.create(account.name, PASSWORD)


async def test_operators_create_list_read_and_change_accounts(
    operator: AsyncClient, connect: Connect, account: Account
) -> None:
    name = f"{account.name}.new"
    created = await operator.accounts.create(
        name, NEW_PASSWORD, role="operator", quota_bytes=1_000, uploads_per_minute=0
    )
    assert (created.name, created.role, created.quota_bytes) == (name, "operator", 1_000)
    assert not created.suspended
    assert (created.limits.uploads_per_minute, created.limits.api_per_minute) == (0, None)
    assert (created.usage.bytes, created.usage.images, created.usage.albums) == (0, 0, 0)
    assert await operator.accounts.get(created) == created == await find(operator, name)
    changed = await operator.accounts.update(created.id, role="user", quota_bytes=None, api_per_hour=5)
    assert (changed.role, changed.quota_bytes) == ("user", None)
    assert (changed.limits.uploads_per_minute, changed.limits.api_per_hour) == (0, 5)
    changed = await operator.accounts.update(created, uploads_per_minute=None)
    assert changed == await operator.accounts.get(created)
    assert changed.limits.uploads_per_minute is None
    session = await connect(None).sessions.create(name, NEW_PASSWORD)
    assert session.account.role == "user"
    with pytest.raises(ConflictError):
        await operator.accounts.create(name, NEW_PASSWORD)
    with pytest.raises(NotFoundError):
        await operator.accounts.get(999_999)


async def test_an_account_for_operators_has_all_fields(operator_http: httpx2.AsyncClient) -> None:
    record = (await data_of(operator_http.get("/accounts?per_page=1")))["accounts"][0]
    assert record.keys() == members(AccountRecord)
    assert record["limits"].keys() == {attribute.name for attribute in fields(AccountLimits)}
    assert record["usage"].keys() == {attribute.name for attribute in fields(AccountUsage)}
    own = await data_of(operator_http.get("/account"))
    assert own["account"].keys() == members(AccountSummary)
    assert own["account"]["role"] == "operator"


async def test_users_manage_no_accounts(client: AsyncClient) -> None:
    for call in (
        client.accounts.list().first_page,
        lambda: client.accounts.get(1),
        lambda: client.accounts.update(1, role="operator"),
        lambda: client.accounts.create("x" * 20, NEW_PASSWORD, role="operator"),
    ):
        with pytest.raises(ForbiddenError):
            await call()


async def test_registration_takes_a_name_and_a_password_only(
    anonymous_http: httpx2.AsyncClient, account: Account
) -> None:
    body = {"username": f"{account.name}.registered", "password": NEW_PASSWORD}
    for extra in ({"role": "operator"}, {"quota_bytes": 0}, {"limits": {"api_per_day": 0}}):
        assert_error(await anonymous_http.post("/accounts", json=body | extra), 401, "UNAUTHORIZED")
    record = await data_of(anonymous_http.post("/accounts", json=body), 201)
    assert (record["name"], record["role"]) == (body["username"], "user")


async def test_a_suspended_account_is_refused_until_it_is_resumed(
    operator: AsyncClient,
    client: AsyncClient,
    connect: Connect,
    account: Account,
    anonymous_http: httpx2.AsyncClient,
) -> None:
    image = await client.upload(make_png())
    program = connect((await client.keys.create("k")).token)
    record = await find(operator, account.name)
    assert (await operator.accounts.update(record, suspended=True)).suspended
    for refused in (client.account, program.account):
        with pytest.raises(UnauthorizedError):
            await refused()
    with pytest.raises(UnauthorizedError):
        await connect(None).sessions.create(account.name, PASSWORD)
    assert_error(await anonymous_http.get(image.url), 404, "NOT_FOUND")
    assert image.id not in {one.id async for one in connect(None).gallery(per_page=100)}
    assert not (await operator.accounts.update(record, suspended=False)).suspended
    await program.account()
    with pytest.raises(UnauthorizedError):
        await client.account()  # its session has ended
    assert (await anonymous_http.get(image.url)).status_code == 200


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ({"role": "admin"}, "role"),
        ({"role": None}, "role"),
        ({"suspended": "yes"}, "suspended"),
        ({"quota_bytes": -1}, "quota_bytes"),
        ({"quota_bytes": "1 GB"}, "quota_bytes"),
        ({"limits": 5}, "limits"),
        ({"limits": {"api_per_minute": -1}}, "limits.api_per_minute"),
    ],
)
async def test_an_invalid_change_of_an_account_is_422(
    operator: AsyncClient,
    account: Account,
    operator_http: httpx2.AsyncClient,
    body: dict[str, object],
    name: str,
) -> None:
    record = await find(operator, account.name)
    response = await operator_http.patch(f"/accounts/{record.id}", json=body)
    assert_error(response, 422, "VALIDATION_ERROR", name.rpartition(".")[2])
    assert await operator.accounts.get(record) == record
