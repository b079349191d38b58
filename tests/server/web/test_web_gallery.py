"""The public pages: gallery, albums and images."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from html import unescape
from html.parser import HTMLParser
from urllib.parse import urlsplit

import httpx2
import pytest
from attrs import evolve
from PIL import Image as PILImage
from tests.animations import make_animation
from tests.open_host import open_host
from tests.screenshots import encode, photograph
from tests.server.in_process import serving
from tests.server.web.conftest import HTML, SETTINGS, SignedIn

from imagehost_core import Format, Image, ImageHost
from imagehost_core.resources import ImageRecord
from imagehost_core.settings import DeliverySettings
from imagehost_core.testing import make_image
from imagehost_server.auth.passwords import hash_password
from imagehost_server.settings import GallerySettings, WebSettings
from imagehost_server.web.pages.images import IMAGES_PER_PAGE

HOSTILE = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>&lt;javascript:"


class Tags(HTMLParser):
    """The tags of a page, with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def unescaped(page: str) -> str:
    """Return a page with the ampersands of its URLs, in attributes and in JSON."""
    return unescape(page).replace("\\u0026", "&")


def test_the_gallery_shows_public_images_only_and_pages_by_a_link(
    host: ImageHost, visitor: httpx2.Client
) -> None:
    images = [host.upload(make_image(30, 20), owner="admin", description=f"number {n}") for n in range(42)]
    private = host.upload(make_image(30, 20), owner="admin", is_public=False)
    seen, url = [], "/"
    while True:
        response = visitor.get(url)
        assert response.status_code == 200
        tags = Tags(response.text)
        seen += [link["href"] for link in tags.all("a") if (link["href"] or "").startswith("/i/")]
        following = [link["href"] for link in tags.all("a") if link.get("rel") == "next"]
        if not following:
            break
        url = str(following[0])
    expected = [f"/i/{image.id}" for image in reversed(images)]
    assert [path for path in seen if path in set(expected)] == expected
    assert len(seen) == len(set(seen))
    assert f"/i/{private.id}" not in seen


def test_images_of_the_grid_have_their_size_so_that_nothing_moves(
    host: ImageHost, visitor: httpx2.Client
) -> None:
    image = host.upload(make_image(300, 200), owner="admin", description="sized")
    (shown,) = [tag for tag in Tags(visitor.get("/").text).all("img") if tag["alt"] == "sized"]
    assert (shown["width"], shown["height"]) == ("300", "200")
    assert shown["src"] == host.urls.thumb(image)


@pytest.mark.parametrize(
    ("size", "is_small"), [((16, 16), True), ((120, 100), True), ((540, 200), False), ((230, 230), False)]
)
def test_an_image_fills_its_box_unless_that_would_enlarge_it_much(
    host: ImageHost, visitor: httpx2.Client, size: tuple[int, int], is_small: bool
) -> None:
    image = host.upload(make_image(*size), owner="admin")
    (box,) = re.findall(f'<li class="([^"]+)"><a href="/i/{image.id}"', visitor.get("/").text)
    assert ("small" in box.split()) is is_small


def long_animation() -> bytes:
    """Return a GIF of 300×300 pixels whose frames have more than 40 million pixels together."""
    frames = [PILImage.new("P", (300, 300)) for _ in range(450)]
    for number, frame in enumerate(frames):
        frame.putpalette([0, 0, 0, 255, 0, 0])
        frame.putpixel((number % 300, number // 300), 1)
    file = io.BytesIO()
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:], duration=20, disposal=1)
    return file.getvalue()


def plain(width: int, height: int) -> bytes:
    """Return a PNG of one colour."""
    file = io.BytesIO()
    PILImage.new("RGB", (width, height), "teal").save(file, "PNG", compress_level=1)
    return file.getvalue()


