"""Several hosts: servers with data directories of their own, on one database and one object store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import attrs
from attrs import frozen
from tests.ports import free_port
from tests.request_proxy import RequestLine, Route

from imagehost_core import ImageHost, Settings
from imagehost_core.settings import RenderingSettings
from imagehost_server.testing import RunningServer, running

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


@frozen
class Engines:
    """The URLs that all hosts share.

    Attributes:
        database: The URL of the database.
        storage: The URL of the object store.
    """

    database: str
    storage: str

    @property
    def variables(self) -> dict[str, str]:
        """The variables of a host that uses them."""
        return {"IMAGEHOST_DATABASE": self.database, "IMAGEHOST_STORAGE": self.storage}

    def open(self, data: Path) -> ImageHost:
        """Open a host in this process."""
        settings = Settings(
            base_url="https://img.example/v1",
            database=self.database,
            rendering=RenderingSettings(processes=1),
        )
        storage = attrs.evolve(settings.storage, url=self.storage)
        return ImageHost.open(data, settings=attrs.evolve(settings, storage=storage))


@contextmanager
def run_host(
    data: Path, port: int, engines: Engines, variables: Mapping[str, str], *flags: str
) -> Iterator[RunningServer]:
    """Run a server with two processes.

    Args:
        data: Its data directory.
        port: Its port on loopback.
        engines: Its database and its store.
        variables: Its other settings.
        flags: Further flags of `imagehost serve`.
    """
    options = ("--port", str(port), "--workers", "2", *flags)
    with running(data, *options, variables={**variables, **engines.variables}) as server:
        # It prints the URL of the settings, which is that of a load balancer.
        yield attrs.evolve(server, base_url=f"http://127.0.0.1:{port}/v1")


@contextmanager
def run_hosts(
    directory: Path, *engines: Engines, variables: Mapping[str, str]
) -> Iterator[list[RunningServer]]:
    """Run servers with data directories of their own.

    Args:
        directory: The directory of their data directories.
        engines: The database and the store of each host; their URLs differ where proxies are between.
        variables: The settings of all hosts.
    """
    with ExitStack() as stack:
        yield [
            stack.enter_context(run_host(directory / f"host-{number}", free_port(), each, variables))
            for number, each in enumerate(engines, 1)
        ]


def split_by_method(writes: RunningServer, reads: RunningServer) -> Route:
    """Return a route that sends unsafe methods to one host, and safe ones to another."""

    def route(request: RequestLine) -> int:
        return reads.port if request.method in SAFE_METHODS else writes.port

    return route
