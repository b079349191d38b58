"""Tokens and passwords never appear in logs, responses, errors, reprs or files."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from tests.waiting import PATIENCE

from imagehost_core import ImageHost, ImageHostError
from imagehost_core.tokens import TokenKind, new_token
from imagehost_server.auth.cookies import SESSION_COOKIE
from imagehost_server.auth.identity import RequestIdentity
from imagehost_server.auth.passwords import hash_password, new_password
from imagehost_server.cli.bootstrap import create_initial_credentials
from imagehost_server.routes.accounts import NewAccount, PasswordChange
from imagehost_server.routes.body import decode
from imagehost_server.routes.keys import new_key_record
from imagehost_server.routes.sessions import SignIn, new_session_record
from imagehost_server.routes.webhooks import new_webhook_record
from imagehost_server.testing import RunningServer, running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, no_limits: dict[str, str]) -> Iterator[RunningServer]:
    variables = {**no_limits, "IMAGEHOST_LOG_LEVEL": "debug", "IMAGEHOST_REGISTRATION": "true"}
    with running(tmp_path_factory.mktemp("secrets") / "data", variables=variables) as started:
        yield started


def test_misplaced_tokens_and_passwords_appear_in_no_log_and_no_response(
    server: RunningServer,
) -> None:
    with ImageHost.open(server.data) as host:
        good, session = server.token, host.sessions.create(host.accounts.get("admin")).token
        password, wrong = new_password(), new_password()
        host.accounts.create("ann", password_hash=hash_password(password))
    tokens = [
        good,
        session,
        new_token(TokenKind.KEY),
        new_token(TokenKind.SESSION),
        new_token(TokenKind.SHARE),
        good[:-1] + "!",
        good[5:],
    ]
    responses: list[httpx2.Response] = []
    with httpx2.Client(base_url=server.origin, timeout=PATIENCE) as client:
        for token in tokens:
            headers = [
                {"Authorization": f"Bearer {token}"},
                {"Authorization": f"Basic {token}"},
                {"Authorization": token},
                {"Authorization": f"Bearer {token}, Bearer {token}"},
                {"Cookie": f"{SESSION_COOKIE}={token}"},
                {"Cookie": f"{SESSION_COOKIE}={token}", "X-CSRF-Token": token},
                {"X-Api-Key": token, "Host": token},
            ]
            for variant in headers:
                responses += [
                    client.get("/v1/images", headers=variant),
                    client.post("/v1/albums", headers=variant, json={"name": ""}),
                    client.delete("/v1/images/0123456789abcdef", headers=variant),
                    client.get("/img/0123456789abcdef", headers=variant),
                ]
            responses.append(client.get(f"/v1/images?token={token}&access_token={token}"))
            if token[:2] == "ih" and token.isascii() and token.replace("_", "").isalnum():
                # Tokens in paths, as those of share links are.
                client.get(f"/s/{token}")
                client.get(f"/s/{token}/images.zip?x={token}")
        for body in ({"username": "ann", "password": wrong}, {"username": "-", "password": password}):
            responses.append(client.post("/v1/session", json=body))
            responses.append(client.post("/v1/accounts", json=body))
        responses.append(client.post("/v1/session", json={"username": 7, "password": password}))
        responses.append(client.post("/v1/session", json={"username": "ann", "password": password * 99}))
        responses.append(client.post("/v1/session", content=f'{{"password": "{password}"'.encode()))
        for wrong_type in ([password], {"x": password}):
            responses.append(client.post("/v1/session", json={"username": "ann", "password": wrong_type}))
        responses.append(
            client.post("/v1/keys", headers={"Authorization": f"Bearer {good}"}, json={"token": good})
        )
        signed_in = client.post("/v1/session", json={"username": "ann", "password": password})
    assert signed_in.status_code == 201
    secrets = [*tokens, password, wrong, signed_in.json()["data"]["token"]]
    log = server.log.read_text(encoding="utf-8")
    assert log.count("/v1/images") > 40, "expected the requests in the log"
    received = "\n".join(response.text + str(response.headers.raw) for response in responses)
    leaked = [
        (place, secret)
        for place, text in (("log", log), ("responses", received))
        for secret in secrets
        if secret in text
    ]
    assert leaked == []


def test_only_hashes_of_secrets_are_stored(server: RunningServer) -> None:
    password = new_password()
    with ImageHost.open(server.data) as host:
        account = host.accounts.create("bob", password_hash=hash_password(password))
        key = host.keys.create(owner="bob")
        session = host.sessions.create(account)
    secrets = [key.token, session.token, password, server.token]
    stored = b"".join(path.read_bytes() for path in server.data.rglob("*") if path.is_file())
    assert [secret for secret in secrets if secret.encode() in stored] == []
    assert b"$argon2id$" in stored


def test_no_repr_contains_a_secret(tmp_path: Path) -> None:
    with ImageHost.open(tmp_path / "data") as host:
        account = host.accounts.create("ann")
        key, session = host.keys.create(owner="ann"), host.sessions.create(account)
        hook = host.webhooks.create(owner="ann", url="https://192.0.43.8/")
        credentials = create_initial_credentials(host, tmp_path / "data") or create_initial_credentials(
            host, tmp_path
        )
        principal = host.authenticate(session.token)
        identity = RequestIdentity(principal, None, False, session.token, "192.0.2.1")
        values = [key, session, hook, principal, identity, host, credentials]
        values += [new_key_record(key), new_session_record(session), new_webhook_record(hook)]
        values += [
            decode(kind, b'{"username": "ann", "password": "correct horse"}') for kind in (SignIn, NewAccount)
        ]
        password_change = b'{"current_password": "correct horse", "new_password": "correct horses"}'
        values.append(decode(PasswordChange, password_change))
        text = "\n".join(f"{value!r} {value}" for value in values)
    assert [s for s in (key.token, session.token, hook.secret, "correct horse") if s in text] == []


@pytest.mark.parametrize(
    "wrong",
    ["rubbish-secret", "ihk_" + "x" * 36, new_token(TokenKind.KEY), new_token(TokenKind.SESSION)],
    ids=["malformed", "wrong-checksum", "unknown-key", "unknown-session"],
)
def test_no_exception_contains_a_token(tmp_path: Path, wrong: str) -> None:
    with ImageHost.open(tmp_path / "data") as host:
        try:
            host.authenticate(wrong)
        except ImageHostError as error:
            text = f"{error} {error!r} {error.details} {vars(error)}" + traceback.format_exc()
    source = Path(__file__).name
    assert wrong not in "\n".join(line for line in text.splitlines() if source not in line)
