"""What was stored to be sent later has the URLs of the host as it is now."""

from __future__ import annotations

import json

import attrs
import pytest
from tests.open_host import open_host

from imagehost_core import ImageHost
from imagehost_core.events import AlbumUpdated, ImageUploaded, deserialize_event
from imagehost_core.resources import AlbumRecord, ImageRecord, with_current_urls
from imagehost_core.testing import make_image

EACH_ENGINE = True

OLD, NEW = "https://old.example/v1", "https://images.example.com/pictures/v1"
DESCRIPTION = 'see https://old.example/img/x.webp, "url":"https://old.example/img/y.webp" ](<>'


@pytest.mark.parametrize("cdn", [None, "https://cdn.example/i", "https://old.example/img/v2"])
def test_pending_events_and_idempotent_responses_have_the_urls_of_the_day_on_which_they_are_sent(
    host: ImageHost, cdn: str | None
) -> None:
    before = attrs.evolve(host.settings, base_url=OLD)
    with open_host(host.path, settings=before) as old:
        account = old.accounts.create("mover")
        old.webhooks.create(owner=account, url="http://127.0.0.1:9/")
        image = old.upload(make_image(640, 480), owner=account, description=DESCRIPTION)
        album = old.albums.create("A", owner=account)
        old.albums.add_images(album, [image], owner=account)
        record = attrs.asdict(ImageRecord.of(old.images.get(image.id)))
        with old.idempotency.begin(account, "key", "request") as claim:
            body = json.dumps(
                {"success": True, "data": {"images": [record], "errors": []}},
                default=str,
                separators=(",", ":"),
            )
            claim.complete(200, body.encode())
    after = attrs.evolve(before, base_url=NEW, cdn_url=cdn)
    with open_host(host.path, settings=after) as new:
        leased = [each for each in new.webhooks.lease(100) if each.webhook.account_id == account.id]
        events = [deserialize_event(each.delivery.event_id, each.body) for each in leased]
        uploaded = next(event.data for event in events if isinstance(event, ImageUploaded))
        updated = next(event.data for event in events if isinstance(event, AlbumUpdated))
        now = ImageRecord.of(new.images.get(image.id))
        assert now.url.startswith(cdn or "https://images.example.com/pictures/img")
        assert uploaded == attrs.evolve(now, album_id=None, updated_at=uploaded.updated_at)
        assert updated == AlbumRecord.of(new.albums.get(album.id, owner=account))
        with new.idempotency.begin(account, "key", "request") as claim:
            assert claim.response is not None
            (replayed,) = json.loads(claim.response.body)["data"]["images"]
        for name in ("url", "thumb_url", "description"):
            assert replayed[name] == getattr(now, name)
        assert replayed["links"] == attrs.asdict(now.links)
        new.accounts.delete(account)


@pytest.mark.parametrize("body", [b"", b"no JSON", b'"url":"', b'[{"url":"x"}]', b'{"id":1,"url":""}'])
def test_a_body_without_a_record_is_sent_as_it_was_stored(host: ImageHost, body: bytes) -> None:
    assert with_current_urls(body, host.urls) == body
