"""The pages about the server agree with it."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import attrs
import click
import pytest
from tests.subcommands import subcommands

from imagehost_core.authorization import Requirement, SessionRequirement
from imagehost_core.events import EVENT_TYPES
from imagehost_core.models import Scope
from imagehost_core.testing import make_image
from imagehost_server.cli.main import main
from imagehost_server.routes import ROUTE_SCOPES
from imagehost_server.routes.accounts import (
    AccountRecord,
    LimitOverridesRecord,
    LimitRecord,
    ManagedAccountRecord,
)
from imagehost_server.routes.keys import CreatedKeyRecord
from imagehost_server.routes.sessions import CreatedSessionRecord, SessionRecord
from imagehost_server.routes.webhooks import CreatedWebhookRecord, DeliveryRecord
from imagehost_server.testing import RunningServer


def commands(group: click.Group, name: str) -> Iterator[str]:
    """Yield the full name of every command."""
    for word, command in subcommands(group).items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{name} {word}")
        else:
            yield f"{name} {word}"


def test_every_route_is_documented_with_its_scope(workspace: Path) -> None:
    text = (workspace / "docs" / "http.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([A-Z]+ /\S+)` \| `?([\w: ]+?)`? \|", text, re.MULTILINE))
    shown: dict[Requirement | None, str] = {
        None: "no token",
        SessionRequirement.ONLY: "a session",
        SessionRequirement.OPERATOR: "an operator",
    }
    routes = {
        re.sub(r"\{\w+_id\}", "{id}", route.replace(" /v1/", " /")): shown.get(need) or need
        for route, need in ROUTE_SCOPES.items()
    }
    assert rows == routes


def test_every_scope_is_documented(workspace: Path) -> None:
    text = (workspace / "docs" / "http.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+:\w+)` \|", text, re.MULTILINE)) == {scope.value for scope in Scope}


def test_every_event_is_documented(workspace: Path) -> None:
    text = (workspace / "docs" / "events.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+\.\w+)` \|", text, re.MULTILINE)) == set(EVENT_TYPES)


@pytest.mark.parametrize(
    "record",
    [
        CreatedKeyRecord,
        CreatedSessionRecord,
        SessionRecord,
        AccountRecord,
        ManagedAccountRecord,
        LimitOverridesRecord,
        LimitRecord,
        CreatedWebhookRecord,
        DeliveryRecord,
    ],
)
def test_every_member_of_a_record_is_documented(record: type[attrs.AttrsInstance], workspace: Path) -> None:
    text = (workspace / "docs" / "records.md").read_text(encoding="utf-8")
    assert {attribute.name for attribute in attrs.fields(record)} <= set(re.findall(r"`(\w+)`", text))


def test_every_command_is_documented(workspace: Path) -> None:
    text = (workspace / "docs" / "serve.md").read_text(encoding="utf-8")
    assert [name for name in commands(main, "imagehost") if f"| `{name}" not in text] == []


@pytest.mark.skipif(shutil.which("curl") is None, reason="the page shows curl")
def test_the_commands_of_the_first_page_work_one_after_the_other(
    workspace: Path, served: RunningServer, tmp_path: Path
) -> None:
    page = (workspace / "docs" / "index.md").read_text(encoding="utf-8")
    (tmp_path / "cat.jpg").write_bytes(make_image())
    shown = re.search(r'"id": "(\w{16})"', page)
    assert shown is not None
    page = page.replace("http://127.0.0.1:8000", served.origin).replace("$TOKEN", served.token)

    def ask(line: str) -> dict[str, dict[str, str]]:
        done = subprocess.run(shlex.split(line), cwd=tmp_path, capture_output=True, check=True)
        answer: dict[str, dict[str, str]] = json.loads(done.stdout)
        return answer

    upload, delete = re.findall(r"^curl .*$", page, re.MULTILINE)
    record = ask(upload)["data"]
    assert json.loads(page.split("```json")[1].split("```")[0])["data"].keys() <= record.keys()
    parameters = re.findall(r"^\| `(\?\S+)` \| !", page, re.MULTILINE)
    urls = [record["url"] + each for each in parameters]
    urls += [unescape(url) for url in re.findall(r"^http://\S+$|http://[^\s\"]+fm=auto", page, re.MULTILINE)]
    assert len(urls) == 11
    for url in urls:
        wanted = url.replace(shown[1], record["id"])
        subprocess.run(
            ["curl", "--fail", "--silent", "--output", "picture", wanted], cwd=tmp_path, check=True
        )
    deleted = ask(delete.replace(shown[1], record["id"]))
    assert deleted == {"success": True, "data": {"id": record["id"], "deleted": True}}
