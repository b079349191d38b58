"""The beginnings of answers are made once for each delivery, and not kept without bound."""

from __future__ import annotations

from io import BytesIO

import pytest
from litestar.types import HTTPResponseStartEvent

from imagehost_core import ImageHost, ResolvedImage
from imagehost_core.testing import make_image
from imagehost_server.delivery import route as module
from imagehost_server.delivery.route import ResponseStartCache


@pytest.fixture
def deliveries() -> list[ResolvedImage]:
    with ImageHost.open() as host:
        image = host.upload(BytesIO(make_image()), owner="admin")
        return [host.delivery.resolve(image.id, f"w={width}") for width in (10, 10, 20, 30)]


def test_a_beginning_is_made_once_for_the_same_object_and_size(deliveries: list[ResolvedImage]) -> None:
    made: list[tuple[ResolvedImage, int]] = []

    def make(delivery: ResolvedImage, size: int) -> HTTPResponseStartEvent:
        made.append((delivery, size))
        return {"type": "http.response.start", "status": 200 + len(made), "headers": []}

    prepared = ResponseStartCache(make)
    first, equal, *_ = deliveries
    assert first == equal
    statuses = [prepared.of(*asked)["status"] for asked in ((first, 1), (first, 1), (first, 2), (equal, 1))]
    assert statuses == [201, 201, 202, 203]


def test_there_are_never_more_than_are_remembered(
    deliveries: list[ResolvedImage], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_CACHED_STARTS", 3)
    prepared = ResponseStartCache(
        lambda _, size: {"type": "http.response.start", "status": size, "headers": []}
    )
    for size in range(20):
        for delivery in deliveries:
            assert prepared.of(delivery, size)["status"] == size
            assert len(prepared._kept) <= 3


def test_the_oldest_is_forgotten_for_a_new_one(
    deliveries: list[ResolvedImage], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_CACHED_STARTS", 3)
    made: list[int] = []
    prepared = ResponseStartCache(lambda _, size: made.append(size))
    for size in (1, 2, 3, 4, 4, 3, 2, 1):
        prepared.of(deliveries[0], size)
    assert made == [1, 2, 3, 4, 1]
