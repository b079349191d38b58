"""The client for event loops, asyncio's or trio's. `client` has the same names for threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from imagehost_client import _calls, _config
from imagehost_client._base import BaseClient
from imagehost_client._calls import Call
from imagehost_client._exchange import exchange
from imagehost_client._methods import AsyncListing, AsyncOperation
from imagehost_client.files import Source

if TYPE_CHECKING:
    from typing import Self, Unpack

    import httpx2

    from imagehost_client._many import BatchProgress, Job, Journal, UploadOptions, UploadResult

T = TypeVar("T")


class AsyncResource:
    """The calls on one kind of record."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def run(self, call: Call[T], /) -> T:
        """Make a call, and return its result."""
        return await self._client.run(call)


class AsyncImages(AsyncResource):
    """Your images."""

    list = AsyncListing(_calls.images.list_images)
    get = AsyncOperation(_calls.images.get_image)
    update = AsyncOperation(_calls.images.update_image)
    delete = AsyncOperation(_calls.images.delete_image)
    render = AsyncOperation(_calls.images.render_image)
    signed_url = AsyncOperation(_calls.images.sign_image_url)


class AsyncAlbums(AsyncResource):
    """Your albums."""

    list = AsyncListing(_calls.albums.list_albums)
    create = AsyncOperation(_calls.albums.create_album)
    get = AsyncOperation(_calls.albums.get_album)
    update = AsyncOperation(_calls.albums.update_album)
    delete = AsyncOperation(_calls.albums.delete_album)
    add_images = AsyncOperation(_calls.albums.add_images)
    remove_images = AsyncOperation(_calls.albums.remove_images)


class AsyncKeys(AsyncResource):
    """Your API keys; a session's token is needed for them."""

    list = AsyncListing(_calls.access.list_keys)
    create = AsyncOperation(_calls.access.create_key)
    get = AsyncOperation(_calls.access.get_key)
    update = AsyncOperation(_calls.access.update_key)
    delete = AsyncOperation(_calls.access.delete_key)


class AsyncWebhooks(AsyncResource):
    """The destinations of events."""

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
    """Accounts that anybody may make, where the host lets them."""

    create = AsyncOperation(_calls.access.create_account)


class AsyncSessions(AsyncResource):
    """Sign-ins."""

    create = AsyncOperation(_calls.access.create_session)
    delete = AsyncOperation(_calls.access.delete_session)


class AsyncClient(BaseClient):
    """A client of an image host. It may be shared between tasks.

    Use it in an `async with` statement, or await `close` when done.

    Args:
        base_url: The interface's address, which ends in `/v1`; else `IMAGEHOST_BASE_URL`.
        token: The API token; else `IMAGEHOST_TOKEN`.
        cdn_url: Where images are served; else `IMAGEHOST_CDN_URL`, else `/img` on the same host.
        timeout: Seconds that a try may wait for the network; `None` for ever.
        deadline: Seconds that a call may take over all its tries; `None` for ever.
        max_retries: Tries after the first.
        pace: Whether calls wait for a used-up rate limit to end before they are sent.
        allow_http: Whether plain HTTP may be used to a host that is not this machine.
        transport: How httpx2 reaches the host: a proxy, a Unix socket, a test double.
        http_client: An httpx2 client of yours, with its proxies and certificates; `close` leaves it open.

    Raises:
        ConfigurationError: There is no base address, or it is not one that a token may be sent to.
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

        self.owns = http_client is None
        self._driver = AsyncDriver(http_client or httpx2.AsyncClient(transport=transport), self.config.token)

    def attach(self) -> None:
        """Make the resources of this client."""
        self.images = AsyncImages(self)
        self.albums = AsyncAlbums(self)
        self.keys = AsyncKeys(self)
        self.webhooks = AsyncWebhooks(self)
        self.accounts = AsyncAccounts(self)
        self.sessions = AsyncSessions(self)

    async def run(self, call: Call[T], /) -> T:
        """Make a call, and return its result."""
        return await self._driver.run(exchange(call, self.config, self.world))

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
        """Upload many images, a few at a time; what fails with one file does not stop the others.

        Args:
            sources: Paths, folders, patterns such as `photos/**/*.jpg`, or anything that `upload` takes.
            parallel: How many are sent at once.
            journal: A file to note in what is done. A run that was stopped goes on from it, and
                nothing is stored twice.
            on_result: Called with each result as it comes.
            progress: Called as `progress(source, sent, total)` while files are sent.
            **options: The options of `upload`, for every file.

        Returns:
            A result for each file, in the order of the sources, with the image or the error.
        """
        from anyio import create_task_group  # comes with httpx2
        from anyio.to_thread import run_sync

        from imagehost_client._many import Journal, plan_uploads

        with await run_sync(Journal, journal) as notes:
            jobs = await run_sync(plan_uploads, sources, options, notes, progress)
            results: dict[int, UploadResult] = {}
            waiting = iter(enumerate(jobs))

            async def work() -> None:
                for index, job in waiting:
                    results[index] = await self._attempt(job, notes)
                    if on_result is not None:
                        on_result(results[index])

            try:
                async with create_task_group() as group:
                    for _ in range(min(max(1, parallel), len(jobs))):
                        group.start_soon(work)
            except BaseExceptionGroup as errors:
                raise errors.exceptions[0] from None
            return [results[index] for index in range(len(jobs))]

    async def _attempt(self, job: Job, notes: Journal) -> UploadResult:
        from imagehost_client._many import PER_FILE_ERRORS, UploadResult, outcome

        if job.previous_image is not None:
            return UploadResult(job.source, job.previous_image, resumed=True)
        try:
            return outcome(job, notes, await self.run(job.call))
        except PER_FILE_ERRORS as error:
            return UploadResult(job.source, error=error)

    async def close(self) -> None:
        """Close the connections that this client has opened."""
        if self.owns:
            await self._driver.http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
