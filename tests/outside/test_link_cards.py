"""Link cards as programs of others read them from the pages: title, description, image, and oEmbed."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import httpx2
import pytest
from PIL import Image
from tests.animations import make_animation
from tests.outside.conftest import CARD_PROPERTY
from tests.outside.generators.run import run
from tests.outside.packages import install_npm, install_python
from tests.server.conftest import NO_LIMITS

from imagehost_core import ImageHost
from imagehost_core.testing import make_image
from imagehost_server.testing import RunningServer, running

pytestmark = pytest.mark.external

NPM = {"open-graph-scraper": "6.12.0", "unfurl.js": "6.4.0"}
PYPI = {"linkpreview": "0.13.2"}
MAX_SIDE, MIN_SIDE, MAX_BYTES = 1_280, 200, 300_000
READ_BY_NODE = """
import ogs from "open-graph-scraper";
import { unfurl } from "unfurl.js";
const read = {};
for (const url of process.argv.slice(2)) {
  const { result } = await ogs({ html: await (await fetch(url)).text() });
  const still = result.ogImage.find((image) => image.type === "image/jpeg");
  const card = await unfurl(url);
  read[url] = {
    "open-graph-scraper": [result.ogTitle, result.ogDescription, still.url, result.twitterCard],
    "unfurl.js": [
      card.open_graph.title, card.open_graph.description, card.open_graph.images.at(-1).url,
      card.twitter_card.card,
    ],
    oembed: card.oEmbed ?? null,
  };
}
console.log(JSON.stringify(read));
"""
READ_BY_PYTHON = """
import json, sys
from linkpreview import link_preview
cards = {url: link_preview(url) for url in sys.argv[1:]}
print(json.dumps({url: [card.title, card.description, card.absolute_image] for url, card in cards.items()}))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server without rate limits, over HTTP: programs trust no certificate of a test."""
    with running(tmp_path_factory.mktemp("cards") / "data", variables=NO_LIMITS) as server:
        yield server


@pytest.fixture(scope="module")
def pages(server: RunningServer) -> dict[str, tuple[str, str]]:
    """The pages by what they show: URL and the title that they have to have."""
    with ImageHost.open(server.data) as host:
        album = host.albums.create("Trip & sea", owner="admin", description="Two\n days")
        private = host.albums.create("Shared", owner="admin", is_public=False)
        noise = Image.effect_noise((1_000, 9_000), 200)
        long = io.BytesIO()
        noise.save(long, "PNG")
        images = {
            "image": (make_image(2_000, 1_500), "harbour.png", album.id),
            "animation": (make_animation(800, 400), "moving.gif", None),
            "long screenshot": (long.getvalue(), "long.png", None),
            "small image": (make_image(90, 60), "small.png", private.id),
        }
        uploaded = {
            name: host.upload(data, owner="admin", filename=filename, album_id=album_id)
            for name, (data, filename, album_id) in images.items()
        }
        token = host.albums.create_share(private, owner="admin").token
    shown = {name: uploaded[name].id for name in ("image", "animation", "long screenshot")}
    titles = {"image": "harbour", "animation": "moving", "long screenshot": "long"}
    return {
        **{name: (f"{server.origin}/i/{id_}", titles[name]) for name, id_ in shown.items()},
        "album": (f"{server.origin}/a/{album.id}", "Trip & sea"),
        "share": (f"{server.origin}/s/{token}", "Shared"),
        "gallery": (f"{server.origin}/", "Public images"),
    }


@pytest.fixture(scope="module")
def cards(
    pages: Mapping[str, tuple[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    """What each program reads from each page, by URL and program; `oembed` is what unfurl.js reads there."""
    directory = tmp_path_factory.mktemp("scrapers")
    install_npm(directory, NPM)
    programs = install_python(directory / "python", PYPI)
    (directory / "read.mjs").write_text(READ_BY_NODE, encoding="utf-8")
    urls = [url for url, _ in pages.values()]
    read: list[dict[str, Any]] = []
    for command in (["node", "read.mjs"], [programs / "python", "-c", READ_BY_PYTHON]):
        process = run([*command, *urls], directory)
        assert process.returncode == 0, process.stdout
        read.append(json.loads(process.stdout.splitlines()[-1]))
    return {url: {**read[0][url], "linkpreview": read[1][url]} for url in urls}


@pytest.mark.parametrize("shown", ["image", "animation", "long screenshot", "album", "share", "gallery"])
def test_three_programs_read_the_title_and_an_image_within_the_limits_of_a_page(
    shown: str,
    pages: Mapping[str, tuple[str, str]],
    cards: Mapping[str, Mapping[str, Any]],
    record_property: Callable[[str, object], None],
) -> None:
    url, expected_title = pages[shown]
    row = {"page": shown, **dict.fromkeys((*NPM, *PYPI), "NO"), "oEmbed": "-", "image": "-"}
    record_property(CARD_PROPERTY, row)
    for name in (*NPM, *PYPI):
        title, description, image, *kind = cards[url][name]
        assert (title, kind) == (expected_title, ["summary_large_image"] * len(kind))
        assert description
        width, height, size = size_of(image)
        row |= {name: "yes", "image": f"{width} × {height}, {size / 1000:.0f} kB"}
    described = cards[url]["oembed"]
    assert (described is not None) == ("/i/" in url)
    if described is not None:
        row["oEmbed"] = "NO"
        assert (described["type"], described["title"]) == ("photo", expected_title)
        assert size_of(described["url"])[:2] == (described["width"], described["height"])
        row["oEmbed"] = "yes"


def size_of(url: str) -> tuple[int, int, int]:
    """Return width, height and bytes of the image of a card, which are within the limits of sites."""
    data = httpx2.get(url).raise_for_status().content
    with Image.open(io.BytesIO(data)) as image:
        width, height = image.size
    assert len(data) <= MAX_BYTES
    assert MIN_SIDE <= min(width, height) <= max(width, height) <= MAX_SIDE
    return width, height, len(data)
