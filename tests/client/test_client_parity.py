"""Both clients have the same methods, parameters and docstrings; and both are fully typed."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import imagehost_client
from imagehost_client import AsyncClient, Client, aclient, client
from imagehost_client._methods import Method
from imagehost_client.testing import FakeImageHost

RESOURCES = ("images", "albums", "keys", "webhooks", "accounts", "sessions")


def public(thing: object) -> dict[str, Any]:
    return {name: inspect.getattr_static(thing, name) for name in dir(thing) if not name.startswith("_")}


def interface_of(value: Any) -> object:
    """Return the parameters and the docstring of a method, sync or async."""
    if isinstance(value, Method):
        return "method", inspect.signature(value.function), value.__doc__
    if inspect.isfunction(value):
        signature = inspect.signature(value)
        result = str(signature.return_annotation).removeprefix("Async")
        return "function", signature.replace(return_annotation=result), value.__doc__
    return "value"


def test_both_clients_have_the_same_methods() -> None:
    sync, asynchronous = public(Client), public(AsyncClient)
    assert set(sync) == set(asynchronous)
    for name, value in sync.items():
        assert interface_of(value) == interface_of(asynchronous[name]), name


@pytest.mark.parametrize("name", RESOURCES)
def test_both_clients_have_the_same_resources(name: str) -> None:
    host = FakeImageHost()
    sync, asynchronous = getattr(host.client(), name), getattr(host.async_client(), name)
    sync_names, async_names = public(type(sync)), public(type(asynchronous))
    assert set(sync_names) == set(async_names)
    for method in sync_names:
        assert interface_of(sync_names[method]) == interface_of(async_names[method]), f"{name}.{method}"


def test_both_clients_have_the_same_constructor_parameters() -> None:
    sync_names, async_names = (inspect.signature(kind).parameters for kind in (Client, AsyncClient))
    assert list(sync_names) == list(async_names)
    for name, parameter in sync_names.items():
        assert parameter.default == async_names[name].default, name


def test_every_public_method_has_a_docstring_and_a_return_annotation() -> None:
    host = FakeImageHost()
    with host.client() as created:
        for name in RESOURCES:
            for method in public(type(getattr(created, name))):
                bound = getattr(getattr(created, name), method)
                assert inspect.getdoc(bound), f"{name}.{method}"
                assert "Call[" not in str(inspect.signature(bound)), f"{name}.{method}"
    assert str(inspect.signature(Client("https://h/v1").images.list)).endswith("-> 'Pager[Image]'")
    for kind in (Client, AsyncClient):
        for name in ("upload", "gallery"):
            assert inspect.getdoc(getattr(kind, name)) == inspect.getdoc(getattr(kind("https://h/v1"), name))


def test_the_modules_of_both_clients_have_the_same_classes() -> None:
    sync, asynchronous = (
        {name.removeprefix("Async") for name, value in vars(module).items() if inspect.isclass(value)}
        for module in (client, aclient)
    )
    assert {
        "Client",
        "Resource",
        "Images",
        "Albums",
        "Keys",
        "Webhooks",
        "Accounts",
        "Sessions",
    } <= sync & asynchronous


def test_every_name_of_the_package_exists() -> None:
    for name in dir(imagehost_client):
        assert getattr(imagehost_client, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        imagehost_client.nothing  # noqa: B018


def loaded(statement: str) -> set[str]:
    """Return the modules that a new interpreter has loaded after a statement, without coverage."""
    code = f"{statement}; import sys; print(*sys.modules)"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    return set(process.stdout.split())


SLOW = {
    "anyio",
    "argparse",
    "asyncio",
    "cattrs",
    "concurrent.futures",
    "email",
    "glob",
    "hashlib",
    "html",
    "httpcore2",
    "httpx2",
    "importlib.metadata",
    "opentelemetry",
    "shutil",
    "ssl",
    "tempfile",
    "uuid",
}
"""Modules that are slow to import, and not needed before the first call."""


def test_importing_the_package_loads_no_slow_modules() -> None:
    names = "AsyncClient, Client, Image, ImageHostError"
    assert not loaded(f"from imagehost_client import {names}") & SLOW
    modules = loaded("import imagehost_client")
    assert {name for name in modules if name.startswith("imagehost_client")} == {"imagehost_client"}
    assert not modules & (SLOW | {"attr", "attrs", "json", "logging"})


def test_the_package_has_three_dependencies_and_each_extra_its_own(workspace: Path) -> None:
    settings = tomllib.loads((workspace / "packages/imagehost-client/pyproject.toml").read_text("utf-8"))
    names = [re.split(r"[^\w-]", expected)[0] for expected in settings["project"]["dependencies"]]
    assert names == ["attrs", "cattrs", "httpx2"]
    extras = settings["project"]["optional-dependencies"]
    assert {name: [re.split(r"[^\w-]", expected)[0] for expected in extras[name]] for name in extras} == {
        "cli": ["click", "platformdirs", "rich"],
        "django": ["django"],
        "keyring": ["keyring"],
        "testing": ["imagehost-server"],
    }


def test_the_client_imports_neither_core_nor_server() -> None:
    modules = loaded("import imagehost_client.cli, imagehost_client.testing, imagehost_client.aclient")
    assert not {name.partition(".")[0] for name in modules} & {
        "imagehost_core",
        "imagehost_server",
        "PIL",
        "litestar",
    }


def test_every_type_of_a_public_signature_is_importable_from_the_package() -> None:
    annotations = {
        annotation
        for owner in (
            client.Client,
            client.Images,
            client.Albums,
            client.Keys,
            client.Webhooks,
            client.Accounts,
            client.Sessions,
        )
        for member in public(owner).values()
        if isinstance(member, Method)
        for annotation in inspect.get_annotations(member.function).values()
    }
    names = {name for text in annotations for name in re.findall(r"\b[A-Z]\w+\b", text)}
    of_others = {"Call", "Calls", "ImageDownload", "Iterable", "Mapping", "None", "Sequence", "Unpack"}
    assert names - of_others <= set(dir(imagehost_client))
