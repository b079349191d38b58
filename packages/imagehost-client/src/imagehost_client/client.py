"""The synchronous client; `aclient` is its asynchronous counterpart."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import closing
from types import TracebackType
from typing import TYPE_CHECKING, Final, TypeVar

from imagehost_client import _calls, _config
from imagehost_client._base import BaseClient
from imagehost_client._calls import Call
from imagehost_client._calls.downloads import ImageDownload
from imagehost_client._doubles import active_double, use_clock
from imagehost_client._exchange import Sleep, exchange, pause, raw_exchange
from imagehost_client._methods import BulkOperation, Listing, Operation
from imagehost_client._streaming import DownloadOperation, StreamOperation
from imagehost_client._transfer import Transfer
from imagehost_client.downloads import ImageStream, save
from imagehost_client.files import Source
from imagehost_client.models import DownloadedImage, RawResponse

if TYPE_CHECKING:
    import threading
    from typing import Self, Unpack

    import httpx2

    from imagehost_client._journal import Calls
    from imagehost_client._many import BatchProgress, UploadOptions, UploadResult
    from imagehost_client.uploads import UploadIterator

T = TypeVar("T")


class Resource:
    """The base class of resources: the operations on one kind of record."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def run(self, call: Call[T], /) -> T:
        """Run a call, and return its result."""
        return self._client.run(call)

    def run_raw(self, call: Call[T], /) -> RawResponse[T]:
        """Run a call, and return its response."""
        return self._client.run_raw(call)

    def stream_image(self, download: ImageDownload, /) -> ImageStream:
        """Return the bytes of an image as they arrive."""
        return self._client.stream_image(download)

    def save_image(self, download: ImageDownload, /) -> DownloadedImage:
        """Write the bytes of an image to a file."""
        return self._client.save_image(download)


class Images(Resource):
    """Operations on your images."""

    list: Final = Listing(_calls.images.list_images)
    iter: Final = Listing(_calls.images.list_images)
    get: Final = Operation(_calls.images.get_image)
    update: Final = Operation(_calls.images.update_image)
    delete: Final = Operation(_calls.images.delete_image)
    render: Final = Operation(_calls.images.render_image)
    stream: Final = StreamOperation(_calls.downloads.stream_image)
    download: Final = DownloadOperation(_calls.downloads.download_image)
    signed_url: Final = Operation(_calls.images.signed_url)
    signed_srcset: Final = Operation(_calls.markup.signed_srcset)
    signed_picture: Final = Operation(_calls.markup.signed_picture)
    update_many: Final = BulkOperation(_calls.bulk.update_images)
    delete_many: Final = BulkOperation(_calls.bulk.delete_images)
    signed_urls: Final = BulkOperation(_calls.bulk.signed_urls)


class Albums(Resource):
    """Operations on your albums."""

    list: Final = Listing(_calls.albums.list_albums)
    create: Final = Operation(_calls.albums.create_album)
    get: Final = Operation(_calls.albums.get_album)
    update: Final = Operation(_calls.albums.update_album)
    delete: Final = Operation(_calls.albums.delete_album)
    add_images: Final = Operation(_calls.albums.add_images)
    remove_images: Final = Operation(_calls.albums.remove_images)


class Keys(Resource):
    """Operations on your API keys; they require a session token."""

    list: Final = Listing(_calls.access.list_keys)
    create: Final = Operation(_calls.access.create_key)
    get: Final = Operation(_calls.access.get_key)
    update: Final = Operation(_calls.access.update_key)
    delete: Final = Operation(_calls.access.delete_key)


class Webhooks(Resource):
    """Operations on your webhooks and their deliveries."""

    list: Final = Listing(_calls.webhooks.list_webhooks)
    create: Final = Operation(_calls.webhooks.create_webhook)
    get: Final = Operation(_calls.webhooks.get_webhook)
    update: Final = Operation(_calls.webhooks.update_webhook)
    delete: Final = Operation(_calls.webhooks.delete_webhook)
    test: Final = Operation(_calls.webhooks.test_webhook)
    rotate_secret: Final = Operation(_calls.webhooks.rotate_webhook_secret)
    deliveries: Final = Listing(_calls.webhooks.list_deliveries)
    retry: Final = Operation(_calls.webhooks.retry_delivery)


