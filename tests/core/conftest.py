"""Values that the tests of the core start from; a test changes what it is about with `attrs.evolve`."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from imagehost_core.formats import Format
from imagehost_core.ids import AccountId, AlbumId, ImageId
from imagehost_core.models import Album, Image


@pytest.fixture(scope="session")
def image() -> Image:
    """A public photo of 2725×2225 pixels, in album 7."""
    return Image(
        id=ImageId("4fTq0ZrXb81KcVnE"),
        account_id=AccountId(1),
        album_id=AlbumId(7),
        filename="cat.webp",
        original_filename="cat.jpg",
        description="",
        is_public=True,
        format=Format.WEBP,
        size=12_345,
        width=2725,
        height=2225,
        frames=1,
        has_alpha=False,
        sha256="ab" * 32,
        placeholder="3OcRJYB4d3h/iIeHeEh3eIhw+j2w",
        created_at=datetime(2026, 11, 21, 7, 26, 3, 120_000, UTC),
        updated_at=datetime(2026, 11, 21, 7, 26, 4, tzinfo=UTC),
    )


@pytest.fixture(scope="session")
def album(image: Image) -> Album:
    """An album with that photo in it."""
    return Album(
        id=AlbumId(7),
        account_id=AccountId(1),
        name="Cats",
        description="All of them",
        is_public=False,
        image_count=1,
        cover=image,
        created_at=datetime(2026, 11, 20, tzinfo=UTC),
        updated_at=datetime(2026, 11, 21, tzinfo=UTC),
    )
