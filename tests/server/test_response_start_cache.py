"""The cache of response starts: one entry per resolved image and size, and a limit of entries."""

from __future__ import annotations

from io import BytesIO

import pytest
from tests.open_host import open_host

from imagehost_core.formats import Format
from imagehost_core.services.delivery import ResolvedImage
from imagehost_core.testing import make_image
from imagehost_server.delivery.route import ResponseStartCache


@pytest.fixture
def resolved() -> list[ResolvedImage]:
    """Four resolved images, of which the first two are equal but not the same object."""
    with open_host() as host:
        image = host.upload(BytesIO(make_image()), owner="admin")
        return [host.delivery.resolve(image.id, f"w={width}") for width in (10, 10, 20, 30)]


def test_a_start_is_built_once_for_each_object_and_size(resolved: list[ResolvedImage]) -> None:
    built: list[tuple[ResolvedImage, int]] = []

    def build(image: ResolvedImage, size: int, _format: Format) -> int:
        built.append((image, size))
        return len(built)

    cache = ResponseStartCache(build)
    first, equal, *_ = resolved
    assert first == equal
    assert [cache.get(*key, Format.WEBP) for key in ((first, 1), (first, 1), (first, 2), (equal, 1))] == [
        1,
        1,
        2,
        3,
    ]


def test_the_number_of_entries_is_limited(resolved: list[ResolvedImage]) -> None:
    cache = ResponseStartCache(lambda _, size, __: size, max_entries=3)
    for size in range(20):
        for image in resolved:
            assert cache.get(image, size, Format.WEBP) == size
            assert len(cache) <= 3


def test_the_oldest_entry_is_evicted(resolved: list[ResolvedImage]) -> None:
    built: list[int] = []
    cache = ResponseStartCache(lambda _, size, __: built.append(size), max_entries=3)
    for size in (1, 2, 3, 4, 4, 3, 2, 1):
        cache.get(resolved[0], size, Format.WEBP)
    assert built == [1, 2, 3, 4, 1]


def test_an_entry_ends_with_its_resolved_image(resolved: list[ResolvedImage]) -> None:
    """As those of signed URLs do, which serve one response each."""
    cache = ResponseStartCache(lambda _, size, __: size)
    for image in resolved:
        cache.get(image, 1, Format.WEBP)
        cache.get(image, 2, Format.WEBP)
    del image, resolved[1:]
    assert len(cache) == 2
    assert cache.get(resolved[0], 1, Format.WEBP) == 1
    resolved.clear()
    assert len(cache) == 0