class Accounts(Resource):
    """Operations of operators on accounts, and registration on hosts where it is open."""

    list: Final = Listing(_calls.accounts.list_accounts)
    create: Final = Operation(_calls.accounts.create_account)
    get: Final = Operation(_calls.accounts.get_managed_account)
    update: Final = Operation(_calls.accounts.update_account)


class Sessions(Resource):
    """Operations on your sessions."""

    list: Final = Listing(_calls.access.list_sessions)
    create: Final = Operation(_calls.access.create_session)
    delete: Final = Operation(_calls.access.delete_session)


class Client(BaseClient):
    """A thread-safe client of an image host.

    Use it as a context manager, or call `close`.

    Args:
        base_url: The base URL of the API, which ends in `/v1`; by default `IMAGEHOST_BASE_URL`.
        token: The API token; by default `IMAGEHOST_TOKEN`.
        cdn_url: The base URL of image delivery; by default `IMAGEHOST_CDN_URL`, else `/img` on the host of
            `base_url`.
        timeout: The network timeout of an attempt, in seconds; `None` for no timeout.
        deadline: The time limit of a call with all its retries, in seconds; `None` for no limit.
        max_retries: The maximum number of retries.
        pace: Whether a call waits for the rate limit window to end instead of exceeding the limit.
        allow_http: Whether plain HTTP is allowed to hosts other than loopback.
        app_info: The name and version of your program, such as `shop/1.2`, for the `User-Agent`.
        transport: The httpx2 transport, for a proxy, a Unix socket or a test double.
        http_client: An httpx2 client, with its own proxies and certificates; `close` does not close it.

    Raises:
        ConfigurationError: The base URL is missing, invalid, or one to which tokens must not be sent.
    """

    images: Images
    albums: Albums
    keys: Keys
    webhooks: Webhooks
    accounts: Accounts
    sessions: Sessions

    upload: Final = Operation(_calls.images.upload)
    gallery: Final = Listing(_calls.images.gallery)
    account: Final = Operation(_calls.access.get_account)
    request: Final = Operation(_calls.generic.request)
    change_password: Final = Operation(_calls.access.change_password)
    renew_signing_secret: Final = Operation(_calls.access.renew_signing_secret)

    def __init__(
        self,
        base_url: str | None = None,
        token: str | None = None,
        *,
        cdn_url: str | None = None,
        timeout: float | None = _config.DEFAULT_TIMEOUT,
        deadline: float | None = None,
        max_retries: int = 3,
        pace: bool = False,
        allow_http: bool = False,
        app_info: str | None = None,
        transport: httpx2.BaseTransport | None = None,
        http_client: httpx2.Client | None = None,
    ) -> None:
        double = None if transport is not None else active_double()
        if double is not None:
            base_url, cdn_url, token = double.base_url, double.cdn_url, double.token_for(token)
            http_client = None
        super().__init__(
            _config.resolve(
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
        )
        import httpx2

        from imagehost_client._drivers import SyncDriver

        self.owns_http_client: bool = http_client is None
        if double is not None:
            assert isinstance(double, httpx2.BaseTransport)
            transport = double
        self._driver = SyncDriver(http_client or httpx2.Client(transport=transport), self.config.token)
        if double is not None:
            use_clock(double, self.environment, self._driver)

    def bind_resources(self) -> None:
        """Create the resources of this client."""
        self.images = Images(self)
        self.albums = Albums(self)
        self.keys = Keys(self)
        self.webhooks = Webhooks(self)
        self.accounts = Accounts(self)
        self.sessions = Sessions(self)

    def run(self, call: Call[T], /) -> T:
        """Run a call, and return its result."""
        return self._driver.run(exchange(call, self.config, self.environment))

    def _run_until(self, call: Call[T] | Sleep, cancelled: threading.Event | None) -> T | None:
        """Run a call or a delay that another thread may cancel."""
        if isinstance(call, Sleep):
            return self._driver.run(pause(call), cancelled)
        return self._driver.run(exchange(call, self.config, self.environment), cancelled)

    def stream_image(self, download: ImageDownload, /) -> ImageStream:
        """Return the bytes of an image as they arrive."""
        return ImageStream(self._driver, Transfer(download, self.config, self.environment))

    def save_image(self, download: ImageDownload, /) -> DownloadedImage:
        """Write the bytes of an image to a file."""
        return save(self._driver, Transfer(download, self.config, self.environment))

    def upload_iter(
        self,
        sources: Iterable[Source] | Source,
        *,
        parallel: int = 4,
        files_per_request: int | None = None,
        journal: str | os.PathLike[str] | None = None,
        progress: BatchProgress | None = None,
        **options: Unpack[UploadOptions],
    ) -> UploadIterator:
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
        from imagehost_client._many import Batch
        from imagehost_client.uploads import UploadIterator

        batch = Batch(
            sources=sources,
            options=options,
            config=self.config,
            parallel=parallel,
            files_per_request=files_per_request,
            journal=journal,
            progress=progress,
        )
        return UploadIterator(batch, self._run_calls, self.environment)

    def run_raw(self, call: Call[T], /) -> RawResponse[T]:
        """Run a call, and return its response."""
        return self._driver.run(raw_exchange(call, self.config, self.environment))

    def upload_many(
        self,
        sources: Iterable[Source] | Source,
        *,
        parallel: int = 4,
        files_per_request: int | None = None,
        journal: str | os.PathLike[str] | None = None,
        on_result: Callable[[UploadResult], object] | None = None,
        progress: BatchProgress | None = None,
        **options: Unpack[UploadOptions],
    ) -> list[UploadResult]:
        """Upload several images concurrently; an error of one file does not stop the others.

        A 401, 403 or 507, a rate limit that ends too late to wait for, and a host that does not respond stop
        the batch: files that were not tried have its error and `attempted=False`. `upload_iter` returns
        each result as soon as its file is finished.

        Args:
            sources: Paths, directories, patterns such as `photos/**/*.jpg`, or any source of `upload`.
            parallel: The number of concurrent requests, at least 1.
            files_per_request: The maximum number of files in a request, 1–20. By default one, but 20 while
                there are more files than the rate limit has requests left.
            journal: The path of a journal, from which an interrupted run resumes without duplicates. It
                belongs to one account of one host, and images of earlier runs are results only if they
                still exist.
            on_result: A callback for each result.
            progress: A callback `progress(source, sent, total)` with bytes of each file.
            **options: The options of `upload`, for all files.

        Returns:
            A result for each file, in the order of the sources.

        Raises:
            ConfigurationError: The journal is one of another host, account or version.
            UploadInterrupted: Ctrl-C was pressed; only the synchronous client raises it, at once.
        """
        from imagehost_client.uploads import UploadInterrupted

        with self.upload_iter(
            sources,
            parallel=parallel,
            files_per_request=files_per_request,
            journal=journal,
            progress=progress,
            **options,
        ) as uploads:
            try:
                for result in uploads:
                    if on_result is not None:
                        on_result(result)
            except UploadInterrupted:
                raise
            except KeyboardInterrupt:
                raise UploadInterrupted(uploads.results, uploads.total) from None
            return uploads.results

    def _run_calls(self, calls: Calls[T], cancelled: threading.Event | None = None) -> T:
        """Run calls one after another, and return their common result."""
        with closing(calls):
            send, outcome = calls.send, None
            while True:
                try:
                    call = send(outcome)
                except StopIteration as end:
                    result: T = end.value
                    return result
                try:
                    send, outcome = calls.send, self._run_until(call, cancelled)
                except Exception as error:
                    send, outcome = calls.throw, error

    def close(self) -> None:
        """Close the connections of this client."""
        if self.owns_http_client:
            self._driver.http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
