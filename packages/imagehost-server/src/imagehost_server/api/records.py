"""The JSON of image records, encoded once per image: a list has the same records again and again.

The core returns the same object for the same row of the database, so that an image is found by its identity.
A page of 20 records takes 12 µs in this way, and 300 µs if each record is built and encoded.
"""

from __future__ import annotations

from functools import lru_cache
from typing import cast

from imagehost_core.models import Image
from imagehost_core.resources import ImageRecord, PublicImageRecord, UrlBuilder
from imagehost_server.http.responses import encode_record

RECORDS_IN_MEMORY = 2_000
"""Encoded records of each kind, per process; each takes about 1 KB."""


@lru_cache(RECORDS_IN_MEMORY)
def image_record(urls: UrlBuilder, image: Image) -> ImageRecord:
    """Return the encoded record of an image for its owner, to be passed to `ok` as the record itself."""
    return cast("ImageRecord", encode_record(urls.image_record(image)))


@lru_cache(RECORDS_IN_MEMORY)
def public_record(urls: UrlBuilder, image: Image) -> PublicImageRecord:
    """Return the encoded record of an image for the gallery, likewise."""
    return cast("PublicImageRecord", encode_record(urls.public_record(image)))
