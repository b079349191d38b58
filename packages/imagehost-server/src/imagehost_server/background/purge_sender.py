"""Sender of cache purges: requests to the operator's shared cache, with retries.

Each server process has one. Each purge is leased by one of them; it can be sent twice, which has no effect.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

from imagehost_core import ImageHost
from imagehost_core.cache_purges import CachePurge
from imagehost_core.webhooks import Endpoint
from imagehost_server.background.webhook_http import UnreachableError, request

POLL_SECONDS = 1.0
"""Time between two polls for purges: each is one query of about 20 µs."""
MAX_CONCURRENT = 32
"""Requests of a process at a time."""
USER_AGENT = "imagehost-purge/1"

log = logging.getLogger("imagehost.server")


@asynccontextmanager
async def running_purge_sender(host: ImageHost) -> AsyncIterator[None]:
    """Send the purges of a host while the block runs, if a shared cache is configured.

    Args:
        host: The host.
    """
    if not host.cache_purges.is_enabled:
        yield
        return
    stopped = asyncio.Event()
    task = asyncio.create_task(_run(host, stopped), name="purge sender")
    try:
        yield
    finally:
        stopped.set()
        await task


async def send_due_purges(host: ImageHost, tls: ssl.SSLContext) -> int:
    """Send the purges that are due, up to `MAX_CONCURRENT`, and return their number.

    Args:
        host: The host.
        tls: The TLS context.
    """
    purges = await asyncio.to_thread(host.cache_purges.lease, MAX_CONCURRENT)
    if purges:
        failures = await asyncio.gather(*(_send(host, purge, tls) for purge in purges))
        await asyncio.to_thread(host.cache_purges.report, list(zip(purges, failures, strict=True)))
    return len(purges)


async def _run(host: ImageHost, stopped: asyncio.Event) -> None:
    tls = ssl.create_default_context()
    while not stopped.is_set():
        count = 0
        try:
            count = await send_due_purges(host, tls)
        except Exception:
            log.exception("cache purge query failed; retrying")
        if count < MAX_CONCURRENT:
            with suppress(TimeoutError):
                await asyncio.wait_for(stopped.wait(), POLL_SECONDS)


async def _send(host: ImageHost, purge: CachePurge, tls: ssl.SSLContext) -> str | None:
    """Send one request; return the reason of a failure, or `None`."""
    purge_request = host.cache_purges.request(purge)
    try:
        response = await request(
            purge_request.method,
            _endpoint(purge_request.url),
            {"User-Agent": USER_AGENT, **purge_request.headers},
            purge_request.body,
            timeout=host.settings.purge.timeout_seconds,
            tls=tls,
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