@pytest.mark.parametrize(
    "source",
    [
        lambda: make_image(700, 500),
        lambda: make_image(3, 2),
        lambda: make_image(8, 16_384),
        lambda: make_image(16_384, 8),
        lambda: plain(1, 65_535),
        lambda: make_animation(700, 500),
        long_animation,
    ],
    ids=["photograph", "tiny", "tall", "wide", "line", "animation", "long animation"],
)
def test_every_url_of_a_page_or_a_record_is_served(
    host: ImageHost, visitor: httpx2.Client, owner: httpx2.Client, source: Callable[[], bytes]
) -> None:
    image = host.upload(source(), owner="admin", convert_to_webp=False)
    refused = {}
    for path in emitted_paths(image, visitor, owner):
        response = visitor.get(path, headers={"Accept": "image/avif,image/webp,*/*"})
        if response.status_code != 200:
            refused[path] = response.status_code
    assert refused == {}


@pytest.mark.parametrize("size", [(1_290, 19_854), (200, 65_535), (65_535, 200)], ids=str)
def test_every_url_of_a_page_or_a_record_of_a_long_image_can_be_rendered(
    host: ImageHost, visitor: httpx2.Client, owner: httpx2.Client, size: tuple[int, int]
) -> None:
    image = host.upload(plain(*size), owner="admin", format="png")
    for path in emitted_paths(image, visitor, owner):
        if path.startswith("/img/"):
            url = urlsplit(path.removeprefix("/img/"))
            for accept in ("image/avif,image/webp,*/*", "image/webp", "*/*"):
                host.delivery.resolve(url.path, url.query, accept=accept)


def emitted_paths(image: Image, visitor: httpx2.Client, owner: httpx2.Client) -> set[str]:
    """Return the paths and queries of the image and its assets that its pages and its record name."""
    base = SETTINGS.base_url.removesuffix("/v1")
    described = f"/oembed?url={base}/i/{image.id}"
    texts = [visitor.get(path).text for path in (f"/i/{image.id}", "/", described)]
    texts += [owner.get(path).text for path in (f"/images/{image.id}", "/images")]
    texts.append(str(ImageRecord.of(image)))
    found = "".join(map(unescaped, texts)).replace("\\/", "/")
    paths = set(
        re.findall(
            rf"(?:{base})?(/(?:img/{image.id}|assets)[^\"' )\[\]&<>]*(?:&[a-z]+=[^\"' )\[&<>]*)*)", found
        )
    )
    assert len(paths) > 5
    return paths


@pytest.mark.parametrize("accept", ["*/*", "image/png,image/*;q=0.8", ""])
def test_the_main_image_of_a_page_is_shown_by_clients_without_webp(
    host: ImageHost, visitor: httpx2.Client, accept: str
) -> None:
    image = host.upload(encode(photograph(700, 500), "JPEG"), owner="admin")
    assert image.format is Format.WEBP
    (shown,) = [
        tag for tag in Tags(visitor.get(f"/i/{image.id}").text).all("img") if tag.get("fetchpriority")
    ]
    urls = [shown["src"], *(part.split()[0] for part in (shown["srcset"] or "").split(", "))]
    for url in urls:
        path = httpx2.URL(url or "").raw_path.decode()
        assert visitor.get(path, headers={"Accept": accept}).headers["content-type"] == "image/jpeg"


@pytest.mark.parametrize("state", ["private", "deleted", "suspended", "unknown"])
def test_the_page_of_an_image_that_is_not_public_is_the_404_of_an_unknown_one(
    host: ImageHost, visitor: httpx2.Client, state: str
) -> None:
    image = host.upload(make_image(30, 20), owner=host.accounts.get_or_create("carol").name)
    assert visitor.get(f"/i/{image.id}").status_code == 200
    host.accounts.update("carol", suspended=state == "suspended")
    if state == "private":
        host.images.update(image, is_public=False)
    elif state == "deleted":
        host.images.delete(image)
    image_id = "0" * 16 if state == "unknown" else image.id
    page = visitor.get(f"/i/{image_id}")
    assert (page.status_code, "<h1>Not found</h1>" in page.text) == (404, True)
    assert page.text.count("Not found") == 2, "expected it as the title and the heading"
    described = visitor.get(f"/oembed?url={SETTINGS.base_url.removesuffix('/v1')}/i/{image_id}", headers=HTML)
    assert (described.status_code, described.json()["error"]["code"]) == (404, "NOT_FOUND")
    host.accounts.update("carol", suspended=False)


