"""The service itself: whether it lives, whether it works, and what it offers."""

from __future__ import annotations

from litestar import Response

from imagehost_server.api.operation import operation
from imagehost_server.api.request import ApiRequest, ok, to_litestar


@operation("GET /healthz", summary="Tell that the process is alive.", response={"status": str})
async def healthz() -> Response[bytes]:
    """Answer 200 without asking any store."""
    return ok({"status": "alive"})


@operation("GET /readyz", summary="Tell whether the stores answer.", response={"status": str})
async def readyz(request: ApiRequest) -> Response[bytes]:
    """Answer 200, or 503 where a store does not."""
    await request.executors.database.run(request.host.maintenance.check_ready)
    return ok({"status": "ready"})


@operation("GET /v1/openapi.json", summary="Describe the interface.", response="application/json")
async def openapi_json(request: ApiRequest) -> Response[bytes]:
    """Answer the OpenAPI document itself, in no envelope."""
    return to_litestar(request.app.state["pages"].document)


@operation("GET /v1/docs", summary="Show the description of the interface as a page.", response="text/html")
async def docs(request: ApiRequest) -> Response[bytes]:
    """Answer a page that loads nothing from anywhere."""
    return to_litestar(request.app.state["pages"].docs)


ROUTES = (healthz, readyz, openapi_json, docs)
