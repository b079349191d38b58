"""Service routes: health and readiness probes, and the API description."""

from __future__ import annotations

import hmac

import msgspec
from attrs import frozen
from litestar import Response

from imagehost_core.errors import ForbiddenError, UnauthorizedError, UnavailableError
from imagehost_server.api.envelope import Success, ok, to_litestar
from imagehost_server.api.operation import operation
from imagehost_server.api.request import ApiRequest
from imagehost_server.auth.bearer import bearer_token
from imagehost_server.http.responses import RawResponse
from imagehost_server.metrics import CONTENT_TYPE, render_metrics
from imagehost_server.middleware.security import is_loopback_client


@frozen
class ProbeResult:
    """The status of the process (`alive`) or of the host (`ready`).

    Attributes:
        status: `alive` or `ready`.
        uploads: `refused` while the disk has too little free space; only for loopback clients.
    """

    status: str
    uploads: str | msgspec.UnsetType = msgspec.UNSET


@operation("GET /healthz", summary="Check that the process is alive.")
async def healthz() -> Response[Success[ProbeResult]]:
    """Respond with 200, without accessing any store."""
    return ok(ProbeResult("alive"))


@operation("GET /readyz", summary="Check that the stores and the image workers respond.", errors=(503,))
async def readyz(request: ApiRequest) -> Response[Success[ProbeResult]]:
    """Respond with 200, or 503 if something does not respond; only loopback clients and the log see what."""
    is_local = is_loopback_client(request.scope)
    try:
        accepts_uploads = await request.readiness.check()
    except UnavailableError as error:
        # Without the cause, which the monitor has logged.
        raise UnavailableError(error.details if is_local else _NOT_READY) from None
    return ok(ProbeResult("ready", "refused" if is_local and not accepts_uploads else msgspec.UNSET))


@operation(
    "GET /metrics",
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


def _has_metrics_token(request: ApiRequest) -> bool:
    token = request.settings.metrics.token
    if token is None:
        return False
    try:
        received = bearer_token(request.scope["headers"])
    except UnauthorizedError:
        return False
    return hmac.compare_digest(received.encode(), token.encode())


@operation("GET /v1/openapi.json", summary="Get the OpenAPI document.", media_type="application/json")
async def openapi_json(request: ApiRequest) -> Response[bytes]:
    """Respond with the OpenAPI document, without envelope."""
    return await _described(request, "document")


@operation("GET /v1/docs", summary="Get the API reference as an HTML page.", media_type="text/html")
async def docs(request: ApiRequest) -> Response[bytes]:
    """Respond with a page that shows the document and can send requests."""
    return await _described(request, "docs")


async def _described(request: ApiRequest, name: str) -> Response[bytes]:
    """Return an attribute of the API description in a thread: making it would block the event loop."""
    description = request.app.state["api_description"]
    return to_litestar(await request.executors.database.run(getattr, description, name))


_NOT_READY = "expected the host to be ready but received no response"

_METRICS_ACCESS = "expected a client on this machine, or the token of metrics.token"
_METRICS_HEADERS = (("content-type", CONTENT_TYPE), ("cache-control", "no-store"))

ROUTES = (healthz, readyz, metrics, openapi_json, docs)
