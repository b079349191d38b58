"""Service routes: health and readiness probes, metrics, and the API description."""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import cast

import msgspec
from attrs import evolve, frozen
from litestar import Response

from imagehost_core import ImageHost
from imagehost_core.cache_purges import OVERDUE_AFTER
from imagehost_core.errors import ForbiddenError, UnauthorizedError, UnavailableError
from imagehost_core.tokens import bearer_token
from imagehost_server._executors import ThreadLimiter
from imagehost_server.http.responses import RawResponse, Success, ok, to_litestar
from imagehost_server.logging_config import ProblemLog
from imagehost_server.metrics import CONTENT_TYPE, render_metrics
from imagehost_server.middleware.header_checks import is_loopback_client
from imagehost_server.routes.handler import ApiRequest, operation

CHECK_SECONDS = 5.0
"""The time in which each check must respond."""


@frozen
class Readiness:
    """What the checks have found.

    Attributes:
        failures: The exceptions of those that failed, by what they check.
        accepts_uploads: Whether the disk has enough free space.
        has_overdue_purges: Whether a shared cache has not confirmed for long that it has removed an image.
    """

    failures: Mapping[str, Exception]
    accepts_uploads: bool
    has_overdue_purges: bool


class ReadinessMonitor:
    """The checks of one server process's readiness.

    Probes that come at a time share one run of each check, so that a check which hangs takes one thread.

    Args:
        host: The host.
        threads: Runs the checks.

    Attributes:
        is_draining: Whether this process is about to stop, so that it is not ready for new requests.
    """

    def __init__(self, host: ImageHost, threads: ThreadLimiter) -> None:
        self._host, self._threads = host, threads
        self.is_draining = False
        self._running: dict[str, asyncio.Future[object]] = {}
        self._problems = ProblemLog("not ready", "ready again", logging.ERROR)
        self._full_disk = ProblemLog("uploads refused", "uploads accepted again", logging.WARNING)

    async def check(self) -> Readiness:
        """Return what does not respond, and whether uploads are accepted.

        Raises:
            UnavailableError: The process is about to stop.
        """
        if self.is_draining:
            raise UnavailableError("expected a host that goes on but received one that is about to stop")
        maintenance = self._host.maintenance
        checks = maintenance.readiness_checks
        *results, accepts_uploads, longest_wait = await asyncio.gather(
            *(self._run(name, check) for name, check in checks.items()),
            self._run("the disk", maintenance.accepts_uploads),
            self._run("cache purges", self._host.cache_purges.longest_wait),
        )
        found = dict(zip(checks, results, strict=True))
        failures = {name: result for name, result in found.items() if isinstance(result, Exception)}
        # The line has the exceptions, and changes with the names only.
        causes = "; ".join(f"{name}: {_describe(error)}" for name, error in failures.items())
        self._problems.record(" and ".join(failures), causes)
        limit = self._host.settings.storage.min_free_bytes
        is_refused = accepts_uploads is False
        self._full_disk.record(f"fewer than {limit} bytes of the disk are free" if is_refused else "")
        is_overdue = isinstance(longest_wait, timedelta) and longest_wait > OVERDUE_AFTER
        return Readiness(failures, accepts_uploads=not is_refused, has_overdue_purges=is_overdue)

    async def _run(self, name: str, check: Callable[[], object]) -> object:
        """Return the result of a check, or its exception."""
        running = self._running.get(name)
        if running is None or running.done():
            running = self._running[name] = asyncio.ensure_future(self._threads.run(check))
            # Its exception is ignored if it comes too late.
            running.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            return await asyncio.wait_for(asyncio.shield(running), CHECK_SECONDS)
        except Exception as error:
            return error


