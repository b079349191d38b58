"""The synchronous client; `aclient` is its asynchronous counterpart."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from imagehost_client import _calls, _config
from imagehost_client._base import BaseClient
from imagehost_client._calls import Call
from imagehost_client._exchange import exchange
from imagehost_client._methods import BulkOperation, Listing, Operation
from imagehost_client.files import Source

if TYPE_CHECKING:
    from typing import Self, Unpack

    import httpx2

    from imagehost_client._many import BatchProgress, Job, Journal, UploadOptions, UploadResult

T = TypeVar("T")


class Resource:
    """The base class of resources: the operations on one kind of record."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def run(self, call: Call[T], /) -> T:
        """Run a call, and return its result."""
        return self._client.run(call)


class Images(Resource):
    """Operations on your images."""

    list = Listing(_calls.images.list_images)
    iter = Listing(_calls.images.list_images)
    get = Operation(_calls.images.get_image)
    update = Operation(_calls.images.update_image)
    delete = Operation(_calls.images.delete_image)
    render = Operation(_calls.images.render_image)
    signed_url = Operation(_calls.images.signed_url)
    update_many = BulkOperation(_calls.bulk.update_images)
    delete_many = BulkOperation(_calls.bulk.delete_images)
    signed_urls = BulkOperation(_calls.bulk.signed_urls)


class Albums(Resource):
    """Operations on your albums."""

    list = Listing(_calls.albums.list_albums)
    create = Operation(_calls.albums.create_album)
    get = Operation(_calls.albums.get_album)
    update = Operation(_calls.albums.update_album)
    delete = Operation(_calls.albums.delete_album)
    add_images = Operation(_calls.albums.add_images)
    remove_images = Operation(_calls.albums.remove_images)


class Keys(Resource):
    """Operations on your API keys; they require a session token."""

    list = Listing(_calls.access.list_keys)
    create = Operation(_calls.access.create_key)
    get = Operation(_calls.access.get_key)
    update = Operation(_calls.access.update_key)
    delete = Operation(_calls.access.delete_key)


class Webhooks(Resource):
    """Operations on your webhooks and their deliveries."""

    list = Listing(_calls.webhooks.list_webhooks)
    create = Operation(_calls.webhooks.create_webhook)
    get = Operation(_calls.webhooks.get_webhook)
    update = Operation(_calls.webhooks.update_webhook)
    delete = Operation(_calls.webhooks.delete_webhook)
    test = Operation(_calls.webhooks.test_webhook)
    rotate_secret = Operation(_calls.webhooks.rotate_webhook_secret)
    deliveries = Listing(_calls.webhooks.list_deliveries)
    retry = Operation(_calls.webhooks.retry_delivery)


class Accounts(Resource):
    """Operations of operators on accounts, and registration on hosts where it is open."""

    list = Listing(_calls.accounts.list_accounts)
    create = Operation(_calls.accounts.create_account)
    get = Operation(_calls.accounts.get_managed_account)
    update = Operation(_calls.accounts.update_account)


class Sessions(Resource):
    """Operations on your sessions."""

    list = Listing(_calls.access.list_sessions)
    create = Operation(_calls.access.create_session)
    delete = Operation(_calls.access.delete_session)


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

    upload = Operation(_calls.images.upload)
    gallery = Listing(_calls.images.gallery)
    account = Operation(_calls.access.get_account)
    change_password = Operation(_calls.access.change_password)

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
        transport: httpx2.BaseTransport | None = None,
        http_client: httpx2.Client | None = None,
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

        from imagehost_client._drivers import SyncDriver

        self.owns_http_client = http_client is None
        self._driver = SyncDriver(http_client or httpx2.Client(transport=transport), self.config.token)

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

    def upload_many(
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
        from concurrent.futures import ThreadPoolExecutor, as_completed  # slow to import

        from imagehost_client._many import Journal, plan_uploads

        with Journal(journal) as upload_journal, ThreadPoolExecutor(max(1, parallel)) as executor:
            jobs = plan_uploads(sources, options, upload_journal, progress)
            futures = [executor.submit(self._upload, job, upload_journal) for job in jobs]
            try:
                for future in as_completed(futures):
                    if on_result is not None:
                        on_result(future.result())
                return [future.result() for future in futures]
            except BaseException:
                executor.shutdown(wait=False, cancel_futures=True)
                raise

    def _upload(self, job: Job, journal: Journal) -> UploadResult:
        from imagehost_client._many import PER_FILE_ERRORS, UploadResult, finish

        if job.previous_image is not None:
            return UploadResult(job.source, job.previous_image, resumed=True)
        try:
            return finish(job, journal, self.run(job.call))
        except PER_FILE_ERRORS as error:
            return UploadResult(job.source, error=error)

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
