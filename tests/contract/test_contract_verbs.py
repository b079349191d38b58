"""The core and the client are one interface: the same verbs, parameters, defaults, results and routes."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, Unpack, get_args, get_origin, get_type_hints

import attrs
import pytest
from tests.contract.test_contract_coverage import CALLS, shape

from imagehost_client import UNSET, Client, _types
from imagehost_client._calls.call import Call
from imagehost_client._methods import Method
from imagehost_client.testing import FakeImageHost, make_png
from imagehost_core import ImageHost

GROUPS = ("", "images", "albums", "keys", "sessions", "webhooks", "accounts")
TABLE = Path(__file__).parents[2] / "docs/reference/verbs.md"

DIFFERENCES = {
    "a program that has the host acts for any account, and a client for that of its token": """
        owner= operator= account_id authenticate change_password renew_signing_secret
        accounts.renew_signing_secret accounts.set_password_hash Session.is_current
    """,
    "a server that embeds the host has the query and the options of a request, admits it and records it": """
        admit= public= idempotency= params= options= accounts.create_first images.delete_signed
        images.get_deletable images.sign_deletion images.signing_key keys.authenticate
        keys.authenticate_cached keys.create_first sessions.is_known_client
    """,
    "webhooks are sent by the host": """
        subscribe webhooks.delivery webhooks.delete_expired webhooks.is_any_due webhooks.lease
        webhooks.list_disabled webhooks.next_due webhooks.recover_from_clock_step webhooks.release
        webhooks.report webhooks.report_and_lease webhooks.retry_all_now webhooks.sender_slot
    """,
    "bytes travel to the client, in requests that it repeats": """
        idempotency_key= progress= checksum= meta images.download images.save images.stream
        images.signed_srcset images.signed_picture request upload_iter upload_many with_options
    """,
    "the host knows passwords by their hashes, which a server makes and verifies": """
        password= password_hash= username= account= user_agent= ip_address= accounts.password_hash
        AlbumShare.password_hash
    """,
    "a list of the core is one page, and of the client one that is iterated over": """
        Iterator/Page accounts.iter
    """,
    "a host without a base URL has no image URLs; the site of a share link is the server's": """
        Image.links Image.thumb_url Image.url Image.delete_url AlbumShare.url delete_url=
    """,
    "a program sees the whole records of which the interface shows a part": """
        Image/PublicImage Account/AccountSummary images.list_public albums.get_shared
        Account.is_active_operator Account.suspended_at Account.usage accounts.usage Album.cover
        AlbumShare.album_id AlbumShare.token Image.derivative_checksums Image.derivatives Image.urls
        PublicAlbum.cover
    """,
    "maintenance is for the program that has the files": """
        accounts.delete accounts.get_or_create accounts.list_largest camera_data check now
    """,
}
"""What differs, by the reason: verbs, parameters with `=`, fields of a record or of all, and classes."""
ALLOWED = {name: reason for reason, names in DIFFERENCES.items() for name in names.split()}


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of a verb; those of the client name types that it imports for checkers only."""
    is_core = function.__module__.startswith("imagehost_core")
    return get_type_hints(function, localns=None if is_core else {**vars(_types), "Unpack": Unpack})


def parameters(function: Callable[..., Any]) -> dict[str, tuple[str, object]]:
    """Return the kind and the default of each parameter, by name; a required one has none.

    The names of a typed dictionary take the place of the keywords that it describes. A parameter that may be
    left out has the default `None`, whatever stands for it.
    """
    found: dict[str, tuple[str, object]] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            (keywords,) = get_args(hints_of(function)[name])
            found |= dict.fromkeys(get_type_hints(keywords), ("keyword", None))
        elif name != "self":
            kind = "keyword" if parameter.kind is parameter.KEYWORD_ONLY else "positional"
            default = None if parameter.default in (UNSET, False, "", ()) else parameter.default
            found[name] = (kind, default)
    return found


def core_verbs() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Return the verbs of a host and of its groups."""
    with ImageHost.open(":memory:") as host:
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
            if name[0] != "_" and (isinstance(verb, Method) or callable(verb)):
                yield f"{group}.{name}".lstrip("."), getattr(verb, "function", verb)


CORE, CLIENT = dict(core_verbs()), dict(client_verbs())
COMMON = sorted(CORE.keys() & CLIENT.keys())


def returned(function: Callable[..., Any]) -> Any:
    """Return the type of a verb's result; of a call, that of the result of its requests."""
    hint = hints_of(function)["return"]
    if get_origin(hint) is Call:
        return get_args(hint)[0]
    if get_origin(hint) is tuple and get_origin(get_args(hint)[0]) is Call:
        (results,) = get_args(get_args(hint)[0])
        return tuple.__class_getitem__((get_args(results)[0], ...))
    return hint


