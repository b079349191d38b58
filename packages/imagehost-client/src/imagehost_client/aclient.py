"""The asynchronous client, for asyncio and trio; `client` is its synchronous counterpart."""

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
from imagehost_client.downloads import AsyncImageStream, Transfer, save_async
from imagehost_client.models import DownloadedImage, RawResponse

if TYPE_CHECKING:
    from typing import Self, Unpack

    import httpx2

    from imagehost_client._batches import Batch, UploadResult
    from imagehost_client._drivers import AsyncDriver
    from imagehost_client._types import BatchOptions
    from imagehost_client.uploads import AsyncUploadIterator

__all__ = ["AsyncClient"]

T = TypeVar("T")


class AsyncResource:
    """The base class of resources: the operations on one kind of record."""

    def __init__(self, client: AsyncClient) -> None:
        self._runner = client


class AsyncImages(AsyncResource, ImageOperations):
    """Operations on your images."""


class AsyncAlbums(AsyncResource, AlbumOperations):
    """Operations on your albums."""


class AsyncKeys(AsyncResource, KeyOperations):
    """Operations on your API keys; they require a session token."""


class AsyncWebhooks(AsyncResource, WebhookOperations):
    """Operations on your webhooks and their deliveries."""


class AsyncAccounts(AsyncResource, AccountOperations):
    """Operations of operators on accounts, and registration on hosts where it is open."""


class AsyncSessions(AsyncResource, SessionOperations):
    """Operations on your sessions."""


class AsyncClient(BaseClient["httpx2.AsyncBaseTransport", "httpx2.AsyncClient", "AsyncUploadIterator"]):
    """An asynchronous client of an image host, which tasks may share.

    Use it as an asynchronous context manager, or await `close`.

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

    images: AsyncImages
    albums: AsyncAlbums
    keys: AsyncKeys
    webhooks: AsyncWebhooks
    accounts: AsyncAccounts
    sessions: AsyncSessions

    def _connect(
        self, transport: httpx2.AsyncBaseTransport | None, http_client: httpx2.AsyncClient | None
    ) -> AsyncDriver:
        import httpx2

        from imagehost_client._drivers import AsyncDriver

        if http_client is None:
            http_client = httpx2.AsyncClient(transport=transport, **http_options(self.config.base_url))
        self._driver = AsyncDriver(http_client, self.config.token)
        return self._driver

    @property
    def _runner(self) -> AsyncClient:
        """The client, as its resources have it."""
        return self

    def _bind_resources(self) -> None:
        """Create the resources of this client."""
        self.images = AsyncImages(self)
        self.albums = AsyncAlbums(self)
        self.keys = AsyncKeys(self)
        self.webhooks = AsyncWebhooks(self)
        self.accounts = AsyncAccounts(self)
        self.sessions = AsyncSessions(self)

    async def _run(self, call: Call[T], /) -> T:
        """Run a call, and return its result."""
        return await self._driver.run(exchange(call, self.config, self.environment))

    async def _run_raw(self, call: Call[T], /) -> RawResponse[T]:
        """Run a call, and return its response."""
        return await self._driver.run(raw_exchange(call, self.config, self.environment))

    def _stream_image(self, download: ImageDownload, /) -> AsyncImageStream:
        """Return the bytes of an image as they arrive."""
        return AsyncImageStream(self._driver, Transfer(download, self.config, self.environment))

    async def _save_image(self, download: ImageDownload, /) -> DownloadedImage:
        """Write the bytes of an image to a file."""
        return await save_async(self._driver, Transfer(download, self.config, self.environment))

    def _upload_batch(self, batch: Batch) -> AsyncUploadIterator:
        from imagehost_client.uploads import AsyncUploadIterator

        return AsyncUploadIterator(batch, self._run_calls, self.environment)

    async def upload_many(
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
        async with self.upload_iter(sources, **options) as uploads:
            async for result in uploads:
                if on_result is not None:
                    on_result(result)
        return uploads.results

    async def _run_calls(self, calls: Calls[T]) -> T:
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
                    send, outcome = calls.send, await self._driver.run(self._steps(call))
                except Exception as error:
                    send, outcome = calls.throw, error

    async def close(self) -> None:
        """Close the connections of this client."""
        if self.owns_http_client:
            await self._driver.http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
