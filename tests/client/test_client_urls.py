"""Image URLs, `srcset` and `<picture>`."""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, get_args
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
from attrs import frozen
from hypothesis import example, given
from hypothesis import strategies as st
from tests.client.conftest import Caller
from tests.client.literals import literals

from imagehost_client import (
    Client,
    Fit,
    Format,
    NotFoundError,
    OutputFormat,
    SourceFormat,
    StoredFormat,
    UploadFormat,
    ValidationError,
    urls,
)
from imagehost_client._types import DELIVERABLE, FORMATS, STORED_FORMATS, UPLOAD_FORMATS
from imagehost_client.models import PublicImage
from imagehost_client.testing import FakeImageHost, make_png
from imagehost_client.urls import average_colour
from imagehost_core import errors, formats
from imagehost_core.errors import BadRequestError
from imagehost_core.image_url import sign_deletion
from imagehost_core.transform import Size, parse_transform, plan


def image(width: int = 1000, height: int = 500, **changes: Any) -> PublicImage:
    values: dict[str, Any] = {
        "id": "a" * 16,
        "description": "",
        "width": width,
        "height": height,
        "is_animated": False,
        "placeholder": "",
        "url": "https://cdn.example.com/img/aaaaaaaaaaaaaaaa.webp",
        "thumb_url": "",
        "created_at": datetime(2026, 1, 1, tzinfo=UTC),
    }
    return PublicImage(**(values | changes))


ANYTHING = st.integers(-5, 9000) | st.sampled_from([1, 8192, 8193, 100, 101]) | st.none()
TEXTS = st.sampled_from([*get_args(Fit), *urls.OUTPUT_FORMATS, "crop", "gif", "jpeg", "", "JPG"]) | st.none()


@given(ANYTHING, ANYTHING, ANYTHING, TEXTS, TEXTS)
def test_an_image_url_is_built_if_and_only_if_the_core_accepts_it(
    w: int | None, h: int | None, q: int | None, fit: Any, fm: Any
) -> None:
    given_values = {"w": w, "h": h, "q": q, "fit": fit, "fm": "jpg" if fm == "jpeg" else fm}
    expected = {name: str(value) for name, value in given_values.items() if value is not None}
    try:
        url = urls.image_url(image(), w=w, h=h, q=q, fit=fit, fm=fm)
    except ValueError:
        with pytest.raises(BadRequestError):
            parse_transform(expected)
        return
    query = urlsplit(url).query
    assert dict(parse_qsl(query, keep_blank_values=True)) == expected
    assert parse_transform(query) == parse_transform(expected)


def test_image_urls() -> None:
    stored = "https://cdn.example.com/img/aaaaaaaaaaaaaaaa.webp"
    assert urls.image_url(image()) == stored
    assert urls.image_url(image(), w=300, fm="avif") == f"{stored}?w=300&fm=avif"
    assert (
        urls.image_url(image(), fm="avif", fit="inside", q=5, h=2, w=1)
        == f"{stored}?w=1&h=2&q=5&fit=inside&fm=avif"
    )
    assert urls.image_url("abc", cdn_url="https://h/img/", w=3) == "https://h/img/abc?w=3"
    page = "https://pages.example.com/i/0aZ0aZ0aZ0aZ0aZ0"
    assert urls.image_url(page, cdn_url="https://h/img", w=3) == "https://h/img/0aZ0aZ0aZ0aZ0aZ0?w=3"


@pytest.mark.parametrize("name", ["", "a/b"])
def test_an_invalid_id_is_rejected(name: str) -> None:
    with pytest.raises(ValueError, match="expected an image"):
        urls.image_url(name, cdn_url="https://h/img")


def test_an_id_requires_a_cdn_url() -> None:
    with pytest.raises(ValueError, match="cdn_url"):
        urls.image_url("abc")


