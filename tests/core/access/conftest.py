from __future__ import annotations

from collections.abc import Iterator

import pytest

from imagehost_core import ImageHost, Settings
from imagehost_core.settings import SQLITE, LimitSettings, RenderingSettings, WebhookSettings
from imagehost_core.testing import FrozenClock, shared_executor


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def host(request: pytest.FixtureRequest, clock: FrozenClock, engine: str) -> Iterator[ImageHost]:
    settings = Settings(
        base_url="https://img.example/v1",
        database=SQLITE if engine == SQLITE else request.getfixturevalue("postgres_url"),
        limits=LimitSettings(api_per_minute=5, api_per_hour=20, uploads_per_minute=2, sign_ins_per_minute=3),
        webhooks=WebhookSettings(allow_loopback=True),
        rendering=RenderingSettings(processes=1),
    )
    with ImageHost.open(":memory:", settings=settings, clock=clock, executor=shared_executor()) as host:
        yield host
