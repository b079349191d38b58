"""Pages of JavaScript frameworks, built by their packages with the documented files, in Chromium."""

from __future__ import annotations

import io
import json
import os
import random
import re
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from attrs import frozen
from PIL import Image, ImageFilter, ImageStat
from tests.outside.browser.conftest import NO_LIMITS, _Handler
from tests.outside.browser.frameworks import FRAMEWORKS, Framework
from tests.outside.packages import install_npm, node_of_the_environment
from tests.shipped_files import ROOT, shipped
from tests.waiting import PATIENCE, wait_until

from imagehost_server.testing import RunningServer, environment, running

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page, Response, Route

FOLDER = "docs/integrations/frameworks"
WIDTH, HEIGHT = 900, 600
COLOUR = (40, 120, 60)
PRIVATE = (400, 600)
NO_REPORTS = {f"{name}_TELEMETRY_DISABLED": "1" for name in ("ASTRO", "NEXT", "NUXT")}
CANDIDATES = """() => [...document.images].flatMap((image) => image.srcset.split(/,\\s+/).filter(Boolean))"""
SHOWN = """() => [...document.images].every((image) =>
  image.complete && image.naturalWidth > 0 && image.currentSrc.startsWith("http"))"""
LOAD = """(urls) => Promise.all(urls.map((url) => new Promise((resolve) => {
  const image = new Image();
  image.onload = () => resolve(image.naturalWidth);
  image.onerror = () => resolve(0);
  image.src = url;
})))"""
"""Loads images as elements do, with the browser's `Accept`; returns the width of each, or 0."""


