"""The sender: leases what is due, posts it, and reports what came of it.

Any number of senders may run, in this process and in others: each delivery is leased to one. What came
of attempts is told to the catalog together with the request for more, since each such exchange costs
one durable commit. A sender that is killed leaves leases behind, which end by themselves, or when another
takes its seat; what it had sent and not reported is then sent once more, under the same `webhook-id`: at
least once, never less.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from typing import TypeVar

from imagehost_core import ImageHost
from imagehost_core.errors import ValidationError
from imagehost_core.services import Due
from imagehost_core.webhooks.endpoint import parse_destination
from imagehost_core.webhooks.retry import Attempt
from imagehost_core.webhooks.signing import sign_webhook
from imagehost_server.background.webhook_http import Posted, Resolve, UnreachableError, post, resolve

POLL_SECONDS = 0.5
"""How long a sender sleeps when nothing is due. Events of its own process wake it at once."""
PRUNE_SECONDS = 3_600
"""How often old events are forgotten."""
GRACE_SECONDS = 5.0
"""How long attempts under way may still take when a sender is stopped; the rest is given back."""
USER_AGENT = "imagehost-webhooks/1"

T = TypeVar("T")
log = logging.getLogger("imagehost.webhooks")


class Sender:
    """Sends the events of a host.

    Args:
        host: Whose outbox.
        tls: How certificates are verified; the system's authorities, unless given.
        resolve: Returns the addresses of a name.
    """

    def __init__(
        self, host: ImageHost, *, tls: ssl.SSLContext | None = None, resolve: Resolve = resolve
    ) -> None:
        self._host = host
        self._settings = host.settings.webhooks
        self._tls = tls or ssl.create_default_context()
        self._resolve = resolve
        self._seat: int | None = None
        self._wake = asyncio.Event()
        self._stopping = False
        self._flying: dict[asyncio.Task[None], Due] = {}
        self._reports: list[tuple[Due, Attempt]] = []
        self._pruned = time.monotonic()
        # A thread of its own: no other work of the process can keep it waiting.
        self._thread = ThreadPoolExecutor(1, "sender")

    async def run(self) -> None:
        """Send until `stop`; then finish what is under way, or give it back."""
        loop, held = asyncio.get_running_loop(), ExitStack()
        unsubscribe = self._host.subscribe(lambda _event: loop.call_soon_threadsafe(self._wake.set))
        try:
            self._seat = await self._in_thread(held.enter_context, self._host.webhooks.seat())
            while not self._stopping:
                await self._turn()
        finally:
            unsubscribe()
            await self._finish()
            held.close()

    def stop(self) -> None:
        """Lease nothing more, and let `run` come to its end."""
        self._stopping = True
        self._wake.set()

    async def drain(self) -> int:
        """Send all that is due now, and return how many attempts that took."""
        count = 0
        while True:
            count += await self._exchange()
            if not self._flying and not self._reports:
                return count
            if self._flying:
                await asyncio.wait(self._flying, return_when=asyncio.FIRST_COMPLETED)

    async def _turn(self) -> None:
        self._wake.clear()
        try:
            await self._exchange()
            await self._prune()
        except Exception:
            log.exception("the outbox did not answer")
            await asyncio.sleep(POLL_SECONDS)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), POLL_SECONDS)

    async def _exchange(self) -> int:
        """Report what has come of attempts, start as many more as there is room for, and return how many."""
        room = self._settings.concurrency - len(self._flying)
        reports, self._reports = self._reports, []
        try:
            leased = await self._in_thread(self._host.webhooks.exchange, reports, room, self._seat)
        except Exception:
            self._reports = reports + self._reports  # nothing of it was recorded
            raise
        for due in leased:
            task = asyncio.create_task(self._deliver(due))
            self._flying[task] = due
            task.add_done_callback(self._landed)
        return len(leased)

    async def _deliver(self, due: Due) -> None:
        begun, at = time.monotonic(), self._host.now()
        try:
            posted = await self._post(due, int(at.timestamp()))
            status, answer = posted.status, posted.excerpt
        except (UnreachableError, ValidationError) as error:
            status, answer = None, str(error)
        except Exception:
            # Ours to mend. It counts as an attempt, so that it cannot come back for ever.
            log.exception("delivery %s failed", due.delivery.id)
            status, answer = None, "the sender failed"
        duration = round((time.monotonic() - begun) * 1_000)
        self._reports.append((due, Attempt(at=at, status=status, duration_ms=duration, answer=answer)))

    async def _post(self, due: Due, timestamp: int) -> Posted:
        delivery, allow = due.delivery, self._settings.allow_loopback
        destination = parse_destination(due.webhook.url, allow_loopback=allow)
        signatures = (sign_webhook(secret, delivery.event_id, timestamp, due.body) for secret in due.secrets)
        headers = {
            "Content-Type": "application/json",
            "User-Agent": USER_AGENT,
            "webhook-id": delivery.event_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": " ".join(signatures),
        }
        return await post(
            destination,
            headers,
            due.body,
            timeout=self._settings.timeout,
            allow_loopback=allow,
            tls=self._tls,
            resolve=self._resolve,
        )

    def _landed(self, task: asyncio.Task[None]) -> None:
        del self._flying[task]
        self._wake.set()

    async def _prune(self) -> None:
        if time.monotonic() - self._pruned > PRUNE_SECONDS:
            self._pruned = time.monotonic()
            await self._in_thread(self._host.webhooks.prune)

    async def _finish(self) -> None:
        if self._flying:
            await asyncio.wait(self._flying, timeout=GRACE_SECONDS)
        unfinished = dict(self._flying)
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)
        await self._in_thread(self._host.webhooks.report, self._reports)
        if unfinished:
            await self._in_thread(self._host.webhooks.release, *unfinished.values())
        self._thread.shutdown()

    async def _in_thread(self, call: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, partial(call, *args))
