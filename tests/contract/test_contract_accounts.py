"""Sessions, API keys and accounts, with both clients."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial

import httpx2
import pytest
from tests.contract.conftest import PASSWORD, Account, Connect, assert_error, data_of, members

from imagehost_client import AsyncClient, ConflictError, ForbiddenError, NotFoundError, UnauthorizedError
from imagehost_client.models import AccountOverview, AccountSummary, ApiKey, ApiKeyWithToken, SessionWithToken
from imagehost_client.testing import make_png

pytestmark = pytest.mark.anyio

SCOPES = {
    "images:read",
    "images:write",
    "images:delete",
    "albums:read",
    "albums:write",
    "webhooks:manage",
    "account:read",
}


async def test_a_session_has_all_scopes_until_it_is_deleted(connect: Connect, account: Account) -> None:
    session = await connect(None).sessions.create(account.name, PASSWORD)
    assert session.token.startswith("ihs_")
    assert session.account.name == account.name
    assert session.expires_at > datetime.now(UTC)
    signed_in = connect(session.token)
    image = await signed_in.upload(make_png())
    await signed_in.images.delete(image)
    assert (await signed_in.keys.list().first_page()).total == 0
    await signed_in.sessions.delete()
    with pytest.raises(UnauthorizedError):
        await signed_in.account()
    assert (await connect(account.token).account()).account.name == account.name


async def test_a_session_record_has_all_fields(anonymous_http: httpx2.AsyncClient, account: Account) -> None:
    body = {"username": account.name, "password": PASSWORD}
    record = await data_of(anonymous_http.post("/session", json=body), 201)
    assert record.keys() == members(SessionWithToken)
    assert record["account"].keys() == members(AccountSummary)


async def test_a_created_account_can_sign_in(connect: Connect, account: Account) -> None:
    anonymous_http, name, password = connect(None), f"new.{account.name}", "correct horse"
    created = await anonymous_http.accounts.create(name, password)
    assert (created.name, created.created_at <= datetime.now(UTC) + timedelta(minutes=1)) == (name, True)
    session = await anonymous_http.sessions.create(name, password)
    assert (session.account.name, session.account.created_at) == (created.name, created.created_at)
    assert (await connect(session.token).account()).usage.images == 0
    with pytest.raises(UnauthorizedError):
        await anonymous_http.sessions.create(name, "another password")
    with pytest.raises(ConflictError):
        await anonymous_http.accounts.create(name, password)


@pytest.mark.parametrize(
    "body",
    [
        {"username": "short", "password": "1234567"},
        {"username": "-", "password": "correct horse"},
        {"username": "", "password": "correct horse"},
        {"username": "x" * 65, "password": "correct horse"},
        {"username": "nobody"},
        {"password": "correct horse"},
    ],
)
async def test_an_invalid_account_is_422(anonymous_http: httpx2.AsyncClient, body: dict[str, str]) -> None:
    response = await anonymous_http.post("/accounts", json=body)
    assert_error(response, 422, "VALIDATION_ERROR")
    assert body.get("password", "?") not in response.text


async def test_a_wrong_password_and_an_unknown_name_get_the_same_response(
    anonymous_http: httpx2.AsyncClient, account: Account
) -> None:
    wrong = {"username": account.name, "password": "wrong"}
    unknown = {"username": "nobody-here", "password": PASSWORD}
    responses = [await anonymous_http.post("/session", json=body) for body in (wrong, unknown)]
    for response in responses:
        assert_error(response, 401, "UNAUTHORIZED")
    assert responses[0].text == responses[1].text
    for body in ({}, {"username": account.name}, {"username": 1, "password": PASSWORD}):
        assert_error(await anonymous_http.post("/session", json=body), 422, "VALIDATION_ERROR")


async def test_a_key_has_its_scopes_and_cannot_manage_keys(
    client: AsyncClient, connect: Connect, account: Account
) -> None:
    created = await client.keys.create("All")
    assert created.token.startswith("ihk_")
    assert created.token.startswith(created.prefix)
    assert (set(created.scopes), created.name) == (SCOPES, "All")
    assert (created.expires_at, created.last_used_at, created.revoked_at) == (None, None, None)
    program = connect(created.token)
    assert (await program.account()).account.name == account.name
    await program.images.delete(await program.upload(make_png()))
    for call in (
        lambda: program.keys.list().first_page(),
        lambda: program.keys.create("More"),
        lambda: program.keys.delete(created.id),
        lambda: program.sessions.delete(),
    ):
        with pytest.raises(ForbiddenError):
            await call()
    assert (await client.keys.get(created)).last_used_at is not None


async def test_a_token_is_returned_on_creation_only(http: httpx2.AsyncClient) -> None:
    created = await data_of(http.post("/keys", json={"name": "ci"}), 201)
    assert created.keys() == members(ApiKeyWithToken)
    fetched = await data_of(http.get(f"/keys/{created['id']}"))
    assert fetched.keys() == members(ApiKey)
    listed = await data_of(http.get("/keys"))
    assert created["token"] not in f"{fetched}{listed}"


async def test_keys_are_listed_newest_first_updated_and_revoked(
    client: AsyncClient, connect: Connect
) -> None:
    first = await client.keys.create("First", scopes=["images:read", "albums:read"])
    second = await client.keys.create("Second")
    assert [key.id async for key in client.keys.list(per_page=1)] == [second.id, first.id]
    updated = await client.keys.update(first, name="Changed")
    assert (updated.name, updated.scopes) == ("Changed", first.scopes)
    updated = await client.keys.update(first, scopes=["albums:read"])
    assert (updated.name, updated.scopes) == ("Changed", ("albums:read",))
    program = connect(first.token)
    await program.albums.list().first_page()
    with pytest.raises(ForbiddenError):
        await program.images.list().first_page()

    deleted = await client.keys.delete(first)
    assert (deleted.id, deleted.deleted) == (first.id, True)
    with pytest.raises(UnauthorizedError):
        await program.albums.list().first_page()
    revoked = await client.keys.get(first)
    assert revoked.revoked_at is not None
    assert [key.id async for key in client.keys.list()] == [second.id, first.id]
    with pytest.raises(ConflictError):
        await client.keys.update(first, name="Again")


async def test_a_key_may_have_a_future_expiry(client: AsyncClient) -> None:
    ends = datetime.now(UTC).replace(microsecond=0) + timedelta(days=30)
    key = await client.keys.create("Month", expires_at=ends)
    assert key.expires_at == ends
    assert (await client.keys.update(key, expires_at=ends + timedelta(days=1))).expires_at != ends
    assert (await client.keys.update(key, expires_at=None)).expires_at is None


@pytest.mark.parametrize(
    ("body", "field_name"),
    [
        ({"scopes": ["all"]}, "scopes"),
        ({"scopes": []}, "scopes"),
        ({"scopes": "images:read"}, "scopes"),
        ({"name": "x" * 101}, "name"),
        ({"name": 7}, "name"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "expires_at"),
        ({"expires_at": "2999-01-01T00:00:00"}, "expires_at"),
        ({"expires_at": "soon"}, "expires_at"),
    ],
)
async def test_an_invalid_key_is_422(
    http: httpx2.AsyncClient, body: dict[str, object], field_name: str
) -> None:
    assert_error(await http.post("/keys", json=body), 422, "VALIDATION_ERROR", field_name)
    created = await data_of(http.post("/keys", json={}), 201)
    assert_error(await http.patch(f"/keys/{created['id']}", json=body), 422, "VALIDATION_ERROR", field_name)


async def test_a_key_of_another_account_is_404(client: AsyncClient, connect: Connect, other: Account) -> None:
    key, other_client = await client.keys.create("Mine"), connect(other.token)
    for call in (
        partial(other_client.keys.get, key),
        partial(other_client.keys.update, key, name="Mine"),
        partial(other_client.keys.delete, key),
    ):
        with pytest.raises(NotFoundError):
            await call()
    assert (await client.keys.get(key)).revoked_at is None


async def test_the_account_has_its_usage(client: AsyncClient, account: Account) -> None:
    empty = await client.account()
    assert (empty.account.name, empty.usage.bytes, empty.usage.images) == (account.name, 0, 0)
    assert (empty.quota.bytes, empty.quota.remaining) == (None, None)
    images = [await client.upload(make_png(number + 1, 5)) for number in range(2)]
    await client.albums.create("A")
    usage = (await client.account()).usage
    assert (usage.bytes, usage.images, usage.albums) == (sum(image.size for image in images), 2, 1)
    await client.images.delete(images[0])
    assert (await client.account()).usage.bytes == images[1].size


async def test_the_account_record_has_all_fields(http: httpx2.AsyncClient) -> None:
    record = await data_of(http.get("/account"))
    assert record.keys() == members(AccountOverview)
    assert record["account"].keys() == members(AccountSummary)
    assert record["usage"].keys() == {"bytes", "images", "albums"}
    assert record["quota"].keys() == {"bytes", "remaining"}
    for window in record["limits"]:
        assert window.keys() == {"name", "limit", "remaining", "reset"}
        assert window["reset"].endswith("Z")