def test_the_page_of_a_private_album_is_a_404(host: ImageHost, visitor: httpx2.Client) -> None:
    album = host.albums.create(owner="admin", name="Holidays <b>", description="By the sea")
    host.upload(make_image(30, 20), owner="admin", album_id=album.id, description="beach")
    page = visitor.get(f"/a/{album.id}").text
    assert "Holidays &lt;b&gt;" in page
    assert "By the sea" in page
    assert 'alt="beach"' in page
    host.albums.update(album, owner="admin", is_public=False)
    for album_id in (album.id, 999_999, "x"):
        assert visitor.get(f"/a/{album_id}").status_code == 404


def test_file_names_and_descriptions_are_text_wherever_they_appear(
    host: ImageHost, visitor: httpx2.Client, owner: httpx2.Client
) -> None:
    album = host.albums.create(owner="admin", name=HOSTILE[:90], description=HOSTILE)
    image = host.upload(
        make_image(700, 500), owner="admin", filename=f"{HOSTILE}.png", description=HOSTILE, album_id=album.id
    )
    pages = ["/", f"/i/{image.id}", f"/a/{album.id}"]
    texts = [client.get(path).text for client in (visitor, owner) for path in pages] + [
        owner.get("/upload").text
    ]
    for text in texts:
        tags = Tags(text)
        assert not [tag for tag in tags.all("img") if tag.get("src") == "x"]
        assert {tag.get("type") for tag in tags.all("script")} <= {
            "module",
            "application/json",
            "application/ld+json",
        }
        assert not [name for _, attributes in tags.tags for name in attributes if name.startswith("on")]
        assert all(
            "javascript:" not in (value or "")[:12] for tag in tags.all("a") for value in [tag.get("href")]
        )
    (structured,) = re.findall(r'<script type="application/ld\+json">(.*?)</script>', texts[1], re.DOTALL)
    assert json.loads(structured)["name"] == " ".join(HOSTILE.split())


def test_a_link_to_an_image_is_shown_by_chats_and_blogs(host: ImageHost, visitor: httpx2.Client) -> None:
    image = host.upload(make_image(2000, 1000), owner="admin", description="Two & two")
    tags = Tags(visitor.get(f"/i/{image.id}").text)
    members = {
        tag.get("property") or tag.get("name"): tag["content"] for tag in tags.all("meta") if "content" in tag
    }
    assert members["og:title"] == "Two & two"
    assert (members["og:image:width"], members["og:image:height"]) == ("1280", "640")
    assert members["twitter:card"] == "summary_large_image"
    preview = httpx2.URL(str(members["og:image"]))
    shown = visitor.get(preview.raw_path.decode())
    assert (shown.status_code, shown.headers["content-type"]) == (200, "image/jpeg")
    (link,) = [tag for tag in tags.all("link") if tag.get("type") == "application/json+oembed"]
    path = httpx2.URL(str(link["href"])).raw_path.decode()
    described = visitor.get(path).json()
    assert (described["version"], described["type"], described["width"]) == ("1.0", "photo", 1280)
    smaller = visitor.get(f"{path}&maxwidth=400&maxheight=100").json()
    assert (smaller["width"], smaller["height"]) == (200, 100)
    assert visitor.get(f"{path}&maxwidth=0").status_code == 400
    unsupported = visitor.get(f"{path}&format=xml", headers=HTML)
    assert (unsupported.status_code, unsupported.json()["error"]["code"]) == (501, "NOT_IMPLEMENTED")
    assert visitor.get(f"{path}%2F").json() == described
    assert visitor.get(f"/i/{image.id}/").text == visitor.get(f"/i/{image.id}").text
    assert visitor.get("/oembed?url=https://example.com/i/0123456789abcdef").status_code == 404


