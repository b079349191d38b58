"""Sessions: their records, their ends, and their expiry."""

from __future__ import annotations

from datetime import timedelta

import attrs
import pytest

from imagehost_core import ConflictError, ImageHost, NotFoundError, Session, UnauthorizedError
from imagehost_core.authorization import SessionRequirement, authorize
from imagehost_core.models import ALL_SCOPES, SessionWithToken
from imagehost_core.services import sessions
from imagehost_core.testing import FrozenClock
from imagehost_core.tokens import token_hash

EACH_ENGINE = True


def sign_in(host: ImageHost, name: str = "admin", **keywords: str) -> SessionWithToken:
    return host.sessions.create(host.accounts.get(name), **keywords)


def is_valid(host: ImageHost, created: SessionWithToken) -> bool:
    try:
        host.authenticate(created.token)
    except UnauthorizedError:
        return False
    return True


def test_a_session_has_all_scopes_until_it_expires(host: ImageHost, clock: FrozenClock) -> None:
    created = sign_in(host)
    principal = host.authenticate(created.token)
    assert (principal.account, principal.scopes) == (host.accounts.get("admin"), ALL_SCOPES)
    assert (principal.is_session, principal.session_id) == (True, created.id)
    assert created.expires_at - clock() == timedelta(days=7)
    clock.now = created.expires_at - timedelta(microseconds=1)
    host.authenticate(created.token)
    assert host.sessions.list(owner="admin").total == 1
    clock.now = created.expires_at
    assert not is_valid(host, created)
    assert host.sessions.list(owner="admin").total == 0
    with pytest.raises(NotFoundError):
        host.sessions.delete(created, owner="admin")


def test_a_list_of_sessions_has_neither_tokens_nor_their_hashes(host: ImageHost, clock: FrozenClock) -> None:
    created = sign_in(host, user_agent="Mozilla/5.0 (X11)", ip_address="192.0.2.7")
    (session,) = host.sessions.list(owner="admin")
    assert (session.id, session.expires_at) == (created.id, created.expires_at)
    assert session == Session(
        id=session.id,
        account_id=host.accounts.get("admin").id,
        user_agent="Mozilla/5.0 (X11)",
        ip_address="192.0.2.7",
        created_at=clock(),
        expires_at=clock() + timedelta(days=7),
        last_used_at=clock(),
    )
    for secret in (created.token, token_hash(created.token)):
        assert secret not in str(attrs.asdict(session))
    assert created.token not in repr(created)


def test_a_user_agent_is_stored_shortened_and_printable(host: ImageHost) -> None:
    sign_in(host, user_agent="a\x00\x1b[2J" + "b" * 300)
    (session,) = host.sessions.list(owner="admin")
    assert session.user_agent == "a??[2J" + "b" * 249


def test_sessions_are_listed_newest_first_by_page_and_cursor(host: ImageHost, clock: FrozenClock) -> None:
    host.accounts.create("ann")
    sign_in(host, "ann")
    created = []
    for _ in range(3):
        clock.advance(seconds=1)
        created.append(sign_in(host).id)
    first = host.sessions.list(owner="admin", per_page=2)
    assert ([session.id for session in first], first.total) == ([created[2], created[1]], 3)
    rest = host.sessions.list(owner="admin", per_page=2, cursor=first.next_cursor)
    assert [session.id for session in rest] == [created[0]]


