"""Rights that end while an archive is sent: the archive ends too, before its next image."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from io import BytesIO
from itertools import count
from zipfile import ZipFile

import attrs
import pytest
from attrs import frozen
from tests.server.asgi_responses import Response, get
from tests.server.conftest import hash_quickly
from tests.server.test_response_bodies import STREAMS
from tests.server.web.conftest import SETTINGS

from imagehost_core import ImageHost
from imagehost_core.models import Account, Album, AlbumShare, Image
from imagehost_core.testing import FrozenClock, make_image, shared_executor
from imagehost_server.app import Application, create_app
from imagehost_server.auth.cookies import SESSION_COOKIE
from imagehost_server.metrics import HTTP_CUT, IMAGE_ROUTE, Recorder
from imagehost_server.settings import GallerySettings

OWN, PUBLIC, SHARED = (
    "/albums/{album_id}/images.zip",
    "/a/{album_id}/images.zip",
    "/s/{token}/images.zip",
)
CLOSED = f"{PUBLIC} where the gallery requires a session"
IDS = "/images/ids"
HOUR = timedelta(hours=1)
CLOCK = FrozenClock()
PASSWORD_HASH = hash_quickly("correct horse battery staple")
numbers = count()


@frozen
class Download:
    """An album of two images, whose archive a client has begun to download."""

    host: ImageHost
    account: Account
    album: Album
    first: Image
    second: Image
    share: AlbumShare
    session: str

    @classmethod
    def of(cls, host: ImageHost) -> Download:
        account = host.accounts.create(f"owner-{next(numbers)}", password_hash=PASSWORD_HASH)
        album = host.albums.create("Harbour", owner=account)
        # An archive begins with the newest image.
        second = host.upload(make_image(8, 8), owner=account, album_id=album.id, filename="second.webp")
        CLOCK.advance(seconds=1)
        first = host.upload(make_image(8, 8), owner=account, album_id=album.id, filename="first.webp")
        share = host.albums.create_share(album, owner=account, expires_at=host.now() + HOUR)
        return cls(host, account, album, first, second, share, host.sessions.create(account).token)

    async def run(self, app: Application, stream: str, meanwhile: Callable[[Download], object]) -> Response:
        """Return the archive; something happens when its first part is sent, that of the first image."""
        url = stream.partition(" ")[0].replace("{album_id}", str(self.album.id))
        url = url.replace("{token}", str(self.share.token))
        signed_in = {"Cookie": f"{SESSION_COOKIE}={self.session}"} if stream in (OWN, CLOSED, IDS) else {}

        def on_piece(response: Response) -> None:
            if len(response.pieces) == 1:
                meanwhile(self)

        return await get(app, url, signed_in, on_piece=on_piece)


def end_session(download: Download) -> None:
    session = download.host.authenticate(download.session).session_id
    download.host.sessions.delete(session, owner=download.account)


def change_password(download: Download) -> None:
    download.host.accounts.set_password_hash(download.account, PASSWORD_HASH)


def suspend_account(download: Download) -> None:
    download.host.accounts.update(download.account, suspended=True)


def delete_account(download: Download) -> None:
    download.host.accounts.delete(download.account)


def delete_album(download: Download) -> None:
    download.host.albums.delete(download.album, owner=download.account)


def hide_album(download: Download) -> None:
    download.host.albums.update(download.album, owner=download.account, is_public=False)


def revoke_share(download: Download) -> None:
    download.host.albums.delete_share(download.album, download.share, owner=download.account)


def pass_time(_: Download) -> None:
    """Let the share expire, and every session."""
    CLOCK.advance(seconds=SETTINGS.sessions.lifetime_seconds)


ENDS = {
    OWN: (end_session, change_password, pass_time, suspend_account, delete_account, delete_album),
    PUBLIC: (hide_album, suspend_account, delete_account, delete_album),
    SHARED: (revoke_share, pass_time, suspend_account, delete_account, delete_album),
    CLOSED: (end_session, change_password, pass_time),
}
"""How the right to an archive ends, by its route."""


def delete_image(download: Download) -> None:
    download.host.images.delete(download.second.id)


def move_image(download: Download) -> None:
    another = download.host.albums.create("Another", owner=download.account)
    download.host.images.update(download.second.id, album_id=another.id)


def hide_image(download: Download) -> None:
    download.host.images.update(download.second.id, is_public=False)


LEAVES = {OWN: (delete_image, move_image), PUBLIC: (delete_image, move_image, hide_image)}
LEAVES[SHARED] = LEAVES[OWN]
"""How an image leaves the archive, by its route."""


@pytest.fixture(scope="module")
def host() -> Iterator[ImageHost]:
    with ImageHost.open(":memory:", settings=SETTINGS, clock=CLOCK, executor=shared_executor()) as opened:
        yield opened


@pytest.fixture(scope="module")
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture(scope="module")
def apps(host: ImageHost, recorder: Recorder) -> dict[str, Application]:
    """The application by the stream."""
    closed = attrs.evolve(SETTINGS, gallery=GallerySettings(require_sign_in=True))
    app = create_app(host, SETTINGS, recorder)
    return {OWN: app, PUBLIC: app, SHARED: app, IDS: app, CLOSED: create_app(host, closed, recorder)}


def test_every_stream_of_several_images_is_tested() -> None:
    assert {stream.partition(" ")[0] for stream in ENDS} | {IDS} == STREAMS - {IMAGE_ROUTE}


@pytest.mark.anyio
@pytest.mark.parametrize(("stream", "end"), [(stream, end) for stream, ends in ENDS.items() for end in ends])
async def test_an_archive_ends_before_the_next_image_when_the_right_to_it_ends(
    apps: dict[str, Application],
    host: ImageHost,
    recorder: Recorder,
    stream: str,
    end: Callable[[Download], object],
) -> None:
    download, before = Download.of(host), revoked(recorder)
    response = await download.run(apps[stream], stream, end)
    assert response.status == 200
    assert b"first.webp" in response.body
    assert b"second.webp" not in response.body
    # The client is told that something is missing: neither the archive nor the response has an end.
    assert not response.is_complete
    assert b"PK\1\2" not in response.body
    assert revoked(recorder) == before + 1


@pytest.mark.anyio
@pytest.mark.parametrize(
    "end",
    [end_session, change_password, pass_time, suspend_account, delete_account],
    ids=lambda end: end.__name__,
)
async def test_the_ids_of_a_list_end_when_the_right_to_them_ends(
    apps: dict[str, Application],
    host: ImageHost,
    recorder: Recorder,
    monkeypatch: pytest.MonkeyPatch,
    end: Callable[[Download], object],
) -> None:
    monkeypatch.setattr("imagehost_server.web.pages.images.IDS_PER_PIECE", 1)
    download, before = Download.of(host), revoked(recorder)
    response = await download.run(apps[IDS], IDS, end)
    assert (response.status, response.body.decode().split()) == (200, [download.first.id])
    assert not response.is_complete
    assert revoked(recorder) == before + 1


def revoked(recorder: Recorder) -> float:
    """Return the number of responses whose right has ended."""
    samples = recorder.counted()[HTTP_CUT.name].samples
    return sum(sample.value for sample in samples if sample.labels["reason"] == "revoked")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("stream", "leave"), [(stream, leave) for stream, leaves in LEAVES.items() for leave in leaves]
)
async def test_an_archive_has_no_image_that_has_left_the_album_before_its_turn(
    apps: dict[str, Application], host: ImageHost, stream: str, leave: Callable[[Download], object]
) -> None:
    response = await Download.of(host).run(apps[stream], stream, leave)
    assert response.is_complete
    with ZipFile(BytesIO(response.body)) as archive:
        assert archive.namelist() == ["first.webp"]


@pytest.mark.anyio
async def test_a_right_that_ends_in_vain_changes_nothing(
    apps: dict[str, Application], host: ImageHost
) -> None:
    """A public album needs no session, and a share no public album."""
    for stream, change in (
        (PUBLIC, end_session),
        (SHARED, hide_album),
        (SHARED, end_session),
        (OWN, hide_album),
    ):
        response = await Download.of(host).run(apps[stream], stream, change)
        with ZipFile(BytesIO(response.body)) as archive:
            assert archive.namelist() == ["first.webp", "second.webp"]
