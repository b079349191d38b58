"""URLs and elements of images are the same in the core and the client, which import nothing of each other."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from imagehost_client import BadRequestError, ValidationError, urls
from imagehost_client._calls.images import list_images
from imagehost_client._calls.uploads import upload
from imagehost_core import Image, ImageHost, ImageHostError, Settings
from imagehost_core.errors import BaseUrlError
from imagehost_core.settings import RenderingSettings
from imagehost_core.testing import make_image, memory_host

LIMIT = 20_000
sizes = st.integers(0, 9_000) | st.sampled_from([1, 8192, 8193])
widths = st.lists(st.integers(-1, LIMIT), max_size=5)
qualities = st.none() | st.integers(0, 101)
fits = st.none() | st.sampled_from(["cover", "contain", "fill", "inside", "outside", "crop"])
formats = st.sampled_from(["jpg", "jpeg", "png", "webp", "avif", "auto", "gif", "jpgg"])
shapes = {"h": st.none() | sizes, "q": qualities, "fit": fits}
texts = st.text("ab <>&\"'\n", max_size=6)
attributes = st.dictionaries(
    st.sampled_from(["class", "ID", "src", "Sizes", "a b", "", "width", "alt", "style"]),
    st.sampled_from([None, True, False, 7, 'a"<b']),
    max_size=3,
)
picture_options = st.fixed_dictionaries(
    {},
    optional={
        **shapes,
        "alt": st.none() | texts,
        "loading": st.sampled_from(["lazy", "eager", "now"]),
        "sizes": st.sampled_from(["100vw", '(max-width: 9px) "1px"']),
        "formats": st.lists(formats, max_size=3),
        "attributes": st.none() | attributes,
    },
)
images = st.fixed_dictionaries(
    {
        "width": st.integers(1, LIMIT),
        "height": st.integers(1, LIMIT),
        "description": texts,
        "placeholder": st.just("x") | st.binary(max_size=30).map(lambda data: b64encode(data).decode()),
    }
)


@pytest.fixture(scope="module")
def host() -> Iterator[ImageHost]:
    """Return a host with a base URL."""
    settings = Settings(base_url="https://img.example/v1", rendering=RenderingSettings(processes=1))
    with memory_host(settings) as opened:
        yield opened


@pytest.fixture(scope="module")
def image(host: ImageHost) -> Image:
    """Return an image of the host."""
    return host.upload(make_image(8, 6), owner="admin", filename="cat.png")


def outcome(call: Callable[..., str], *arguments: Any, **keywords: Any) -> str:
    """Return the result of a call, or the name of the class of its error."""
    try:
        return call(*arguments, **keywords)
    except (ImageHostError, BadRequestError, ValidationError, TypeError) as error:
        return type(error).__name__


@given(st.fixed_dictionaries({}, optional={**shapes, "w": st.none() | sizes, "fm": st.none() | formats}))
@example({"fit": "cover", "fm": "jpeg", "w": 5})
def test_the_url_of_a_variant_is_the_same(host: ImageHost, image: Image, params: dict[str, Any]) -> None:
    expected = outcome(urls.image_url, image.id, cdn_url=host.urls.cdn_url, **params)
    assert outcome(host.image_url, image.id, **params) == expected
    assert outcome(host.image_url, image, **params) == expected.replace(image.id, f"{image.id}.webp")


@given(images, widths, st.fixed_dictionaries({}, optional={**shapes, "fm": st.none() | formats}))
@example({"width": 12_000, "height": 7_001, "description": "", "placeholder": ""}, [9_000, 320, 320], {})
@example({"width": 7_768, "height": 8_364, "description": "", "placeholder": ""}, [7_768], {})
def test_a_srcset_is_the_same(
    host: ImageHost, image: Image, values: dict[str, Any], widths: list[int], params: dict[str, Any]
) -> None:
    shown = attrs.evolve(image, **values)
    assert outcome(host.srcset, shown, widths, **params) == outcome(urls.srcset, shown, widths, **params)


@given(images, widths, picture_options)
@example(
    {"width": 4000, "height": 3000, "description": 'a "cat"', "placeholder": "3OcRJYB4d3h/iIeHeEh3eIhw+j2w"},
    [640, 1280],
    {"h": 720, "fit": "cover", "attributes": {"class": "hero", "hidden": True}},
)
def test_a_picture_is_the_same(
    host: ImageHost, image: Image, values: dict[str, Any], widths: list[int], options: dict[str, Any]
) -> None:
    shown = attrs.evolve(image, **values)
    assert outcome(host.picture, shown, widths, **options) == outcome(urls.picture, shown, widths, **options)


def test_a_width_beside_the_widths_is_a_mistake(host: ImageHost, image: Image) -> None:
    for call in (host.srcset, urls.srcset):
        assert outcome(call, image, [9], w=5) == "TypeError"


class Text(str, Enum):  # noqa: UP042 - `str` of these members is their name
    CONTAIN, WEBP, SIZE = "contain", "webp", "-size"


def test_a_member_of_an_enumeration_of_text_is_sent_as_its_value(host: ImageHost, image: Image) -> None:
    params: dict[str, Any] = {"w": 5, "h": 5, "fit": Text.CONTAIN, "fm": Text.WEBP}
    expected = f"{host.urls.cdn_url}/{image.id}?w=5&h=5&fit=contain&fm=webp"
    assert host.image_url(image.id, **params) == expected
    assert urls.image_url(image.id, cdn_url=host.urls.cdn_url, **params) == expected
    order: Any = Text.SIZE
    assert list_images(sort=order).query == (("sort", "-size"),)
    assert upload(b"x", description=order).fields == (("description", "-size"),)


def test_a_host_without_a_base_url_names_the_setting() -> None:
    with memory_host() as host:
        image = host.upload(make_image(8, 6), owner="admin")
        assert (image.url, image.thumb_url, image.links) == (None, None, None)
        calls: list[Callable[[], object]] = [
            lambda: host.image_url(image, w=5),
            lambda: host.image_url(image.id),
            lambda: host.srcset(image),
            lambda: host.picture(image),
            lambda: host.images.signed_url(image),
            lambda: host.images.signed_urls([image], owner="admin"),
            lambda: host.urls.base_url,
        ]
        for call in calls:
            with pytest.raises(BaseUrlError, match="expected a host with the setting base_url"):
                call()
