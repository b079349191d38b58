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
from imagehost_core.services import LeasedDelivery
from imagehost_core.webhooks.endpoint import parse_endpoint_url
from imagehost_core.webhooks.retry import Attempt
from imagehost_core.webhooks.signing import sign_webhook
from imagehost_server.background.webhook_http import Resolve, UnreachableError, WebhookResponse, post, resolve

POLL_SECONDS = 0.5
"""How long a sender sleeps when nothing is due. Events of its own process wake it at once."""
PRUNE_SECONDS = 3_600
"""How often old events are forgotten."""
SHUTDOWN_GRACE_SECONDS = 5.0
"""How long attempts under way may still take when a sender is stopped; the rest is given back."""
USER_AGENT = "imagehost-webhooks/1"

T = TypeVar("T")
log = logging.getLogger("imagehost.webhooks")


class WebhookSender:
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
        self._sender_slot: int | None = None
        self._wake = asyncio.Event()
        self._stopping = False
        self._in_flight: dict[asyncio.Task[None], LeasedDelivery] = {}
        self._reports: list[tuple[LeasedDelivery, Attempt]] = []
        self._pruned = time.monotonic()
        # A thread of its own: no other work of the process can keep it waiting.
        self._thread = ThreadPoolExecutor(1, "sender")

    async def run(self) -> None:
        """Send until `stop`; then finish what is under way, or give it back."""
        loop, held = asyncio.get_running_loop(), ExitStack()
        unsubscribe = self._host.subscribe(lambda _event: loop.call_soon_threadsafe(self._wake.set))
        try:
            self._sender_slot = await self._in_thread(held.enter_context, self._host.webhooks.sender_slot())
            while not self._stopping:
                await self._run_once()
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
            count += await self._report_and_lease()
            if not self._in_flight and not self._reports:
                return count
            if self._in_flight:
                await asyncio.wait(self._in_flight, return_when=asyncio.FIRST_COMPLETED)

    async def _run_once(self) -> None:
        self._wake.clear()
        try:
            await self._report_and_lease()
            await self._prune()
        except Exception:
            log.exception("the outbox did not answer")
            await asyncio.sleep(POLL_SECONDS)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), POLL_SECONDS)

    async def _report_and_lease(self) -> int:
        """Report what has come of attempts, start as many more as there is room for, and return how many."""
        room = self._settings.concurrency - len(self._in_flight)
        reports, self._reports = self._reports, []
        try:
            leased = await self._in_thread(
                self._host.webhooks.report_and_lease, reports, room, self._sender_slot
            )
        except Exception:
            self._reports = reports + self._reports  # nothing of it was recorded
            raise
        for due in leased:
            task = asyncio.create_task(self._deliver(due))
            self._in_flight[task] = due
            task.add_done_callback(self._on_done)
        return len(leased)

    async def _deliver(self, due: LeasedDelivery) -> None:
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
        self._reports.append((due, Attempt(at=at, status=status, duration_ms=duration, response=answer)))

    async def _post(self, due: LeasedDelivery, timestamp: int) -> WebhookResponse:
        delivery, allow = due.delivery, self._settings.allow_loopback
        destination = parse_endpoint_url(due.webhook.url, allow_loopback=allow)
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
            timeout=self._settings.timeout_seconds,
            allow_loopback=allow,
            tls=self._tls,
            resolve=self._resolve,
        )

    def _on_done(self, task: asyncio.Task[None]) -> None:
        del self._in_flight[task]
        self._wake.set()

    async def _prune(self) -> None:
        if time.monotonic() - self._pruned > PRUNE_SECONDS:
            self._pruned = time.monotonic()
            await self._in_thread(self._host.webhooks.delete_expired)

    async def _finish(self) -> None:
        if self._in_flight:
            await asyncio.wait(self._in_flight, timeout=SHUTDOWN_GRACE_SECONDS)
        unfinished = dict(self._in_flight)
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)
        await self._in_thread(self._host.webhooks.report, self._reports)
        if unfinished:
            await self._in_thread(self._host.webhooks.release, *unfinished.values())
        self._thread.shutdown()

    async def _in_thread(self, call: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, partial(call, *args))