def alternatives(kind: Any) -> list[Any]:
    """Return the members of a union, in which all text is text, and ids are what they are made of."""
    kind = getattr(kind, "__supertype__", kind)
    if get_origin(kind) in (Union, UnionType):
        return list(dict.fromkeys(one for member in get_args(kind) for one in alternatives(member)))
    is_text = get_origin(kind) is Literal or (isinstance(kind, type) and issubclass(kind, Enum))
    return [str] if is_text else [kind]


def members(kind: type[Any]) -> dict[str, Any]:
    """Return the types of the fields and properties of a record."""
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        found |= {name: hint for name, hint in get_type_hints(base).items() if attrs.has(base)}
        for name, value in vars(base).items():
            if isinstance(value, property):
                found[name] = get_type_hints(value.fget)["return"]
    return {name: hint for name, hint in found.items() if name[0] != "_"}


def differences(where: str, core: Any, client: Any) -> Iterator[str]:
    """Return the names of what differs between two types, field by field."""
    ours, theirs = alternatives(core), alternatives(client)
    if len(ours) == len(theirs) == 2 and NoneType in ours and NoneType in theirs:
        ours, theirs = ([one for one in each if one is not NoneType] for each in (ours, theirs))
    if len(ours) == len(theirs) == 1:
        yield from differences_of_one(where, ours[0], theirs[0])
    elif set(ours) != set(theirs):
        yield where


def differences_of_one(where: str, core: Any, client: Any) -> Iterator[str]:
    ours, theirs = (get_origin(kind) or kind for kind in (core, client))
    arguments = get_args(core), get_args(client)
    if isinstance(ours, TypeVar) and isinstance(theirs, TypeVar):
        return
    if attrs.has(ours) and attrs.has(theirs):
        if ours.__name__ != theirs.__name__:
            yield f"{ours.__name__}/{theirs.__name__}"
            return
        own, other = members(ours), members(theirs)
        for name in own.keys() ^ other.keys():
            yield name if name in ALLOWED else f"{ours.__name__}.{name}"
        for name in own.keys() & other.keys():
            yield from differences(f"{ours.__name__}.{name}", own[name], other[name])
    elif ours is not theirs:
        yield f"{ours.__name__}/{theirs.__name__}" if arguments[0] else where
    for own, other in zip(*arguments, strict=True):
        if own is not Ellipsis:
            yield from differences(where, own, other)


def differences_of_parameters(verb: str) -> Iterator[str]:
    """Return the names of parameters that only one has, or that have another kind or default."""
    core, client = parameters(CORE[verb]), parameters(CLIENT[verb])
    yield from (f"{name}=" for name in core.keys() ^ client.keys())
    yield from (f"{name}= {verb}" for name in core.keys() & client.keys() if core[name] != client[name])
    positional = [
        [name for name, (kind, _) in own.items() if kind == "positional" and f"{name}=" not in ALLOWED]
        for own in (core, client)
    ]
    if positional[0] != positional[1]:
        yield f"order of {verb}"


MOST_DIFFERENCES = 10


def test_the_core_and_the_client_differ_for_at_most_ten_reasons() -> None:
    assert len(DIFFERENCES) <= MOST_DIFFERENCES
    assert len(ALLOWED) == sum(len(names.split()) for names in DIFFERENCES.values())


@pytest.mark.parametrize("verb", COMMON)
def test_a_verb_has_the_same_parameters_kinds_and_defaults(verb: str) -> None:
    assert set(differences_of_parameters(verb)) <= ALLOWED.keys()


@pytest.mark.parametrize("verb", COMMON)
def test_a_verb_has_the_same_result_field_by_field(verb: str) -> None:
    found = differences(f"the result of {verb}", returned(CORE[verb]), returned(CLIENT[verb]))
    assert set(found) <= ALLOWED.keys()


def test_every_verb_that_only_one_has_has_its_reason() -> None:
    assert CORE.keys() ^ CLIENT.keys() <= ALLOWED.keys()


