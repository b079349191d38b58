"""Django projects whose images are in a host: uploads by the admin, pages with pictures, and Wagtail."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import httpx2
import pytest
from tests.outside.browser.tabs import OpenTab, Watched
from tests.outside.packages import install_python
from tests.waiting import PATIENCE

from imagehost_core.testing import make_image
from imagehost_server.testing import RunningServer, environment

if TYPE_CHECKING:
    from playwright.sync_api import FilePayload, Page

CLIENT = Path(__file__).resolve().parents[3] / "packages" / "imagehost-client"
SERVE = Path(__file__).with_name("programs") / "serve_django.py"
WAGTAIL = Path(__file__).with_name("programs") / "wagtail_images.py"
ENVIRONMENTS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "5.2": ("", {"django": "5.2.19", "pillow": "13.0.0"}),
    "6": (">=3.12", {"django": "6.1.3", "pillow": "13.0.0", "wagtail": "8.0.1"}),
}
"""The Python and the packages of each environment."""

SETTINGS = """
INSTALLED_APPS += ["imagehost_client.django", "photos"]
STORAGES = {
    "default": {"BACKEND": "imagehost_client.django.ImageHostStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
"""
MODELS = """
from django.db import models
from imagehost_client.django import ImageHostStorage

class Photo(models.Model):
    image = models.ImageField(upload_to="photos/", width_field="width", height_field="height")
    secret = models.ImageField(storage=ImageHostStorage(private=True), blank=True)
    width = models.PositiveIntegerField(null=True, editable=False)
    height = models.PositiveIntegerField(null=True, editable=False)
"""
ADMIN = """
from django.contrib import admin
from photos.models import Photo

admin.site.register(Photo)
"""
URLS = """
from django.contrib import admin
from django.http import HttpResponse
from django.template import engines
from django.urls import include, path
from photos.models import Photo

PAGE = '''<!doctype html>{% load imagehost %}
{% imagehost_picture photo.image 40 80 4000 sizes="80px" alt="cat" %}
{% imagehost_picture photo.secret 40 alt="secret" %}
<img src="{{ photo.image|imagehost_url:"w=20" }}" alt="small">
<p>{{ photo.width }}x{{ photo.height }}</p>'''

def show(request):
    page = engines["django"].from_string(PAGE)
    return HttpResponse(page.render({"photo": Photo.objects.get()}, request))

urlpatterns = [path("admin/", admin.site.urls), path("photo/", show)]
"""
WAGTAIL_SETTINGS = """
INSTALLED_APPS += [
    "wagtail.users", "wagtail.images", "wagtail.documents", "wagtail.admin", "wagtail.snippets",
    "wagtail.sites", "wagtail", "modelcluster", "modelsearch", "taggit",
]
WAGTAIL_SITE_NAME = "shop"
WAGTAILADMIN_BASE_URL = "http://127.0.0.1"
"""
WAGTAIL_URLS = 'urlpatterns += [path("cms/", include("wagtail.admin.urls"))]\n'


@pytest.fixture(scope="module", params=sorted(ENVIRONMENTS))
def python(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with Django and the client."""
    version, packages = ENVIRONMENTS[request.param]
    directory = tmp_path_factory.mktemp("django") / "environment"
    return install_python(directory, packages, sources=[CLIENT], python=version) / "python"


def project_environment(server: RunningServer) -> dict[str, str]:
    """Return the environment variables of a project whose images are in a server."""
    return environment(
        {
            "IMAGEHOST_BASE_URL": server.base_url,
            "IMAGEHOST_TOKEN": server.token,
            "DJANGO_SUPERUSER_USERNAME": "ada",
            "DJANGO_SUPERUSER_PASSWORD": "correct horse",
            "DJANGO_SUPERUSER_EMAIL": "ada@example.com",
        }
    )


def make_project(
    python: Path, folder: Path, server: RunningServer, *, wagtail: bool = False
) -> Callable[..., str]:
    """Make a project by `django-admin startproject`; return a function that runs Python in it."""

    def run(*command: str) -> str:
        done = subprocess.run(
            [str(python), *command],
            cwd=folder,
            env=project_environment(server),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("-m", "django", "startproject", "shop", ".")
    run("manage.py", "startapp", "photos")
    settings = folder / "shop" / "settings.py"
    added = SETTINGS + (WAGTAIL_SETTINGS if wagtail else "")
    settings.write_text(settings.read_text(encoding="utf-8") + added, encoding="utf-8")
    for path, text in {"photos/models.py": MODELS, "photos/admin.py": ADMIN, "shop/urls.py": URLS}.items():
        (folder / path).write_text(dedent(text), encoding="utf-8")
    if wagtail:
        with (folder / "shop/urls.py").open("a", encoding="utf-8") as urls:
            urls.write(WAGTAIL_URLS)
    run("manage.py", "makemigrations", "photos")
    run("manage.py", "migrate")
    run("manage.py", "createsuperuser", "--noinput")
    return run


@contextmanager
def django_site(python: Path, folder: Path, server: RunningServer) -> Iterator[str]:
    """Make a project and serve it; the value is its origin."""
    make_project(python, folder, server)
    log = folder / "log"
    with (
        log.open("wb") as stderr,
        subprocess.Popen(
            [str(python), str(SERVE)],
            cwd=folder,
            env=project_environment(server),
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            port = process.stdout.readline().strip()
            assert port, log.read_text(encoding="utf-8")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def sign_in(page: Page, url: str, button: str) -> None:
    page.goto(url)
    page.fill("[name=username]", "ada")
    page.fill("[name=password]", "correct horse")
    page.click(button)
    page.wait_for_url(url)


def png(width: int, height: int) -> FilePayload:
    """Return a PNG, as Playwright takes it for a file input."""
    return {"name": "a cat.png", "mimeType": "image/png", "buffer": make_image(width, height)}


def statuses(page: Watched) -> dict[str, int]:
    """Return the status of every URL in the markup of images."""
    values = page.page.eval_on_selector_all(
        "picture source, img", "all => all.flatMap(one => [one.srcset, one.getAttribute('src')])"
    )
    urls = {url for value in values if value for url in re.findall(r"http[^\s,]+", value)}
    return {url: httpx2.get(url, timeout=PATIENCE).status_code for url in urls}


def test_the_admin_uploads_and_pages_show_public_and_private_images(
    python: Path, tmp_path: Path, server: RunningServer, open_tab: OpenTab
) -> None:
    with django_site(python, tmp_path, server) as origin:
        tab = open_tab()
        sign_in(tab.page, f"{origin}/admin/photos/photo/add/", "[type=submit]")
        tab.page.set_input_files("[name=image]", png(160, 90))
        tab.page.set_input_files("[name=secret]", png(90, 60))
        tab.page.click("[name=_continue]")
        tab.page.wait_for_url("**/change/")
        links = tab.page.locator(".file-upload a")
        shown = [links.nth(at).get_attribute("href") or "" for at in range(links.count())]
        assert [httpx2.get(url).status_code for url in shown] == [200, 200]
        assert ["sig=" in url for url in shown] == [False, True]

        tab.page.goto(f"{origin}/photo/")
        assert tab.page.inner_text("p") == "160x90"
        found = statuses(tab)
        assert set(found.values()) == {200}
        widths = {int(width) for url in found for width in re.findall(r"[?&]w=(\d+)", url)}
        assert max(widths) == 160
        natural = "one => one.decode().then(() => one.naturalWidth > 0)"
        assert [tab.page.eval_on_selector(f"[alt={alt}]", natural) for alt in ("cat", "secret", "small")] == [
            *[True] * 3
        ]
        assert [error for error in tab.errors if "favicon" not in error] == []


@pytest.mark.parametrize("python", ["6"], indirect=True)
def test_wagtail_uploads_shows_renditions_and_deletes(
    python: Path, tmp_path: Path, server: RunningServer
) -> None:
    run = make_project(python, tmp_path, server, wagtail=True)
    (tmp_path / "cat.png").write_bytes(make_image(1600, 900))
    size, original, rendition = run(str(WAGTAIL), "upload").split()
    assert size == "1600x900"
    assert [httpx2.get(url).status_code for url in (original, rendition)] == [200, 200]
    run(str(WAGTAIL), "delete")
    assert [httpx2.get(url).status_code for url in (original, rendition)] == [404, 404]
