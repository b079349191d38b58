"""Mistakes of a program are named by errors of imagehost, not by those of libraries below it."""

from __future__ import annotations

import inspect
import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import attrs
import pytest
from tests.open_host import open_host
from tests.waiting import PATIENCE

from imagehost_core import HostClosedError, ImageHost, ImageHostError, NotFoundError, Settings, Transform
from imagehost_core.maintenance.importers.service import ImportSource
from imagehost_core.testing import make_image
from imagehost_core.webhooks import SenderLoad

PURE = {
    ("imports", "read"),
    ("host", "image_url"),
    ("maintenance", "native_modules"),
    ("host", "srcset"),
    ("host", "picture"),
}
"""Verbs that use no service: of values, of other directories, of URLs and of the installed package."""
WITHOUT_SERVICES = {"installation", "path", "settings", "urls"}
"""The attributes that a closed host keeps: values."""


def arguments(host: ImageHost) -> dict[str, object]:
    """Return valid arguments of all verbs, by name."""
    account = host.accounts.get("admin")
    image = host.upload(make_image(20, 10), owner=account)
    album = host.albums.create(owner=account, name="A")
    key = host.keys.create(owner=account)
    share = host.albums.create_share(album, owner=account)
    webhook = host.webhooks.create(owner=account, url="https://example.com/hook")
    return {
        "accept": "*/*",
        "account": account,
        "album": album,
        "attempts": (),
        "callback": print,
        "changes": {},
        "count": 1,
        "delivery": host.webhooks.test(webhook, owner=account),
        "fields": {},
        "fingerprint": "f",
        "ids": 1,
        "image": image,
        "image_id": image.id,
        "images": [image],
        "ip_address": "192.0.2.1",
        "items": [{"image_id": image.id}],
        "key": key,
        "load": SenderLoad(0),
        "name": "bob",
        "owner": account,
        "parameters": (),
        "params": {},
        "password_hash": "hash",
        "path": image.id,
        "purge": None,
        "query": {},
        "resolved": host.delivery.resolve(image.id, "w=5"),
        "session": host.sessions.create(account),
        "share": share,
        "share_token": share.token,
        "source": make_image(20, 10),
        "stream": io.BytesIO(),
        "token": key.token,
        "transform": Transform(),
        "url": "https://example.com/hook",
        "username": "bob",
        "webhook": webhook,
    }


def verbs(host: ImageHost) -> dict[tuple[str, str], tuple[object, Callable[..., object]]]:
    """Return every public method of a host and of its services, with the object that has it."""
    owners = {name: value for name, value in vars(host).items() if name[0] != "_" and attrs.has(type(value))}
    owners = {name: value for name, value in owners.items() if name not in WITHOUT_SERVICES} | {"host": host}
    return {
        (name, verb): (owner, function)
        for name, owner in owners.items()
        for verb, function in inspect.getmembers(type(owner), inspect.isroutine)
        if verb[0] != "_" and (name, verb) not in {("host", "open"), ("host", "close")}
    }


def use(owner: object, verb: Callable[..., object], given: dict[str, object]) -> None:
    """Call a verb, and begin to iterate over its result or enter it."""
    needed = {
        parameter.name: given[parameter.name]
        for parameter in list(inspect.signature(verb).parameters.values())[1:]
        if parameter.default is parameter.empty
        and parameter.kind not in {parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL}
    }
    result = verb(owner, **needed)
    if isinstance(result, AbstractContextManager):
        with result:
            pass
    elif isinstance(result, Iterator):
        next(result, None)


def refusals(
    host_verbs: dict[tuple[str, str], tuple[object, Callable[..., object]]], given: dict[str, object]
) -> dict[tuple[str, str], str]:
    """Return what each verb says; a verb that works says nothing."""
    said: dict[tuple[str, str], str] = {}
    for name, (owner, verb) in host_verbs.items():
        own = given
        if name == ("imports", "read"):
            own = given | {"source": ImportSource.FOLDER, "path": Path()}
        elif name[0] == "idempotency":
            own = given | {"key": "key"}
        elif name == ("albums", "get_shared"):
            own = given | {"token": given["share_token"]}
        try:
            use(owner, verb, own)
        except HostClosedError as error:
            said[name] = error.details
    return said