@frozen
class ProbeResult:
    """The status of the process (`alive`) or of the host (`ready`).

    Attributes:
        status: `alive` or `ready`.
        ip_address: That of the client as limits count it; only of `/healthz`.
        unavailable: `storage` if the image store does not respond, so that only what is cached is served;
            for loopback clients also `image workers`, without which uploads and new variants get 503.
        cause: Why; only for loopback clients.
        uploads: `refused` while the disk has too little free space; only for loopback clients.
        purges: `overdue` while a shared cache has not confirmed for more than a minute that it has removed an
            image; only for loopback clients.
    """

    status: str
    ip_address: str | msgspec.UnsetType = msgspec.UNSET
    unavailable: str | msgspec.UnsetType = msgspec.UNSET
    cause: str | msgspec.UnsetType = msgspec.UNSET
    uploads: str | msgspec.UnsetType = msgspec.UNSET
    purges: str | msgspec.UnsetType = msgspec.UNSET


@operation("GET /healthz", None, summary="Check that the process is alive.")
async def healthz(request: ApiRequest) -> Response[Success[ProbeResult]]:
    """Respond with 200 and the client's IP address, without accessing any store."""
    return ok(ProbeResult("alive", ip_address=request.scope["state"]["ip_address"]))


@operation("GET /readyz", None, summary="Check that this host can serve what it has.", errors=(503,))
async def readyz(request: ApiRequest) -> Response[Success[ProbeResult]]:
    """Respond with 200, also without image store or image workers, or 503.

    Loopback clients and the log see all of it.
    """
    is_local = is_loopback_client(request.scope)
    readiness = await cast("ReadinessMonitor", request.app.state["readiness"]).check()
    failures = readiness.failures
    shown = [name for name in failures if is_local or name in _PUBLIC_NAMES]
    if failures.keys() - _DISPENSABLE:
        received = f"no response from {' and '.join(shown)}" if shown else "no response"
        raise UnavailableError(f"expected the host to be ready but received {received}")
    result = ProbeResult("ready")
    if shown:
        result = evolve(result, unavailable=" and ".join(shown))
    if shown and is_local:
        result = evolve(result, cause="; ".join(_describe(failures[name]) for name in shown))
    if is_local and not readiness.accepts_uploads:
        result = evolve(result, uploads="refused")
    if is_local and readiness.has_overdue_purges:
        result = evolve(result, purges="overdue")
    return ok(result)


@operation(
    "GET /metrics",
    None,
    summary="Get the metrics in the text format of Prometheus.",
    errors=(403, 503),
    media_type="text/plain",
)
async def metrics(request: ApiRequest) -> Response[bytes]:
    """Respond with the metrics of all processes, to a client on this machine or with the token of them."""
    if not is_loopback_client(request.scope) and not _has_metrics_token(request):
        raise ForbiddenError(_METRICS_ACCESS)
    request.recorder.fold()
    body = await request.executors.metrics.run(render_metrics, request.recorder, request.host)
    return to_litestar(RawResponse(200, body, _METRICS_HEADERS))


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else f"no response in {CHECK_SECONDS:g} seconds"


def _has_metrics_token(request: ApiRequest) -> bool:
    token = request.settings.metrics.token
    if token is None:
        return False
    try:
        received = bearer_token(request.scope["headers"])
    except UnauthorizedError:
        return False
    return hmac.compare_digest(received.encode(), token.encode())


@operation("GET /v1/openapi.json", None, summary="Get the OpenAPI document.", media_type="application/json")
async def openapi_json(request: ApiRequest) -> Response[bytes]:
    """Respond with the OpenAPI document, without envelope."""
    # In a thread: the first request makes it.
    description = request.app.state["api_description"]
    return to_litestar(await request.executors.database.run(getattr, description, "document"))


@operation("GET /v1/docs", None, summary="Get the API reference as an HTML page.", media_type="text/html")
async def docs(request: ApiRequest) -> Response[bytes]:
    """Respond with a page that shows the document and can send requests."""
    return to_litestar(request.app.state["api_description"].page)


_DISPENSABLE = frozenset(("storage", "image workers"))
"""What a host can be without for a while: it serves what it has cached, lists and records."""
_PUBLIC_NAMES = frozenset(("database", "storage"))
"""What clients on other machines may know by name."""

_METRICS_ACCESS = "expected a client on this machine, or the token of metrics.token"

_METRICS_HEADERS = (("content-type", CONTENT_TYPE), ("cache-control", "no-store"))
