"""A verb has one signature in the core and in the client, and one route between them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Unpack, get_args, get_type_hints

import pytest
from tests.contract.test_contract_coverage import CALLS, shape

from imagehost_client import Client, _types
from imagehost_client._methods import Method
from imagehost_core import ImageHost

GROUPS = ("", "images", "albums", "keys", "sessions", "webhooks", "accounts")
TABLE = Path(__file__).parents[2] / "docs/reference/verbs.md"

CORE_ONLY_PARAMETERS = {
    "owner": "the client acts for the account of its token",
    "operator": "the client acts for the operator of its token",
    "admit": "a server counts the images of a bulk request against a limit",
    "public": "a page shows public images of any account; the client has `gallery`",
    "idempotency": "a server records the result under the request's key",
    "params": "a program that has a query string or a `Transform` gives it as it is",
    "options": "a server gives the `UploadOptions` that it has parsed",
}
"""Parameters that only the core has, with the reason."""
CLIENT_ONLY_PARAMETERS = {
    "idempotency_key": "a retry from another process has the key; in the core it is one transaction",
    "progress": "bytes travel",
    "checksum": "bytes travel",
    "if_none_match": "bytes travel",
}
"""Parameters that only the client has, with the reason."""
OTHER_PARAMETERS = {
    "sessions.create": "the core creates a session of a verified account; a server verifies passwords",
    "accounts.create": "the core stores a hash of the password; a server makes it",
    "albums.create_share": "the core stores a hash of the password; a server makes it",
}
"""Verbs whose further parameters differ, with the reason."""
CORE_ONLY = {
    "authenticate": "the client is authenticated by its token",
    "camera_data": "no route has it; the web pages do",
    "check": "maintenance is for the program that has the files",
    "now": "the clock of the host, for tests and servers",
    "subscribe": "the client has webhooks",
    "accounts.delete": "an operator deletes an account by the command line",
    "accounts.create_first": "for servers",
    "accounts.get_or_create": "for programs that register their users elsewhere",
    "accounts.iter": "the client's `list` is iterated over",
    "accounts.password_hash": "for servers",
    "accounts.renew_signing_secret": "`renew_signing_secret` of the client is for its own account",
    "accounts.set_password_hash": "`change_password` of the client is for its own account",
    "accounts.usage": "an account's record of the client contains it",
    "albums.get_shared": "for the pages of share links",
    "albums.validate": "for servers",
    "albums.validate_share": "for servers",
    "images.list_public": "`gallery`",
    "images.save": "`images.download` of the client",
    "images.sign_deletion": "the response of an upload has it where a field asks for it",
    "images.get_deletable": "for the page of a URL that deletes",
    "images.delete_signed": "for the page of a URL that deletes",
    "images.validate": "for servers",
    "images.validate_signing": "for servers",
    "keys.authenticate": "for servers",
    "keys.authenticate_cached": "for servers",
    "keys.create_first": "for servers",
    "keys.validate": "for servers",
    "webhooks.delivery": "the client's `deliveries` has all of them",
    "webhooks.validate": "for servers",
    **dict.fromkeys(
        (
            *("webhooks.delete_expired", "webhooks.is_any_due", "webhooks.lease", "webhooks.list_disabled"),
            *("webhooks.next_due", "webhooks.recover_from_clock_step", "webhooks.release", "webhooks.report"),
            *("webhooks.report_and_lease", "webhooks.retry_all_now", "webhooks.sender_slot"),
        ),
        "for the sender of webhooks",
    ),
}
"""Verbs that only the core has, with the reason."""
CLIENT_ONLY = {
    **dict.fromkeys(("change_password", "renew_signing_secret"), "for the account of the token"),
    "request": "for routes of a newer host",
    **dict.fromkeys(("images.download", "images.stream"), "bytes travel"),
    **dict.fromkeys(
        ("images.signed_srcset", "images.signed_picture"), "one request for all URLs of an element"
    ),
    **dict.fromkeys(("upload_iter", "upload_many"), "many transfers at once, with a journal"),
    "with_options": "settings of the connection",
}
"""Verbs that only the client has, with the reason."""
INTERNAL = {"run", "run_raw", "stream_image", "save_image", "bind_resources", "runner"}


def parameters(function: Callable[..., Any]) -> dict[str, tuple[str, bool]]:
    """Return whether each parameter is positional, and whether it is required, by name.

    The names of a typed dictionary take the place of the keywords that it describes.
    """
    found: dict[str, tuple[str, bool]] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            hints = get_type_hints(function, localns={**vars(_types), "Unpack": Unpack})
            (keywords,) = get_args(hints[name])
            found |= dict.fromkeys(get_type_hints(keywords), ("keyword", False))
        elif name != "self":
            kind = "keyword" if parameter.kind is parameter.KEYWORD_ONLY else "positional"
            found[name] = (kind, parameter.default is parameter.empty)
    return found


def core_verbs() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Return the verbs of a host and of its groups."""
    with ImageHost.open() as host:
        for group in GROUPS:
            kind = type(getattr(host, group)) if group else ImageHost
            for name, function in inspect.getmembers(kind, inspect.isfunction):
                if name[0] != "_":
                    yield f"{group}.{name}".lstrip("."), function


