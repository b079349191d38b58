"""Make the images of README and the documentation by a running server, and measure the gallery.

Usage: `uv run .ci/web_screenshots.py DIRECTORY`. Needs `chromium` and playwright. The images are drawn here.
"""

from __future__ import annotations

import io
import random
import shutil
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import httpx2
from PIL import Image, ImageDraw, ImageFilter
from playwright.sync_api import sync_playwright

from imagehost_server.testing import RunningServer, running

if TYPE_CHECKING:
    from playwright.sync_api import Browser, FilePayload, Page, Response, ViewportSize

IMAGES = 200
ROUNDS = 9
PASSWORD = "correct horse battery staple"  # noqa: S105 - of a server of seconds
VIEWPORT: ViewportSize = {"width": 1280, "height": 800}
MAX_BYTES = 60_000
README_VIEWPORT: ViewportSize = {"width": 900, "height": 760}
VARIANTS = {
    "width": "w=320",
    "cover": "w=160&h=160&fit=cover",
    "contain": "w=160&h=160&fit=contain",
    "small": "w=160",
}
"""The variants that the first page of the documentation shows, by the end of their file's name."""
SIZES = ((900, 600), (600, 900), (800, 800), (1200, 600), (1000, 750))
UNLIMITED = {
    f"IMAGEHOST_LIMITS_{name}_PER_{window}": "0"
    for name, window in (
        ("API", "MINUTE"),
        ("API", "HOUR"),
        ("UPLOADS", "MINUTE"),
        ("PAGES", "MINUTE"),
        ("UNAUTHENTICATED", "MINUTE"),
    )
}
PAINT = """() => new Promise((resolve) => new PerformanceObserver((list) => {
  const paint = list.getEntriesByName("first-contentful-paint")[0];
  if (paint) resolve(paint.startTime);
}).observe({type: "paint", buffered: true}))"""

SHIFTS = """window.shifts = 0; new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifts += entry.value;
}).observe({type: "layout-shift", buffered: true});"""


