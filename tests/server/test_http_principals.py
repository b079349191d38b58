"""Tokens over HTTP while another process changes what they stand for: the next request obeys."""

from __future__ import annotations

import httpx2

from imagehost_core import ImageHost
from imagehost_server.testing import RunningServer


def test_a_key_revoked_in_another_process_is_401_in_the_next_request(
    server: RunningServer, operator: ImageHost
) -> None:
    created = operator.keys.create(owner="admin")
    headers = {"Authorization": f"Bearer {created.token}"}
    with httpx2.Client(base_url=server.base_url, headers=headers) as client:
        assert [client.get("/images").status_code for _ in range(3)] == [200] * 3
        operator.keys.update(created.id, owner="admin", scopes=["albums:read"])
        assert client.get("/images").status_code == 403
        assert client.get("/albums").status_code == 200
        operator.keys.delete(created.id, owner="admin")
        assert client.get("/albums").status_code == 401


def test_a_session_ended_in_another_process_is_401_in_the_next_request(
    server: RunningServer, operator: ImageHost
) -> None:
    created = operator.sessions.create(operator.accounts.get("admin"))
    headers = {"Authorization": f"Bearer {created.token}"}
    with httpx2.Client(base_url=server.base_url, headers=headers) as client:
        assert [client.get("/keys").status_code for _ in range(3)] == [200] * 3
        operator.sessions.delete(created, owner="admin")
        assert client.get("/keys").status_code == 401


def test_limits_and_suspension_of_another_process_count_in_the_next_request(
    server: RunningServer, operator: ImageHost
) -> None:
    operator.accounts.create("limited")
    token = operator.keys.create(owner="limited").token
    with httpx2.Client(base_url=server.base_url, headers={"Authorization": f"Bearer {token}"}) as client:
        assert "X-RateLimit-Limit" not in client.get("/images").headers
        operator.accounts.update("limited", api_per_minute=2, api_per_hour=3)
        assert [client.get("/images").status_code for _ in range(5)].count(429) >= 2
        assert client.get("/images").headers["X-RateLimit-Limit"] in ("2", "3")
        operator.accounts.update("limited", suspended=True)
        assert client.get("/images").status_code == 401
