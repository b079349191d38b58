"""Image and album records, their URLs and their embed snippets."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from imagehost_core.formats import FORMATS, Format
from imagehost_core.models import THUMB_SIDE, Album, Image, Links, UrlBuilder
from imagehost_core.resources import AlbumRecord, ImageRecord, PublicImageRecord
from imagehost_core.transform import Size, parse_transform, plan

URLS = UrlBuilder("https://img.example/v1", "https://cdn.example/i")
URL = "https://cdn.example/i/4fTq0ZrXb81KcVnE.webp"


@pytest.fixture(scope="session")
def image(image: Image) -> Image:
    """Return the photo, of a host that has a base URL."""
    return attrs.evolve(image, urls=URLS)


@pytest.fixture(scope="session")
def album(album: Album, image: Image) -> Album:
    """Return the album, with that photo as its cover."""
    return attrs.evolve(album, cover=image)


IMAGE_FIELDS = """id album_id filename original_filename description is_public format mime_type size width
height is_animated frames has_alpha sha256 placeholder url thumb_url links created_at updated_at taken_at"""
PUBLIC_FIELDS = "id description width height is_animated placeholder url thumb_url created_at"
ALBUM_FIELDS = """id name description is_public image_count public_image_count cover_image_id cover_url
created_at updated_at"""

HOSTILE = [
    '"><script>alert(1)</script>',
    "' onerror='alert(1)",
    "](javascript:alert(1))",
    "![x](y)",
    "\\](evil)",
    "`code` *bold* _it_ ~~no~~ <b> & | !",
    "one\ntwo\r\nthree\u2028four",
    "[img]x[/img]",
    "</a>",
]


class Tags(HTMLParser):
    """A parser that collects the tags, attributes and text of HTML."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data: str) -> None:
        self.text += data


def markdown_text(link: str) -> str:
    """Return the unescaped text of a Markdown image; fail unless the link is exactly one image."""
    match = re.fullmatch(r"!\[((?:\\[!-/:-@\[-`{-~]|[^\\\[\]`*_<>&!|~()])*)\]\(([^()\s]+)\)", link)
    assert match is not None, link
    assert match[2] == URL
    return re.sub(r"\\(.)", r"\1", match[1])


@pytest.mark.parametrize(
    ("record", "names"),
    [
        (ImageRecord, IMAGE_FIELDS),
        (PublicImageRecord, PUBLIC_FIELDS),
        (AlbumRecord, ALBUM_FIELDS),
        (Links, "url html markdown bbcode"),
    ],
)
def test_a_record_has_exactly_the_documented_fields(record: type[attrs.AttrsInstance], names: str) -> None:
    assert [attribute.name for attribute in attrs.fields(record)] == names.split()


def test_an_image_record_has_the_values_of_the_image(image: Image) -> None:
    record = ImageRecord.of(image)
    values = attrs.asdict(record, recurse=False)
    stored = attrs.asdict(image, recurse=False)
    assert {name: values[name] for name in values if name in stored} == {
        name: stored[name] for name in stored if name in values
    }
    assert (record.mime_type, record.is_animated) == ("image/webp", False)
    assert (record.url, record.links.url) == (URL, URL)


def test_a_public_record_contains_neither_file_name_nor_owner_nor_album(image: Image) -> None:
    renamed = attrs.evolve(image, filename="me-at-home.webp", original_filename="me-at-home.jpg")
    assert "me-at-home" not in repr(PublicImageRecord.of(renamed))
    assert PublicImageRecord.of(image).url == URL


def test_an_album_record_has_the_cover(album: Album) -> None:
    record = AlbumRecord.of(album)
    assert album.cover is not None
    assert record.cover_image_id == album.cover.id
    assert record.cover_url == f"{URL}?w=320&h=320&fit=inside"
    assert (record.name, record.image_count, record.is_public) == ("Cats", 1, False)


def test_an_empty_album_has_no_cover(album: Album) -> None:
    record = AlbumRecord.of(attrs.evolve(album, cover=None, image_count=0))
    assert (record.cover_image_id, record.cover_url) == (None, None)


@pytest.mark.parametrize("fmt", Format)
def test_the_url_of_an_image_has_the_extension_of_the_stored_format(image: Image, fmt: Format) -> None:
    url = URLS.image(attrs.evolve(image, format=fmt))
    assert url == f"https://cdn.example/i/4fTq0ZrXb81KcVnE.{FORMATS[fmt].extensions[0]}"


