"""The pytest plug-in of this package: the fixture `imagehost_fake`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from imagehost_client.testing import FakeImageHost


@pytest.fixture
def imagehost_fake() -> Iterator[FakeImageHost]:
    """A new `FakeImageHost`, whose clients are all that the test and the program under test create."""
    from imagehost_client.testing import FakeImageHost  # not needed by the other tests of a program

    with FakeImageHost().patch() as host:
        yield host
