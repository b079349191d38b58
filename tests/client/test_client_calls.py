"""Operations: validation of arguments, and references to records."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_client import UNSET
from imagehost_client._calls import accounts, albums, downloads, images, uploads, webhooks
from imagehost_client._calls.call import Call
from imagehost_client.errors import ValidationError
from imagehost_client.models import (
    Album,
    ApiKeyWithToken,
    Format,
    PublicImage,
    WebhookDelivery,
    WebhookWithSecret,
)


@pytest.mark.parametrize("invalid_id", ["", ".", ".."])
def test_an_id_that_would_change_the_path_is_rejected(invalid_id: str) -> None:
    for make in (images.get_image, images.delete_image, accounts.delete_key, webhooks.delete_webhook):
        with pytest.raises(ValidationError, match="expected an"):
            make(invalid_id)


@given(st.text(min_size=1))
def test_any_other_id_stays_one_segment_of_the_path(text: str) -> None:
    if text not in {".", ".."}:
        path = images.delete_image(text).path
        assert path.startswith("/images/")
        assert path.count("/") == 2
        assert not {"?", "#"} & set(path)


@given(st.integers(1, 2**63 - 1))
def test_an_album_id_is_a_positive_integer_or_its_digits(number: int) -> None:
    assert albums.get_album(number).path == albums.get_album(str(number)).path == f"/albums/{number}"


@pytest.mark.parametrize(
    "url",
    [
        "https://cdn.example.com/img/0aZ0aZ0aZ0aZ0aZ0.webp?w=300&exp=1&sig=x",
        "http://127.0.0.1:8000/v1/img/0aZ0aZ0aZ0aZ0aZ0",
        "HTTPS://example.com/0123456789abcdef/v1/images/0aZ0aZ0aZ0aZ0aZ0/signed-url",
        "https://example.com/i/0aZ0aZ0aZ0aZ0aZ0#top",
    ],
)
def test_any_url_of_an_image_is_accepted_instead_of_its_id(url: str) -> None:
    image_id = "0aZ0aZ0aZ0aZ0aZ0"
    for operation in (images.get_image, images.update_image, downloads.render_image, images.signed_url):
        assert operation(url).path == operation(image_id).path
    assert albums.add_images(1, [url]).body == {"image_ids": [image_id]}


@pytest.mark.parametrize("url", ["https://example.com/img/short.png", "http://example.com", "https://["])
def test_a_url_without_an_image_id_is_rejected(url: str) -> None:
    with pytest.raises(ValueError):
        images.get_image(url)


def test_the_filters_of_a_list_are_query_parameters() -> None:
    noon = datetime(2026, 1, 1, 13, tzinfo=timezone(timedelta(hours=1)))
    call = images.list_images(
        album_id=3,
        per_page=5,
        q="a b",
        is_public=False,
        format="png",
        created_after=noon,
        created_before="2026-01-02T00:00:00+01:00",
        sha256="a" * 64,
        sort="-size",
    )
    assert dict(call.query) == {
        "album_id": "3",
        "per_page": "5",
        "q": "a b",
        "is_public": "false",
        "format": "png",
        "created_after": "2026-01-01T12:00:00Z",
        "created_before": "2026-01-02T00:00:00+01:00",
        "sha256": "a" * 64,
        "sort": "-size",
    }
    assert images.list_images(format=Format.WEBP, cursor="c").query == (("cursor", "c"), ("format", "webp"))
    assert images.gallery(album_id=ALBUM, cursor="c").query == (("album_id", "7"), ("cursor", "c"))
    assert images.gallery(q="a b", per_page=5).query == (("q", "a b"), ("per_page", "5"))
    for listing in (albums.list_albums, accounts.list_keys, webhooks.list_webhooks):
        assert listing(cursor="c").query == (("cursor", "c"),)


@pytest.mark.parametrize("invalid_id", [0, -1, True, "", "0", "07", "x", "1.0", "²", None])
def test_an_invalid_album_id_is_rejected(invalid_id: Any) -> None:
    with pytest.raises(ValidationError, match="album_id"):
        albums.get_album(invalid_id)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"convert_to_webp": True},
        {"convert_to_webp": False, "format": "png"},
        {"convert_to_webp": False, "quality": 80},
        {"convert_to_webp": False, "remove_exif": True},
    ],
)
def test_a_checksum_requires_options_without_re_encoding(
    options: dict[str, Any],
) -> None:
    with pytest.raises(ValueError, match="checksum"):
        uploads.upload(b"x", checksum=True, **options)


def test_a_checksum_is_allowed_with_options_that_change_no_bytes() -> None:
    call = uploads.upload(b"x", checksum=True, convert_to_webp=False, format="auto", remove_exif=False)
    assert call.files[0].checksum


def test_only_given_arguments_are_sent() -> None:
    assert uploads.upload(b"x").fields == ()
    assert uploads.upload(
        b"x", convert_to_webp=False, auto_rename=True, quality=7, description=""
    ).fields == (
        ("description", ""),
        ("quality", "7"),
        ("convertToWebP", "false"),
        ("auto_rename", "true"),
    )
    assert images.update_image("a").body == {}
    assert images.update_image("a", album_id=None, is_public=False).body == {
        "album_id": None,
        "is_public": False,
    }
    assert images.update_image("a", album_id="7").body == {"album_id": "7"}
    assert accounts.update_key("a", expires_at=None).body == {"expires_at": None}
    assert accounts.update_key(
        "a", expires_at=datetime(2026, 1, 1, tzinfo=UTC), scopes=["images:read"]
    ).body == {
        "scopes": ["images:read"],
        "expires_at": "2026-01-01T00:00:00Z",
    }
    assert webhooks.update_webhook("a", events=["image.deleted"]).body == {"events": ["image.deleted"]}
    assert repr(UNSET) == "UNSET"


def test_a_string_instead_of_a_list_is_rejected() -> None:
    text: Any = "images:read"
    for make in (
        lambda: accounts.create_key("k", scopes=text),
        lambda: webhooks.create_webhook("https://u", events=text),
    ):
        with pytest.raises(ValidationError, match="list"):
            make()


def test_a_single_image_is_accepted_instead_of_a_list() -> None:
    assert albums.add_images(1, "a").body == {"image_ids": ["a"]}


def test_the_repr_of_a_call_has_neither_content_nor_passwords() -> None:
    assert "hunter2" not in repr(accounts.create_session("me", "hunter2"))
    assert "pixels" not in repr(uploads.upload(b"pixels"))


TIME = datetime(2026, 1, 1, tzinfo=UTC)
PUBLIC_IMAGE = PublicImage(
    id="i",
    description="",
    width=1,
    height=1,
    is_animated=False,
    placeholder="",
    url="https://h/img/i.png",
    thumb_url="",
    created_at=TIME,
)
ALBUM = Album(
    id=7,
    name="A",
    description="",
    is_public=True,
    image_count=0,
    public_image_count=0,
    cover_image_id=None,
    cover_url=None,
    created_at=TIME,
    updated_at=TIME,
)
KEY = ApiKeyWithToken(id="k", name="", prefix="", scopes=(), created_at=TIME, token="t")
WEBHOOK = WebhookWithSecret(
    id="w", url="https://h", events=(), is_active=True, created_at=TIME, secret="whsec_"
)
DELIVERY = WebhookDelivery(
    id="d", webhook_id="w", event_id="e", event="webhook.test", status="pending", attempts=0, created_at=TIME
)


@pytest.mark.parametrize(
    ("operation", "record", "record_id"),
    [
        *(
            (operation, PUBLIC_IMAGE, "i")
            for operation in (
                images.get_image,
                images.update_image,
                images.delete_image,
                downloads.render_image,
                images.signed_url,
                partial(albums.add_images, 1),
                partial(albums.remove_images, 1),
            )
        ),
        *(
            (operation, ALBUM, 7)
            for operation in (
                albums.get_album,
                albums.update_album,
                albums.delete_album,
                lambda album: albums.add_images(album, "i"),
                lambda album: albums.remove_images(album, "i"),
                lambda album: images.list_images(album_id=album),
                lambda album: images.update_image("i", album_id=album),
            )
        ),
        *(
            (operation, KEY, "k")
            for operation in (accounts.get_key, accounts.update_key, accounts.delete_key)
        ),
        *(
            (operation, WEBHOOK, "w")
            for operation in (
                webhooks.get_webhook,
                webhooks.update_webhook,
                webhooks.delete_webhook,
                webhooks.test_webhook,
                webhooks.rotate_webhook_secret,
                webhooks.list_deliveries,
                lambda webhook: webhooks.retry_delivery(webhook, "d"),
            )
        ),
        (partial(webhooks.retry_delivery, "w"), DELIVERY, "d"),
    ],
)
def test_a_record_is_accepted_instead_of_its_id(
    operation: Callable[[Any], Call[Any]], record: Any, record_id: Any
) -> None:
    by_record, by_id = operation(record), operation(record_id)
    assert (by_record.path, by_record.query, by_record.body) == (by_id.path, by_id.query, by_id.body)


def test_an_album_is_accepted_instead_of_its_id_in_an_upload() -> None:
    assert uploads.upload(b"x", album_id=ALBUM).fields == uploads.upload(b"x", album_id=7).fields