def draw(number: int) -> bytes:
    """Return a landscape of a gradient, a sun and hills."""
    source = random.Random(number)  # noqa: S311 - a drawing
    width, height = SIZES[number % len(SIZES)]
    top, bottom = ([source.randrange(40, 250) for _ in range(3)] for _ in range(2))
    image = Image.new("RGB", (1, height))
    for y in range(height):
        share = y / height
        image.putpixel((0, y), tuple(round(a + (b - a) * share) for a, b in zip(top, bottom, strict=True)))
    image = image.resize((width, height))
    canvas = ImageDraw.Draw(image)
    radius, x = height // 9, source.randrange(width)
    canvas.ellipse((x - radius, height // 5, x + radius, height // 5 + 2 * radius), fill=(255, 236, 200))
    for layer in range(3):
        shade = tuple(channel * (3 - layer) // 5 for channel in bottom)
        base = height * (5 + layer) // 8
        points = [(x, base - source.randrange(height // 6)) for x in range(0, width + 60, width // 6)]
        canvas.polygon([(0, height), *points, (width, height)], fill=shade)
    file = io.BytesIO()
    image.filter(ImageFilter.GaussianBlur(2)).save(file, "JPEG", quality=80)
    return file.getvalue()


def fill(server: RunningServer) -> str:
    """Upload the images, and return the id of the last one."""
    headers = {"Authorization": f"Bearer {server.token}"}
    with httpx2.Client(base_url=server.base_url, headers=headers, timeout=60) as client:
        album = client.post("/albums", json={"name": "Hills"}).raise_for_status().json()["data"]["id"]
        image_id = ""
        for number in range(IMAGES):
            fields = {"description": f"Hills {number + 1}"}
            if number > IMAGES - 20:
                fields["album_id"] = str(album)
            files = {"image": (f"hills-{number + 1}.jpg", draw(number))}
            response = client.post("/upload", files=files, data=fields).raise_for_status()
            image_id = response.json()["data"]["id"]
    return image_id


def save(page: Page, target: Path) -> None:
    """Save a screenshot as WebP of at most 60 KB."""
    page.wait_for_load_state("networkidle")
    image = Image.open(io.BytesIO(page.screenshot()))
    for quality in (80, 60, 40, 20):
        image.save(target, "WEBP", quality=quality, method=6)
        if target.stat().st_size <= MAX_BYTES:
            return
    raise ValueError(f"expected at most {MAX_BYTES:,} bytes but {target} has {target.stat().st_size:,}")


def save_variants(server: RunningServer, image_id: str, target: Path) -> None:
    """Save the variants of the first page as they are sent."""
    for name, parameters in VARIANTS.items():
        response = httpx2.get(f"{server.origin}/img/{image_id}?{parameters}&fm=webp").raise_for_status()
        (target / f"variant-{name}.webp").write_bytes(response.content)


def save_readme(browser: Browser, page: Page, origin: str, image_id: str, target: Path) -> None:
    """Save the gallery and the size builder side by side, from the tab of an account."""
    gallery = browser.new_page(viewport=README_VIEWPORT)
    gallery.goto(origin)
    page.set_viewport_size(README_VIEWPORT)
    page.goto(f"{origin}/images/{image_id}")
    page.fill("#builder [name=w]", "480")
    page.fill("#builder [name=h]", "480")
    page.locator("#builder-facts", has_text="480 × 480").wait_for()
    page.click("#builder h2")
    page.evaluate("document.getElementById('builder').scrollIntoView()")
    width, height = README_VIEWPORT["width"], README_VIEWPORT["height"]
    whole = Image.new("RGB", (2 * width + 20, height), "white")
    for number, tab in enumerate((gallery, page)):
        tab.wait_for_load_state("networkidle")
        whole.paste(Image.open(io.BytesIO(tab.screenshot())), (number * (width + 20), 0))
    whole.save(target, "WEBP", quality=80, method=6)
    page.set_viewport_size(VIEWPORT)
    gallery.close()


def measure(browser: Browser, url: str) -> None:
    """Print the paint times of the gallery, the sizes of its HTML and scripts, and its layout shifts.

    The first contentful paint is that of a load without a cache, and that of one after it, in milliseconds.
    The layout shifts (CLS) are those of a load.
    """
    first: list[float] = []
    again: list[float] = []
    shifts: list[float] = []
    for _ in range(ROUNDS):
        context = browser.new_context(viewport=VIEWPORT)
        context.add_init_script(SHIFTS)
        page = context.new_page()
        responses: list[Response] = []

        def record(response: Response, responses: list[Response] = responses) -> None:
            responses.append(response)

        page.on("response", record)
        response = page.goto(url)
        assert response is not None
        html = len(response.body())
        first.append(page.evaluate(PAINT))
        page.wait_for_load_state("networkidle")
        scripts = [one.request for one in responses if one.url.endswith(".js")]
        sizes = sum(script.sizes()["responseBodySize"] for script in scripts)
        page.goto(url)
        again.append(page.evaluate(PAINT))
        page.wait_for_load_state("networkidle")
        shifts.append(page.evaluate("window.shifts"))
        context.close()
    print(f"first contentful paint: {median(first):.0f} ms, cached assets: {median(again):.0f} ms")
    print(f"HTML: {html:,} bytes, scripts: {sizes:,} bytes, layout shifts: at most {max(shifts):.4f}")


def main() -> None:
    """Run the server, and save the screenshots."""
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        password = Path(folder, "password")
        password.write_text(PASSWORD, encoding="utf-8")
        variables = {**UNLIMITED, "IMAGEHOST_ADMIN_PASSWORD_FILE": str(password)}
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        with running(Path(folder, "data"), variables=variables) as server:
            image_id = fill(server)
            measure(browser, server.origin)
            page = browser.new_page(viewport=VIEWPORT)
            for name, path in (("gallery", "/"), ("image", f"/i/{image_id}")):
                page.goto(server.origin + path)
                save(page, target / f"web-{name}.webp")
            page.goto(f"{server.origin}/login")
            page.fill("#name", "admin")
            page.fill("#password", PASSWORD)
            page.click("main button")
            for name, path in (("own-image", f"/images/{image_id}"), ("images", "/images")):
                page.goto(server.origin + path)
                if name == "images":
                    for index in (0, 1, 2):
                        page.locator("#grid input").nth(index).click()
                save(page, target / f"web-{name}.webp")
            save_variants(server, image_id, target)
            save_readme(browser, page, server.origin, image_id, target / "readme.webp")
            page.goto(f"{server.origin}/upload")
            files: list[FilePayload] = []
            for number in range(3):
                name = f"hills-{IMAGES + number + 1}.jpg"
                files.append({"name": name, "mimeType": "image/jpeg", "buffer": draw(IMAGES + number)})
            page.set_input_files("#files", files)
            page.locator(".uploads .done").nth(2).wait_for()
            save(page, target / "web-upload.webp")
        browser.close()


if __name__ == "__main__":
    main()
