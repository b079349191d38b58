"""`ImageHost`: one object for a program that hosts images."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Unpack, cast

import attrs

from imagehost_core._util.clock import Clock, utc_now
from imagehost_core._util.durable import translate_disk_errors
from imagehost_core.conditional import is_not_modified
from imagehost_core.context import HostContext, open_context
from imagehost_core.endpoints import HostResolver, resolve_host
from imagehost_core.environment import Environment
from imagehost_core.errors import HostClosedError
from imagehost_core.headers.camera import CameraData, read_camera_data
from imagehost_core.headers.scanner import read_metadata
from imagehost_core.ids import Random
from imagehost_core.installation import InstallationRecord
from imagehost_core.lists import PageKeywords
from imagehost_core.maintenance.backup import BackupService
from imagehost_core.maintenance.check.findings import Finding, ProgressCallback
from imagehost_core.maintenance.check.service import IntegrityService
from imagehost_core.maintenance.garbage import GarbageCollector
from imagehost_core.maintenance.importers.service import ImportService
from imagehost_core.maintenance.service import MaintenanceService
from imagehost_core.markup import (
    DEFAULT_WIDTHS,
    PictureKeywords,
    SrcsetKeywords,
    picture,
    srcset,
    variant_url,
)
from imagehost_core.models import AccountOverview, Image, Page, Principal, Quota, UrlBuilder
from imagehost_core.observer import Observer, ignore
from imagehost_core.records import Rendered
from imagehost_core.services.access import SigningKeys
from imagehost_core.services.accounts import AccountService
from imagehost_core.services.albums import AlbumService
from imagehost_core.services.cache_purges import CachePurgeService
from imagehost_core.services.deletion import ImageDeleter
from imagehost_core.services.delivery import ImageResolver
from imagehost_core.services.idempotency import IdempotencyService, SubOperation
from imagehost_core.services.images import ImageService
from imagehost_core.services.keys import KeyService
from imagehost_core.services.rate_limiter import RateLimiter
from imagehost_core.services.references import AlbumRef, ImageRef, Owner, image_id_of
from imagehost_core.services.rendering import RenderingService
from imagehost_core.services.sessions import SessionService
from imagehost_core.services.signed_urls import UrlSigner
from imagehost_core.services.unit_of_work import Subscriber
from imagehost_core.services.upload import UploadService, UploadSource
from imagehost_core.services.webhooks import WebhookService
from imagehost_core.settings import Settings
from imagehost_core.transform import (
    Transform,
    TransformKeywords,
    TransformSource,
    parse_transform,
    transform_parameters,
)
from imagehost_core.uploads import UploadKeywords, UploadOptions
from imagehost_core.workers.executor import ImageExecutor

FIRST_ACCOUNT = "admin"
"""The account that is created in a new data directory: the first operator."""
_KEPT = frozenset({"_context", "installation", "path", "settings", "urls"})
"""The attributes of a host that stay when it is closed."""


class ImageHost:
    """An image host: records in a database, images in a store, pixel work in processes.

    By default, database and store are SQLite and files in the data directory.

    Safe to use from several threads; several processes may open one directory. Created by `open`.

    Attributes:
        path: The data directory.
        settings: The settings it was opened with.
        installation: The record of the installation; restored data keep its `id`.
        urls: Builder of image URLs from the settings `base_url` and `cdn_url`.
        images: Get, list, update and delete images; signed URLs.
        albums: Albums and their images.
        accounts: Accounts, their limits and usage.
        keys: API keys.
        sessions: Sessions of signed-in users.
        webhooks: Webhook endpoints and their deliveries.
        cache_purges: Images that a shared cache must remove, for servers.
        rate_limiter: Rate limit windows of accounts and client IP addresses.
        uploads: Uploads of staged files, for servers that stream request bodies to disk.
        delivery: Resolution of image URLs to bytes, for servers.
        idempotency: Idempotency keys of requests, for servers.
        imports: Imports of directories, and of the data of other image hosts.
        backups: Backups of the data directory, while it is in use.
        maintenance: Worker start, readiness check, statistics and garbage collection, for servers.
    """

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        settings: Settings | None = None,
        clock: Clock = utc_now,
        random: Random = os.urandom,
        resolve: HostResolver = resolve_host,
        server_processes: int = 1,
        recover: bool = True,
        observe: Observer = ignore,
        executor: ImageExecutor | None = None,
    ) -> ImageHost:
        """Open a data directory; create it, with the account `admin`, if it does not exist.

        Args:
            path: The directory; `:memory:` is a temporary one that `close` removes.
            settings: All settings; by default those of `Settings()`.
            clock: The source of the current time. The system's clock is replaced by that of the server of a
                PostgreSQL database, which several hosts have in common.
            random: The source of unpredictable bytes.
            resolve: The DNS lookup of webhook hosts: a function of host and port that returns IP addresses.
            server_processes: The number of processes of this machine that serve the directory: each has its
                share of the image worker processes and of their memory.
            recover: Whether to finish now what a crash has interrupted; a check that is to find it does not.
            observe: Receives measurements, in the threads of the work (`imagehost_core.observer`).
            executor: Worker processes that several hosts share, which the caller closes after them; by
                default the host has its own.

        Raises:
            InsufficientStorageError: The disk is full.
            InstallationError: Directory, database and image store do not belong together, or are of a newer
                version.
            InternalError: The disk fails, or the database is damaged.
            OSError: The directory cannot be used for another reason, such as its permissions.
        """
        env = Environment(clock, random, resolve, observe)
        settings = settings or Settings()
        with translate_disk_errors():
            return cls(open_context(path, settings, env, server_processes, executor), settings, recover)

    def __init__(
        self, context: HostContext | None = None, settings: Settings | None = None, recover: bool = True
    ) -> None:
        given: object = context
        if not isinstance(given, HostContext) or context is None or settings is None:
            raise TypeError("expected ImageHost.open(path), or ImageHost.open(':memory:'), for a new host")
        self._context = context
        env, records, files, units = context.env, context.records, context.files, context.units
        executor, installation, principals = context.executor, context.installation, context.principals
        signing_keys = SigningKeys(records, principals, context.secret)
        rendering = RenderingService(files, executor, settings.rendering.render_timeout_seconds)
        deleter = ImageDeleter(records, files, units, env.clock)
        retention = timedelta(seconds=settings.webhooks.retention_seconds)
        garbage = GarbageCollector(records, files, installation, retention, context.missed_changes, env.clock)
        self.path: Path = context.layout.root
        self.settings = settings
        self.urls: UrlBuilder = context.urls
        self.installation: InstallationRecord = installation.record
        self.delivery = ImageResolver(records, files, rendering, signing_keys, settings.delivery, env.clock)
        signer = UrlSigner(signing_keys, self.delivery, self.urls, settings.delivery, env.clock)
        self.images = ImageService(records, files, deleter, signer, units, env.clock)
        self.albums = AlbumService(records, files, deleter, units, env)
        self.accounts = AccountService(records, files, principals, units, deleter, env)
        self.keys = KeyService(records, principals, units, env)
        self.sessions = SessionService(records, principals, units, settings.sessions, env)
        self.webhooks = WebhookService(records, files, units, settings.webhooks, env)
        self.cache_purges = CachePurgeService(records, self.urls, settings, env)
        self.rate_limiter = RateLimiter(context.rate_limits, settings.limits, env.clock)
        self.uploads = UploadService(records, files, executor, units, settings, env)
        self.idempotency = IdempotencyService(records, files, units, env.clock)
        self.maintenance = MaintenanceService(records, files, executor, garbage, env.clock)
        self._integrity = IntegrityService(
            records, files, executor, installation, settings.rendering.ingest_timeout_seconds
        )
        self.backups = BackupService(
            context.layout, records, files, context.secret, installation.record, env.clock
        )
        self.imports = ImportService(
            self.uploads, self.albums, self.accounts, records, settings.rendering.processes
        )
        self._env, self._events = env, units.bus
        try:
            if recover:
                files.staging.remove_stale()
                garbage.finish_deletions()
                garbage.remove_copies()
            self.accounts.create_first(FIRST_ACCOUNT)
        except BaseException:
            context.close()
            raise
        _open_hosts.add(self)

    def close(self) -> None:
        """Stop the worker processes and close the data directory. No other thread may be using the host.

        Further uses of the host raise `HostClosedError`. Does nothing to a closed host, nor to one of the
        parent process.
        """
        if self in _open_hosts:
            self._context.close()
            self._remove_services("was closed")

    def _remove_services(self, reason: str) -> None:
        """Remove the services of the host; let those that the program has kept refuse every use."""
        _open_hosts.discard(self)
        closed = _ClosedPart(f"expected an open host but it {reason}; open one with ImageHost.open here")
        for name in vars(self).keys() - _KEPT:
            service = getattr(self, name)
            if attrs.has(type(service)):
                for part in attrs.fields(type(service)):
                    object.__setattr__(service, part.name, closed)  # frozen while the host is open
            setattr(self, name, closed)

    def __enter__(self) -> ImageHost:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def now(self) -> datetime:
        """Return the current time of the host's clock."""
        return self._env.clock()

    def upload(
        self,
        source: UploadSource,
        *,
        owner: Owner,
        filename: str | None = None,
        options: UploadOptions | None = None,
        idempotency: SubOperation | None = None,
        **keywords: Unpack[UploadKeywords],
    ) -> Image:
        """Store an image durably: after this returns it survives a power failure; an error stores nothing.

        Args:
            source: A path, bytes, a file object (read from its position to its end), a pair of a file name
                and one of these, or a staged file.
            owner: The account, or its name.
            filename: The original filename; by default that of the source.
            options: The options of the upload.
            idempotency: The sub-operation of an idempotent request that stores the image.
            keywords: The attributes of `UploadOptions` as keyword arguments, in place of `options`.

        Raises:
            NotFoundError: There is no such account.
            PayloadTooLargeError: The source has more than 50 MB.
            UnsupportedMediaTypeError: The content is not JPEG, PNG, WebP or GIF.
            ValidationError: An option is not allowed, or the image is damaged or exceeds a limit.
            InsufficientStorageError: The quota or the disk is full.
            UnavailableError: The queue of uploads is full, or a worker timed out.
        """
        return self.uploads.upload(
            source, owner=owner, filename=filename, options=options, idempotency=idempotency, **keywords
        )

    def account(self, *, owner: Owner) -> AccountOverview:
        """Return an account with its usage, quota and rate limits, as they are now.

        Raises:
            NotFoundError: There is no such account.
        """
        account = self.accounts.get(owner)
        usage = self.accounts.usage(account)
        quota = self.rate_limiter.limits_of(account).quota_bytes
        return AccountOverview(
            account=account,
            usage=usage,
            quota=Quota(bytes=quota, remaining=max(0, quota - usage.bytes)) if quota else Quota(),
            limits=self.rate_limiter.windows(account),
        )

    def gallery(
        self, *, album_id: AlbumRef | None = None, q: str | None = None, **page: Unpack[PageKeywords]
    ) -> Page[Image]:
        """Return a page of public images, newest first: of all accounts, or of one public album.

        An image in an album is listed while the album is public; images of suspended accounts are not.

        Args:
            album_id: The album.
            q: Words in the file name or the description, at most 100 characters. The page then has no total.
            page: `page`, `per_page` and `cursor`; by default the first 20 images.

        Raises:
            NotFoundError: There is no such public album.
            BadRequestError: Values are not allowed, or the cursor belongs to another list.
            UnavailableError: The database does not find the page in time.
        """
        return self.images.list_public(album_id=album_id, q=q, **page)

    def render(
        self,
        image: ImageRef,
        params: TransformSource = "",
        *,
        if_none_match: str | None = None,
        **keywords: Unpack[TransformKeywords],
    ) -> Rendered:
        """Return a variant of an image, from the variant cache or rendered now.

        No access rule applies: private images are rendered too.

        Args:
            image: The image.
            params: A query string such as `w=200&h=200&fit=cover&fm=webp`, its names and values, or a
                `Transform`. Without parameters, the master is returned.
            if_none_match: The `etag` of an earlier result with the same parameters: if it still holds, the
                result is `not_modified`, and its `data` is empty.
            keywords: The same parameters as keywords, in place of `params`.

        Raises:
            BadRequestError: A parameter is not allowed.
            NotFoundError: There is no such image.
            UnavailableError: The render queue is full, or the render timed out.
            InternalError: The stored file is damaged.
        """
        transform = parse_transform(transform_parameters(params, keywords))
        current = self.images.get(image)
        resolved = self.delivery.build(current, transform, allow_master=transform == Transform())
        if is_not_modified(resolved.etag, resolved.last_modified, if_none_match or None, None):
            return Rendered(data=b"", media_type="", etag=resolved.etag, not_modified=True)
        with translate_disk_errors(), self.delivery.open(resolved) as blob:
            data, resolved = blob.read(), blob.resolved
        size = resolved.job.plan.output if resolved.job else current
        return Rendered(
            data=data,
            media_type=blob.media_type,
            width=size.width,
            height=size.height,
            etag=resolved.etag,
        )

    def image_url(self, image: ImageRef, **params: Unpack[TransformKeywords]) -> str:
        """Return the delivery URL of an image or of a variant; `images.signed_url` is that of a private one.

        Args:
            image: The image. An id is not looked up; its URL has no extension.
            params: `w` and `h` (pixels), `q` (1–100), `fit` and `fm`.

        Raises:
            BadRequestError: A parameter is not allowed.
            BaseUrlError: The settings have neither `base_url` nor `cdn_url`.
        """
        if isinstance(image, Image):
            return variant_url(self.urls.image(image), params)
        return variant_url(f"{self.urls.cdn_url}/{image_id_of(image)}", params)

    def srcset(
        self, image: Image, widths: Iterable[int] = DEFAULT_WIDTHS, **params: Unpack[SrcsetKeywords]
    ) -> str:
        """Return the value of a `srcset` attribute, for a public image.

        Args:
            image: The image.
            widths: Widths in pixels, limited to the image's width and to what the host renders.
            params: `h` (the height at the largest of `widths`), `q`, `fit` and `fm`.

        Raises:
            BadRequestError: There are no widths, a value is out of its range, or `fit` is `inside` or
                `outside` with `h`.
            BaseUrlError: The settings have neither `base_url` nor `cdn_url`.
        """
        return srcset(image, self.urls.image(image), widths, cast("TransformKeywords", params))

    def picture(
        self, image: Image, widths: Iterable[int] = DEFAULT_WIDTHS, **options: Unpack[PictureKeywords]
    ) -> str:
        """Return a responsive `<picture>` element for a public image: several formats, no layout shift.

        It has the image's width and height, its average colour as background while loading, and its ThumbHash
        in `data-thumbhash` for scripts that render it.

        Args:
            image: The image.
            widths: Widths in pixels, limited to the image's width and to what the host renders.
            options: See `PictureKeywords`. A crop to 16:9 is
                `picture(image, [640, 1280], h=720, fit="cover")`.

        Raises:
            BadRequestError: A value is out of its range, or `fit` is `inside` or `outside` with `h`.
            ValidationError: An attribute is one of the URLs', or has an invalid name.
            BaseUrlError: The settings have neither `base_url` nor `cdn_url`.
        """
        return picture(image, self.urls.image(image), widths, **options)

    def camera_data(self, image: ImageRef, *, owner: Owner | None = None) -> CameraData:
        """Return what EXIF says about the photograph, and the place that EXIF, XMP or IPTC state.

        Args:
            image: The image.
            owner: The account that must own it; by default any account.

        Raises:
            NotFoundError: There is no such image, or another account owns it.
            InternalError: The stored file is damaged.
        """
        with translate_disk_errors():
            current = self.images.get(image, owner=owner)
            with self._context.files.blobs.open(current.id, checksum=current.sha256) as file:
                return read_camera_data(read_metadata(file, file.seek(0, os.SEEK_END)))

    def check(
        self, *, repair: bool = False, quick: bool = False, progress: ProgressCallback | None = None
    ) -> Iterator[Finding]:
        """Yield everything that is wrong in the data directory, each confirmed; nothing if all is well.

        Other processes may use the host meanwhile: what they are changing is no finding.

        Args:
            repair: Whether to repair what can be repaired. The master of a record is never deleted.
            quick: Whether to compare the sizes of files without reading them.
            progress: Called with the progress, in this thread.
        """
        return self._integrity.check(repair=repair, quick=quick, progress=progress)

    def authenticate(self, token: str) -> Principal:
        """Return the principal of an API key's or session's token.

        Raises:
            UnauthorizedError: The token is malformed, unknown, expired or revoked.
        """
        return self.keys.authenticate(token)

    def subscribe(self, callback: Subscriber) -> Callable[[], None]:
        """Call `callback` with each event of this process once its change is durable.

        Returns a function that ends the subscription.

        The callback runs in the thread that made the change, which waits for it. An exception in it is
        logged and undoes nothing.
        """
        return self._events.subscribe(callback)


class _ClosedPart:
    """What takes the place of the parts of a closed host: any use of it raises HostClosedError."""

    def __init__(self, details: str) -> None:
        self._details = details

    def __call__(self) -> object:
        raise HostClosedError(self._details)

    def __getattr__(self, name: str) -> object:
        raise HostClosedError(self._details)


_open_hosts: weakref.WeakSet[ImageHost] = weakref.WeakSet()


def _remove_services_after_fork() -> None:
    """End the hosts of the parent in its child: two processes must not share connections of databases."""
    for host in tuple(_open_hosts):
        host._remove_services("was opened by the parent of this process")  # noqa: SLF001 - of this module


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_remove_services_after_fork)
