"""Service routes: health and readiness probes, and the API description."""

from __future__ import annotations

from litestar import Response

from imagehost_server.api.operation import operation
from imagehost_server.api.request import ApiRequest, ok, to_litestar


@operation("GET /healthz", summary="Check that the process is alive.", response={"status": str})
async def healthz() -> Response[bytes]:
    """Respond with 200, without accessing any store."""
    return ok({"status": "alive"})


@operation("GET /readyz", summary="Check that database and blob store respond.", response={"status": str})
async def readyz(request: ApiRequest) -> Response[bytes]:
    """Respond with 200, or 503 if a store does not respond."""
    await request.executors.database.run(request.host.maintenance.check_ready)
    return ok({"status": "ready"})


@operation("GET /v1/openapi.json", summary="Get the OpenAPI document.", response="application/json")
async def openapi_json(request: ApiRequest) -> Response[bytes]:
    """Respond with the OpenAPI document, without envelope."""
    return to_litestar(request.app.state["api_description"].document)


@operation("GET /v1/docs", summary="Get the API reference as an HTML page.", response="text/html")
async def docs(request: ApiRequest) -> Response[bytes]:
    """Respond with a page that loads no other resource."""
    return to_litestar(request.app.state["api_description"].docs)


ROUTES = (healthz, readyz, openapi_json, docs)
