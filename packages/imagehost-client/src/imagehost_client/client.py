"""The client for threads. `aclient` has the same names for event loops."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from imagehost_client import _calls, _config
from imagehost_client._base import BaseClient
from imagehost_client._calls import Call
from imagehost_client._exchange import exchange
from imagehost_client._methods import Listing, Operation
from imagehost_client.files import Source

if TYPE_CHECKING:
    from typing import Self, Unpack

    import httpx2

    from imagehost_client._many import BatchProgress, Job, Journal, UploadOptions, UploadResult

T = TypeVar("T")


class Resource:
    """The calls on one kind of record."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def run(self, call: Call[T], /) -> T:
        """Make a call, and return its result."""
        return self._client.run(call)


class Images(Resource):
    """Your images."""

    list = Listing(_calls.images.list_images)
    get = Operation(_calls.images.get_image)
    update = Operation(_calls.images.update_image)
    delete = Operation(_calls.images.delete_image)
    render = Operation(_calls.images.render_image)
    signed_url = Operation(_calls.images.sign_image_url)


class Albums(Resource):
    """Your albums."""

    list = Listing(_calls.albums.list_albums)
    create = Operation(_calls.albums.create_album)
    get = Operation(_calls.albums.get_album)
    update = Operation(_calls.albums.update_album)
    delete = Operation(_calls.albums.delete_album)
    add_images = Operation(_calls.albums.add_images)
    remove_images = Operation(_calls.albums.remove_images)


class Keys(Resource):
    """Your API keys; a session's token is needed for them."""

    list = Listing(_calls.access.list_keys)
    create = Operation(_calls.access.create_key)
    get = Operation(_calls.access.get_key)
    update = Operation(_calls.access.update_key)
    delete = Operation(_calls.access.delete_key)


class Webhooks(Resource):
    """The destinations of events."""

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
    """Accounts that anybody may make, where the host lets them."""

    create = Operation(_calls.access.create_account)


class Sessions(Resource):
    """Sign-ins."""

    create = Operation(_calls.access.create_session)
    delete = Operation(_calls.access.delete_session)


class Client(BaseClient):
    """A client of an image host. It may be shared between threads.

    Use it in a `with` statement, or call `close` when done.

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

    images: Images
    albums: Albums
    keys: Keys
    webhooks: Webhooks
    accounts: Accounts
    sessions: Sessions

    upload = Operation(_calls.images.upload)
    gallery = Listing(_calls.images.gallery)
    account = Operation(_calls.access.get_account)

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

        self.owns = http_client is None
        self._driver = SyncDriver(http_client or httpx2.Client(transport=transport), self.config.token)

    def attach(self) -> None:
        """Make the resources of this client."""
        self.images = Images(self)
        self.albums = Albums(self)
        self.keys = Keys(self)
        self.webhooks = Webhooks(self)
        self.accounts = Accounts(self)
        self.sessions = Sessions(self)

    def run(self, call: Call[T], /) -> T:
        """Make a call, and return its result."""
        return self._driver.run(exchange(call, self.config, self.world))

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
        from concurrent.futures import ThreadPoolExecutor, as_completed  # slow to import

        from imagehost_client._many import Journal, plan_uploads

        with Journal(journal) as notes, ThreadPoolExecutor(max(1, parallel)) as pool:
            jobs = plan_uploads(sources, options, notes, progress)
            futures = [pool.submit(self._attempt, job, notes) for job in jobs]
            try:
                for future in as_completed(futures):
                    if on_result is not None:
                        on_result(future.result())
                return [future.result() for future in futures]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _attempt(self, job: Job, notes: Journal) -> UploadResult:
        from imagehost_client._many import PER_FILE_ERRORS, UploadResult, outcome

        if job.previous_image is not None:
            return UploadResult(job.source, job.previous_image, resumed=True)
        try:
            return outcome(job, notes, self.run(job.call))
        except PER_FILE_ERRORS as error:
            return UploadResult(job.source, error=error)

    def close(self) -> None:
        """Close the connections that this client has opened."""
        if self.owns:
            self._driver.http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
