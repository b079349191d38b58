"""Every operation of the host as a value: one pure function per endpoint, from arguments to a `Call`.

Both clients take their methods from here (`_methods`), names, parameters and docstrings alike. Nothing
here sends anything; what cannot be right is refused here, before it is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from functools import partial
from typing import Final, Generic, Literal, TypeVar
from urllib.parse import quote

from attrs import evolve, field, frozen

from imagehost_client import _wire, models
from imagehost_client._multipart import Progress
from imagehost_client.files import Source
from imagehost_client.models import Album, ApiKey, Delivery, Image, Meta, Page, PublicImage, Result, Webhook
from imagehost_client.urls import Params, query_of

T = TypeVar("T")
R = TypeVar("R", bound=Result)


class Unset(Enum):
    """The kind of `UNSET`."""

    UNSET = "unset"

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset.UNSET
"""A value that is left as it is; `None` is a value of its own (no album, no expiry)."""

ImageRef = str | Image | PublicImage
"""An image, or its id."""
AlbumRef = int | str | Album
"""An album, or its id."""
KeyRef = str | ApiKey
WebhookRef = str | Webhook
DeliveryRef = str | Delivery
UploadFormat = Literal["auto", "jpeg", "png", "webp"]


@frozen(kw_only=True)
class FilePart:
    """The file of an upload.

    Attributes:
        source: What is sent.
        filename: Its name, if not the source's own.
        progress: Who is told how far sending has come.
        checksum: Whether the record's checksum must be the file's.
    """

    source: Source = field(repr=False)
    filename: str | None = None
    progress: Progress | None = None
    checksum: bool = False


@frozen(kw_only=True)
class Call(Generic[T]):
    """One request, not yet sent.

    Attributes:
        method: The HTTP method.
        path: Below the base address, escaped.
        decode: Makes the result of the answer's data.
        query: Names and values after `?`.
        body: What is sent as JSON.
        fields: The text fields of an upload.
        file: The file of an upload.
        repeatable: Whether sending it twice is the same as sending it once.
        key: The idempotency key; `""` asks for a new one, `None` is for calls that take none.
        gone: The result when another try finds that the resource is gone: an earlier try did it.
    """

    method: str
    path: str
    decode: Callable[[object], T]
    query: tuple[tuple[str, str], ...] = ()
    body: Mapping[str, object] | None = field(default=None, repr=False)
    fields: tuple[tuple[str, str], ...] = ()
    file: FilePart | None = None
    repeatable: bool = True
    key: str | None = None
    gone: T | None = None


def with_meta(result: T, meta: Meta) -> T:
    """Return a result that carries what its answer says beside its data."""
    return evolve(result, meta=meta) if isinstance(result, Result) else result


def following(call: Call[Page[T]], page: Page[T]) -> Call[Page[T]] | None:
    """Return the call for the page after `page`, or `None` after the last one.

    It asks by cursor, so nothing is skipped or repeated while records are added or deleted.
    """
    if page.next_cursor is None:
        return None
    kept = tuple((name, value) for name, value in call.query if name not in {"page", "cursor"})
    return evolve(call, query=(*kept, ("cursor", page.next_cursor)))


def upload(
    source: Source,
    *,
    filename: str | None = None,
    album_id: AlbumRef | None = None,
    description: str | None = None,
    quality: int | None = None,
    format: UploadFormat | None = None,  # noqa: A002 - the parameter's name on the wire
    remove_exif: bool | None = None,
    convert_to_webp: bool | None = None,
    auto_rename: bool | None = None,
    is_public: bool | None = None,
    checksum: bool = False,
    idempotency_key: str | None = None,
    progress: Progress | None = None,
) -> Call[Image]:
    """Upload one image; when this returns, it is stored for good.

    What is left out is left to the host: by default it converts to WebP where that is smaller, keeps
    EXIF, and shows the image in the public gallery.

    Args:
        source: A path, bytes, a binary file (sent from where it stands), or `(name, content)`.
        filename: The name to send instead of the source's own.
        album_id: The album to put the image into.
        description: A text about the image.
        quality: 1–100.
        format: The stored format; `auto` leaves it to `convert_to_webp`.
        remove_exif: Whether EXIF, XMP and IPTC are removed.
        convert_to_webp: Whether the image is stored as WebP.
        auto_rename: Whether the image gets a random name.
        is_public: Whether the public gallery shows it.
        checksum: Compare the record's SHA-256 with the bytes sent. The host re-encodes unless asked
            not to, so this goes only with `convert_to_webp=False` and without `format`, `quality`
            and `remove_exif`.
        idempotency_key: The key of this upload, to repeat it in another process; random by default.
        progress: Called as `progress(sent, total)` with bytes of the file while it is sent.

    Raises:
        ImageHostError: The host refused, or could not be reached.
        OSError: The file cannot be read.
    """
    re_encoded = (
        convert_to_webp is not False or format not in {None, "auto"} or quality is not None or remove_exif
    )
    if checksum and re_encoded:
        raise ValueError(
            "expected convert_to_webp=False, and no format, quality or remove_exif, for checksum=True "
            "but received options that let the host re-encode the image"
        )
    return Call(
        method="POST",
        path="/upload",
        decode=partial(_wire.decode, Image),
        fields=_fields(
            album_id=None if album_id is None else album_number(album_id),
            description=description,
            quality=quality,
            format=format,
            remove_exif=remove_exif,
            convertToWebP=convert_to_webp,
            auto_rename=auto_rename,
            is_public=is_public,
        ),
        file=FilePart(source=source, filename=filename, progress=progress, checksum=checksum),
        key=idempotency_key or "",
    )


def list_images(
    *, album_id: AlbumRef | None = None, page: int | None = None, per_page: int | None = None
) -> Call[Page[Image]]:
    """List your images, newest first.

    Args:
        album_id: Only the images of this album.
        page: The page to begin at, from 1.
        per_page: Records a request, 1–100; 20 by default.
    """
    query = _query(
        album_id=None if album_id is None else album_number(album_id), page=page, per_page=per_page
    )
    return _list("/images", "images", Image, query)


def gallery(*, page: int | None = None, per_page: int | None = None) -> Call[Page[PublicImage]]:
    """List the public images of all accounts, newest first; this needs no token.

    Args:
        page: The page to begin at, from 1.
        per_page: Records a request, 1–100; 20 by default.
    """
    return _list("/gallery", "images", PublicImage, _query(page=page, per_page=per_page))


def get_image(image: ImageRef) -> Call[Image]:
    """Return one image of yours.

    Args:
        image: The image, or its id.
    """
    return _one("GET", Image, "images", image_id(image))


def update_image(
    image: ImageRef,
    *,
    album_id: AlbumRef | Unset | None = UNSET,
    description: str | Unset = UNSET,
    is_public: bool | Unset = UNSET,
    filename: str | Unset = UNSET,
) -> Call[Image]:
    """Change an image's record; what is left out stays as it is.

    Args:
        image: The image, or its id.
        album_id: The album to move it to; `None` takes it out of its album.
        description: A text about the image.
        is_public: Whether the public gallery shows it.
        filename: Its name.
    """
    album = album_id if album_id is None or album_id is UNSET else album_number(album_id)
    body = _given(album_id=album, description=description, is_public=is_public, filename=filename)
    return _one("PATCH", Image, "images", image_id(image), body=body)


def delete_image(image: ImageRef) -> Call[models.Deleted]:
    """Delete an image and everything made from it, for good.

    Args:
        image: The image, or its id.

    Raises:
        NotFoundError: There is no such image of yours. Where an earlier try of the same call may
            have deleted it, that is success.
    """
    number = image_id(image)
    return evolve(_one("DELETE", models.Deleted, "images", number), gone=models.Deleted(id=number))


def sign_image_url(
    image: ImageRef, *, expires_in: int | None = None, **params: Params
) -> Call[models.SignedUrl]:
    """Return a delivery address that works without a token for a time, also for a private image.

    Args:
        image: The image, or its id.
        expires_in: Seconds for which it works.
        **params: `w`, `h`, `q`, `fit` and `fm`, as for `image_url`.
    """
    body: dict[str, object] = {**query_of(params), **_sent(expires_in=expires_in)}
    return _one("POST", models.SignedUrl, "images", image_id(image), "signed-url", body=body)


def list_albums(*, page: int | None = None, per_page: int | None = None) -> Call[Page[Album]]:
    """List your albums, newest first.

    Args:
        page: The page to begin at, from 1.
        per_page: Records a request, 1–100; 20 by default.
    """
    return _list("/albums", "albums", Album, _query(page=page, per_page=per_page))


def create_album(
    name: str,
    *,
    description: str | None = None,
    is_public: bool | None = None,
    idempotency_key: str | None = None,
) -> Call[Album]:
    """Make an album.

    Args:
        name: 1–100 characters.
        description: At most 2,000 characters.
        is_public: Whether others may see it; the host's default is that they may.
        idempotency_key: The key of this call, to repeat it in another process; random by default.
    """
    body = {"name": name, **_sent(description=description, is_public=is_public)}
    return evolve(_one("POST", Album, "albums", body=body), key=idempotency_key or "")


def get_album(album: AlbumRef) -> Call[Album]:
    """Return one album of yours.

    Args:
        album: The album, or its id.
    """
    return _one("GET", Album, "albums", album_number(album))


def update_album(
    album: AlbumRef,
    *,
    name: str | Unset = UNSET,
    description: str | Unset = UNSET,
    is_public: bool | Unset = UNSET,
) -> Call[Album]:
    """Change an album's record; what is left out stays as it is.

    Args:
        album: The album, or its id.
        name: 1–100 characters.
        description: At most 2,000 characters.
        is_public: Whether others may see it.
    """
    body = _given(name=name, description=description, is_public=is_public)
    return _one("PATCH", Album, "albums", album_number(album), body=body)


def delete_album(album: AlbumRef, *, delete_images: bool = False) -> Call[models.DeletedAlbum]:
    """Delete an album; its images stay, unless they are to go with it.

    Args:
        album: The album, or its id.
        delete_images: Whether its images are deleted too, for good.
    """
    number = album_number(album)
    call = _one("DELETE", models.DeletedAlbum, "albums", number)
    query = (("delete_images", "true"),) if delete_images else ()
    return evolve(call, query=query, gone=models.DeletedAlbum(id=int(number)))


def add_images(album: AlbumRef, images: Iterable[ImageRef]) -> Call[models.Membership]:
    """Put images into an album.

    Args:
        album: The album, or its id.
        images: Images, or their ids.
    """
    return _members("PUT", album, images)


def remove_images(album: AlbumRef, images: Iterable[ImageRef]) -> Call[models.Membership]:
    """Take images out of an album; they are not deleted.

    Args:
        album: The album, or its id.
        images: Images, or their ids.
    """
    return _members("DELETE", album, images)


def list_keys(*, page: int | None = None, per_page: int | None = None) -> Call[Page[ApiKey]]:
    """List your API keys; like all calls on keys, this needs a session's token.

    Args:
        page: The page to begin at, from 1.
        per_page: Records a request, 1–100; 20 by default.
    """
    return _list("/keys", "keys", ApiKey, _query(page=page, per_page=per_page))


def create_key(
    name: str, *, scopes: Sequence[str] | None = None, expires_at: datetime | None = None
) -> Call[models.NewApiKey]:
    """Make an API key; its token is in this answer and never shown again.

    Args:
        name: What the key is for.
        scopes: What it may do, such as `images:read`; all by default.
        expires_at: When it ends, with a zone.
    """
    ends = None if expires_at is None else _wire.rfc3339(expires_at)
    body = {"name": name, **_sent(scopes=_texts(scopes), expires_at=ends)}
    return evolve(_one("POST", models.NewApiKey, "keys", body=body), repeatable=False)


def get_key(key: KeyRef) -> Call[ApiKey]:
    """Return one API key, without its token.

    Args:
        key: The key, or its id.
    """
    return _one("GET", ApiKey, "keys", _id(key))


def update_key(
    key: KeyRef,
    *,
    name: str | Unset = UNSET,
    scopes: Sequence[str] | Unset = UNSET,
    expires_at: datetime | Unset | None = UNSET,
) -> Call[ApiKey]:
    """Change an API key; what is left out stays as it is.

    Args:
        key: The key, or its id.
        name: What the key is for.
        scopes: What it may do.
        expires_at: When it ends, with a zone; `None` for never.
    """
    ends = _wire.rfc3339(expires_at) if isinstance(expires_at, datetime) else expires_at
    chosen = scopes if scopes is UNSET else _texts(scopes)
    return _one("PATCH", ApiKey, "keys", _id(key), body=_given(name=name, scopes=chosen, expires_at=ends))


def delete_key(key: KeyRef) -> Call[models.Deleted]:
    """Revoke an API key; its token stops working at once.

    Args:
        key: The key, or its id.
    """
    return evolve(_one("DELETE", models.Deleted, "keys", _id(key)), gone=models.Deleted(id=_id(key)))


def list_webhooks(*, page: int | None = None, per_page: int | None = None) -> Call[Page[Webhook]]:
    """List the destinations of events.

    Args:
        page: The page to begin at, from 1.
        per_page: Records a request, 1–100; 20 by default.
    """
    return _list("/webhooks", "webhooks", Webhook, _query(page=page, per_page=per_page))


def create_webhook(
    url: str,
    *,
    events: Sequence[str] | None = None,
    description: str | None = None,
    is_active: bool | None = None,
) -> Call[models.NewWebhook]:
    """Add a destination of events; its signing secret is in this answer and never shown again.

    Args:
        url: An https address that takes POST requests.
        events: The kinds of events, such as `image.uploaded`; all by default.
        description: What the destination is.
        is_active: Whether events are sent there.
    """
    body = {"url": url, **_sent(events=_texts(events), description=description, is_active=is_active)}
    return evolve(_one("POST", models.NewWebhook, "webhooks", body=body), repeatable=False)


def get_webhook(webhook: WebhookRef) -> Call[Webhook]:
    """Return one destination, without its secret.

    Args:
        webhook: The destination, or its id.
    """
    return _one("GET", Webhook, "webhooks", _id(webhook))


def update_webhook(
    webhook: WebhookRef,
    *,
    url: str | Unset = UNSET,
    events: Sequence[str] | Unset = UNSET,
    description: str | Unset = UNSET,
    is_active: bool | Unset = UNSET,
) -> Call[Webhook]:
    """Change a destination; what is left out stays as it is.

    Args:
        webhook: The destination, or its id.
        url: An https address that takes POST requests.
        events: The kinds of events.
        description: What the destination is.
        is_active: Whether events are sent there.
    """
    chosen = events if events is UNSET else _texts(events)
    body = _given(url=url, events=chosen, description=description, is_active=is_active)
    return _one("PATCH", Webhook, "webhooks", _id(webhook), body=body)


def delete_webhook(webhook: WebhookRef) -> Call[models.Deleted]:
    """Remove a destination; nothing is sent there any more.

    Args:
        webhook: The destination, or its id.
    """
    number = _id(webhook)
    return evolve(_one("DELETE", models.Deleted, "webhooks", number), gone=models.Deleted(id=number))


def test_webhook(webhook: WebhookRef) -> Call[Delivery]:
    """Send a test event to a destination.

    Args:
        webhook: The destination, or its id.
    """
    return evolve(_one("POST", Delivery, "webhooks", _id(webhook), "test"), repeatable=False)


def rotate_webhook_secret(webhook: WebhookRef) -> Call[models.NewWebhook]:
    """Give a destination a new signing secret, which is in this answer and never shown again.

    Args:
        webhook: The destination, or its id.
    """
    return evolve(
        _one("POST", models.NewWebhook, "webhooks", _id(webhook), "rotate-secret"), repeatable=False
    )


def list_deliveries(
    webhook: WebhookRef, *, page: int | None = None, per_page: int | None = None
) -> Call[Page[Delivery]]:
    """List what was sent, or is to be sent, to a destination; newest first.

    Args:
        webhook: The destination, or its id.
        page: The page to begin at, from 1.
        per_page: Records a request, 1–100; 20 by default.
    """
    path = f"/webhooks/{_segment(_id(webhook))}/deliveries"
    return _list(path, "deliveries", Delivery, _query(page=page, per_page=per_page))


def retry_delivery(webhook: WebhookRef, delivery: DeliveryRef) -> Call[Delivery]:
    """Send a delivery again.

    Args:
        webhook: The destination, or its id.
        delivery: The delivery, or its id.
    """
    call = _one("POST", Delivery, "webhooks", _id(webhook), "deliveries", _id(delivery), "retry")
    return evolve(call, repeatable=False)


def get_account() -> Call[models.Account]:
    """Return your account: usage, quota and limits."""
    return _one("GET", models.Account, "account")


def create_session(username: str, password: str) -> Call[models.Session]:
    """Sign in; the token that is returned acts with all scopes, and alone manages keys.

    Args:
        username: The account's name.
        password: Its password.
    """
    call = _one("POST", models.Session, "session", body={"username": username, "password": password})
    return evolve(call, repeatable=False)


def delete_session() -> Call[models.SignedOut]:
    """Sign out: the session whose token this client has ends."""
    return Call(
        method="DELETE", path="/session", decode=lambda _: models.SignedOut(), gone=models.SignedOut()
    )


def image_id(image: ImageRef) -> str:
    """Return the id of an image that is given by itself or its id."""
    return image if isinstance(image, str) else image.id


def album_number(album: AlbumRef) -> str:
    """Return the digits of an album's id, given as the album, an integer or its decimal text.

    Raises:
        ValueError: It is no positive integer.
    """
    text = str(album.id if isinstance(album, Album) else album)
    if isinstance(album, bool) or not (text.isascii() and text.isdecimal()) or text[0] == "0":
        raise ValueError(f"expected a positive integer for album_id but received {text!r}")
    return text


def _id(record: str | ApiKey | Webhook | Delivery) -> str:
    return record if isinstance(record, str) else record.id


def _segment(text: str) -> str:
    """Return an id as a path segment; one that would address something else is refused."""
    if text in {"", ".", ".."}:
        raise ValueError(f"expected an id but received {text!r}")
    return quote(text, safe="")


def _one(method: str, kind: type[R], *path: str, body: Mapping[str, object] | None = None) -> Call[R]:
    address = "/" + "/".join(_segment(part) for part in path)
    return Call(method=method, path=address, decode=partial(_wire.decode, kind), body=body)


def _list(path: str, name: str, kind: type[R], query: tuple[tuple[str, str], ...]) -> Call[Page[R]]:
    return Call(method="GET", path=path, decode=partial(_wire.decode_page, kind, name), query=query)


def _members(method: str, album: AlbumRef, images: Iterable[ImageRef]) -> Call[models.Membership]:
    if isinstance(images, (str, Image, PublicImage)):
        images = (images,)
    body = {"image_ids": [image_id(image) for image in images]}
    return _one(method, models.Membership, "albums", album_number(album), "images", body=body)


def _texts(values: Sequence[str] | None) -> list[str] | None:
    if isinstance(values, str):
        raise TypeError(f"expected a list of texts but received {values!r}")
    return None if values is None else [str(value) for value in values]


def _sent(**values: object) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}


def _given(**values: object) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not UNSET}


def _query(**values: str | int | None) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(value)) for name, value in values.items() if value is not None)


def _fields(**values: str | int | bool | None) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name, str(value).lower() if isinstance(value, bool) else str(value))
        for name, value in values.items()
        if value is not None
    )
