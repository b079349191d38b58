"""Responses to requests for images: what is decided once, and for whom."""

from __future__ import annotations

from io import BytesIO

import pytest
from tests.open_host import open_host

from imagehost_core.delivery_responses import ImageResponses
from imagehost_core.formats import Format
from imagehost_core.services.delivery import ResolvedImage
from imagehost_core.settings import Settings
from imagehost_core.testing import make_image


@pytest.fixture
def resolved() -> tuple[ResolvedImage, ResolvedImage]:
    """Two equal resolved images that are not the same object."""
    with open_host() as host:
        image = host.upload(BytesIO(make_image()), owner="admin")
        return host.delivery.resolve(image.id, "w=10"), host.delivery.resolve(image.id, "w=10")


def test_a_response_is_decided_once_for_each_object_and_size(
    resolved: tuple[ResolvedImage, ResolvedImage],
) -> None:
    first, equal = resolved
    assert first == equal
    responses = ImageResponses(Settings())
    keys = (first, 1), (first, 1), (first, 2), (equal, 1)
    whole = [responses.with_bytes(image, "GET", {}, size, Format.WEBP) for image, size in keys]
    assert len({*map(id, whole)}) == 3
    assert whole[0] is whole[1]
    assert [response.part.stop for response in whole] == [1, 1, 2, 1]


def test_head_needs_no_bytes_of_an_image_whose_size_is_known(
    resolved: tuple[ResolvedImage, ResolvedImage],
) -> None:
    responses = ImageResponses(Settings())
    assert responses.without_bytes(resolved[0], "HEAD", {}) is None
    whole = responses.with_bytes(resolved[0], "GET", {}, 5, Format.WEBP)
    head = responses.without_bytes(resolved[0], "HEAD", {})
    assert head is not None
    assert (head.status, head.headers, head.part.stop) == (200, whole.headers, 0)
    assert responses.without_bytes(resolved[0], "GET", {}) is None


def test_applications_of_one_host_decide_for_themselves(
    resolved: tuple[ResolvedImage, ResolvedImage],
) -> None:
    listed, unlisted = ImageResponses(Settings()), ImageResponses(Settings(), listed=False)
    robots = (b"x-robots-tag", b"noindex")
    headers = [
        responses.with_bytes(resolved[0], "GET", {}, 1, Format.WEBP).headers
        for responses in (listed, unlisted, listed)
    ]
    assert [robots in lines for lines in headers] == [False, True, False]
