"""A walk through a server in one process: every route, page, background task and command, on a small host.

`Walk.visited` has the names of what was visited, and `everything` of what there is: a test notices what is
new and not visited.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import anyio
import httpx2
import pytest
from attrs import define, field
from click.testing import CliRunner
from tests.server.conftest import NO_LIMITS, hash_quickly
from tests.server.in_process import serving
from tests.server.test_access_matrix import BODIES, ENDPOINT
from tests.server.test_access_matrix import PASSWORD as API_PASSWORD
from tests.server.test_cli_import import commands
from tests.server.web.conftest import PASSWORD, SignedIn
from tests.server.web.test_web_forms import FIELDS
from tests.waiting import PATIENCE

from imagehost_core import ImageHost
from imagehost_core.cache_purges import CachePurge, PurgeAttempt
from imagehost_core.db.lists import searches
from imagehost_core.endpoints import require_ip_address
from imagehost_core.ids import ImageId
from imagehost_core.lists import ImageSort
from imagehost_core.services import sessions
from imagehost_core.testing import make_image
from imagehost_server import background
from imagehost_server.background.purge_sender import send_due_purges
from imagehost_server.background.webhook_sender import WebhookSender
from imagehost_server.cli.bootstrap import create_initial_credentials
from imagehost_server.cli.main import main
from imagehost_server.http.outgoing import Outgoing
from imagehost_server.metrics import Recorder
from imagehost_server.routes import ROUTE_SCOPES
from imagehost_server.settings import load
from imagehost_server.web.router import HANDLERS

VARIABLES = {
    **NO_LIMITS,
    "IMAGEHOST_LIMITS_PAGES_PER_MINUTE": "0",
    "IMAGEHOST_BASE_URL": "http://testserver.local:8000/v1",
    "IMAGEHOST_WEBHOOKS_ALLOW_LOOPBACK": "true",
    "IMAGEHOST_WEBHOOKS_SEND_IN_SERVER": "false",
    "IMAGEHOST_PURGE_URL": ENDPOINT,
    "IMAGEHOST_REGISTRATION": "true",
    "IMAGEHOST_RENDERING_PROCESSES": "1",
    "IMAGEHOST_WEB_SECURITY_CONTACT": "mailto:security@example.com",
}
PNG = make_image(8, 8)
REMOVES = re.compile("DELETE|delete|revoke|password|end$")
"""Routes and forms after which a resource is gone."""
PAGES = {
    (method, path) for each in HANDLERS for path in each.paths for method in each.http_methods - {"HEAD"}
}
LISTS = (
    *(f"/v1/images?sort={sort}" for sort in ImageSort),
    *("/v1/images?is_public=true", "/v1/images?is_public=false", "/v1/images?format=png", "/v1/images?q=cat"),
    "/v1/images?created_after=2026-01-01T00:00:00Z&created_before=2126-01-01T00:00:00Z",
    "/v1/images?created_after=2026-01-01T00:00:00Z&format=png&is_public=true&q=cat",
    *(f"/v1/images?sha256={'0' * 64}{more}" for more in ("", "&album_id={album_id}", "&sort=size&q=cat")),
    "/v1/images?format=png&q=cat",
    *("/v1/images?album_id={album_id}", "/v1/images?album_id={album_id}&q=cat&sort=size"),
    *("/v1/gallery", "/v1/gallery?q=cat", "/v1/gallery?album_id={album_id}"),
    *("/v1/gallery?album_id={album_id}&q=cat", "/v1/albums", "/v1/albums/{album_id}/shares", "/v1/accounts"),
    *("/v1/keys", "/v1/sessions", "/v1/webhooks", "/v1/webhooks/{webhook_id}/deliveries"),
)
"""Lists; `tests/core/db/test_list_plans.py` has all combinations of filters and orders."""
COMMANDS: dict[str, list[list[str]]] = {
    "config": [[]],
    "upgrade": [[]],
    "webhooks retry-now": [[]],
    "import": [["{directory}/photographs"]],
    "users create": [["ann", "--quota", "1GB"]],
    "users list": [[]],
    "users update": [["ann", "--role", "operator"], ["ann", "--suspend"]],
    "users set-password": [["ann", "--generate"]],
    "users renew-signing-secret": [["ann"]],
    "users export": [["admin", "{directory}/export"]],
    "users delete": [["{user}", "--yes"]],
    "keys create": [["--user", "ann"]],
    "keys list": [["--user", "ann"]],
    "keys delete": [["--user", "admin", "{key_id}"]],
    "fsck": [["--quick"], ["--repair"]],
    "gc": [["--dry-run"], []],
    "backup": [["{directory}/full"], ["{directory}/more", "--since", "{directory}/full"]],
    "restore": [["{directory}/full"]],
    "check": [[]],
    "adopt": [["--force"]],
}
"""The arguments with which each command runs, in this order."""
SIGN_INS = {
    "/login": {"name": "admin", "password": PASSWORD},
    "/s/{token:str}": {"password": API_PASSWORD},
    "/i/{image_id:str}/delete": {},
}
"""The fields of the forms that require no session."""
NOT_RUN = {
    "imagehost serve": "its statements are those of opening the host and of requests",
    "imagehost webhook-sender": "it runs the background task `webhook_sender`",
    "task load_monitor": "it measures the event loop and threads",
}


def everything() -> set[str]:
    """Return the names of all routes, pages, background tasks and commands."""
    pages = {f"{method} {path}" for method, path in PAGES}
    tasks = {f"task {module.name}" for module in pkgutil.iter_modules(background.__path__)}
    found = {f"imagehost {' '.join(words)}" for words in commands(main)}
    return {*ROUTE_SCOPES, *pages, *tasks, *found} - NOT_RUN.keys()


@define
class Walk:
    """A walk through a host whose operator is `admin`, account 1.

    Attributes:
        data: The data directory.
        variables: The settings.
        host: The host.
        client: A client of the server of the host.
        restored: The settings of the host that is restored, where it has others.
        visited: The names of what was visited.
    """

    data: Path
    variables: Mapping[str, str]
    host: ImageHost
    client: httpx2.Client
    restored: Mapping[str, str]
    visited: set[str] = field(factory=set)
    _count: int = 0

    def all(self) -> None:
        """Visit everything."""
        self.api()
        self.pages()
        self.lists()
        self.variations()
        self.tasks()
        self.commands()

    def api(self) -> None:
        """Request every route of the API."""
        ids = self._resources()
        for route in ROUTE_SCOPES:
            method, path = route.split(" ")
            headers = {"Idempotency-Key": f"key{len(self.visited)}"} if method == "POST" else {}
            body = BODIES[route](ids) if route in BODIES else {}
            self._send(method, path, ids, headers=headers, **body)
            if REMOVES.search(route):
                ids = self._resources()
            self.visited.add(route)

    def pages(self) -> None:
        """Request every page, and send every form."""
        ids = self._resources(PASSWORD)
        for method, path in sorted(PAGES):
            session = ids["session"]
            body: dict[str, Any] = {}
            if method == "POST":
                fields = (FIELDS | SIGN_INS)[path].items()
                body["data"] = {name: value.format(account=ids["user"]) for name, value in fields}
                body["data"]["csrf_token"] = session.csrf
            if (method, path) == ("POST", "/upload"):
                body["files"] = {"files[]": ("b.png", PNG)}
            query = {"url": f"{self.host.settings.site_url}/i/{ids['image_id']}"} if path == "/oembed" else {}
            if path == "/i/{image_id:str}/delete":
                query = dict(parse_qsl(self.host.images.sign_deletion(ids["image_id"], owner="admin")))
            response = self.client.request(
                method, filled(path, ids), headers=session.headers, params=query, **body
            )
            assert response.status_code < 400 or path.startswith("/assets/"), (
                f"{method} {path}: {response.text[-500:]}"
            )
            if REMOVES.search(path):
                ids = self._resources(PASSWORD)
            self.visited.add(f"{method} {path}")

    def lists(self) -> None:
        """Request each list: its first page, another by its number and by a cursor."""
        ids = self._resources()
        for length in (searches.SHORT_LIST, -1):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(searches, "SHORT_LIST", length)
                for path in LISTS:
                    more = f"{path}{'&' if '?' in path else '?'}per_page=1"
                    page = self._send("GET", more, ids).json()["data"]["pagination"]
                    self._send("GET", f"{more}&page=2", ids)
                    if page["next_cursor"]:
                        self._send("GET", f"{more}&cursor={page['next_cursor']}", ids)

    def variations(self) -> None:
        """Request what depends on more than the route."""
        ids = self._resources()
        self._send("PATCH", "/v1/images/{image_id}", ids, json={"is_public": False})
        self._send("PATCH", "/v1/albums/{album_id}", ids, json={"is_public": False})
        for images_public in (True, False, True):
            self._send("PATCH", "/v1/albums/{album_id}", ids, json={"images_public": images_public})
        self._send("PATCH", "/v1/webhooks/{webhook_id}", ids, json={"is_active": False})
        signed = self.host.images.signed_url(ids["image_id"], owner="admin").url.partition("/img/")[2]
        for path in ("/img/{image_id}", "/img/{image_id}.webp?w=4", f"/img/{signed}"):
            self._send("GET", path, ids)
        key = {"Authorization": f"Bearer {self.host.keys.create(owner='admin').token}"}
        self._send("GET", "/v1/account", ids, headers=key)
        self._send("GET", "/admin?sort=bytes", ids, headers=ids["session"].headers)
        missing = {"image_ids": ["0" * 16]}
        self._send("DELETE", "/v1/images", ids, json=missing)
        self._send("DELETE", "/v1/albums/{album_id}?delete_images=true", ids)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sessions, "MAX_SESSIONS", 1)
            self.host.sessions.create(self.host.accounts.get("admin"))

    def tasks(self) -> None:
        """Run each background task once, with what it finds and does."""
        webhooks, purges = self.host.webhooks, self.host.cache_purges

        async def send() -> None:
            await WebhookSender(self.host).drain()
            await send_due_purges(self.host, Outgoing(require_ip_address))

        ids = self._resources()
        webhooks.release(*webhooks.lease(1))
        for is_repetition in (False, True):
            purge = CachePurge(ImageId(ids["image_id"]), self.host.now(), 0, is_repetition)
            purges.report([PurgeAttempt(purge, 0.0, None)])
        with webhooks.sender_slot():
            webhooks.recover_from_clock_step()
            anyio.run(send)
        webhooks.next_due()
        webhooks.delete_expired()
        purges.next_attempt_at()
        self.host.maintenance.cleanup()
        self.visited |= {"task webhook_sender", "task purge_sender", "task periodic"}

    def commands(self) -> None:
        """Run each command."""
        ids = self._resources()
        (self.data.parent / "photographs" / "album").mkdir(parents=True)
        (self.data.parent / "photographs" / "album" / "a.png").write_bytes(make_image(9, 9))
        for name, runs in COMMANDS.items():
            for arguments in runs:
                more = [argument.format(directory=self.data.parent, **ids) for argument in arguments]
                data, variables = self.data, self.variables
                if name == "restore":
                    data, variables = data.with_name("restored"), {**variables, **self.restored}
                command = [*name.split(" "), "--data", str(data), *more]
                result = CliRunner().invoke(main, command, env=variables)
                assert result.exit_code == 0, (name, result.output)
            self.visited.add(f"imagehost {name}")

    def _send(self, method: str, path: str, ids: Mapping[str, Any], **request: Any) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {ids['session'].token}", **request.pop("headers", {})}
        response = self.client.request(method, filled(path, ids), headers=headers, **request)
        assert response.status_code < 300, f"{method} {path}: {response.text[-500:]}"
        return response

    def _resources(self, password: str = API_PASSWORD) -> dict[str, Any]:
        """Create a resource of each kind, and return their ids, and values for bodies.

        Args:
            password: The password of `admin` from now on.
        """
        host, self._count = self.host, self._count + 1
        user = f"user{self._count}"
        account = host.accounts.create(user, password_hash=hash_quickly(API_PASSWORD))
        host.accounts.set_password_hash("admin", hash_quickly(password))
        for previous in host.webhooks.list(owner="admin"):  # an account has at most 100
            host.webhooks.delete(previous, owner="admin")
        webhook = host.webhooks.create(owner="admin", url=ENDPOINT)
        album = host.albums.create(owner="admin", name="album")
        share = host.albums.create_share(album, owner="admin")
        return {
            "account_id": str(account.id),
            "album_id": str(album.id),
            "delivery_id": host.webhooks.test(webhook, owner="admin").id,
            "image_id": host.upload(PNG, owner="admin", filename="a.png", album_id=album.id, reuse=True).id,
            "key_id": host.keys.create(owner="admin").id,
            "name": "sharex.sxcu",
            "share_id": share.id,
            "token": share.token or "",
            "session_id": host.sessions.create(host.accounts.get("admin")).id,
            "webhook_id": webhook.id,
            "session": SignedIn(host),
            "png": PNG,
            "user": user,
            "new_user": f"new{self._count}",
            "version": "0",
        }


def filled(path: str, ids: Mapping[str, Any]) -> str:
    """Return a path with ids in place of its parameters."""
    return re.sub(r"\{(\w+)(?::\w+)?\}", lambda match: ids[match[1]], path)


@contextmanager
def walking(data: Path, variables: Mapping[str, str], restored: Mapping[str, str]) -> Iterator[Walk]:
    """Serve a new host, and yield a walk through it.

    Args:
        data: Its data directory, which does not exist.
        variables: Its settings beside `VARIABLES`.
        restored: The settings of the host that is restored, where it has others.
    """
    all_variables = {**VARIABLES, **variables}
    settings, _ = load(data, {}, all_variables)
    recorder = Recorder("server")
    host = ImageHost.open(data, settings=settings, observe=recorder.observe)
    create_initial_credentials(host, data, None, pages=True)
    with (
        serving(host, settings, recorder) as origin,
        httpx2.Client(base_url=origin, timeout=PATIENCE) as client,
    ):
        yield Walk(data, all_variables, host, client, restored)
