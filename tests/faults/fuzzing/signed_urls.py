"""Signed URLs: a private image is delivered by a URL that was signed, and by its other spellings, only.

The signature covers the transform that is then rendered, and an expiry that is not changed. An input is what
follows the prefix of the delivery route.
"""

from __future__ import annotations

import atexit
from datetime import timedelta
from functools import cache
from urllib.parse import parse_qsl, urlsplit

from attrs import evolve, frozen

from imagehost_core import ImageHost, Settings, Transform, parse_transform
from imagehost_core.errors import BadRequestError, NotFoundError
from imagehost_core.models import Image
from imagehost_core.testing import DEFAULT_NOW, FrozenClock, make_image

QUERIES = ("", "w=20", "w=20&h=9&fit=inside&fm=jpg", "q=50&fm=auto", "h=7&fm=png")
DICTIONARY = (
    *(
        b"&",
        b"=",
        b"?",
        b".webp",
        b".png",
        b".jpg",
        b".auto",
        b"exp=",
        b"sig=",
        b"w=",
        b"h=",
        b"q=",
        b"fit=",
        b"fm=",
    ),
    *(
        b"%73ig=",
        b"%3D",
        b"+",
        b"%20",
        b"w=21",
        b"fm=webp",
        b"fit=cover",
        b"x=1",
        b"/",
        b"%2F",
        b"==",
        b";",
        b"\xff",
    ),
)
FINDINGS = ()


@frozen
class Fixture:
    """A host with a private image, whose record is in memory.

    Attributes:
        urls: What follows the prefix of the delivery route in each signed URL. The last two are invalid: the
            first is of another image, the second has expired.
        signed: The transform and the expiry of each valid one.
    """

    host: ImageHost
    image: Image
    urls: tuple[str, ...]
    signed: frozenset[tuple[Transform, str]]


@cache
def fixture() -> Fixture:
    """Return a host with signed URLs of a private image."""
    clock = FrozenClock(DEFAULT_NOW - timedelta(hours=2))
    host = ImageHost.open(":memory:", clock=clock, settings=Settings(base_url="http://127.0.0.1:8000/v1"))
    atexit.register(host.close)
    image, other = (
        host.upload(make_image(32, 24, seed=seed), owner="admin", is_public=False) for seed in (1, 2)
    )
    expired = host.images.signed_url(image.id, "w=20", expires_in=60)
    clock.now = DEFAULT_NOW
    valid = [host.images.signed_url(image.id, query, expires_in=3_600) for query in QUERIES]
    foreign = host.images.signed_url(other.id, "w=20")
    host.delivery.resolve(image.id, viewer=host.accounts.get("admin"))
    urls = [url.url.partition("/img/")[2] for url in (*valid, foreign, expired)]
    return Fixture(host, image, tuple(urls), frozenset(_signed(url, image) for url in urls[: len(valid)]))


def _signed(url: str, image: Image) -> tuple[Transform, str]:
    parts = urlsplit(url)
    transform = parse_transform(parts.query, extension=parts.path.partition(".")[2] or None)
    return _canonical(transform, image), dict(parse_qsl(parts.query))["exp"]


def _canonical(transform: Transform, image: Image) -> Transform:
    """Return a transform without the format of the stored file, which a URL may name or leave out."""
    return evolve(transform, format=None) if transform.format is image.format else transform


def seeds() -> list[bytes]:
    return [url.encode() for url in fixture().urls]


def check(data: bytes) -> None:
    known = fixture()
    path, _, query = data.decode("utf-8", "surrogateescape").partition("?")
    try:
        resolved = known.host.delivery.resolve_cached(path, query)
    except (BadRequestError, NotFoundError):
        return
    if resolved is None:
        return
    assert resolved.image.id == known.image.id == path.partition(".")[0]
    values = dict(parse_qsl(query))
    transform = parse_transform(query, extension=path.partition(".")[2] or None)
    assert (_canonical(transform, known.image), values["exp"]) in known.signed
    assert values["sig"] in "".join(known.urls)
    assert not resolved.is_restricted
