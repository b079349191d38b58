"""Hosts of several machines: data directories of their own, one PostgreSQL database, one folder of images."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import attrs
import pytest

from imagehost_core import ImageHost, Settings
from imagehost_core._util.clock import Clock, utc_now
from imagehost_core.settings import RenderingSettings

OpenHost = Callable[..., ImageHost]


@contextmanager
def opening_hosts(directory: Path, url: str) -> Iterator[OpenHost]:
    """Yield a function that opens a host of its own by its name, which is that of its data directory."""
    settings = attrs.evolve(
        Settings(base_url="https://img.example/v1", rendering=RenderingSettings(processes=1)), database=url
    )
    shared = directory / "images"
    shared.mkdir()
    with ExitStack() as stack:

        def open_one(name: str, clock: Clock = utc_now) -> ImageHost:
            data = directory / name
            if not data.exists():
                data.mkdir()
                (data / "images").symlink_to(shared)
            return stack.enter_context(ImageHost.open(data, settings=settings, clock=clock))

        yield open_one


@pytest.fixture
def open_host(tmp_path: Path, postgres_url: str) -> Iterator[OpenHost]:
    """Open a host of its own by its name."""
    with opening_hosts(tmp_path, postgres_url) as open_one:
        yield open_one


@pytest.fixture
def hosts(open_host: OpenHost) -> tuple[ImageHost, ImageHost]:
    """Two hosts, with the account ann."""
    one, other = open_host("one"), open_host("other")
    one.accounts.get_or_create("ann")
    return one, other