def test_every_verb_of_a_closed_host_and_of_services_that_were_kept_refuses_and_says_what_to_do(
    tmp_path: Path,
) -> None:
    settings = Settings(base_url="https://img.example/v1")
    with open_host(tmp_path / "data", settings=settings) as host:
        given, kept = arguments(host), verbs(host)
    said = refusals(kept, given)
    assert len(kept) > 80
    assert kept.keys() - said.keys() == PURE
    assert set(said.values()) == {
        "expected an open host but it was closed; open one with ImageHost.open here"
    }


def test_a_closed_host_keeps_its_values_and_can_be_closed_again(tmp_path: Path) -> None:
    host = open_host(tmp_path / "data", settings=Settings(base_url="https://img.example/v1"))
    host.close()
    host.close()
    assert host.path == tmp_path / "data"
    assert host.settings.base_url == host.urls.base_url
    with pytest.raises(HostClosedError, match="was closed; open one"):
        host.images.get("0" * 16)
    with pytest.raises(AttributeError, match="'pictures'"):
        host.pictures  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_services_of_the_parent_refuse_in_a_forked_child_which_cannot_close_the_host_of_the_parent(
    tmp_path: Path,
) -> None:
    program = f"""
import os, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_named_errors import PURE, arguments, refusals, verbs
from imagehost_core import ImageHost, Settings
settings = Settings(base_url="https://img.example/v1")
with ImageHost.open({str(tmp_path / "data")!r}, settings=settings) as host:
    given, kept = arguments(host), verbs(host)
    pid = os.fork()
    if pid == 0:
        said = refusals(kept, given)
        print(*sorted(set(said.values())), kept.keys() - said.keys() == PURE, sep="; ", flush=True)
        host.close()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    host.upload(host.render(given["image"], "w=9&fm=png").data, owner="admin")
    print(host.images.list(owner="admin").total)
"""
    command = [sys.executable, "-c", program]
    result = subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE, text=True)
    details, total = result.stdout.splitlines()
    assert details == (
        "expected an open host but it was opened by the parent of this process; "
        "open one with ImageHost.open here; True"
    )
    assert total == "2"


@pytest.fixture(scope="module")
def host() -> Iterator[ImageHost]:
    """An open host."""
    with open_host() as opened:
        yield opened


def test_the_record_of_a_deleted_account_as_owner_is_a_named_error_of_every_verb(tmp_path: Path) -> None:
    with open_host(tmp_path / "data") as host:
        host.accounts.create("other", role="operator")
        given = arguments(host) | {"name": "B"}
        every = {
            name: verb
            for name, verb in verbs(host).items()
            if name[0] in {"images", "albums", "keys", "sessions", "webhooks", "uploads"}
        }
        host.accounts.delete("admin")
        unnamed: dict[tuple[str, str], Exception] = {}
        for name, (owner, verb) in every.items():
            try:
                use(owner, verb, given)
            except ImageHostError:
                pass
            except Exception as error:
                unnamed[name] = error
        assert unnamed == {}
        with pytest.raises(NotFoundError, match="admin was deleted"):
            host.keys.create_first(owner=given["account"], name="", password_hash="hash")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "call",
    [
        lambda host: host.upload(5, owner="admin"),
        lambda host: host.upload(io.StringIO("text"), owner="admin"),
        lambda host: host.upload(make_image(), owner="admin", quality=0),
        lambda host: host.images.list(owner="admin", sort="x"),
        lambda host: host.images.list(owner=5),
        lambda host: host.images.get(None),
        lambda host: host.images.update_many(5, owner="admin"),
        lambda host: host.albums.create(owner="admin", name=5),
        lambda host: host.albums.get(None, owner="admin"),
        lambda host: host.keys.create(owner="admin", name=5, scopes=5, expires_at=5),
        lambda host: host.keys.get(5, owner="admin"),
        lambda host: host.webhooks.create(owner="admin", url=5, events=5, description=5),
        lambda host: host.accounts.create(5),
        lambda host: host.accounts.get(None),
    ],
)
def test_a_value_of_a_wrong_type_is_a_named_error(host: ImageHost, call: Callable[[Any], object]) -> None:
    with pytest.raises(ImageHostError, match=r"expected .* but received"):
        call(host)