def card_of(page: str) -> dict[str, str]:
    """Return the members of the link card of a page, the last one of each name."""
    tags = Tags(page).all("meta")
    return {tag.get("property") or tag.get("name") or "": tag.get("content") or "" for tag in tags}


def test_album_share_and_gallery_describe_themselves_in_link_cards(
    host: ImageHost, visitor: httpx2.Client
) -> None:
    album = host.albums.create(owner="admin", name="Two \n & two", description="Text  of\nan album")
    private = host.albums.create(owner="admin", name="Shared", is_public=False)
    for target in (album, private):
        host.upload(make_image(600, 400), owner="admin", album_id=target)
    token = host.albums.create_share(private, owner="admin").token
    (member,) = host.images.list(owner="admin", album_id=private)
    site = SETTINGS.base_url.removesuffix("/v1")
    for path, title, description in (
        ("/", "Public images", "image"),
        (f"/a/{album.id}", album.name, "Text of an album · 1 image"),
        (f"/s/{token}", "Shared", "1 image"),
        (f"/s/{token}/{member.id}", "image", "600 × 400 pixels"),
    ):
        card = card_of(visitor.get(path).text)
        assert card["og:title"] == title
        assert description in card["og:description"]
        assert card["og:url"] == f"{site}{path}"
        assert (card["twitter:card"], card["og:image:type"]) == ("summary_large_image", "image/jpeg")
        shown = visitor.get(httpx2.URL(card["og:image"]).raw_path.decode())
        assert (shown.status_code, shown.headers["content-type"]) == (200, "image/jpeg")


def test_what_needs_a_password_is_not_described(host: ImageHost, visitor: httpx2.Client) -> None:
    album = host.albums.create(owner="admin", name="Behind a password", is_public=False)
    host.upload(make_image(300, 200), owner="admin", album_id=album)
    password_hash = hash_password("correct horse battery")
    share = host.albums.create_share(album, owner="admin", password_hash=password_hash)
    page = visitor.get(f"/s/{share.token}")
    assert page.status_code == 403
    assert "og:" not in page.text
    assert album.name not in page.text


@pytest.mark.parametrize(
    ("width", "height", "shown"),
    [
        (1290, 9000, (200, 1280)),
        (4000, 100, (1280, 200)),
        (20, 10, (200, 200)),
        (300, 100, (300, 200)),
        (1600, 1600, (1280, 1280)),
    ],
)
def test_the_image_of_a_link_card_is_within_the_limits_of_sites(
    host: ImageHost, visitor: httpx2.Client, width: int, height: int, shown: tuple[int, int]
) -> None:
    noise = PILImage.effect_noise((min(width, 1280), min(height, 1280)), 200).resize((width, height))
    file = io.BytesIO()
    noise.save(file, "JPEG", quality=95)
    image = host.upload(file.getvalue(), owner="admin")
    card = card_of(visitor.get(f"/i/{image.id}").text)
    assert (int(card["og:image:width"]), int(card["og:image:height"])) == shown
    data = visitor.get(httpx2.URL(card["og:image"]).raw_path.decode()).content
    assert len(data) <= 300_000
    with PILImage.open(io.BytesIO(data)) as sent:
        assert (sent.format, sent.size) == ("JPEG", shown)


