"""The pages of an account's images and albums, without a script."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from io import BytesIO
from zipfile import ZipFile

import httpx2
import pytest
from attrs import evolve
from tests.open_host import open_host
from tests.server.in_process import serving
from tests.server.web.conftest import HTML, SETTINGS, SignedIn
from tests.waiting import PATIENCE

from imagehost_core import ImageHost
from imagehost_core.errors import NotFoundError
from imagehost_core.testing import FrozenClock, make_image

ORIGIN = SETTINGS.base_url.removesuffix("/v1")


@pytest.fixture
def dora(host: ImageHost) -> SignedIn:
    """A session of an account that has only what a test gives it."""
    with suppress(NotFoundError):
        host.accounts.delete("dora")
    return SignedIn(host, "dora")


@pytest.fixture
def browser(origin: str, dora: SignedIn) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=origin, timeout=PATIENCE, headers=dora.headers) as client:
        yield client


def shown_ids(page: str) -> list[str]:
    return re.findall(r'data-id="(\w{16})"', page)


def post(browser: httpx2.Client, session: SignedIn, path: str, **fields: str) -> httpx2.Response:
    return browser.post(path, data={"csrf_token": session.csrf, **fields})


@pytest.mark.parametrize("view", ["", "?view=list"])
def test_images_are_named_by_their_files_so_that_checkboxes_differ(
    host: ImageHost, browser: httpx2.Client, view: str
) -> None:
    for description in ("", "a red barn"):
        host.upload(make_image(30, 20), owner="dora", filename="named.png", description=description)
    names = re.findall(r'data-id="[^>]*>.*?alt="([^"]*)"', browser.get(f"/images{view}").text)
    assert names == ["named.webp"] * 2


@pytest.mark.parametrize("view", ["", "&view=list"])
def test_the_images_of_the_account_are_listed_with_the_filters_of_the_api(
    host: ImageHost, browser: httpx2.Client, view: str
) -> None:
    small = host.upload(make_image(30, 20), owner="dora", filename="small.png", description="a red barn")
    large = host.upload(make_image(300, 200), owner="dora", filename="large.png", is_public=False)
    host.upload(make_image(30, 20), owner="admin")
    assert shown_ids(browser.get(f"/images?{view}").text) == [large.id, small.id]
    for query, expected in (
        ("q=barn", [small.id]),
        ("is_public=false", [large.id]),
        ("sort=filename", [large.id, small.id]),
        ("sort=size", [small.id, large.id]),
        ("format=gif", []),
        ("q=&is_public=&format=&album_id=&sort=", [large.id, small.id]),
    ):
        assert shown_ids(browser.get(f"/images?{query}{view}").text) == expected, query
    for query in ("sort=colour", "is_public=maybe", "cursor=x"):
        assert browser.get(f"/images?{query}").status_code == 400


def test_images_are_listed_from_the_beginning_of_a_day_to_the_end_of_another(
    host: ImageHost, browser: httpx2.Client
) -> None:
    first, last = (host.upload(make_image(30, 20), owner="dora") for _ in range(2))
    begin, end, day = first.created_at.date(), last.created_at.date(), timedelta(days=1)
    both = [last.id, first.id]
    for query, expected in (
        (f"from={begin}", both),
        (f"to={end}", both),
        (f"from={begin}&to={end}&sort=created_at", [first.id, last.id]),
        ("from=&to=", both),
        (f"from={end + day}", []),
        (f"to={begin - day}", []),
    ):
        page = browser.get(f"/images?{query}").text
        assert shown_ids(page) == expected, query
    assert f'name="to" value="{begin - day}"' in page
    for query in ("from=today", "to=2026-02-30", "to=0001-01-01", "from=9999-12-31"):
        assert browser.get(f"/images?{query}").status_code == 400, query


def test_images_in_the_order_of_time_are_below_their_months() -> None:
    clock = FrozenClock(datetime(2026, 1, 31, 23, 59, tzinfo=UTC))
    host = open_host(settings=SETTINGS, clock=clock)
    with serving(host, SETTINGS) as origin:
        for minutes in (1, 1, 60):
            host.upload(make_image(30, 20), owner="admin")
            clock.advance(minutes=minutes)
        with httpx2.Client(base_url=origin, timeout=PATIENCE, headers=SignedIn(host).headers) as browser:
            for query, months in (
                ("", ["February 2026 UTC", "January 2026 UTC"]),
                ("?sort=created_at", ["January 2026 UTC", "February 2026 UTC"]),
                ("?sort=size", []),
                ("?sort=-taken_at", []),
                ("?view=list", []),
            ):
                page = browser.get(f"/images{query}").text
                assert re.findall(r"<h2>(\w+ 2026.*)</h2>", page) == months, query
                assert len(shown_ids(page)) == 3


@pytest.mark.parametrize(
    ("zone", "language", "months", "count"),
    [
        ("Europe/Berlin", "de", ["Februar 2026"], 3),
        ("America/New_York", "en", ["January 2026"], 0),
        ("Asia/Kolkata", "en", ["February 2026"], 3),
        ("Europe", "de", ["Februar 2026 UTC", "Januar 2026 UTC"], 2),
        ("../../etc/passwd", "en", ["February 2026 UTC", "January 2026 UTC"], 2),
    ],
)
def test_days_and_months_are_those_of_the_browser_or_say_utc(
    zone: str, language: str, months: list[str], count: int
) -> None:
    clock = FrozenClock(datetime(2026, 1, 31, 23, 59, tzinfo=UTC))
    host = open_host(settings=SETTINGS, clock=clock)
    with serving(host, SETTINGS) as origin:
        for _ in range(3):
            host.upload(make_image(30, 20), owner="admin")
            clock.advance(minutes=1)
        headers = SignedIn(host).headers
        headers |= {"Accept-Language": language, "Cookie": f"{headers['Cookie']}; imagehost-zone={zone}"}
        with httpx2.Client(base_url=origin, timeout=PATIENCE, headers=headers) as browser:
            page = browser.get("/images").text
            assert re.findall(r"<h2>(\w+ 2026.*)</h2>", page) == months
            assert len(shown_ids(browser.get("/images?from=2026-02-01&to=2026-02-28").text)) == count
            assert ("2026-01-31 23:59" in browser.get("/admin/accounts/1").text) is ("UTC" in months[0])


def test_the_pages_of_a_long_list_keep_their_filters(host: ImageHost, browser: httpx2.Client) -> None:
    images = [host.upload(make_image(20 + n, 20), owner="dora", filename=f"{n:02}.png") for n in range(43)]
    page = browser.get("/images?sort=filename&view=list").text
    (more,) = re.findall(r'href="([^"]+)">More images', page)
    rest = browser.get(more.replace("&amp;", "&")).text
    assert shown_ids(page) + shown_ids(rest) == [image.id for image in images]
    assert "<table" in rest


def test_an_image_is_edited_and_deleted_for_good(
    host: ImageHost, browser: httpx2.Client, dora: SignedIn
) -> None:
    image = host.upload(make_image(30, 20), owner="dora")
    album = host.albums.create(owner="dora", name="Trip")
    path = f"/images/{image.id}"
    fields = {
        "filename": "new.png",
        "description": "Line 1\r\nLine 2",
        "is_public": "false",
        "album_id": str(album.id),
    }
    assert post(browser, dora, path, **fields).headers["location"] == f"{path}?done=saved"
    assert ">Saved.</p>" in browser.get(f"{path}?done=saved").text
    unknown = browser.get(f"{path}?done=<b>")
    assert (unknown.status_code, "Saved." in unknown.text) == (200, False)
    changed = host.images.get(image)
    assert (changed.filename, changed.is_public, changed.album_id) == ("new.webp", False, album.id)
    assert "Line 1" in browser.get(path).text
    post(browser, dora, path, album_id="")
    assert host.images.get(image).album_id is None
    refused = post(browser, dora, path, description="x" * 2001)
    assert refused.status_code == 422
    assert "description" in refused.text
    assert post(browser, dora, f"{path}/delete").headers["location"] == "/images?done=deleted"
    with pytest.raises(NotFoundError):
        host.images.get(image)
    assert browser.get(path).status_code == 404


@pytest.mark.parametrize("action", ["", "/delete", "/sign"])
def test_images_of_others_are_404s_and_forms_need_the_token(
    host: ImageHost, browser: httpx2.Client, dora: SignedIn, action: str
) -> None:
    image = host.upload(make_image(30, 20), owner="admin")
    assert browser.get(f"/images/{image.id}").status_code == 404
    assert post(browser, dora, f"/images/{image.id}{action}", expires_in="60").status_code == 404
    own = host.upload(make_image(30, 20), owner="dora")
    assert browser.post(f"/images/{own.id}{action}", data={"name": "x"}).status_code == 403
    assert host.images.get(image) == image
    assert host.images.get(own) == own


def test_a_signed_url_of_a_private_image_is_created_and_works(
    host: ImageHost, origin: str, browser: httpx2.Client, dora: SignedIn
) -> None:
    image = host.upload(make_image(30, 20), owner="dora", is_public=False)
    page = post(browser, dora, f"/images/{image.id}/sign", expires_in="3600").text
    (url,) = re.findall(rf'value="{ORIGIN}(/img/[^"]+sig=[^"]+)"', page.replace("&amp;", "&"))
    with httpx2.Client(base_url=origin) as visitor:
        assert visitor.get(url).status_code == 200
        assert visitor.get(f"/img/{image.id}").status_code == 404
    page = post(browser, dora, f"/images/{image.id}/sign", expires_in="3600", w="12", h="", fm="png").text
    (sized,) = re.findall(rf'value="{ORIGIN}(/img/[^"]+sig=[^"]+)"', page.replace("&amp;", "&"))
    with httpx2.Client(base_url=origin) as visitor:
        variant = visitor.get(sized)
        assert (variant.headers["content-type"], variant.content[16:24].hex()) == (
            "image/png",
            "0000000c00000008",
        )
        assert visitor.get(sized.replace("w=12", "w=13")).status_code == 404
    invalid = post(browser, dora, f"/images/{image.id}/sign", expires_in="3600", w="<b>", fit="crop")
    assert invalid.status_code in (400, 422)
    for seconds in ("0", "x", "", "99999999999", "-5"):
        assert post(browser, dora, f"/images/{image.id}/sign", expires_in=seconds).status_code == 422


def test_private_images_are_shown_to_their_owner_also_where_images_have_another_origin() -> None:
    settings = evolve(SETTINGS, cdn_url="https://cdn.example.com/img")
    host = open_host(settings=settings)
    image = host.upload(make_image(700, 500), owner="admin", is_public=False)
    public = host.upload(make_image(700, 500), owner="admin")
    with (
        serving(host, settings) as origin,
        httpx2.Client(base_url=origin, headers=SignedIn(host).headers) as client,
    ):
        for path in ("/images", f"/images/{image.id}"):
            response = client.get(path)
            assert "img-src 'self' https://cdn.example.com" in response.headers["content-security-policy"]
            shown = re.findall(rf'src="https://cdn.example.com(/img/{image.id}[^"]+)"', response.text)
            assert shown
            with httpx2.Client(base_url=origin, headers=HTML) as visitor:
                for url in shown:
                    assert visitor.get(url.replace("&amp;", "&")).status_code == 200, url
        assert f"/img/{public.id}.webp?w=320" in client.get("/images").text


def test_an_album_is_created_shown_changed_and_deleted(
    host: ImageHost, browser: httpx2.Client, dora: SignedIn
) -> None:
    path = post(browser, dora, "/albums", name="Summer", is_public="true").headers["location"]
    album_id = int(path.rpartition("/")[2])
    first = host.upload(make_image(30, 20), owner="dora", album_id=album_id, description="first")
    second = host.upload(make_image(30, 20), owner="dora", album_id=album_id, description="second")
    page = browser.get(path).text
    assert f"{ORIGIN}/a/{album_id}" in page
    assert page.index(">first<") > page.index(">second<")
    oldest = browser.get(f"{path}?sort=created_at").text
    assert oldest.index(">first<") < oldest.index(">second<")
    assert host.urls.thumb(second).replace("&", "&amp;") in browser.get("/albums").text
    assert post(browser, dora, path, name="Winter", description="Snow", is_public="false").status_code == 303
    changed = host.albums.get(album_id, owner="dora")
    assert (changed.name, changed.description, changed.is_public) == ("Winter", "Snow", False)
    assert f"{ORIGIN}/a/{album_id}" not in browser.get(path).text
    assert post(browser, dora, path, name=" ").status_code == 422
    assert post(browser, dora, "/albums", name="").status_code == 422
    assert post(browser, dora, f"{path}/delete", images="keep").headers["location"] == "/albums?done=deleted"
    assert host.images.get(first).album_id is None
    assert browser.get(path).status_code == 404


def test_an_album_is_deleted_with_its_images_where_the_form_says_so(
    host: ImageHost, browser: httpx2.Client, dora: SignedIn
) -> None:
    album = host.albums.create(owner="dora", name="Trip")
    image = host.upload(make_image(30, 20), owner="dora", album_id=album.id)
    assert post(browser, dora, f"/albums/{album.id}/delete", images="delete").status_code == 303
    with pytest.raises(NotFoundError):
        host.images.get(image)


def test_albums_of_others_are_404s(host: ImageHost, browser: httpx2.Client, dora: SignedIn) -> None:
    album = host.albums.create(owner="admin", name="Trip")
    assert browser.get(f"/albums/{album.id}").status_code == 404
    assert post(browser, dora, f"/albums/{album.id}", name="Mine").status_code == 404
    assert post(browser, dora, f"/albums/{album.id}/delete").status_code == 404
    assert host.albums.get(album, owner="admin") == album


MONTHS = ("2024-11", "2025-02", "2025-12", "2026-01")


@pytest.fixture(scope="module")
def years() -> Iterator[tuple[ImageHost, str, list[str]]]:
    """A host with an image on the 15th of each of `MONTHS`, in an album; its origin; and the ids."""
    clock = FrozenClock(datetime(2024, 1, 1, tzinfo=UTC))
    host, ids = open_host(settings=SETTINGS, clock=clock), list[str]()
    album = host.albums.create("Years", owner="admin")
    for month in MONTHS:
        day = datetime.fromisoformat(f"{month}-15T12:00:00Z")
        clock.advance(seconds=(day - clock()).total_seconds())
        ids.append(host.upload(make_image(30, 20), owner="admin", album_id=album).id)
    with serving(host, SETTINGS) as origin:
        yield host, origin, ids


@pytest.mark.parametrize("path", ["/images", "/albums/1"])
def test_a_list_begins_at_a_month_and_names_the_other_months_and_the_number_of_all_images(
    years: tuple[ImageHost, str, list[str]], path: str
) -> None:
    host, origin, ids = years
    with httpx2.Client(base_url=origin, timeout=PATIENCE, headers=SignedIn(host).headers) as browser:
        for query, shown, linked, last in (
            ("", [3, 2, 1, 0], ["2026-01", "2026-01", "2025-12", "2024-12"], "2024-11"),
            ("month=2025-12", [2, 1, 0], ["2026-01", "2025-12", *_down(12), "2024-12"], "2024-11"),
            ("month=2025-03", [1, 0], ["2026-01", "2025-12", *_down(12), "2024-12"], "2024-11"),
            ("month=2024-11", [0], ["2026-01", "2025-12", "2024-12", "2024-12", "2024-11"], None),
            ("sort=created_at&month=2025-12", [2, 3], ["2024-11", "2025-01", *_up(12), "2026-01"], "2026-01"),
            ("month=1999-01", [], ["2026-01", "2025-12", "2024-12"], "2024-11"),
        ):
            page = browser.get(f"{path}?{query}").text
            assert shown_ids(page) == [ids[index] for index in shown], query
            nav = re.search(r'<nav class="months".*?</nav>', page, re.DOTALL)
            assert nav is not None
            assert re.findall(r'<a href="[^"]*month=([0-9-]+)"', nav[0]) == linked, query
            assert re.findall(r'data-last="[^"]*month=([0-9-]+)"', nav[0]) == ([last] if last else []), query
            assert 'id="total" data-count="4"' in page, query
        for month in ("2026-13", "1969-12", "9999-01", "26-01", "x"):
            assert browser.get(f"{path}?month={month}").status_code == 400, month


def _down(last: int) -> list[str]:
    return [f"2025-{month:02}" for month in range(last, 0, -1)]


def _up(last: int) -> list[str]:
    return [f"2025-{month:02}" for month in range(1, last + 1)]


def test_a_month_is_within_the_filters_of_the_list(years: tuple[ImageHost, str, list[str]]) -> None:
    host, origin, ids = years
    with httpx2.Client(base_url=origin, timeout=PATIENCE, headers=SignedIn(host).headers) as browser:
        for query, shown in (
            ("to=2025-01-01&month=2026-01", [0]),
            ("from=2025-12-01&month=2025-12&sort=created_at", [2, 3]),
            ("from=2025-12-31&month=2025-12&sort=created_at", [3]),
            ("sort=size&month=2025-12", [0, 1, 2, 3]),
        ):
            page = browser.get(f"/images?{query}").text
            assert sorted(shown_ids(page)) == sorted(ids[index] for index in shown), query


def test_pages_after_a_month_go_on_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("imagehost_server.web.pages.images.IMAGES_PER_PAGE", 1)
    clock = FrozenClock(datetime(2026, 1, 15, tzinfo=UTC))
    host, ids = open_host(settings=SETTINGS, clock=clock), []
    for _ in range(4):
        ids.append(host.upload(make_image(30, 20), owner="admin").id)
        clock.advance(days=31)
    with (
        serving(host, SETTINGS) as origin,
        httpx2.Client(base_url=origin, timeout=PATIENCE, headers=SignedIn(host).headers) as browser,
    ):
        url, found = "/images?q=&month=2026-03", list[str]()
        while True:
            page = browser.get(url).raise_for_status().text
            found += shown_ids(page)
            more = re.search(r'id="more" rel="next" href="([^"]*)"', page)
            if more is None:
                break
            url = more[1].replace("&amp;", "&")
        assert found == ids[2::-1]


def test_the_ids_of_all_images_of_a_filter_are_listed_to_their_owner_only(
    host: ImageHost, browser: httpx2.Client, visitor: httpx2.Client
) -> None:
    ids = [host.upload(make_image(30, 20), owner="dora", is_public=number % 2 == 0).id for number in range(5)]
    host.upload(make_image(30, 20), owner="admin")
    assert browser.get("/images/ids").text.split() == ids[::-1]
    assert browser.get("/images/ids?is_public=true&sort=size&cursor=x").text.split() == ids[::-2]
    assert browser.get("/images/ids").headers["cache-control"] == "no-store"
    assert browser.get("/images/ids?is_public=maybe").json()["error"]["code"] == "BAD_REQUEST"
    assert browser.get("/images/ids?album_id=999999").status_code == 404
    assert visitor.get("/images/ids").status_code == 401


def test_selected_images_are_downloaded_as_an_archive_without_those_of_others(
    host: ImageHost, browser: httpx2.Client, dora: SignedIn
) -> None:
    own = [
        host.upload(make_image(30, 20), owner="dora", filename=f"{n}.png", is_public=False) for n in range(3)
    ]
    foreign = host.upload(make_image(30, 20), owner="admin")
    ids = f"{own[2].id} {foreign.id} x {own[0].id}"
    response = post(browser, dora, "/selection.zip", image_ids=ids)
    with ZipFile(BytesIO(response.content)) as archive:
        assert archive.namelist() == ["2.webp", "0.webp"]
    assert response.headers["content-disposition"].startswith("attachment")
    assert post(browser, dora, "/selection.zip", image_ids="x " * 5_000).status_code == 200
    assert browser.post("/selection.zip", data={"image_ids": ids}).status_code == 403
