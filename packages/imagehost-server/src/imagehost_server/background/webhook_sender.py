"""Webhook sender: leases due deliveries, posts them and reports the results.

Any number of senders may run, in one process or several; each delivery is leased by one of them. Results are
reported in the same transaction that leases more, so each round costs one durable commit. The leases of a
sender that was killed expire, or are released when another sender takes its slot; what it had sent and not
reported is sent again under the same `webhook-id`: delivery is at least once.

Each sender divides its own attempts between accounts (`imagehost_core.webhooks`), and learns by
itself which endpoints respond.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, suppress
from datetime import datetime
from functools import partial
from typing import TypeVar

from imagehost_core import ImageHost
from imagehost_core.endpoints import parse_endpoint_url, require_public_address
from imagehost_core.errors import ValidationError
from imagehost_core.ids import WebhookId
from imagehost_core.services.webhooks import LeasedDelivery
from imagehost_core.webhooks import Attempt, SenderLoad, sign_webhook
from imagehost_server.http.outgoing import Outgoing, OutgoingResponse, Resolve, UnreachableError, resolve

POLL_SECONDS = 0.5
"""Time between polls of the outbox, for events of other processes and for retries. Events of the same process
wake the sender at once."""

IDLE_POLL_SECONDS = 5.0
"""The same in a server that has sent nothing for `ACTIVE_SECONDS`, so that an idle one lets the CPU sleep.
Only events of other processes, such as an import, and later retries wait for it."""

ACTIVE_SECONDS = 15.0
"""Longer than the delay of a first retry."""

PRUNE_SECONDS = 3_600
"""Time between deletions of expired events."""

SHUTDOWN_GRACE_SECONDS = 5.0
"""Default time that attempts in flight have to finish when a sender stops."""

USER_AGENT = "imagehost-webhooks/1"

T = TypeVar("T")

log = logging.getLogger("imagehost.webhooks")


class WebhookSender:
    """Sender of a host's webhook deliveries.

    Args:
        host: The host with the outbox.
        tls: The TLS context; by default one with the system's certificate authorities.
        resolve: Resolves host names.
        grace_seconds: Time that attempts in flight have to finish after `stop`; the others are released.
        idle_poll_seconds: Time between polls when nothing was sent for a while.
    """

    def __init__(
        self,
        host: ImageHost,
        *,
        tls: ssl.SSLContext | None = None,
        resolve: Resolve = resolve,
        grace_seconds: float = SHUTDOWN_GRACE_SECONDS,
        idle_poll_seconds: float = IDLE_POLL_SECONDS,
    ) -> None:
        self._host = host
        self._settings = host.settings.webhooks
        policy = partial(require_public_address, allow_loopback=self._settings.allow_loopback)
        self._outgoing = Outgoing(policy, tls or ssl.create_default_context(), resolve)
        self._grace_seconds = grace_seconds
        self._idle_poll_seconds = idle_poll_seconds
        self._active_until = time.monotonic()
        self._sender_slot: int | None = None
        self._wake = asyncio.Event()
        self._stopping = False
        self._latest: datetime | None = None
        self._in_flight: dict[asyncio.Task[None], LeasedDelivery] = {}
        self._responsive: set[WebhookId] = set()
        self._results: list[tuple[LeasedDelivery, Attempt]] = []
        self._last_prune = time.monotonic()
        # A dedicated thread, so that no other work of the process can delay reports and leases.
        self._thread = ThreadPoolExecutor(1, "webhook-sender")

    async def run(self) -> None:
        """Send until `stop` is called; then finish or release the attempts in flight."""
        loop = asyncio.get_running_loop()
        slot = ExitStack()
        unsubscribe = self._host.subscribe(lambda _event: loop.call_soon_threadsafe(self._wake.set))
        try:
            await self._take_slot(slot)
            while not self._stopping:
                await self._run_once()
        finally:
            unsubscribe()
            await self._shut_down()
            slot.close()

    def stop(self) -> None:
        """Lease nothing more, and make `run` return."""
        self._stopping = True
        self._wake.set()

    async def drain(self) -> int:
        """Send everything that is due now; return the number of attempts."""
        count = 0
        while True:
            count += await self._report_and_lease()
            if not self._in_flight and not self._results:
                return count
            if self._in_flight:
                await asyncio.wait(self._in_flight, return_when=asyncio.FIRST_COMPLETED)

    async def _take_slot(self, slot: ExitStack) -> None:
        """Take a slot; try again while the database does not respond."""
        while not self._stopping:
            try:
                taken = self._host.webhooks.sender_slot()
                self._sender_slot = await self._in_thread(slot.enter_context, taken)
            except Exception:
                log.exception("sender slot query failed; retrying")
                await asyncio.sleep(POLL_SECONDS)
            else:
                return

    async def _run_once(self) -> None:
        self._wake.clear()
        try:
            await self._follow_clock()
            if self._is_active or self._results or await self._in_thread(self._host.webhooks.is_any_due):
                await self._report_and_lease()
            await self._prune()
        except Exception:
            log.exception("lease query failed; retrying")
            await asyncio.sleep(POLL_SECONDS)
        with suppress(TimeoutError):
            seconds = POLL_SECONDS if self._is_active else self._idle_poll_seconds
            await asyncio.wait_for(self._wake.wait(), seconds)

    async def _follow_clock(self) -> None:
        """Send what a wrong clock has put off, at the start and when the clock has been set back."""
        now = self._host.now()
        if self._latest is None or now < self._latest:
            await self._in_thread(self._host.webhooks.recover_from_clock_step)
        self._latest = now

    @property
    def _is_active(self) -> bool:
        return time.monotonic() < self._active_until

    async def _report_and_lease(self) -> int:
        """Report results, start as many attempts as the concurrency allows, and return their number."""
        accounts = Counter(lease.webhook.account_id for lease in self._in_flight.values())
        free = self._settings.concurrency - len(self._in_flight)
        load = SenderLoad(free, accounts, frozenset(self._responsive))
        results, self._results = self._results, []
        try:
            leased = await self._in_thread(
                self._host.webhooks.report_and_lease, results, load, self._sender_slot
            )
        except Exception:
            self._results = results + self._results  # the transaction was rolled back
            raise
        if leased or results:
            self._active_until = time.monotonic() + ACTIVE_SECONDS
        for lease in leased:
            task = asyncio.create_task(self._deliver(lease))
            self._in_flight[task] = lease
            task.add_done_callback(self._on_done)
        return len(leased)

    async def _deliver(self, lease: LeasedDelivery) -> None:
        started = time.monotonic()
        at = self._host.now()
        try:
            response = await self._post(lease, int(at.timestamp()))
            status, text = response.status, response.excerpt
        except (UnreachableError, ValidationError) as error:
            status, text = None, str(error)
        except Exception:
            # A bug. It counts as an attempt, so that it is not retried without end.
            log.exception("webhook delivery failed delivery=%s", lease.delivery.id)
            status, text = None, "internal error of the sender"
        (self._responsive.discard if status is None else self._responsive.add)(lease.webhook.id)
        duration_ms = round((time.monotonic() - started) * 1_000)
        self._results.append((lease, Attempt(at=at, status=status, duration_ms=duration_ms, response=text)))

    async def _post(self, lease: LeasedDelivery, timestamp: int) -> OutgoingResponse:
        event_id, body = lease.delivery.event_id, lease.body
        signatures = (sign_webhook(secret, event_id, timestamp, body) for secret in lease.secrets)
        headers = {
            "Content-Type": "application/json",
            "User-Agent": USER_AGENT,
            "webhook-id": event_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": " ".join(signatures),
        }
        return await self._outgoing.request(
            "POST",
            parse_endpoint_url(lease.webhook.url, allow_loopback=self._settings.allow_loopback),
            headers,
            body,
            timeout=self._settings.timeout_seconds,
        )

    def _on_done(self, task: asyncio.Task[None]) -> None:
        del self._in_flight[task]
        self._wake.set()

    async def _prune(self) -> None:
        if time.monotonic() - self._last_prune > PRUNE_SECONDS:
            self._last_prune = time.monotonic()
            await self._in_thread(self._host.webhooks.delete_expired)

    async def _shut_down(self) -> None:
        if self._in_flight:
            await asyncio.wait(self._in_flight, timeout=self._grace_seconds)
        unfinished = dict(self._in_flight)
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)
        try:
            await self._in_thread(self._host.webhooks.report, self._results)
            if unfinished:
                await self._in_thread(self._host.webhooks.release, *unfinished.values())
        except Exception:
            log.exception("attempts not reported; repeated when their leases expire")
        self._thread.shutdown()

    async def _in_thread(self, call: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, partial(call, *args))


SIGNALS = (signal.SIGTERM, signal.SIGINT)
"""The signals that stop `run_forever`."""


@asynccontextmanager
async def running_sender(
    host: ImageHost, idle_poll_seconds: float = IDLE_POLL_SECONDS
) -> AsyncIterator[None]:
    """Send webhooks while the block runs; attempts in flight at its end are finished or released.

    Args:
        host: The host with the outbox.
        idle_poll_seconds: Time between polls when nothing was sent for a while.
    """
    sender = WebhookSender(host, idle_poll_seconds=idle_poll_seconds)
    task = asyncio.create_task(sender.run(), name="webhook sender")
    try:
        yield
    finally:
        sender.stop()
        await task


def run_forever(host: ImageHost) -> None:
    """Send webhooks until SIGTERM or SIGINT."""
    asyncio.run(_run_until_signal(host))


async def _run_until_signal(host: ImageHost) -> None:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in SIGNALS:
        with suppress(NotImplementedError):  # on Windows, where KeyboardInterrupt cancels this task instead
            loop.add_signal_handler(number, stopped.set)
    # All its events come from other processes, which cannot wake it.
    async with running_sender(host, POLL_SECONDS):
        await stopped.wait()