def test_the_images_of_the_link_card_of_an_animation_are_within_the_limits_of_sites(
    host: ImageHost, visitor: httpx2.Client
) -> None:
    frames = [PILImage.effect_noise((500, 400), 200 + number) for number in range(4)]
    file = io.BytesIO()
    frames[0].save(file, "WEBP", save_all=True, append_images=frames[1:], duration=80, quality=50)
    image = host.upload(file.getvalue(), owner="admin")
    page = visitor.get(f"/i/{image.id}").text
    urls = [tag["content"] or "" for tag in Tags(page).all("meta") if tag.get("property") == "og:image"]
    gif, still = (visitor.get(httpx2.URL(url).raw_path.decode()).content for url in urls)
    assert max(len(gif), len(still)) <= 300_000
    with PILImage.open(io.BytesIO(gif)) as shown:
        assert (shown.format, shown.size) == ("GIF", (400, 320))
        durations = 0
        for number in range(getattr(shown, "n_frames", 1)):
            shown.seek(number)
            durations += shown.info["duration"]
    assert durations == 4 * 80


def test_pages_allow_no_inline_code_and_no_other_origin(visitor: httpx2.Client, owner: httpx2.Client) -> None:
    for client, paths in ((visitor, ("/", "/login", "/nothing")), (owner, ("/upload",))):
        for path in paths:
            response = client.get(path)
            policy = response.headers["content-security-policy"]
            assert policy.startswith("default-src 'none'")
            assert "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
            assert " style=" not in response.text
            loaded = re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="([^"#]+)"', response.text)
            assert loaded
            assert all(url.startswith(("/", SETTINGS.base_url.removesuffix("/v1"))) for url in loaded)


def test_pages_of_a_session_are_never_stored(visitor: httpx2.Client, owner: httpx2.Client) -> None:
    assert visitor.get("/").headers["cache-control"] == "no-cache"
    assert owner.get("/").headers["cache-control"] == "no-store"
    assert "Cookie" in visitor.get("/").headers["vary"]


def test_an_asset_is_cached_for_a_year_and_compressed_under_a_path_that_names_its_content(
    visitor: httpx2.Client,
) -> None:
    (path, *_) = re.findall(r'href="(/assets/[^"]+/style.css)"', visitor.get("/").text)
    compressed = visitor.get(path, headers={"Accept-Encoding": "gzip"})
    plain = visitor.get(path, headers={"Accept-Encoding": "identity"})
    assert compressed.headers["content-encoding"] == "gzip"
    assert compressed.content == plain.content
    assert "immutable" in plain.headers["cache-control"]
    assert plain.headers["content-type"] == "text/css; charset=utf-8"
    for other in (path.replace("/style", "/nothing"), "/assets/0/style.css", "/assets/../pyproject.toml"):
        assert visitor.get(other).status_code == 404


def test_unknown_paths_are_a_page_for_browsers_and_json_for_programs(visitor: httpx2.Client) -> None:
    page = visitor.get("/nothing")
    assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert page.headers["x-request-id"] in page.text
    assert visitor.get("/nothing", headers={"Accept": "*/*"}).json()["success"] is False
    for path in ("/v1/nothing", "/api/v1/nothing", "/integrations/nothing", "/img/nothing"):
        assert visitor.get(path).json()["error"]["code"] == "NOT_FOUND"


def test_the_gallery_is_searched_and_its_link_to_more_keeps_the_search(
    host: ImageHost, visitor: httpx2.Client
) -> None:
    for number in range(IMAGES_PER_PAGE + 1):
        host.upload(make_image(4, 4), owner="admin", description=f"lighthouse & {number}")
    page = visitor.get("/?q=+lightho+").text
    assert page.count("<li class=") == IMAGES_PER_PAGE
    assert 'name="q" maxlength="100" value="lightho"' in page
    more = unescaped(page).partition('id="more" rel="next" href="')[2].partition('"')[0]
    assert visitor.get(more).text.count("<li class=") == 1
    none = visitor.get("/?q=lighthouse+%22%3E").text
    assert 'value="lighthouse &#34;&gt;"' in none
    missing = visitor.get("/?q=missing")
    assert (missing.status_code, missing.text.count("<li class=")) == (200, 0)
    assert "No images match." in missing.text
    assert visitor.get(f"/?q={'x' * 101}").status_code == 400
    assert visitor.get("/a/1?q=x").status_code == visitor.get("/a/1").status_code


