"""What both clients have: their settings, the operations, and image URLs, which need no requests."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from copy import copy
from typing import TYPE_CHECKING, Final, Generic, TypeVar, cast

from attrs import evolve

from imagehost_client import _config, urls
from imagehost_client._calls import accounts, albums, downloads, images, markup, uploads, webhooks
from imagehost_client._calls.call import Call, request
from imagehost_client._config import require_headers, require_positive_seconds
from imagehost_client._doubles import active_double, use_clock
from imagehost_client._exchange import Environment, Sleep, Steps, exchange
from imagehost_client._methods import BulkOperation, DownloadOperation, Listing, Operation, StreamOperation
from imagehost_client._pacing import shared_pacer
from imagehost_client._types import UNSET, BatchProgress, Source, Unset, UploadOptions

if TYPE_CHECKING:
    from typing import Self, Unpack

    from imagehost_client._batches import Batch
    from imagehost_client._doubles import Sleeper
    from imagehost_client._types import (
        DisplayedImage,
        ImageRef,
        ImageRow,
        PictureOptions,
        SrcsetParams,
        TransformParams,
    )

T = TypeVar("T")
TransportT = TypeVar("TransportT")
HttpT = TypeVar("HttpT")
UploadsT = TypeVar("UploadsT")


class ImageOperations:
    """Operations on your images."""

    list: Final = Listing(images.list_images)
    iter: Final = Listing(images.list_images)
    get: Final = Operation(images.get_image)
    update: Final = Operation(images.update_image)
    delete: Final = Operation(images.delete_image)
    stream: Final = StreamOperation(downloads.stream_image)
    download: Final = DownloadOperation(downloads.download_image)
    signed_url: Final = Operation(images.signed_url)
    signed_srcset: Final = Operation(markup.signed_srcset)
    signed_picture: Final = Operation(markup.signed_picture)
    update_many: Final = BulkOperation(images.update_images)
    delete_many: Final = BulkOperation(images.delete_images)
    signed_urls: Final = BulkOperation(images.signed_urls)


class AlbumOperations:
    """Operations on your albums."""

    list: Final = Listing(albums.list_albums)
    create: Final = Operation(albums.create_album)
    get: Final = Operation(albums.get_album)
    update: Final = Operation(albums.update_album)
    delete: Final = Operation(albums.delete_album)
    add_images: Final = Operation(albums.add_images)
    remove_images: Final = Operation(albums.remove_images)
    create_share: Final = Operation(albums.create_share)
    list_shares: Final = Listing(albums.list_shares)
    delete_share: Final = Operation(albums.delete_share)


class KeyOperations:
    """Operations on your API keys; they require a session token."""

    list: Final = Listing(accounts.list_keys)
    create: Final = Operation(accounts.create_key)
    get: Final = Operation(accounts.get_key)
    update: Final = Operation(accounts.update_key)
    delete: Final = Operation(accounts.delete_key)


class WebhookOperations:
    """Operations on your webhooks and their deliveries."""

    list: Final = Listing(webhooks.list_webhooks)
    create: Final = Operation(webhooks.create_webhook)
    get: Final = Operation(webhooks.get_webhook)
    update: Final = Operation(webhooks.update_webhook)
    delete: Final = Operation(webhooks.delete_webhook)
    test: Final = Operation(webhooks.test_webhook)
    rotate_secret: Final = Operation(webhooks.rotate_webhook_secret)
    deliveries: Final = Listing(webhooks.list_deliveries)
    retry: Final = Operation(webhooks.retry_delivery)


class AccountOperations:
    """Operations of operators on accounts, and registration on hosts where it is open."""

    list: Final = Listing(accounts.list_accounts)
    create: Final = Operation(accounts.create_account)
    get: Final = Operation(accounts.get_managed_account)
    update: Final = Operation(accounts.update_account)


class SessionOperations:
    """Operations on your sessions."""

    list: Final = Listing(accounts.list_sessions)
    create: Final = Operation(accounts.create_session)
    delete: Final = Operation(accounts.delete_session)


class BaseClient(Generic[TransportT, HttpT, UploadsT]):
    """The settings of a client, and its methods that are the same in both."""

    upload: Final = Operation(uploads.upload)
    render: Final = Operation(downloads.render_image)
    gallery: Final = Listing(images.gallery)
    account: Final = Operation(accounts.get_account)
    request: Final = Operation(request)
    change_password: Final = Operation(accounts.change_password)
    renew_signing_secret: Final = Operation(accounts.renew_signing_secret)

    def __init__(
        self,
        base_url: str | None = None,
        token: str | None = None,
        *,
        cdn_url: str | None = None,
        timeout: float | None = _config.DEFAULT_TIMEOUT,
        deadline: float | Unset | None = UNSET,
        max_retries: int = 3,
        pace: bool = False,
        allow_http: bool = False,
        app_info: str | None = None,
        transport: TransportT | None = None,
        http_client: HttpT | None = None,
    ) -> None:
        _config.configure_logging()
        double = None if transport is not None else active_double()
        if double is not None:
            base_url, cdn_url, token = double.base_url, double.cdn_url, double.token_for(token)
            transport, http_client = cast("TransportT", double), None
        self.config: _config.Config = _config.resolve(
            base_url,
            token,
            cdn_url=cdn_url,
            timeout=timeout,
            deadline=deadline,
            max_retries=max_retries,
            pace=pace,
            allow_http=allow_http,
            app_info=app_info,
        )
        self.environment: Environment = Environment(
            pacer=shared_pacer(self.config.base_url, self.config.token)
        )
        self.owns_http_client: bool = http_client is None
        driver = self._connect(transport, http_client)
        if double is not None:
            use_clock(double, self.environment, driver)
        self._bind_resources()

    def _connect(self, transport: TransportT | None, http_client: HttpT | None) -> Sleeper:
        """Create the driver, and return it."""
        raise NotImplementedError

    def _bind_resources(self) -> None:
        """Create the resources of this client."""

    def _upload_batch(self, batch: Batch) -> UploadsT:
        """Return the results of a batch as they finish."""
        raise NotImplementedError

    def upload_iter(
        self,
        sources: Iterable[Source] | Source,
        *,
        parallel: int = 4,
        files_per_request: int | None = None,
        journal: str | os.PathLike[str] | None = None,
        progress: BatchProgress | None = None,
        **options: Unpack[UploadOptions],
    ) -> UploadsT:
        """Upload several images concurrently, and return their results in the order in which they finish.

        An error of one file does not stop the others. A 401, 403 or 507, a rate limit that ends too late to
        wait for, and a host that does not respond stop the batch: files that were not tried have its error
        and `attempted=False`.

        Args:
            sources: Paths, directories, patterns such as `photos/**/*.jpg`, or any source of `upload`.
            parallel: The number of concurrent requests, at least 1.
            files_per_request: The maximum number of files in a request, 1–20. By default one, but 20 while
                there are more files than the rate limit has requests left.
            journal: The path of a journal, from which an interrupted run resumes without duplicates. It
                belongs to one account of one host, and images of earlier runs are results only if they
                still exist.
            progress: A callback `progress(source, sent, total)` with bytes of each file.
            **options: The options of `upload`, for all files.

        Raises:
            ConfigurationError: The journal is one of another host, account or version; raised when the first
                result is requested.
            UploadInterrupted: Ctrl-C was pressed; only the synchronous client raises it, at once.
        """
        from imagehost_client._batches import Batch

        batch = Batch(
            sources=sources,
            options=options,
            config=self.config,
            parallel=parallel,
            files_per_request=files_per_request,
            journal=journal,
            progress=progress,
        )
        return self._upload_batch(batch)

    def _steps(self, call: Call[T] | Sleep) -> Steps[T | None]:
        """Return the steps of a call or a delay."""
        if isinstance(call, Sleep):
            yield self.environment.announce(call)
            return None
        return (yield from exchange(call, self.config, self.environment))

    def with_options(
        self,
        *,
        timeout: float | Unset | None = UNSET,
        deadline: float | Unset | None = UNSET,
        max_retries: int | Unset = UNSET,
        pace: bool | Unset = UNSET,
        extra_headers: Mapping[str, str] | Unset = UNSET,
        extra_query: Mapping[str, str] | Unset = UNSET,
    ) -> Self:
        """Return a client with other settings that shares the connections of this one.

        For example, `client.with_options(timeout=5).images.get(id)`. Omitted arguments leave their values
        unchanged. Closing it has no effect.

        Args:
            timeout: The network timeout of an attempt, in seconds; `None` for no timeout.
            deadline: The time limit of a call with all its retries, in seconds; `None` for no limit.
            max_retries: The maximum number of retries.
            pace: Whether a call waits for the rate limit window to end instead of exceeding the limit.
            extra_headers: Headers of every request, added to those of this client.
            extra_query: Query parameters of every request, added to those of this client.

        Raises:
            ConfigurationError: A value is invalid, or a header is one that only the client sets.
        """
        config = self.config
        other = copy(self)
        other.config = evolve(
            config,
            timeout=config.timeout if timeout is UNSET else require_positive_seconds("timeout", timeout),
            deadline=config.deadline if deadline is UNSET else require_positive_seconds("deadline", deadline),
            retry=config.retry if max_retries is UNSET else evolve(config.retry, max_retries=max_retries),
            pace=config.pace if pace is UNSET else pace,
            extra_headers=config.extra_headers
            if extra_headers is UNSET
            else {**config.extra_headers, **require_headers(extra_headers)},
            extra_query=config.extra_query if extra_query is UNSET else {**config.extra_query, **extra_query},
        )
        other.owns_http_client = False
        other._bind_resources()  # noqa: SLF001 (its own class)
        return other

    def image_url(self, image: ImageRef | ImageRow, **params: Unpack[TransformParams]) -> str:
        """Return the delivery URL of an image, resized or in another format.

        Args:
            image: The image, its id, any of its URLs, or a mapping with its `url`.
            **params: `w` and `h` (pixels), `q` (1–100), `fit` (`cover`, `contain`, `fill`, `inside`,
                `outside`) and `fm` (`jpg` or
                `jpeg`, `png`, `webp`, `avif`, `auto`).

        Raises:
            BadRequestError: Values are out of their ranges.
        """
        return urls.image_url(image, cdn_url=self.config.cdn_url, **params)

    def srcset(
        self,
        image: DisplayedImage | ImageRow,
        widths: Iterable[int] = urls.DEFAULT_WIDTHS,
        **params: Unpack[SrcsetParams],
    ) -> str:
        """Return the value of a `srcset` attribute; `images.signed_srcset` is that of a private image.

        Args:
            image: The image.
            widths: Widths in pixels, limited to the image's width.
            **params: `h` (the height at the largest of `widths`), `q`, `fit` and `fm`.
        """
        return urls.srcset(image, widths, **params)

    def picture(
        self,
        image: DisplayedImage | ImageRow,
        widths: Iterable[int] = urls.DEFAULT_WIDTHS,
        **options: Unpack[PictureOptions],
    ) -> str:
        """Return a responsive `<picture>` element; `images.signed_picture` is that of a private image.

        Args:
            image: The image.
            widths: Widths in pixels, limited to the image's width.
            **options: See `PictureOptions`.
        """
        return urls.picture(image, widths, **options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(base_url={self.config.base_url!r})"
