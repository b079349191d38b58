"""The asynchronous client, for asyncio and trio; `client` is its synchronous counterpart."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from imagehost_client import _calls, _config
from imagehost_client._base import BaseClient
from imagehost_client._calls import Call
from imagehost_client._exchange import exchange
from imagehost_client._methods import AsyncBulkOperation, AsyncListing, AsyncOperation
from imagehost_client.files import Source

if TYPE_CHECKING:
    from typing import Self, Unpack

    import httpx2

    from imagehost_client._many import BatchProgress, Job, Journal, UploadOptions, UploadResult

T = TypeVar("T")


class AsyncResource:
    """The base class of resources: the operations on one kind of record."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def run(self, call: Call[T], /) -> T:
        """Run a call, and return its result."""
        return await self._client.run(call)


class AsyncImages(AsyncResource):
    """Operations on your images."""

    list = AsyncListing(_calls.images.list_images)
    iter = AsyncListing(_calls.images.list_images)
    get = AsyncOperation(_calls.images.get_image)
    update = AsyncOperation(_calls.images.update_image)
    delete = AsyncOperation(_calls.images.delete_image)
    render = AsyncOperation(_calls.images.render_image)
    signed_url = AsyncOperation(_calls.images.signed_url)
    update_many = AsyncBulkOperation(_calls.bulk.update_images)
    delete_many = AsyncBulkOperation(_calls.bulk.delete_images)
    signed_urls = AsyncBulkOperation(_calls.bulk.signed_urls)


class AsyncAlbums(AsyncResource):
    """Operations on your albums."""

    list = AsyncListing(_calls.albums.list_albums)
    create = AsyncOperation(_calls.albums.create_album)
    get = AsyncOperation(_calls.albums.get_album)
    update = AsyncOperation(_calls.albums.update_album)
    delete = AsyncOperation(_calls.albums.delete_album)
    add_images = AsyncOperation(_calls.albums.add_images)
    remove_images = AsyncOperation(_calls.albums.remove_images)


class AsyncKeys(AsyncResource):
    """Operations on your API keys; they require a session token."""

    list = AsyncListing(_calls.access.list_keys)
    create = AsyncOperation(_calls.access.create_key)
    get = AsyncOperation(_calls.access.get_key)
    update = AsyncOperation(_calls.access.update_key)
    delete = AsyncOperation(_calls.access.delete_key)


class AsyncWebhooks(AsyncResource):
    """Operations on your webhooks and their deliveries."""

    list = AsyncListing(_calls.webhooks.list_webhooks)
    create = AsyncOperation(_calls.webhooks.create_webhook)
    get = AsyncOperation(_calls.webhooks.get_webhook)
    update = AsyncOperation(_calls.webhooks.update_webhook)
    delete = AsyncOperation(_calls.webhooks.delete_webhook)
    test = AsyncOperation(_calls.webhooks.test_webhook)
    rotate_secret = AsyncOperation(_calls.webhooks.rotate_webhook_secret)
    deliveries = AsyncListing(_calls.webhooks.list_deliveries)
    retry = AsyncOperation(_calls.webhooks.retry_delivery)


class AsyncAccounts(AsyncResource):
    """Operations of operators on accounts, and registration on hosts where it is open."""

    list = AsyncListing(_calls.accounts.list_accounts)
    create = AsyncOperation(_calls.accounts.create_account)
    get = AsyncOperation(_calls.accounts.get_managed_account)
    update = AsyncOperation(_calls.accounts.update_account)


class AsyncSessions(AsyncResource):
    """Operations on your sessions."""

    list = AsyncListing(_calls.access.list_sessions)
    create = AsyncOperation(_calls.access.create_session)
    delete = AsyncOperation(_calls.access.delete_session)


class AsyncClient(BaseClient):
    """An asynchronous client of an image host, which tasks may share.

    Use it as an asynchronous context manager, or await `close`.

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

    upload = AsyncOperation(_calls.images.upload)
    gallery = AsyncListing(_calls.images.gallery)
    account = AsyncOperation(_calls.access.get_account)
    change_password = AsyncOperation(_calls.access.change_password)

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
        transport: httpx2.AsyncBaseTransport | None = None,
        http_client: httpx2.AsyncClient | None = None,
    ) -> None:
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
            )
        )
        import httpx2

        from imagehost_client._drivers import AsyncDriver

        self.owns_http_client = http_client is None
        self._driver = AsyncDriver(http_client or httpx2.AsyncClient(transport=transport), self.config.token)

    def bind_resources(self) -> None:
        """Create the resources of this client."""
        self.images = AsyncImages(self)
        self.albums = AsyncAlbums(self)
        self.keys = AsyncKeys(self)
        self.webhooks = AsyncWebhooks(self)
        self.accounts = AsyncAccounts(self)
        self.sessions = AsyncSessions(self)

    async def run(self, call: Call[T], /) -> T:
        """Run a call, and return its result."""
        return await self._driver.run(exchange(call, self.config, self.environment))

    async def upload_many(
        self,
        sources: Iterable[Source] | Source,
        *,
        parallel: int = 4,
        journal: str | os.PathLike[str] | None = None,
        on_result: Callable[[UploadResult], object] | None = None,
        progress: BatchProgress | None = None,
        **options: Unpack[UploadOptions],
    ) -> list[UploadResult]:
        """Upload several images concurrently; an error of one file does not stop the others.

        Args:
            sources: Paths, directories, patterns such as `photos/**/*.jpg`, or any source of `upload`.
            parallel: The number of concurrent uploads.
            journal: The path of a journal, from which an interrupted run resumes without duplicates.
            on_result: A callback for each result.
            progress: A callback `progress(source, sent, total)` with bytes of each file.
            **options: The options of `upload`, for all files.

        Returns:
            A result for each file, in the order of the sources.
        """
        from anyio import create_task_group  # comes with httpx2
        from anyio.to_thread import run_sync

        from imagehost_client._many import Journal, plan_uploads

        with await run_sync(Journal, journal) as upload_journal:
            jobs = await run_sync(plan_uploads, sources, options, upload_journal, progress)
            results: dict[int, UploadResult] = {}
            pending = iter(enumerate(jobs))

            async def worker() -> None:
                for index, job in pending:
                    results[index] = await self._upload(job, upload_journal)
                    if on_result is not None:
                        on_result(results[index])

            try:
                async with create_task_group() as group:
                    for _ in range(min(max(1, parallel), len(jobs))):
                        group.start_soon(worker)
            except BaseExceptionGroup as errors:
                raise errors.exceptions[0] from None
            return [results[index] for index in range(len(jobs))]

    async def _upload(self, job: Job, journal: Journal) -> UploadResult:
        from imagehost_client._many import PER_FILE_ERRORS, UploadResult, finish

        if job.previous_image is not None:
            return UploadResult(job.source, job.previous_image, resumed=True)
        try:
            return finish(job, journal, await self.run(job.call))
        except PER_FILE_ERRORS as error:
            return UploadResult(job.source, error=error)

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
