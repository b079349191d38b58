"""Sender of cache purges: requests to the operator's shared cache, with retries.

Each server process has one. A purge that the process records wakes it; otherwise it sleeps until the next
attempt is due. Each purge is leased by one sender; it can be sent twice, which has no effect.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from imagehost_core import ImageHost
from imagehost_core.cache_purges import OVERDUE_AFTER, CachePurge, PurgeAttempt
from imagehost_core.endpoints import Endpoint, require_ip_address
from imagehost_server.background.periodic import running_periodically
from imagehost_server.http.outgoing import Outgoing, UnreachableError
from imagehost_server.logging_config import ProblemLog

POLL_SECONDS = 5.0
"""Time between two polls for purges that other processes have recorded, such as commands of the operator:
each is one query of about 20 µs."""
RETRY_SECONDS = 1.0
"""Time until the next poll after an error of the database."""
MAX_CONCURRENT = 32
"""Requests of a process at a time."""
USER_AGENT = "imagehost-purge/1"

WHAT_TO_CHECK = (
    "that purge.url reaches the shared cache from this host, and that the cache accepts purge.method, "
    "purge.headers and the IP address of this host"
)

log = logging.getLogger("imagehost.server")


class OverduePurges:
    """A log of purges that fail for more than a minute: a line when that begins, each minute, and at its end.

    Args:
        host: The host.
    """

    def __init__(self, host: ImageHost) -> None:
        self._purges = host.cache_purges
        self._problems = ProblemLog(
            "shared cache may serve deleted and private images", "shared cache is purged again", logging.ERROR
        )
        self._failure = ""

    def add(self, attempts: Iterable[PurgeAttempt]) -> None:
        """Take note of the requests of this process, which logs their failures."""
        self._failure = next((each.failure for each in attempts if each.failure), self._failure)

    def record(self) -> None:
        """Log the present state, unless that was done."""
        wait = self._purges.longest_wait()
        if not wait:
            self._failure = ""
        reason = self._failure if wait > OVERDUE_AFTER else ""
        self._problems.record(reason, f"purges fail for {wait.total_seconds():.0f} s; check {WHAT_TO_CHECK}")


@asynccontextmanager
async def running_purge_sender(host: ImageHost, poll_seconds: float = POLL_SECONDS) -> AsyncIterator[None]:
    """Send the purges of a host while the block runs, if a shared cache is configured.

    Args:
        host: The host.
        poll_seconds: Time between two polls for purges that other processes have recorded.
    """
    purges = host.cache_purges
    loop = asyncio.get_running_loop()
    overdue = OverduePurges(host)
    if not purges.is_enabled:
        yield
        return
    # The URL is the operator's own: its cache may be in any network.
    outgoing = Outgoing(require_ip_address, ssl.create_default_context())

    def seconds_to_next() -> float:
        next_attempt_at = purges.next_attempt_at()
        if next_attempt_at is None:
            return poll_seconds
        return min(max(0.0, (next_attempt_at - host.now()).total_seconds()), poll_seconds)

    async def send_due() -> float:
        """Send what is due; return the seconds until the next attempt or poll."""
        try:
            seconds = await asyncio.to_thread(seconds_to_next)
            if seconds <= 0:
                overdue.add(await send_due_purges(host, outgoing))
            await asyncio.to_thread(overdue.record)
            return await asyncio.to_thread(seconds_to_next)
        except Exception:
            log.exception("cache purge query failed; retrying")
            return RETRY_SECONDS

    async with running_periodically(send_due, "purge sender") as wake:
        unsubscribe = purges.subscribe(lambda: loop.call_soon_threadsafe(wake.set))
        try:
            yield
        finally:
            unsubscribe()


async def send_due_purges(host: ImageHost, outgoing: Outgoing) -> list[PurgeAttempt]:
    """Send the purges that are due, up to `MAX_CONCURRENT`, and return the requests.

    Args:
        host: The host.
        outgoing: Sends the requests.
    """
    purges = await asyncio.to_thread(host.cache_purges.lease, MAX_CONCURRENT)
    attempts = await asyncio.gather(*(_send(host, purge, outgoing) for purge in purges))
    if attempts:
        await asyncio.to_thread(host.cache_purges.report, attempts)
    return attempts


async def _send(host: ImageHost, purge: CachePurge, outgoing: Outgoing) -> PurgeAttempt:
    """Send one request; return its result."""
    started = time.monotonic()
    failure = await _request_failure(host, purge, outgoing)
    return PurgeAttempt(purge, time.monotonic() - started, failure)


async def _request_failure(host: ImageHost, purge: CachePurge, outgoing: Outgoing) -> str | None:
    """Send one request; return the reason of a failure, or `None`."""
    purge_request = host.cache_purges.request(purge)
    try:
        response = await outgoing.request(
            purge_request.method,
            _endpoint(purge_request.url),
            {"User-Agent": USER_AGENT, **purge_request.headers},
            purge_request.body,
            timeout=host.settings.purge.timeout_seconds,
        )
    except UnreachableError as error:
        return str(error)
    except Exception:
        log.exception("cache purge failed: image=%s", purge.image_id)
        return "internal error of the sender"
    status, others = response.status, host.settings.purge.success_statuses
    succeeded = 200 <= status < 300 or str(status) in others
    return None if succeeded else f"the cache responded with {status}"


def _endpoint(url: str) -> Endpoint:
    """Return the endpoint of the operator's URL, which may be of a private network."""
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Endpoint(url, secure, parts.hostname or "", port, target)
