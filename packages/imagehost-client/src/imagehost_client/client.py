"""The synchronous client; `aclient` is its asynchronous counterpart."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from imagehost_client._base import (
    AccountOperations,
    AlbumOperations,
    BaseClient,
    ImageOperations,
    KeyOperations,
    SessionOperations,
    WebhookOperations,
)
from imagehost_client._calls.call import Call
from imagehost_client._calls.downloads import ImageDownload
from imagehost_client._config import http_options
from imagehost_client._exchange import Calls, exchange, raw_exchange
from imagehost_client._types import Source
from imagehost_client.downloads import ImageStream, Transfer, save
from imagehost_client.models import DownloadedImage, RawResponse

if TYPE_CHECKING:
    import threading
    from typing import Self, Unpack

    import httpx2

    from imagehost_client._batches import Batch, UploadResult
    from imagehost_client._drivers import SyncDriver
    from imagehost_client._types import BatchOptions
    from imagehost_client.uploads import UploadIterator

__all__ = ["Client"]

T = TypeVar("T")


class Resource:
    """The base class of resources: the operations on one kind of record."""

    def __init__(self, client: Client) -> None:
        self._runner = client


class Images(Resource, ImageOperations):
    """Operations on your images."""


class Albums(Resource, AlbumOperations):
    """Operations on your albums."""


class Keys(Resource, KeyOperations):
    """Operations on your API keys; they require a session token."""


class Webhooks(Resource, WebhookOperations):
    """Operations on your webhooks and their deliveries."""


class Accounts(Resource, AccountOperations):
    """Operations of operators on accounts, and registration on hosts where it is open."""


class Sessions(Resource, SessionOperations):
    """Operations on your sessions."""


class Client(BaseClient["httpx2.BaseTransport", "httpx2.Client", "UploadIterator"]):
    """A thread-safe client of an image host.

    Use it as a context manager, or call `close`.

    Args:
        base_url: The base URL of the API; `/v1` is added if it is missing. By default `IMAGEHOST_BASE_URL`.
        token: The API token; by default `IMAGEHOST_TOKEN`.
        cdn_url: The base URL of image delivery; by default `IMAGEHOST_CDN_URL`, else `/img` beside the
            `/v1` of `base_url`.
        timeout: The network timeout of an attempt, in seconds; `None` for no timeout.
        deadline: The time limit of a call with all its retries, in seconds; `None` for no limit. By default
            60 for calls with JSON, without waits for a rate limit; transfers of files have a minimum rate.
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

    def _connect(
        self, transport: httpx2.BaseTransport | None, http_client: httpx2.Client | None
    ) -> SyncDriver:
        import httpx2

        from imagehost_client._drivers import SyncDriver

        if http_client is None:
            http_client = httpx2.Client(transport=transport, **http_options(self.config.base_url))
        self._driver = SyncDriver(http_client, self.config.token)
        return self._driver

    @property
    def _runner(self) -> Client:
        """The client, as its resources have it."""
        return self

    def _bind_resources(self) -> None:
        """Create the resources of this client."""
        self.images = Images(self)
        self.albums = Albums(self)
        self.keys = Keys(self)
        self.webhooks = Webhooks(self)
        self.accounts = Accounts(self)
        self.sessions = Sessions(self)

    def _run(self, call: Call[T], /) -> T:
        """Run a call, and return its result."""
        return self._driver.run(exchange(call, self.config, self.environment))

    def _run_raw(self, call: Call[T], /) -> RawResponse[T]:
        """Run a call, and return its response."""
        return self._driver.run(raw_exchange(call, self.config, self.environment))

    def _stream_image(self, download: ImageDownload, /) -> ImageStream:
        """Return the bytes of an image as they arrive."""
        return ImageStream(self._driver, Transfer(download, self.config, self.environment))

    def _save_image(self, download: ImageDownload, /) -> DownloadedImage:
        """Write the bytes of an image to a file."""
        return save(self._driver, Transfer(download, self.config, self.environment))

    def _upload_batch(self, batch: Batch) -> UploadIterator:
        from imagehost_client.uploads import UploadIterator

        return UploadIterator(batch, self._run_calls, self.environment)

    def upload_many(
        self,
        sources: Iterable[Source] | Source,
        *,
        on_result: Callable[[UploadResult], object] | None = None,
        **options: Unpack[BatchOptions],
    ) -> list[UploadResult]:
        """Upload several images concurrently; an error of one file does not stop the others.

        A 401, 403 or 507, a rate limit that ends too late to wait for, and a host that does not respond stop
        the batch: files that were not tried have its error and `attempted=False`. `upload_iter` returns
        each result as soon as its file is finished.

        Args:
            sources: Paths, directories, patterns such as `photos/**/*.jpg`, or any source of `upload`.
            on_result: A callback for each result.
            **options: The options of `upload_iter` and of `upload`, for all files.

        Returns:
            A result for each file, in the order of the sources.

        Raises:
            ConfigurationError: The journal is one of another host, account or version.
            UploadInterrupted: Ctrl-C was pressed; only the synchronous client raises it, at once.
        """
        from imagehost_client.uploads import UploadInterrupted

        with self.upload_iter(sources, **options) as uploads:
            try:
                for result in uploads:
                    if on_result is not None:
                        on_result(result)
            except UploadInterrupted:
                raise
            except KeyboardInterrupt:
                uploads.close()
                raise uploads.interrupted() from None
            return uploads.results

    def _run_calls(self, calls: Calls[T], cancelled: threading.Event | None = None) -> T:
        """Run calls one after another, and return their common result; another thread may cancel them."""
        with closing(calls):
            send, outcome = calls.send, None
            while True:
                try:
                    call = send(outcome)
                except StopIteration as end:
                    result: T = end.value
                    return result
                try:
                    send, outcome = calls.send, self._driver.run(self._steps(call), cancelled)
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