@pytest.mark.parametrize("params", [{"width": 3}, {"W": 3}])
def test_an_unknown_parameter_is_rejected_with_its_name(params: dict[str, int]) -> None:
    with pytest.raises(TypeError, match=next(iter(params))):
        urls.image_url(image(), **params)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [True, "300", 3.0])
def test_a_size_that_is_not_an_integer_is_rejected(value: Any) -> None:
    with pytest.raises(ValueError, match="for w but"):
        urls.image_url(image(), w=value)


@given(st.integers(1, 20_000), st.lists(st.integers(1, 20_000), min_size=1, max_size=8))
def test_widths_of_a_srcset_are_sorted_distinct_and_limited_to_the_image(
    width: int, widths: list[int]
) -> None:
    candidates = [text.split() for text in urls.srcset(image(width), widths, fm="webp").split(", ")]
    url_widths = [int(text.removesuffix("w")) for _, text in candidates]
    assert url_widths == sorted(set(url_widths))
    assert max(url_widths) <= min(width, urls.MAX_SIDE)
    assert {width_value for width_value in widths if width_value <= min(width, urls.MAX_SIDE)} <= set(
        url_widths
    )
    for (url, _), size in zip(candidates, url_widths, strict=True):
        assert parse_transform(urlsplit(url).query).width == size


@pytest.mark.parametrize("widths", [[], [0], [-1], [True], ["3"]])
def test_a_srcset_requires_positive_widths(widths: Any) -> None:
    with pytest.raises(ValueError, match="widths"):
        urls.srcset(image(), widths)


def test_a_srcset_rejects_a_width_as_a_parameter() -> None:
    with pytest.raises(TypeError, match="width"):
        urls.srcset(image(), [300], w=200)  # type: ignore[call-arg]


SIDES = st.integers(1, 12_000)


@given(SIDES, SIDES, st.lists(SIDES, min_size=1, max_size=6), st.integers(1, 8192))
@example(width=8000, height=8000, widths=[8000], box_height=8000)
@example(width=12_000, height=12_000, widths=[1], box_height=8192)
@pytest.mark.parametrize("fit", ["cover", "contain", "fill"])
def test_crops_keep_the_aspect_ratio_and_are_rendered_without_enlarging(
    fit: Fit, width: int, height: int, widths: list[int], box_height: int
) -> None:
    candidates = urls.srcset(image(width, height), widths, h=box_height, fit=fit).split(", ")
    sizes = []
    for url, descriptor in map(str.split, candidates):
        transform = parse_transform(urlsplit(url).query)
        assert f"{transform.width}w" == descriptor
        assert transform.width
        assert transform.height
        assert transform.width <= width
        assert transform.height <= height
        assert transform.width * transform.height <= urls.MAX_OUTPUT_PIXELS
        ideal = transform.width * box_height / max(widths)
        # One pixel is the narrowest crop, also of an image that is too low for it.
        assert abs(transform.height - max(1, min(height, ideal) if transform.width == 1 else ideal)) <= 0.5
        output = plan(Size(width, height), transform).output
        assert (output.width, output.height) == (transform.width, transform.height)
        sizes.append(transform.width)
    assert sizes == sorted(set(sizes))
    assert set(sizes) - {sizes[-1]} <= set(widths)


def test_a_cropped_picture_element_has_the_size_of_the_crop(call: Caller) -> None:
    text = urls.picture(image(1000, 800), [320, 640], h=360, fit="cover", formats=[])
    stored = image().url
    small, large = (f"{stored}?{size}&fit=cover&fm=auto" for size in ("w=320&h=180", "w=640&h=360"))
    assert img_of(text)["srcset"] == f"{small} 320w, {large} 640w"
    assert img_of(text)["src"] == large
    assert (img_of(text)["width"], img_of(text)["height"]) == ("640", "360")
    private = call(lambda client: client.upload(make_png(1000, 800), is_public=False))
    signed = call(lambda client: client.images.signed_picture(private, [320, 640], h=360, formats=[]))
    assert (img_of(signed)["width"], img_of(signed)["height"]) == ("640", "360")