@frozen
class Images:
    """A public image of `WIDTH` by `HEIGHT` pixels, and a private one.

    Attributes:
        public: The record of the public image.
        private: The record of the private image.
        signed: The response to its signing.
    """

    public: dict[str, Any]
    private: dict[str, Any]
    signed: dict[str, Any]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server whose variants are never larger than their image."""
    variables = {**NO_LIMITS, "IMAGEHOST_DELIVERY_ENLARGE": "false"}
    with running(tmp_path_factory.mktemp("server") / "data", variables=variables) as server:
        yield server


def photograph(width: int, height: int) -> bytes:
    """Return a JPEG of soft spots around `COLOUR`, for which `auto` is AVIF or WebP."""
    pixels = bytes(
        value + random.Random(i).randrange(60) for i in range(width * height // 400) for value in COLOUR
    )
    small = Image.frombytes("RGB", (width // 20, height // 20), pixels)
    file = io.BytesIO()
    small.resize((width, height)).filter(ImageFilter.GaussianBlur(2)).save(file, "JPEG")
    return file.getvalue()


@pytest.fixture(scope="module")
def images(server: RunningServer) -> Images:
    headers = {"Authorization": f"Bearer {server.token}"}
    with httpx2.Client(base_url=server.base_url, headers=headers, timeout=PATIENCE) as client:

        def post(path: str, **options: Any) -> dict[str, Any]:
            data: dict[str, Any] = client.post(path, **options).raise_for_status().json()["data"]
            return data

        public = post(
            "/upload", files={"image": photograph(WIDTH, HEIGHT)}, data={"description": 'A "spot" & more'}
        )
        private = post("/upload", files={"image": photograph(*PRIVATE)}, data={"is_public": "false"})
        signed = post(f"/images/{private['id']}/signed-url", json={"w": PRIVATE[0], "fm": "auto"})
    return Images(public, private, signed)


def build(name: str, framework: Framework, project: Path, images: Images) -> Path:
    """Install the packages of a framework, build its documented page, and return the folder with it."""
    node, npm = node_of_the_environment()
    install_npm(project, framework.packages, (node, npm))
    for path in (ROOT / FOLDER / name).rglob("*"):
        if path.is_file():
            target = project / path.relative_to(ROOT / FOLDER / name)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(shipped(str(path.relative_to(ROOT))), encoding="utf-8")
    (project / "image.json").write_text(json.dumps(images.public), encoding="utf-8")
    (project / "signed.json").write_text(json.dumps(images.signed), encoding="utf-8")
    programs = os.pathsep.join((str(Path(node).parent), os.environ["PATH"]))
    done = subprocess.run(
        [node, *framework.build],
        cwd=project,
        env=environment({**NO_REPORTS, "PATH": programs}),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return project / framework.output


@pytest.fixture(params=FRAMEWORKS)
def site(
    request: pytest.FixtureRequest, tmp_path: Path, images: Images, context: BrowserContext
) -> Iterator[str]:
    """The URL of a page that was built by a framework."""
    folder = build(request.param, FRAMEWORKS[request.param], tmp_path, images)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=folder)) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{http.server_address[1]}/"
        finally:
            http.shutdown()
            thread.join()


def colour_of_the_first_image(page: Page) -> list[float]:
    """Return the mean colour of the middle of what is shown in the place of the first image."""
    box = page.locator("img").first.bounding_box()
    assert box is not None
    clip = {"x": box["x"] + 50, "y": box["y"] + 50, "width": 200, "height": 200}
    screenshot = page.screenshot(clip=clip)  # type: ignore[arg-type]
    return ImageStat.Stat(Image.open(io.BytesIO(screenshot)).convert("RGB")).mean


def test_a_page_of_a_framework_shows_images_in_sizes_that_exist_after_their_placeholders(
    site: str, images: Images, context: BrowserContext
) -> None:
    page = context.new_page()
    expected = pytest.approx([value + 30 for value in COLOUR], abs=25)
    held: list[Route] = []
    holds = True
    responses: dict[str, Response] = {}
    page.route("**/img/**", lambda route: held.append(route) if holds else route.continue_())
    page.on("response", lambda response: responses.update({response.url: response}))
    with page.expect_request("**/img/**"):
        page.goto(site, wait_until="domcontentloaded")
    page.wait_for_function("document.images.length == 2")
    wait_until(lambda: colour_of_the_first_image(page) == expected)
    holds = False
    for route in held:
        route.continue_()
    page.wait_for_function(SHOWN)
    wait_until(lambda: colour_of_the_first_image(page) == expected)
    candidates = [candidate.split() for candidate in page.evaluate(CANDIDATES)]
    candidates = [each for each in candidates if each[0] != images.signed["url"]]
    assert len(candidates) >= 2
    widths = page.evaluate(LOAD, [url for url, _ in candidates])
    for (url, descriptor), width in zip(candidates, widths, strict=True):
        requested = int(re.findall(r"[?&]w=(\d+)", url)[0])
        assert width == min(requested, WIDTH), url
        if descriptor.endswith("w"):
            assert requested == int(descriptor[:-1]), url
        assert responses[url].status == 200
    types = {responses[url].headers["content-type"] for url, _ in candidates}
    assert types - {"image/webp"} == {"image/avif"}, "expected what auto is for a photograph"
    assert responses[images.signed["url"]].status == 200
    assert page.evaluate(LOAD, [images.private["url"]]) == [0]
    assert page.locator("img").first.get_attribute("alt") == images.public["description"]


SIGN = """
import { signedSources } from "./signed.mjs";
const [id, baseUrl, token] = process.argv.slice(1);
console.log(JSON.stringify(await signedSources(id, [100, 200, 400], { baseUrl, token })));
"""


def test_the_sizes_of_a_private_image_that_the_server_of_a_page_signs_are_shown(
    server: RunningServer, images: Images, tmp_path: Path, page: Page
) -> None:
    (tmp_path / "signed.mjs").write_text(shipped(f"{FOLDER}/signed.mjs"), encoding="utf-8")
    node, _ = node_of_the_environment()
    arguments = (images.private["id"], server.base_url, server.token)
    command = [node, "--input-type=module", "--eval", SIGN, *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    sources = json.loads(done.stdout)
    candidates = [candidate.split() for candidate in sources["srcset"].split(", ")]
    assert [descriptor for _, descriptor in candidates] == ["100w", "200w", "400w"]
    assert page.evaluate(LOAD, [url for url, _ in candidates]) == [100, 200, 400]
    assert sources["src"] == candidates[-1][0]