def test_a_sign_in_beyond_the_largest_number_of_sessions_ends_the_oldest(
    host: ImageHost, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MAX_SESSIONS", 3)
    ann, bob = host.accounts.create("ann"), host.accounts.create("bob")
    other = host.sessions.create(bob).token
    tokens = []
    for _ in range(5):
        tokens.append(host.sessions.create(ann).token)
        clock.advance(seconds=1)
        for token in (*tokens[-3:], other):
            host.keys.authenticate(token)
        for token in tokens[:-3]:
            with pytest.raises(UnauthorizedError):
                host.keys.authenticate(token)
    assert host.sessions.list(owner=ann).total == 3


def test_the_last_use_of_a_session_has_a_resolution_of_a_minute(host: ImageHost, clock: FrozenClock) -> None:
    created, seen = sign_in(host), []
    for seconds in (59, 1, 59, 1):
        clock.advance(seconds=seconds)
        host.authenticate(created.token)
        (session,) = host.sessions.list(owner="admin")
        seen.append((session.last_used_at - session.created_at).total_seconds())
    assert seen == [0, 60, 60, 120]


def test_signing_out_ends_the_session_at_once(host: ImageHost) -> None:
    one, other = sign_in(host), sign_in(host)
    owner = authorize(host.authenticate(one.token), SessionRequirement.ONLY)
    host.sessions.delete(owner=owner)
    with pytest.raises(UnauthorizedError):
        host.sessions.delete(owner=owner)
    with pytest.raises(NotFoundError):
        host.sessions.delete(owner="admin")
    assert (is_valid(host, one), is_valid(host, other)) == (False, True)


@pytest.mark.parametrize("by_record", [True, False])
def test_a_session_is_deleted_by_its_record_or_id(host: ImageHost, by_record: bool) -> None:
    one, other = sign_in(host), sign_in(host)
    host.sessions.delete(one if by_record else one.id, owner="admin")
    assert (is_valid(host, one), is_valid(host, other)) == (False, True)
    with pytest.raises(NotFoundError):
        host.sessions.delete(one.id, owner="admin")


def test_a_session_of_another_account_is_404_like_a_missing_one(host: ImageHost) -> None:
    host.accounts.create("ann")
    created = sign_in(host)
    details = []
    for session_id in (created.id, "0" * 16):
        with pytest.raises(NotFoundError) as caught:
            host.sessions.delete(session_id, owner="ann")
        details.append(caught.value.details.replace(session_id, "ID"))
    assert details[0] == details[1]
    assert is_valid(host, created)


def test_a_new_password_ends_all_sessions(host: ImageHost) -> None:
    created = sign_in(host)
    host.accounts.set_password_hash("admin", "$argon2id$…")
    assert host.accounts.password_hash("admin") == "$argon2id$…"
    assert host.accounts.password_hash("unknown") is None
    assert not is_valid(host, created)


def test_a_password_change_ends_all_sessions_of_the_account_but_the_one_that_made_it(host: ImageHost) -> None:
    host.accounts.create("ann")
    one, *others, foreign = *(sign_in(host) for _ in range(3)), sign_in(host, "ann")
    owner = authorize(host.authenticate(others[0].token), SessionRequirement.ONLY)
    host.accounts.set_password_hash("admin", "first", keep=one)
    assert [is_valid(host, session) for session in (one, *others, foreign)] == [True, False, False, True]
    with pytest.raises(UnauthorizedError):
        host.accounts.set_password_hash(owner, "second", keep=others[0])
    assert host.accounts.password_hash("admin") == "first"


def test_a_suspension_ends_sessions_for_good_and_keys_until_its_end(host: ImageHost) -> None:
    ann = host.accounts.create("ann")
    created, key = sign_in(host, "ann"), host.keys.create(owner=ann)
    host.accounts.update("ann", suspended=True)
    for token in (created.token, key.token):
        with pytest.raises(UnauthorizedError):
            host.authenticate(token)
    host.accounts.update("ann", suspended=False)
    assert not is_valid(host, created)
    assert host.authenticate(key.token).key_id == key.id


def test_a_password_that_was_changed_meanwhile_is_not_replaced(host: ImageHost) -> None:
    host.accounts.set_password_hash("admin", "first")
    created = sign_in(host)
    with pytest.raises(ConflictError):
        host.accounts.set_password_hash("admin", "third", replaces="zeroth", keep=created)
    assert (host.accounts.password_hash("admin"), is_valid(host, created)) == ("first", True)
    host.accounts.set_password_hash("admin", "second", replaces="first", keep=created)
    assert (host.accounts.password_hash("admin"), is_valid(host, created)) == ("second", True)


def test_no_session_is_created_with_a_password_that_was_changed_meanwhile(host: ImageHost) -> None:
    host.accounts.set_password_hash("admin", "first")
    sign_in(host, password_hash="first")
    host.accounts.set_password_hash("admin", "second")
    with pytest.raises(UnauthorizedError):
        sign_in(host, password_hash="first")
    assert host.sessions.list(owner="admin").total == 0


def test_no_session_is_created_for_an_account_that_was_deleted_meanwhile(host: ImageHost) -> None:
    account = host.accounts.create("ann")
    host.accounts.delete("ann")
    with pytest.raises(UnauthorizedError):
        host.sessions.create(account)
    host.accounts.create("ann")
    with pytest.raises(UnauthorizedError):
        host.sessions.create(account)


def test_attempts_with_the_right_password_are_counted_no_more_and_give_no_further_ones(
    host: ImageHost,
) -> None:
    limiter, client = host.rate_limiter, "192.0.2.41"
    limit = limiter.admit_sign_in("ann", client).decision.limit
    limiter.forget_sign_in("ann", client)
    for _ in range(2 * limit):
        attempt = limiter.admit_sign_in("ann", client)
        assert (attempt.decision.admitted, attempt.delay_seconds) == (True, 0)
        limiter.forget_sign_in("ann", client)
    limiter.forget_sign_in("ann", client)
    admitted = [
        limiter.admit_sign_in(f"user{number}", client).decision.admitted for number in range(limit + 1)
    ]
    assert admitted == [True] * limit + [False]


def test_a_client_is_known_to_an_account_while_a_session_that_began_at_its_ip_address_lasts(
    host: ImageHost, clock: FrozenClock
) -> None:
    host.accounts.create("other")
    first = sign_in(host, ip_address="2001:db8:0:7::1")
    sign_in(host, ip_address="192.0.2.7")
    known = {
        (name, address): host.sessions.is_known_client(name, address)
        for name in ("Admin", "other", "missing", "share:x")
        for address in ("192.0.2.7", "192.0.2.8", "2001:db8:0:7:ffff::2", "2001:db8:0:8::1")
    }
    assert {key for key, is_known in known.items() if is_known} == {
        ("Admin", "192.0.2.7"),
        ("Admin", "2001:db8:0:7:ffff::2"),
    }
    host.sessions.delete(first, owner="admin")
    assert not host.sessions.is_known_client("admin", "2001:db8:0:7::1")
    clock.advance(days=7)
    assert not host.sessions.is_known_client("admin", "192.0.2.7")