def test_every_difference_with_a_reason_exists() -> None:
    found = CORE.keys() ^ CLIENT.keys()
    for verb in COMMON:
        found |= set(differences_of_parameters(verb))
        found |= set(differences(verb, returned(CORE[verb]), returned(CLIENT[verb])))
    assert found == ALLOWED.keys()


def test_a_record_of_which_one_field_differs_is_found() -> None:
    @attrs.frozen
    class Record:
        size: int
        kind: Literal["a", "b"]
        times: tuple[int, ...] = ()

    ours = Record
    for name, kind in (("size", str), ("kind", int), ("times", tuple[str, ...]), ("more", int)):
        fields = {"size": int, "kind": str, "times": tuple[int, ...], name: kind}
        theirs = attrs.make_class("Record", {field: attrs.field(type=hint) for field, hint in fields.items()})
        assert set(differences("x", Record, theirs)) == {f"Record.{name}"}
    assert not set(differences("x", ours, Record))


def test_a_record_is_the_same_json_in_both() -> None:
    host = FakeImageHost()
    core = host.core
    client = host.client()
    own: Any = {"owner": "admin"}
    image = client.upload(make_png(), description="<b>")
    album = client.albums.create("A")
    client.albums.create_share(album)
    key = client.keys.create("k", scopes=["images:read"])
    webhook = client.webhooks.create("https://example.com/hook", events=["image.uploaded"])
    client.albums.add_images(album, [image])
    pairs: list[tuple[Any, Any]] = [
        (core.images.get(image.id), client.images.get(image)),
        (core.albums.get(album.id, **own), client.albums.get(album)),
        (
            core.albums.list_shares(album.id, **own).items[0],
            client.albums.list_shares(album).first_page().items[0],
        ),
        (core.keys.get(key.id, **own), client.keys.get(key)),
        (core.sessions.list(**own).items[0], client.sessions.list().first_page().items[0]),
        (core.webhooks.get(webhook.id, **own), client.webhooks.get(webhook)),
        (core.account(**own), client.account()),
        (core.accounts.get("admin"), client.accounts.get(1)),
        (core.images.list(**own), client.images.list().first_page()),
        (core.render(image.id, w=3), client.render(image, w=3)),
    ]
    for ours, theirs in pairs:
        found = set(different(ours.to_dict(), theirs.to_dict(), type(ours).__name__))
        assert {name for name in found if not name.startswith("AccountOverview.account.")} <= ALLOWED.keys()
        assert json.loads(ours.to_json()) == ours.to_dict()


def different(ours: object, theirs: object, where: str) -> Iterator[str]:
    """Return the names of members of records that differ in JSON."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in ours.keys() | theirs.keys():
            yield from different(ours.get(name, ...), theirs.get(name, ...), f"{where}.{name}")
    elif isinstance(ours, list) and isinstance(theirs, list):
        for own, other in zip(ours, theirs, strict=True):
            yield from different(own, other, where)
    elif ours != theirs:
        yield where


def route_of(verb: str) -> str:
    """Return the route of a verb of the client, with `{}` for parameters in its path."""
    call = CALLS.get(CLIENT[verb].__name__)
    return "" if call is None else f"`{shape(f'{call.method} {call.path}')}`"


def name_of(kind: Any) -> str:
    """Return the name of a verb's result, with `…` for one of several."""
    kinds = [one for one in alternatives(kind) if one is not NoneType]
    if not kinds:
        return ""
    (only,) = kinds
    arguments = [name_of(argument) for argument in get_args(only) if argument is not Ellipsis]
    name = (get_origin(only) or only).__name__
    return f"{name}[{', '.join(arguments)}]" if arguments else name


def result_of(verb: str) -> str:
    """Return the result in both; that of the client after a comma, if it has another name."""
    names = dict.fromkeys(name_of(returned(each[verb])) for each in (CORE, CLIENT))
    return ", ".join(f"`{name}`" for name in names if name)


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
        yield f"| `{verb}` | {route_of(verb)} | {' | '.join(names)} | {result_of(verb)} |"


def reasons() -> Iterator[str]:
    """Return the rows of the differences and their reasons."""
    for reason, names in DIFFERENCES.items():
        yield f"| {', '.join(f'`{name}`' for name in sorted(names.split()))} | {reason} |"


def test_the_documentation_has_the_table_of_all_verbs() -> None:
    text, expected = TABLE.read_text(), [*rows(), *reasons()]
    for row in expected:
        assert row in text
    assert text.count("\n| `") == len(expected)
