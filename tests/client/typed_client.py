"""The types of the client, checked by mypy and pyright, and never executed.

Both must reject each line with an ignore comment: they report unnecessary ones.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import assert_type

import httpx2

from imagehost_client import (
    UNSET,
    Account,
    AccountOverview,
    Album,
    ApiKey,
    ApiKeyWithToken,
    AsyncClient,
    AsyncImageStream,
    AsyncPager,
    BulkError,
    BulkResult,
    Client,
    DownloadedImage,
    EventKind,
    Format,
    FormatName,
    Image,
    ImageHostError,
    ImageStream,
    Page,
    Pager,
    PublicAlbum,
    PublicImage,
    RateLimit,
    Rendered,
    Role,
    Scope,
    Session,
    SignedImageUrl,
    SignedUrl,
    Source,
    TransformParams,
    UploadResult,
    Webhook,
    WebhookDelivery,
    WebhookWithSecret,
    models,
    testing,
    webhooks,
)


def sources(client: Client, path: Path) -> None:
    anything: list[Source] = ["a.png", path, b"", bytearray(), memoryview(b""), ("a.png", b""), ("a", path)]
    with path.open("rb") as stream:
        assert_type(client.upload(stream), Image)
        anything.append(stream)
    for source in anything:
        assert_type(client.upload(source, album_id=3, quality=80, format="webp"), Image)
    assert_type(client.upload_many(anything, parallel=2, journal="j", is_public=False), list[UploadResult])
    assert_type(client.upload_many("photos/*.png")[0].unwrap(), Image)
    for upload in client.upload_iter(["a.png"]):
        assert_type(upload, UploadResult)


def records(client: Client) -> None:
    image = client.images.get("a")
    assert_type(image, Image)
    assert_type(image.album_id, int | None)
    assert_type(image.format, FormatName)
    assert image.format == "jpeg" or image.format == Format.PNG
    bool(image.format == "jpgg")  # type: ignore[comparison-overlap]
    bool(client.account().account.role == "root")  # type: ignore[comparison-overlap]
    bool(client.images.delete_many(["a"])[0].status == "gone")  # type: ignore[comparison-overlap]
    bool(client.webhooks.retry("w", "d").status == "done")  # type: ignore[comparison-overlap]
    assert client.webhooks.retry("w", "d").event == EventKind.IMAGE_UPLOADED
    assert client.account().account.role in ("operator", Role.USER)
    assert_type(image.created_at, datetime.datetime)
    assert_type(image.links.markdown, str)
    assert_type(image.meta.rate_limit, RateLimit | None)
    assert_type(client.images.update(image, album_id=None, description=UNSET), Image)
    assert_type(client.images.delete(image).deleted, bool)
    assert_type(client.images.signed_url(image, w=3, expires_in=60), SignedUrl)
    assert_type(client.images.update_many([image, "b"], album_id=None), tuple[BulkResult, ...])
    assert_type(client.images.delete_many(["a"])[0].error, BulkError | None)
    client.images.delete_many(image)  # type: ignore[arg-type]
    client.images.update_many(image, is_public=False)  # type: ignore[arg-type]
    signed = client.images.signed_urls([image, ("b", {"w": 3})], expires_in=60, fm="webp")
    assert_type(signed, tuple[SignedImageUrl, ...])
    assert_type(client.render(image, w=3, fm="avif"), Rendered)
    assert_type(client.render("a").data, bytes)
    assert_type(client.images.download(image, "a.png", w=3).path, Path | None)
    with client.images.stream(image, fm="webp") as stream:
        assert_type(stream, ImageStream)
        for chunk in stream:
            assert_type(chunk, bytes)
    raw = client.images.delete_many.with_raw_response([image])
    assert_type(raw[0].parsed.items, tuple[BulkResult, ...])


def lists(client: Client, now: datetime.datetime) -> None:
    assert_type(client.images.list(), Pager[Image])
    assert_type(
        client.images.list(q="cat", is_public=True, format="png", created_after=now, sort="-size"),
        Pager[Image],
    )
    assert_type(client.images.iter(format=Format.PNG, created_before="2026-01-01T00:00:00Z"), Pager[Image])
    first = client.gallery(album_id=3).first_page()
    assert_type(first.total, int | None)
    assert_type(first.album, PublicAlbum | None)
    for image in client.images.list(album_id=1):
        assert_type(image, Image)
    for page in client.albums.list().pages():
        assert_type(page, Page[Album])
        assert_type(page.items, tuple[Album, ...])
    assert_type(client.gallery().first_page(), Page[PublicImage])
    assert_type(client.keys.list(), Pager[ApiKey])
    assert_type(client.webhooks.list(), Pager[Webhook])
    assert_type(client.webhooks.deliveries("w"), Pager[WebhookDelivery])


def the_rest(client: Client) -> None:
    album = client.albums.create("A", is_public=False)
    assert_type(album, Album)
    assert_type(client.albums.add_images(album, ["a"]).results, tuple[models.Member, ...])
    assert_type(client.albums.create_share(album, password="secret").url, str | None)
    assert_type(client.albums.list_shares(album), Pager[models.AlbumShare])
    assert_type(client.albums.delete_share(album, "s"), models.Deleted)
    assert_type(client.albums.delete(album, delete_images=True), models.DeletedAlbum)
    assert_type(client.keys.create("k", scopes=["images:read"]), ApiKeyWithToken)
    assert_type(client.keys.create("k").token, str)
    assert_type(client.webhooks.create("https://h", events=["image.uploaded"]), WebhookWithSecret)
    assert_type(client.webhooks.retry("w", "d"), WebhookDelivery)
    assert_type(client.account(), AccountOverview)
    assert_type(client.account().quota.remaining, int | None)
    assert_type(client.accounts.create("a", "b", role="operator", quota_bytes=None), Account)
    assert_type(client.accounts.update(3, suspended=True, api_per_day=0).limits.api_per_day, int | None)
    assert_type(client.accounts.list(), Pager[Account])
    assert_type(client.sessions.list(), Pager[Session])
    assert_type(client.sessions.delete("s"), models.Deleted)
    assert_type(client.change_password("a", "b"), models.PasswordChanged)
    assert_type(client.renew_signing_secret(), models.SigningSecretRenewed)
    assert_type(client.sessions.create("a", "b").account.name, str)
    assert_type(client.image_url("a", w=3), str)
    assert_type(client.with_options(timeout=3), Client)
    with client as entered:
        assert_type(entered, Client)


async def asynchronous(client: AsyncClient) -> None:
    assert_type(await client.upload("a.png", album_id=3), Image)
    assert_type(await client.upload_many(["a.png"]), list[UploadResult])
    async with client.upload_iter(["a.png"]) as uploads:
        async for upload in uploads:
            assert_type(upload, UploadResult)
    assert_type(await client.images.get("a"), Image)
    assert_type(await client.render("a"), Rendered)
    assert_type(await client.images.download("a", Path("a.png")), DownloadedImage)
    async with client.images.stream("a") as stream:
        assert_type(stream, AsyncImageStream)
        assert_type([chunk async for chunk in stream], list[bytes])
    assert_type(await client.images.delete_many(["a"]), tuple[BulkResult, ...])
    assert_type(await client.images.signed_urls(["a"]), tuple[SignedImageUrl, ...])
    assert_type(client.images.list(), AsyncPager[Image])
    async for image in client.images.list():
        assert_type(image, Image)
    async for page in client.albums.list().pages():
        assert_type(page, Page[Album])
    assert_type(await client.gallery().first_page(), Page[PublicImage])
    assert_type(await client.keys.create("k"), ApiKeyWithToken)
    assert_type(await client.account(), AccountOverview)
    assert_type(await client.accounts.get(3), Account)
    assert_type(client.sessions.list(), AsyncPager[Session])
    assert_type(client.with_options(deadline=3), AsyncClient)
    async with client as entered:
        assert_type(entered, AsyncClient)


def events(body: bytes, headers: Mapping[str, str]) -> str:
    event = webhooks.unwrap(body, headers, "whsec_x")
    match event:
        case webhooks.ImageDeleted():
            assert_type(event.data, webhooks.DeletedImage)
        case webhooks.ImageUploaded():
            assert_type(event.data, Image)
        case webhooks.AlbumCreated() | webhooks.AlbumUpdated():
            assert_type(event.data, Album)
        case webhooks.UnknownEvent():
            assert_type(event.data, Mapping[str, object])
    return event.id


def errors(client: Client) -> None:
    try:
        client.account()
    except ImageHostError as error:
        assert_type(error.code, str)
        assert_type(error.status, int | None)
        assert_type(error.fields, tuple[str, ...])
        assert_type(error.retry_after, float | None)
        assert_type(error.rate_limit, RateLimit | None)


def ways() -> None:
    host = testing.FakeImageHost()
    assert_type(host.client(), Client)
    assert_type(host.async_client(), AsyncClient)
    Client("https://h/v1", "t", http_client=httpx2.Client(proxy="http://127.0.0.1:1"))
    AsyncClient("https://h/v1", "t", transport=host)


def parameters(client: Client, image: Image, stored: Format) -> None:
    assert_type(client.image_url(image, w=3, h=4, q=5, fit="inside", fm="jpeg"), str)
    assert_type(client.image_url(image, w=None, fm=Format.JPEG), str)
    assert_type(client.srcset(image, [320], q=70, fm="auto"), str)
    assert_type(client.picture(image, loading="eager", attributes={"class": "a", "hidden": True}), str)
    assert_type(client.picture(image, formats=["jpg", Format.AVIF], fit="contain"), str)
    assert_type(client.images.signed_srcset(image, [320], expires_in=60, fm="webp"), str)
    assert_type(client.images.signed_picture(image, sizes="50vw", q=70), str)
    client.upload("a.png", format="jpg")
    client.upload("a.png", format=Format.JPEG)
    client.images.list(format=stored)
    params: TransformParams = {"w": 3, "fm": "avif"}
    client.render(image, **params)
    scopes: list[Scope] = ["images:read", "albums:write"]
    client.keys.create("k", scopes=scopes)
    client.webhooks.create("https://h", events=[EventKind.IMAGE_UPLOADED, "album.created"])


def refused(client: Client, asynchronous: AsyncClient, image: Image) -> None:
    client.upload("a.png", nothing=3)  # type: ignore[call-arg]
    client.upload("a.png", quality="best")  # type: ignore[arg-type]
    client.upload("a.png", format="tiff")  # type: ignore[arg-type]
    client.upload("a.png", format=Format.GIF)  # type: ignore[arg-type]
    client.images.list(format="tiff")  # type: ignore[arg-type]
    client.images.list(sort="name")  # type: ignore[arg-type]
    client.upload(3)  # type: ignore[arg-type]
    client.upload_many(["a"], filename="b")  # type: ignore[call-arg]
    client.images.get(7)  # type: ignore[arg-type]
    client.images.get()  # type: ignore[call-arg]
    client.albums.create(name=7)  # type: ignore[arg-type]
    client.accounts.update(3, suspended="yes")  # type: ignore[arg-type]
    client.images.get("a").size = 7  # type: ignore[misc]
    asynchronous.images.get("a").size  # type: ignore[attr-defined]  # noqa: B018
    client.image_url(image, width=300)  # type: ignore[call-arg]
    client.image_url(image, w="300")  # type: ignore[arg-type]
    client.image_url(image, fit="insde")  # type: ignore[arg-type]
    client.image_url(image, fm="gif")  # type: ignore[arg-type]
    client.srcset(image, [300], w=300)  # type: ignore[call-arg]
    client.srcset(image, [300], fm=Format.GIF)  # type: ignore[arg-type]
    client.srcset("a", [300])  # type: ignore[arg-type]
    client.picture(image, fit="crop")  # type: ignore[arg-type]
    client.picture(image, loading="layz")  # type: ignore[arg-type]
    client.picture(image, formats=["auto"])  # type: ignore[list-item]
    client.render(image, quality=80)  # type: ignore[call-arg]
    client.render(image, fm="heic")  # type: ignore[arg-type]
    client.images.signed_url(image, fit="covr")  # type: ignore[arg-type]
    client.images.signed_url(image, expires_in="1h")  # type: ignore[arg-type]
    client.images.signed_urls([("b", {"width": 3})])  # type: ignore[typeddict-unknown-key]
    client.images.signed_picture(image, expires=60)  # type: ignore[call-arg]
    client.keys.create("k", scopes=["images:raed"])  # type: ignore[list-item]
    client.keys.create("k", scopes="images:read")  # type: ignore[arg-type]
    client.webhooks.create("https://h", events=["image.upload"])  # type: ignore[list-item]
    client.accounts.update(3, role="root")  # type: ignore[arg-type]
    client.with_options(timout=3)  # type: ignore[call-arg]