def client_verbs() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Return the verbs of a client and of its groups."""
    client = Client("https://images.example/v1", "token")
    for group in GROUPS:
        kind = type(getattr(client, group)) if group else Client
        for name in dir(kind):
            verb = inspect.getattr_static(kind, name)
            if name[0] != "_" and name not in INTERNAL and (isinstance(verb, Method) or callable(verb)):
                yield f"{group}.{name}".lstrip("."), getattr(verb, "function", verb)


CORE, CLIENT = dict(core_verbs()), dict(client_verbs())
COMMON = sorted(CORE.keys() & CLIENT.keys())


@pytest.mark.parametrize("verb", COMMON)
def test_a_verb_has_the_same_parameters_in_core_and_client(verb: str) -> None:
    core = {name: kind for name, kind in parameters(CORE[verb]).items() if name not in CORE_ONLY_PARAMETERS}
    client = {
        name: kind for name, kind in parameters(CLIENT[verb]).items() if name not in CLIENT_ONLY_PARAMETERS
    }
    if verb in OTHER_PARAMETERS:
        assert core != client, "remove it from the list"
    else:
        assert core == client
        positional = [
            [name for name, kind in each.items() if kind[0] == "positional"] for each in (core, client)
        ]
        assert positional[0] == positional[1]


def test_every_verb_that_only_one_has_is_listed_with_its_reason() -> None:
    assert CORE.keys() - CLIENT.keys() == CORE_ONLY.keys()
    assert CLIENT.keys() - CORE.keys() == CLIENT_ONLY.keys()


def test_every_parameter_that_only_one_has_is_one_that_is_in_use() -> None:
    for allowed, own, other in (
        (CORE_ONLY_PARAMETERS, CORE, CLIENT),
        (CLIENT_ONLY_PARAMETERS, CLIENT, CORE),
    ):
        used = {
            name for verb in COMMON for name in parameters(own[verb]).keys() - parameters(other[verb]).keys()
        }
        assert allowed.keys() <= used


def route_of(verb: str) -> str:
    """Return the route of a verb of the client, with `{}` for parameters in its path."""
    call = CALLS.get(CLIENT[verb].__name__)
    return "" if call is None else f"`{shape(f'{call.method} {call.path}')}`"


def rows() -> Iterator[str]:
    """Return the rows of the table of the documentation."""
    for verb in COMMON:
        core, client = parameters(CORE[verb]), parameters(CLIENT[verb])
        columns = (
            [name for name in core if name in client],
            [name for name in core if name not in client],
            [name for name in client if name not in core],
        )
        names = (", ".join(f"`{name}`" for name in column) for column in columns)
        yield f"| `{verb}` | {route_of(verb)} | {' | '.join(names)} |"


def reasons(listed: dict[str, str]) -> Iterator[str]:
    """Return the rows of names and reasons."""
    for reason in dict.fromkeys(listed.values()):
        names = ", ".join(f"`{name}`" for name in sorted(listed) if listed[name] == reason)
        yield f"| {names} | {reason} |"


def test_the_documentation_has_the_table_of_all_verbs() -> None:
    text = TABLE.read_text()
    for row in (
        *rows(),
        *reasons(CORE_ONLY_PARAMETERS),
        *reasons(CLIENT_ONLY_PARAMETERS),
        *reasons(OTHER_PARAMETERS),
        *reasons(CORE_ONLY),
        *reasons(CLIENT_ONLY),
    ):
        assert row in text
    assert text.count("\n| `") == sum(1 for _ in rows()) + sum(
        len(set(listed.values()))
        for listed in (CORE_ONLY_PARAMETERS, CLIENT_ONLY_PARAMETERS, OTHER_PARAMETERS, CORE_ONLY, CLIENT_ONLY)
    )
