"""The public surface: what programs, scripts and operators use by name, one line each.

`python -m tests.meta.surface` writes it as that of the newest release.
"""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import httpx2
from tests.subcommands import subcommands

import imagehost_client
import imagehost_client.testing
import imagehost_client.webhooks
import imagehost_core
import imagehost_core.testing
import imagehost_server
from imagehost_client._cli.app import cli as client_command
from imagehost_core.installation import FORMAT
from imagehost_core.settings import resolve_settings
from imagehost_server.cli.main import main as server_command
from imagehost_server.settings import ServerSettings
from imagehost_server.testing import RunningServer, running

MODULES = (
    imagehost_core,
    imagehost_core.testing,
    imagehost_server,
    imagehost_client,
    imagehost_client.testing,
    imagehost_client.webhooks,
)
METHODS = ("get", "head", "post", "put", "patch", "delete")


RELEASED = Path(__file__).with_name("public_surface.txt")
"""The surface of the newest release."""


def public_surface(server: RunningServer) -> set[str]:
    """Return the public surface, with the OpenAPI document of a server."""
    document = httpx2.get(f"{server.base_url}/openapi.json").json()
    _, settings = resolve_settings([], ServerSettings)
    return {
        *(line for module in MODULES for line in _names(module)),
        *(setting.variable for setting in settings),
        *_commands(server_command, "imagehost"),
        *_commands(client_command, "imagehost-client"),
        *_operations(document),
        *(f"schema {name}.{member}" for name, member in _members(document)),
        f"data format {FORMAT}",
    }


def _names(module: ModuleType) -> Iterator[str]:
    is_root = "." not in module.__name__
    for name in dir(module) if is_root else getattr(module, "__all__", vars(module)):
        value = getattr(module, name)
        is_own = is_root or hasattr(module, "__all__") or _is_own(value, module.__name__)
        if name.startswith("_") or not is_own:
            continue
        yield f"{module.__name__}.{name}"
        for each in dir(value) if inspect.isclass(value) else ():
            owners = (base for base in value.__mro__ if each in vars(base))
            if not each.startswith("_") and any(_is_own(owner, "imagehost") for owner in owners):
                yield f"{module.__name__}.{name}.{each}"


def _is_own(value: object, prefix: str) -> bool:
    return getattr(value, "__module__", "").startswith(prefix)


def _commands(command: click.Command, name: str) -> Iterator[str]:
    yield name
    if isinstance(command, click.Group):
        for subname, subcommand in subcommands(command).items():
            yield from _commands(subcommand, f"{name} {subname}")
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield from (f"{name} {option}" for option in (*parameter.opts, *parameter.secondary_opts))


def _operations(document: dict[str, Any]) -> Iterator[str]:
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                yield f"{method.upper()} {path}"
                for parameter in item[method].get("parameters", ()):
                    if "name" in parameter:
                        yield f"{method.upper()} {path} {parameter['in']} {parameter['name']}"
    yield from (f"event {name}" for name in document.get("webhooks", ()))


def _members(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, schema in document["components"]["schemas"].items():
        for member in schema.get("properties", ()):
            yield name, member


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory, running(Path(directory) / "data") as server:
        lines = sorted(public_surface(server))
    RELEASED.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