def test_the_url_of_a_variant_has_its_query_and_extension(image: Image) -> None:
    assert URLS.image(image, "w=5") == f"{URL}?w=5"
    assert URLS.image(image, "w=5", "gif") == "https://cdn.example/i/4fTq0ZrXb81KcVnE.gif?w=5"
    assert URLS.image(image, extension="auto").endswith(".auto")


@pytest.mark.parametrize(
    ("width", "height", "query"),
    [
        (320, 320, ""),
        (1, 1, ""),
        (321, 1, "?w=320&h=320&fit=inside"),
        (1, 321, "?w=320&h=320&fit=inside"),
        (4_000, 3_000, "?w=320&h=320&fit=inside"),
    ],
)
def test_a_thumbnail_is_a_webp_and_a_small_image_is_not_enlarged(
    image: Image, width: int, height: int, query: str
) -> None:
    small = attrs.evolve(image, width=width, height=height, format=Format.PNG)
    assert URLS.thumb(small) == URL + query


@given(width=st.integers(1, 16_384), height=st.integers(1, 16_384), frames=st.just(1) | st.integers(1, 1_000))
@example(width=320, height=320, frames=390)
@example(width=320, height=320, frames=391)
@example(width=16_384, height=1, frames=1_000)
def test_the_thumbnail_of_every_image_can_be_rendered_and_fits_its_box(
    image: Image, width: int, height: int, frames: int
) -> None:
    url = URLS.thumb(attrs.evolve(image, width=width, height=height, frames=frames))
    extension, _, query = url.removeprefix("https://cdn.example/i/4fTq0ZrXb81KcVnE.").partition("?")
    transform = parse_transform(query, extension=extension)
    assert isinstance(transform.format, Format)
    info = FORMATS[transform.format]
    output = plan(Size(width, height), transform, max_side=info.max_side).output
    assert max(output.width, output.height) <= THUMB_SIDE
    assert output.width <= max(1, width)
    assert output.height <= max(1, height)


def test_a_thumbnail_is_animated_up_to_390_frames(image: Image) -> None:
    animated, still = (attrs.evolve(image, frames=frames) for frames in (390, 391))
    assert ".webp" in URLS.thumb(animated)
    assert ".jpg" in URLS.thumb(still)


@given(st.text(max_size=50) | st.sampled_from(HOSTILE))
@example('"')
@example("\\")
@example(" \n\t ")
def test_the_html_snippet_is_one_image_for_any_description(image: Image, text: str) -> None:
    described = attrs.evolve(image, description=text)
    html = Tags(URLS.links(described).html)
    ((tag, attributes),) = html.tags
    assert (tag, html.text) == ("img", "")
    assert attributes == {
        "src": URL,
        "alt": " ".join(text.split()) or "cat.webp",
        "width": "2725",
        "height": "2225",
    }


@given(st.text(max_size=50) | st.sampled_from(HOSTILE))
@example("\\")
@example(" \n\t ")
def test_the_markdown_snippet_is_one_image_for_any_description(image: Image, text: str) -> None:
    described = attrs.evolve(image, description=text)
    assert markdown_text(URLS.links(described).markdown) == (" ".join(text.split()) or "cat.webp")


@given(st.text(max_size=50) | st.sampled_from(HOSTILE))
def test_a_snippet_is_one_line(image: Image, text: str) -> None:
    links = URLS.links(attrs.evolve(image, description=text))
    assert all(len(link.splitlines()) == 1 for link in attrs.astuple(links))


@given(st.text(max_size=50) | st.sampled_from(HOSTILE))
def test_the_bbcode_snippet_contains_only_the_url(image: Image, text: str) -> None:
    assert URLS.links(attrs.evolve(image, description=text)).bbcode == f"[img]{URL}[/img]"


def test_without_a_description_snippets_contain_the_file_name(image: Image) -> None:
    links = URLS.links(attrs.evolve(image, filename="a_b<c>.webp"))
    assert links.markdown == f"![a\\_b\\<c\\>.webp]({URL})"
    assert 'alt="a_b&lt;c&gt;.webp"' in links.html