@pytest.mark.parametrize("fit", ["inside", "outside"])
def test_a_crop_whose_width_the_host_would_change_is_rejected(fit: Any) -> None:
    with pytest.raises(ValueError, match="beside h, for fit"):
        urls.srcset(image(), [300], h=200, fit=fit)
    assert urls.srcset(image(), [300], h=None, fit=fit).endswith(f"fit={fit} 300w")


class Tags(HTMLParser):
    """A parser that collects tags."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


@given(
    st.text(st.characters(exclude_categories=["Cs"])).filter(
        lambda text: "\r" not in text and "\0" not in text
    )
)
def test_any_alternative_text_is_escaped(alt: str) -> None:
    reader = Tags()
    reader.feed(urls.picture(image(description=alt), [320], sizes="50vw"))
    assert [tag for tag, _ in reader.tags] == ["picture", "img"]
    attributes_of_img = reader.tags[-1][1]
    assert attributes_of_img["alt"] == alt
    assert (attributes_of_img["width"], attributes_of_img["height"], attributes_of_img["loading"]) == (
        "1000",
        "500",
        "lazy",
    )
    reader = Tags()
    reader.feed(urls.picture(image(), [320], formats=["avif", "webp"]))
    assert [attributes["type"] for tag, attributes in reader.tags if tag == "source"] == [
        "image/avif",
        "image/webp",
    ]


def test_a_picture_element_has_widths_formats_and_placeholder() -> None:
    thumbhash = base64.b64encode(bytes.fromhex("d5081e0ea600")).decode()
    text = urls.picture(image(placeholder=thumbhash), iter([640, 2000]), alt="A cat", formats=["jpg"], q=70)
    reader = Tags()
    reader.feed(text)
    source, attributes_of_img = reader.tags[1][1], reader.tags[2][1]
    assert source["srcset"] == urls.srcset(image(), [640, 1000], q=70, fm="jpg")
    assert attributes_of_img["src"] == urls.image_url(image(), w=1000, q=70, fm="auto")
    assert (attributes_of_img["alt"], attributes_of_img["data-thumbhash"]) == ("A cat", thumbhash)
    assert re.fullmatch("background-color:#[0-9a-f]{6}", attributes_of_img["style"] or "")


def img_of(text: str) -> dict[str, str | None]:
    """Return the attributes of `<img>`."""
    reader = Tags()
    reader.feed(text)
    return reader.tags[-1][1]


def test_attributes_are_added_replaced_and_omitted() -> None:
    attributes: urls.Attributes = {
        "class": 'a"b',
        "fetchpriority": "high",
        "hidden": True,
        "style": None,
        "Width": 7,
        "x": False,
    }
    img = img_of(urls.picture(image(), [320], loading="eager", attributes=attributes))
    assert (img["class"], img["fetchpriority"], img["hidden"], img["width"]) == ('a"b', "high", None, "7")
    assert img["loading"] == "eager"
    assert not {"style", "x", "Width"} & set(img)


@pytest.mark.parametrize("name", ["", "a b", 'a"', "a>b", "a=b", "a/b", "src", "SRCSET", "sizes", "a\n"])
def test_an_attribute_that_is_no_name_or_that_of_a_url_is_rejected(name: str) -> None:
    with pytest.raises(ValueError, match="attributes"):
        urls.picture(image(), attributes={name: "x"})


def test_an_unknown_loading_is_rejected() -> None:
    with pytest.raises(ValueError, match="loading"):
        urls.picture(image(), loading="layz")  # type: ignore[arg-type]


@frozen
class Photo:
    """A record of another program, with what a page needs of an image."""

    url: str = "https://cdn.example.com/img/aaaaaaaaaaaaaaaa.webp"
    width: int = 1000
    height: int = 500
    description: str | None = ""
    placeholder: str | None = ""


@pytest.mark.parametrize("photo", [Photo(), Photo(description=None, placeholder=None)])
def test_records_of_other_programs_can_be_displayed(photo: Photo) -> None:
    assert urls.picture(photo, [320]) == urls.picture(image(), [320])
    assert urls.srcset(Photo(), [320]) == urls.srcset(image(), [320])


def test_a_row_as_a_dictionary_is_displayed_as_a_record_is() -> None:
    row = {"url": Photo().url, "width": 1000, "height": 500, "id": 7}
    assert urls.picture(row, [320]) == urls.picture(Photo(), [320])
    assert urls.srcset(row, [320]) == urls.srcset(Photo(), [320])
    assert urls.image_url(row, w=64) == f"{Photo().url}?w=64"
    described = {**row, "description": "A cat", "placeholder": None}
    assert 'alt="A cat"' in urls.picture(described)


@pytest.mark.parametrize("row", [{}, {"id": 7}, {"url": None, "width": 1, "height": 1}])
def test_a_row_without_a_url_is_a_mistake(row: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="image"):
        urls.image_url(row)


@pytest.mark.parametrize("missing", ["url", "width", "height"])
def test_a_row_without_url_or_size_cannot_be_displayed(missing: str) -> None:
    row = {"url": Photo().url, "width": 1000, "height": 500}
    del row[missing]
    for display in (urls.picture, urls.srcset):
        with pytest.raises(ValidationError, match="an image's record"):
            display(row)


@pytest.mark.parametrize("fm", ["jpg", "jpeg", Format.JPEG])
def test_jpeg_has_several_names(fm: Any, call: Caller) -> None:
    assert urls.image_url(image(), fm=fm).endswith("?fm=jpg")
    assert urls.srcset(image(), [320], fm=fm).endswith("fm=jpg 320w")
    assert 'type="image/jpeg"' in urls.picture(image(), formats=[fm])
    stored = call(lambda client: client.upload(make_png(), format=fm))
    assert stored.format == "jpeg"
    assert [one.id for one in call(lambda client: client.images.list(format=fm))] == [stored.id]
    assert "fm=jpg&" in call(lambda client: client.images.signed_url(stored, fm=fm)).url
    assert "fm=jpg " in call(lambda client: client.images.signed_srcset(stored, fm=fm)).replace("&", " ")


def urls_in(text: str) -> list[str]:
    """Return the URLs of a `<picture>` element."""
    reader = Tags()
    reader.feed(text)
    values = [(tags["src"] or "", tags["srcset"] or "") for tag, tags in reader.tags[1:] if "src" in tags]
    sets = [tags["srcset"] or "" for _, tags in reader.tags[1:]]
    return [source for source, _ in values] + [part.split()[0] for text in sets for part in text.split(", ")]


def without_extensions(markup: str) -> str:
    """Return markup without the extensions of URLs: where there is `fm`, they have no meaning."""
    return re.sub(r"\.\w+\?", "?", markup)


def test_markup_of_a_private_image_has_signed_urls_of_one_request(call: Caller, host: FakeImageHost) -> None:
    private = call(lambda client: client.upload(make_png(1000, 500), is_public=False))
    host.requests.clear()
    markup = call(
        lambda client: client.images.signed_picture(private, [320, 640], alt="A", q=70, expires_in=60)
    )
    assert host.requests == [("POST", "/signed-urls")]
    with httpx2.Client(transport=host) as anonymous:
        assert [anonymous.get(url).status_code for url in urls_in(markup)] == [200] * 3
        assert anonymous.get(private.url).status_code == 404
    unsigned = re.sub(r"&amp;exp=[^ \"]*", "", markup)
    expected = urls.picture(private, [320, 640], alt="A", q=70)
    assert without_extensions(unsigned) == without_extensions(expected)
    signed = call(lambda client: client.images.signed_srcset(private, [320, 640], fit="inside"))
    assert re.sub(r"&exp=[^ ]*", "", signed) == urls.srcset(private, [320, 640], fit="inside")
    assert "exp=" in signed


def test_markup_of_a_private_image_is_checked_before_a_request(call: Caller, host: FakeImageHost) -> None:
    with pytest.raises(ValueError, match="at most 100"):
        call(lambda client: client.images.signed_srcset(image(), range(1, 102)))
    with pytest.raises(ValidationError, match="for image but"):
        call(lambda client: client.images.signed_picture("a" * 16))
    with pytest.raises(ValidationError, match="for image but"):
        call(lambda client: client.images.signed_srcset(Photo()))
    with pytest.raises(ValueError, match="loading"):
        call(lambda client: client.images.signed_picture(image(), loading="never"))
    assert host.requests == []
    with pytest.raises(NotFoundError):
        call(lambda client: client.images.signed_picture(image()))


def test_notebooks_display_a_record_by_its_thumbnail() -> None:
    record = image(description='"><script>', thumb_url="https://h/img/a?w=320&h=320")
    reader = Tags()
    reader.feed(record._repr_html_())
    assert [tag for tag, _ in reader.tags] == ["a", "img"]
    link, thumbnail = (attributes for _, attributes in reader.tags)
    assert link["href"] == record.url
    assert (thumbnail["src"], thumbnail["alt"]) == (record.thumb_url, record.description)


def test_the_text_of_a_record_is_short(call: Caller) -> None:
    stored = call(lambda client: client.upload(make_png(40, 30), filename="cat.png", description="x" * 2000))
    assert repr(stored) == f"<Image {stored.id} 'cat.webp' 40x30 {stored.url}>"
    assert repr(image()) == f"<PublicImage {'a' * 16} 1000x500 {image().url}>"


def test_a_picture_element_requires_explicit_formats() -> None:
    with pytest.raises(ValueError, match="formats"):
        urls.picture(image(), formats=["auto"])  # type: ignore[list-item]


@given(st.binary(min_size=5, max_size=30))
def test_the_average_colour_of_any_thumbhash_is_in_range(data: bytes) -> None:
    colour = average_colour(base64.b64encode(data).decode())
    assert colour is not None
    assert all(0 <= part <= 255 for part in colour)


@pytest.mark.parametrize(
    ("colour", "lightness", "yellow", "red_green"),
    [
        ((255, 255, 255), 63, 31.5, 31.5),
        ((0, 0, 0), 0, 31.5, 31.5),
        ((255, 0, 0), 21, 47.25, 63),
        ((0, 0, 255), 21, 0, 31.5),
    ],
)
def test_the_average_colour_is_decoded_from_the_thumbhash(
    colour: tuple[int, int, int], lightness: float, yellow: float, red_green: float
) -> None:
    bits = round(lightness) | round(yellow) << 6 | round(red_green) << 12
    colour_of_hash = average_colour(base64.b64encode(bits.to_bytes(3, "little") + b"\0\0").decode())
    assert colour_of_hash is not None
    assert all(abs(actual - expected) <= 8 for actual, expected in zip(colour_of_hash, colour, strict=True))


@pytest.mark.parametrize("text", ["", "!!", "AAAA", "ü"])
def test_an_invalid_placeholder_has_no_colour(text: str) -> None:
    assert average_colour(text) is None


def test_the_client_builds_urls_with_its_cdn_url(client: Client, host: FakeImageHost) -> None:
    assert client.image_url("abc", w=3) == f"{host.cdn_url}/abc?w=3"
    assert client.srcset(image(), [300]) == urls.srcset(image(), [300])
    assert client.picture(image(), [300]) == urls.picture(image(), [300])


def test_the_types_of_formats_name_the_formats_of_the_table() -> None:
    assert literals(UploadFormat) == set(UPLOAD_FORMATS)
    assert literals(StoredFormat) == {*STORED_FORMATS, *Format}
    assert literals(OutputFormat) == literals(SourceFormat) | {"auto"} == {*urls.OUTPUT_FORMATS, *DELIVERABLE}


def test_the_table_of_formats_is_that_of_the_host() -> None:
    assert {str(kind) for kind in FORMATS} == {str(kind) for kind in formats.FORMATS}
    for kind, info in formats.FORMATS.items():
        own = FORMATS[Format(kind)]
        assert (own.media_type, own.extensions, own.uploadable) == (
            info.media_type,
            info.extensions,
            info.accepted,
        )


VECTOR = re.compile(r"^\| (?:`([\w=&]+)`)? ?\| (?:`\w+`)? ?\| `([\w-]{43})` \|$", re.MULTILINE)
"""A row of the test vectors in docs/http.md: a query and its signature."""

SIGNED_PARAMS: list[Any] = [
    {},
    {"w": 300},
    {"h": 20, "fit": "cover"},
    {"w": 300, "h": 200, "q": 80, "fit": "contain"},
    *({"w": 30, "fm": fm} for fm in ("jpg", "jpeg", "png", "webp", "avif", "auto", *DELIVERABLE)),
]


@pytest.mark.parametrize("params", SIGNED_PARAMS, ids=str)
def test_a_url_that_a_program_signs_is_that_of_the_host(host: FakeImageHost, params: Any) -> None:
    with host.client() as client, httpx2.Client(transport=host) as anonymous:
        image = client.upload(make_png(400, 300), is_public=False)
        key = client.renew_signing_secret().signing_key
        signed = client.images.signed_url(image, expires_in=600, **params)
        for expires_at in (signed.expires_at, int(signed.expires_at.timestamp())):
            assert urls.sign(image, key=key, expires_at=expires_at, **params) == signed.url
        short = urls.sign(image.id, key=key, expires_at=signed.expires_at, cdn_url=host.cdn_url, **params)
        assert anonymous.get(short).status_code == 200
        client.renew_signing_secret()
        assert anonymous.get(short).status_code == 404


def test_the_documented_test_vectors_are_those_of_the_client(workspace: Path) -> None:
    text = (workspace / "docs" / "http.md").read_text(encoding="utf-8")
    key = re.findall(r"`(ihsig_\w{43})`", text)[0]
    vectors = VECTOR.findall(text)
    assert len(vectors) == 5
    for query, signature in vectors:
        params: Any = {name: int(value) if value.isdigit() else value for name, value in parse_qsl(query)}
        url = urls.sign(
            "0123456789abcdef", key=key, expires_at=1_800_000_000, cdn_url="https://h/img", **params
        )
        assert url.endswith(f"exp=1800000000&sig={signature}")


def test_a_signing_key_deletes_no_image(host: FakeImageHost) -> None:
    with host.client() as client:
        stored = client.upload(make_png())
        key = urls._signing_key(client.renew_signing_secret().signing_key)
    expires = int(host.clock.now().timestamp()) + 600
    forged = {"exp": str(expires), "sig": sign_deletion(key, stored.id, expires)}
    with pytest.raises(errors.NotFoundError):
        host.core.images.delete_signed(stored.id, forged)


@pytest.mark.parametrize("key", ["", "ihsig_", "A" * 43, "ihsig_" + "A" * 42, "ihsig_" + "é" * 43])
def test_what_is_no_signing_key_is_refused_without_its_text(key: str) -> None:
    with pytest.raises(ValidationError, match="expected ihsig_") as caught:
        urls.sign(image(), key=key, expires_at=1)
    assert "AAA" not in str(caught.value)


@pytest.mark.parametrize("expires_at", [0, -1, True, 10**12, datetime(2026, 1, 1)])
def test_a_time_of_expiry_without_an_offset_is_refused(expires_at: Any) -> None:
    with pytest.raises(ValidationError, match="expires_at"):
        urls.sign(image(), key="ihsig_" + "A" * 43, expires_at=expires_at)
