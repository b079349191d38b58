"""`ImageHost`: one object for a program that hosts images."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Unpack

from attrs import field, frozen

from imagehost_core._util.clock import Clock, now
from imagehost_core.errors import Fault, UnavailableError, ValidationError, quoted
from imagehost_core.events import DeletedImage
from imagehost_core.formats import TRAITS, Format
from imagehost_core.ids import Random
from imagehost_core.models import Account, Image, Page, Principal
from imagehost_core.pagination import PageRequest
from imagehost_core.resources import Addresses
from imagehost_core.services import owners
from imagehost_core.services.access import check_transform
from imagehost_core.services.accounts import Accounts
from imagehost_core.services.albums import Albums
from imagehost_core.services.cleanup import Leftovers
from imagehost_core.services.context import open_rooms
from imagehost_core.services.delivery import Blob, Deliveries, Delivery
from imagehost_core.services.idempotency import Claim, Part, claim
from imagehost_core.services.images import Images
from imagehost_core.services.keys import Keys
from imagehost_core.services.owners import Owner
from imagehost_core.services.rate_limiter import Limiter
from imagehost_core.services.sessions import Sessions
from imagehost_core.services.unit_of_work import Subscriber
from imagehost_core.services.upload import Source, default_filename, staged, upload
from imagehost_core.services.webhooks import Webhooks
from imagehost_core.settings import Settings
from imagehost_core.storage import Staged
from imagehost_core.transform import Transform, parse_transform
from imagehost_core.uploads.keywords import ImageChanges, UploadKeywords, upload_options
from imagehost_core.uploads.options import UploadOptions
from imagehost_core.webhooks.signing import MAX_LIFETIME, sign_delivery

FIRST_ACCOUNT = "admin"
"""The account that a fresh data folder has."""


@frozen
class Rendered:
    """A picture that was rendered.

    Attributes:
        data: Its bytes.
        media_type: Its media type.
        width: Pixels.
        height: The same.
        etag: A strong entity tag, quoted.
    """

    data: bytes = field(repr=lambda data: f"<{len(data)} bytes>")
    media_type: str
    width: int
    height: int
    etag: str


class ImageHost:
    """A host of images: records in a catalog, bytes in files, pixels in worker processes.

    Safe between threads; several processes may have one folder open at a time. Made by `open`.

    Attributes:
        settings: All settings.
        addresses: How its addresses are written.
        accounts: Its accounts.
        albums: Its albums.
        keys: Its API keys.
        sessions: Its sessions of signed-in users.
        webhooks: Its webhook destinations.
        limiter: How many requests a caller may make.
    """

    @classmethod
    def open(
        cls,
        where: str | os.PathLike[str] = ":memory:",
        *,
        settings: Settings | None = None,
        clock: Clock = now,
        random: Random = os.urandom,
    ) -> ImageHost:
        """Open a data folder, which is made if there is none, with the account `admin`.

        Args:
            where: The folder; `:memory:` stands for a temporary one, which vanishes on `close`.
            settings: All settings; the defaults, unless given.
            clock: The source of the time.
            random: The source of unpredictable bytes.
        """
        return cls(where, settings or Settings(), clock, random)

    def __init__(
        self, where: str | os.PathLike[str], settings: Settings, clock: Clock, random: Random
    ) -> None:
        self._rooms = open_rooms(where, settings, clock, random)
        self._images = Images(self._rooms)
        self._deliveries = Deliveries(self._rooms)
        self._leftovers = Leftovers(self._rooms)
        self.settings = settings
        self.addresses: Addresses = self._rooms.addresses
        self.accounts = Accounts(self._rooms, self.delete)
        self.keys = Keys(self._rooms)
        self.albums = Albums(self._rooms, self._images.delete)
        self.sessions = Sessions(self._rooms)
        self.webhooks = Webhooks(self._rooms)
        self.limiter = Limiter(self._rooms)
        try:
            self._rooms.staging.sweep()
            self._leftovers.finish_deletions()
            if not self.accounts.list():
                owners.find_or_create(self._rooms, FIRST_ACCOUNT)
        except BaseException:
            self._rooms.close()
            raise

    def close(self) -> None:
        """End the workers and let go of the folder. No other thread may be using the host."""
        self._rooms.close()

    def __enter__(self) -> ImageHost:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def now(self) -> datetime:
        """Return the present moment, as the host's clock tells it."""
        return self._rooms.clock()

    def start(self) -> None:
        """Start all workers now, so that the first request finds them warm. Returns at once."""
        self._rooms.workers.start()

    def ready(self) -> None:
        """Let whoever asks whether the host can work pass.

        Raises:
            UnavailableError: Its catalog or its folder does not answer.
        """
        try:
            self.accounts.list()
            with self._rooms.staging.folder():
                pass
        except Exception as error:
            raise UnavailableError("expected the stores to answer but received an error") from error

    def stage(self) -> Staged:
        """Return an empty file that grows by `write`, for `upload`. It vanishes when its `with` block ends.

        Raises:
            InsufficientStorageError: The disk has less room than its floor.
        """
        return self._rooms.staging.stage()

    def upload(
        self,
        source: Source,
        *,
        owner: Owner,
        filename: str | None = None,
        options: UploadOptions | None = None,
        once: Part | None = None,
        **keywords: Unpack[UploadKeywords],
    ) -> Image:
        """Store an image. When this returns, it survives a power cut; when it raises, nothing is left.

        Args:
            source: A path, bytes, a file object (read from where it stands), or a staged file.
            owner: Whose it is; a name that nobody has is given an account.
            filename: The name that it came with; the source's own, unless given.
            once: The part of a request that must not do anything twice, for which this is.
            options: What is asked for; or as keywords: `album_id`, `description`, `quality` (1–100),
                `format` (jpeg, png, webp), `remove_exif`, `convert_to_webp`, `auto_rename`, `is_public`.

        Raises:
            PayloadTooLargeError: It is larger than 50 MB.
            UnsupportedMediaTypeError: Its content is not JPEG, PNG, WebP or GIF.
            ValidationError: An option is not allowed, or the image is damaged or over a limit.
            InsufficientStorageError: The quota or the disk has no room.
            UnavailableError: All workers are busy, and too many uploads wait.
        """
        wanted = options or upload_options(keywords)
        account = owners.find_or_create(self._rooms, owner)
        with staged(self._rooms, source) as complete:
            name = filename if filename is not None else default_filename(source)
            return upload(self._rooms, complete, account, name, wanted, once)

    def get(self, image_id: str, *, owner: Owner | None = None) -> Image:
        """Return an image.

        Args:
            image_id: Which.
            owner: Whose it must be; anybody's, unless given.

        Raises:
            NotFoundError: There is none, or it is somebody else's.
        """
        return self._images.get(image_id, owner)

    def list(
        self, *, owner: Owner, album_id: int | str | None = None, page: PageRequest | None = None
    ) -> Page[Image]:
        """Return a part of an account's images, newest first.

        Args:
            owner: Whose.
            album_id: Only those in this album.
            page: Which part; the first 20, unless given.

        Raises:
            NotFoundError: The account has no such album.
        """
        return self._images.list(owner, album_id, page or PageRequest())

    def gallery(self, page: PageRequest | None = None) -> Page[Image]:
        """Return a part of the public images of all accounts, newest first."""
        return self._rooms.images.public(page or PageRequest())

    def update(self, image_id: str, *, owner: Owner | None = None, **changes: Unpack[ImageChanges]) -> Image:
        """Change some of an image's fields; what is not given stays.

        Args:
            image_id: Which.
            owner: Whose it must be; anybody's, unless given.
            changes: `album_id` (`None` takes it out of its album), `description`, `is_public`,
                `filename`.

        Raises:
            NotFoundError: There is none, or it is somebody else's.
            ValidationError: A value is not allowed. Names every fault.
        """
        return self._images.update(image_id, owner, dict(changes))

    def delete(self, image_id: str, *, owner: Owner | None = None) -> DeletedImage:
        """Delete an image for good.

        When this returns, no byte of it or of its variants is left, and no render that was under way
        can bring one back.

        Args:
            image_id: Which.
            owner: Whose it must be; anybody's, unless given.

        Raises:
            NotFoundError: There is none, or it is somebody else's.
            OSError: Some bytes cannot be removed now. Deleting it once more, or `tidy`, finishes that.
        """
        return self._images.delete(image_id, owner)

    def render(self, image_id: str, params: str | Mapping[str, str] | Transform = "") -> Rendered:
        """Return a variant of an image; from the cache, if it was made before.

        Args:
            image_id: Which; no access rule is applied: this is the program's own call.
            params: A query like `w=200&h=200&fit=cover&fm=webp`, its names and values, or a `Transform`.
                Without any, the master itself.

        Raises:
            BadRequestError: A parameter is not allowed.
            NotFoundError: There is no such image.
            UnavailableError: The workers have too much to do, or the work took too long.
        """
        transform = params if isinstance(params, Transform) else parse_transform(params)
        image = self.get(image_id)
        delivery = self._deliveries.of(image, transform, whole=transform == Transform())
        with self._deliveries.fetch(delivery) as blob:
            data = blob.read()
        size = delivery.job.plan.output if delivery.job else image
        return Rendered(data, delivery.media_type, size.width, size.height, delivery.etag)

    def locate(
        self, path: str, query: str = "", *, accept: str = "", viewer: Account | None = None
    ) -> Delivery:
        """Return what a delivery address means, without any image work.

        Args:
            path: `<id>` or `<id>.<ext>`.
            query: The query string as it came.
            accept: The request's `Accept` header.
            viewer: Who asks, or `None`.

        Raises:
            BadRequestError: A parameter is wrong.
            NotFoundError: There is no such image or extension, or none that the viewer may see.
            ForbiddenError: Transforms must be signed here, and this one is not.
        """
        return self._deliveries.locate(path, query, accept, viewer)

    def peek(
        self, path: str, query: str = "", *, accept: str = "", viewer: Account | None = None
    ) -> tuple[Delivery, Blob | None] | None:
        """Return what a delivery address means, and its bytes, as far as memory has them.

        Never waits for a disk, a lock or a worker, so that an event loop may call it.

        Returns:
            `None` where the record is not in memory; no blob where the bytes are not.

        Raises:
            ImageHostError: As `locate`.
        """
        return self._deliveries.peek(path, query, accept, viewer)

    def fetch(self, delivery: Delivery) -> Blob:
        """Return the bytes of a delivery, made now if they must be; close it after use.

        Raises:
            NotFoundError: The image was deleted meanwhile.
            UnavailableError: The workers have too much to do, or the work took too long.
        """
        return self._deliveries.fetch(delivery)

    def sign(
        self,
        image_id: str,
        params: str | Mapping[str, str] | Transform = "",
        *,
        owner: Owner | None = None,
        expires_in: int = 3_600,
    ) -> str:
        """Return a delivery address that shows a picture to whoever holds it, for a while.

        Args:
            image_id: Which.
            params: What it shows, as for `render`.
            owner: Whose it must be; anybody's, unless given.
            expires_in: For how many seconds, 1 to a year.

        Raises:
            BadRequestError: A parameter is not allowed.
            NotFoundError: There is no such image, or it is somebody else's.
            ValidationError: `expires_in` is out of range.
        """
        if type(expires_in) is not int or not 1 <= expires_in <= MAX_LIFETIME:
            expected = f"an integer from 1 to {MAX_LIFETIME} seconds"
            raise ValidationError(faults=[Fault("expires_in", expected, quoted(expires_in))])
        image = self.get(image_id, owner=owner)
        transform = params if isinstance(params, Transform) else parse_transform(params)
        self._deliveries.of(image, transform)
        check_transform(transform, True, self.settings.delivery)
        expires = int(self._rooms.clock().timestamp()) + expires_in
        signature = sign_delivery(self._rooms.secret, image.id, transform, expires)
        query = transform.to_query()
        signed = f"{query}&" * bool(query) + f"exp={expires}&sig={signature}"
        # The extension says what `fm` has no word for.
        extension = TRAITS[transform.format].extensions[0] if isinstance(transform.format, Format) else None
        return self.addresses.image(image, signed, extension)

    def authenticate(self, token: str) -> Principal:
        """Return who is behind a token.

        Raises:
            UnauthorizedError: It is malformed, unknown, expired or revoked.
        """
        return self.keys.authenticate(token)

    def claim(self, account: Account, key: str, request: str) -> AbstractContextManager[Claim]:
        """Return a context in which a request that may come again is answered once.

        Args:
            account: Whose request.
            key: The `Idempotency-Key`: 1–255 printable ASCII characters.
            request: What tells the request from others, such as a hash of all it says.

        Raises:
            BadRequestError: The key is not one.
            ConflictError: Another request has the key, or the first is still under way.
        """
        return claim(self._rooms, account, key, request)

    def subscribe(self, callback: Subscriber) -> Callable[[], None]:
        """Call a callback with each event of this process, once its change is durable; return what ends that.

        It runs in the thread that made the change, which waits for it. A callback that fails is
        logged, and undoes nothing.
        """
        return self._rooms.changes.subscribers.add(callback)

    def collect(self) -> tuple[str, ...]:
        """Look for all that crashes and failures have left, and remove it, with variants above their bound.

        Returns:
            The ids under which there were files of uploads that never ended.
        """
        return self._leftovers.collect()

    def tidy(self) -> tuple[str, ...]:
        """Remove what `collect` does, where there is a sign of it; cheap enough for every minute."""
        return self._leftovers.tidy()
