"""Private albums on the pages: what their forms preset, say and do."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx2
import pytest
from tests.server.web.conftest import SignedIn
from tests.server.web.test_web_gallery import Tags
from tests.waiting import PATIENCE

from imagehost_core import Album, Image, ImageHost
from imagehost_core.testing import make_image
from imagehost_server.web.pages.images import MAX_ALBUMS

SMALL = make_image(30, 20)
ONLY_YOU, EVERYONE = "Only you can see these images.", "Everyone can see these images"


@pytest.fixture
def ned(host: ImageHost) -> SignedIn:
    return SignedIn(host, "ned")


@pytest.fixture
def browser(origin: str, ned: SignedIn) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=origin, timeout=PATIENCE, headers=ned.headers) as client:
        yield client


@pytest.fixture
def album(host: ImageHost, ned: SignedIn) -> Album:
    """A private album with a public and a private image."""
    album = host.albums.create(owner=ned.name, name="Hidden", is_public=False)
    for is_public in (True, False):
        host.upload(SMALL, owner=ned.name, album_id=album, is_public=is_public)
    return host.albums.get(album, owner=ned.name)


def public_image(host: ImageHost, album: Album) -> Image:
    return next(image for image in host.images.iter(owner="ned", album_id=album) if image.is_public)


def post(browser: httpx2.Client, session: SignedIn, path: str, **fields: str) -> httpx2.Response:
    return browser.post(path, data={"csrf_token": session.csrf, **fields})


def chosen(page: str, name: str) -> str | None:
    """Return the value of the selected option of a field, or of the first one."""
    select = re.search(rf'<select id="{name}".*?</select>', page, re.DOTALL)
    assert select is not None
    options = Tags(select[0]).all("option")
    return next((option["value"] for option in options if "selected" in option), options[0]["value"])


def test_the_form_for_uploads_presets_only_you_for_a_private_album_and_says_so(
    host: ImageHost, browser: httpx2.Client, album: Album
) -> None:
    public = host.albums.create(owner="ned", name="Shown")
    for path, visibility, expected in (
        ("/upload", "", EVERYONE),
        (f"/upload?album_id={public.id}", "", EVERYONE),
        (f"/upload?album_id={album.id}", "false", ONLY_YOU),
        ("/upload?album_id=999999", "", EVERYONE),
    ):
        page = browser.get(path).text
        assert chosen(page, "is_public") == visibility
        assert expected in page[page.index('class="drop') : page.index("<details")]


@pytest.mark.parametrize("fields", [{"is_public": ""}, {}])
def test_the_form_for_uploads_without_a_choice_is_private_in_a_private_album_and_keeps_the_album(
    host: ImageHost, browser: httpx2.Client, ned: SignedIn, album: Album, fields: dict[str, str]
) -> None:
    form = {"csrf_token": ned.csrf, "album_id": str(album.id), **fields}
    page = browser.post("/upload", data=form, files={"files[]": ("a.png", SMALL)}).text
    assert host.albums.get(album, owner="ned").public_image_count == 1
    assert (chosen(page, "album_id"), chosen(page, "is_public")) == (str(album.id), "false")


def test_forms_offer_the_chosen_album_beside_the_newest(
    host: ImageHost, browser: httpx2.Client, album: Album
) -> None:
    for number in range(MAX_ALBUMS):
        host.albums.create(owner="ned", name=f"{number}")
    image = public_image(host, album)
    for path in (f"/upload?album_id={album.id}", f"/images/{image.id}"):
        page = browser.get(path).text
        assert chosen(page, "album_id") == str(album.id), path
        assert page.count(f'<option value="{album.id}"') == 1


def test_an_album_says_how_many_of_its_images_are_public(browser: httpx2.Client, album: Album) -> None:
    page = browser.get(f"/albums/{album.id}").text
    assert ">2 images</span> · private · 1 public image<" in page
    assert "This album is private, but one of its images is public" in page
    assert "2 images · private · 1 public image" in browser.get("/albums").text


@pytest.mark.parametrize(("choice", "is_public"), [("keep", False), ("", False), ("publish", True)])
def test_the_form_that_deletes_a_private_album_publishes_its_images_only_if_that_is_chosen(
    host: ImageHost, browser: httpx2.Client, ned: SignedIn, album: Album, choice: str, is_public: bool
) -> None:
    image = public_image(host, album)
    page = browser.get(f"/albums/{album.id}").text
    radios = [tag for tag in Tags(page).all("input") if tag.get("name") == "images"]
    assert [tag["value"] for tag in radios if "checked" in tag] == ["keep"]
    assert "the public one becomes private" in page
    assert post(browser, ned, f"/albums/{album.id}/delete", images=choice).status_code == 303
    assert host.images.get(image.id).is_public is is_public


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"name": "Renamed"}, (False, 1)),
        ({"is_public": ""}, (False, 1)),
        ({"is_public": "true"}, (True, 1)),
        ({"is_public": "false", "images_public": ""}, (False, 1)),
        ({"is_public": "false", "images_public": "false"}, (False, 0)),
        ({"images_public": "true"}, (False, 2)),
    ],
)
def test_the_form_of_an_album_changes_what_it_names(
    host: ImageHost,
    browser: httpx2.Client,
    ned: SignedIn,
    album: Album,
    fields: dict[str, str],
    expected: tuple[bool, int],
) -> None:
    assert post(browser, ned, f"/albums/{album.id}", **fields).status_code == 303
    changed = host.albums.get(album, owner="ned")
    assert (changed.is_public, changed.public_image_count) == expected


@pytest.mark.parametrize("fields", [{"is_public": "privat"}, {"images_public": "privat"}])
def test_a_visibility_that_is_none_is_refused(
    host: ImageHost, browser: httpx2.Client, ned: SignedIn, album: Album, fields: dict[str, str]
) -> None:
    assert post(browser, ned, f"/albums/{album.id}", **fields).status_code == 422
    assert host.albums.get(album, owner="ned") == album
    if "is_public" in fields:
        assert post(browser, ned, "/albums", name="x", **fields).status_code == 422


@pytest.mark.parametrize("fields", [{"is_public": "true"}, {}, {"is_public": "false"}])
def test_the_form_of_an_image_that_leaves_a_private_album_makes_it_private(
    host: ImageHost,
    browser: httpx2.Client,
    ned: SignedIn,
    album: Album,
    fields: dict[str, str],
) -> None:
    image = public_image(host, album)
    path = f"/images/{image.id}"
    assert "If the image leaves it, the image becomes private too." in browser.get(path).text
    assert post(browser, ned, path, album_id="", **fields).status_code == 303
    changed = host.images.get(image.id)
    assert (changed.album_id, changed.is_public) == (None, False)
    assert "If the image leaves it" not in browser.get(path).text
    post(browser, ned, path, is_public="true")
    assert host.images.get(image.id).is_public
