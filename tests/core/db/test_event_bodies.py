"""Bodies of events are stored in fewer bytes, and read as the same bytes."""

from __future__ import annotations

import zlib
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.db.event_bodies import compress_body, decompress_body
from imagehost_core.events import ImageUploaded, serialize_event
from imagehost_core.ids import new_event_id
from imagehost_core.models import Image
from imagehost_core.resources import UrlBuilder


@given(st.binary(max_size=20_000) | st.text(max_size=10_000).map(str.encode))
def test_a_body_is_read_as_the_bytes_that_were_stored(body: bytes) -> None:
    assert decompress_body(compress_body(body)) == body


def test_the_body_of_an_images_event_is_stored_in_a_third_of_its_bytes(image: Image) -> None:
    record = UrlBuilder("https://example.com/v1", "https://example.com/img").image_record(image)
    event = ImageUploaded(id=new_event_id(), timestamp=datetime.now(UTC), data=record)
    body = serialize_event(event)
    assert len(compress_body(body)) * 3 < len(body)
    assert len(zlib.compress(body)) * 3 > len(body), "the preset dictionary is needed"


def test_a_damaged_body_is_an_error() -> None:
    stored = bytearray(compress_body(b'{"type":"image.uploaded"}'))
    stored[-1] ^= 1
    with pytest.raises(zlib.error):
        decompress_body(bytes(stored))