def test_an_invalid_cursor_is_an_error_page(visitor: httpx2.Client) -> None:
    response = visitor.get("/?cursor=x")
    assert response.status_code == 400
    assert "This link is of an older list" in response.text


def test_pages_are_in_the_language_that_the_browser_prefers(visitor: httpx2.Client) -> None:
    assert '<html lang="en">' in visitor.get("/").text
    german = visitor.get("/", headers={"Accept-Language": "fr;q=0.9, de-AT;q=0.8, en;q=0.5"})
    assert '<html lang="de">' in german.text
    assert "Öffentliche Bilder" in german.text


def test_a_closed_gallery_sends_visitors_to_the_sign_in_page_and_back() -> None:
    settings = evolve(SETTINGS, gallery=GallerySettings(require_sign_in=True))
    host = open_host(settings=settings)
    image = host.upload(make_image(30, 20), owner="admin")
    album = host.albums.create(owner="admin", name="Album")
    with serving(host, settings) as origin, httpx2.Client(base_url=origin, headers=HTML) as client:
        session = SignedIn(host)
        for path in ("/", f"/i/{image.id}", f"/a/{album.id}"):
            response = client.get(path)
            assert (response.status_code, response.headers["location"]) == (303, f"/login?next={path}")
            assert client.get(path, headers=session.headers).status_code == 200
            # The cookie is not sent with a navigation from another site: the page requests itself again.
            foreign = client.get(path, headers={"Sec-Fetch-Site": "cross-site"})
            assert foreign.status_code == 200
            assert 'http-equiv="refresh"' in foreign.text
            assert "og:image" not in foreign.text


def test_search_engines_list_what_the_operator_allows() -> None:
    for listed in (True, False):
        settings = evolve(SETTINGS, web=WebSettings(listed=listed))
        with (
            serving(open_host(settings=settings), settings) as origin,
            httpx2.Client(base_url=origin, headers=HTML) as client,
        ):
            assert ("noindex" in client.get("/").headers.get("x-robots-tag", "")) is not listed
            assert client.get("/login").headers["x-robots-tag"] == "noindex"


def test_where_variants_are_restricted_pages_use_thumbnails_and_masters() -> None:
    for delivery in (DeliverySettings(require_signed=True), DeliverySettings(allowed_sizes=("100x100",))):
        settings = evolve(SETTINGS, delivery=delivery)
        host = open_host(settings=settings)
        image = host.upload(make_image(700, 500), owner="admin")
        with serving(host, settings) as origin, httpx2.Client(base_url=origin, headers=HTML) as client:
            for path in ("/", f"/i/{image.id}"):
                page = unescaped(client.get(path).text)
                assert "srcset" not in page
                for url in set(re.findall(r'"http://testserver.local:8000(/img/[^"]+)"', page)):
                    assert client.get(url).status_code == 200, url


def test_without_pages_the_api_stays_as_it_is() -> None:
    settings = evolve(SETTINGS, web=WebSettings(enabled=False))
    with (
        serving(open_host(settings=settings), settings) as origin,
        httpx2.Client(base_url=origin, headers=HTML) as client,
    ):
        for path in ("/", "/login", "/upload", "/robots.txt"):
            assert client.get(path).json()["error"]["code"] == "NOT_FOUND"
        assert client.get("/v1/gallery").status_code == 200


def test_pages_are_limited_by_ip_address() -> None:
    settings = evolve(SETTINGS, limits=evolve(SETTINGS.limits, pages_per_minute=2))
    with (
        serving(open_host(settings=settings), settings) as origin,
        httpx2.Client(base_url=origin, headers=HTML) as client,
    ):
        statuses = [client.get("/").status_code for _ in range(6)]
        # The window may end between two requests.
        assert statuses.count(200) in (2, 3, 4)
        refused = client.get("/login")
        if refused.status_code == 429:
            assert int(refused.headers["retry-after"]) in range(1, 61)
        assert client.get("/v1/gallery").status_code == 200
