"""Integration routes: configuration files with which other programs upload to this server."""

from __future__ import annotations

from typing import Annotated

from litestar import Response
from litestar.params import PathParameter

from imagehost_core.authorization import SessionRequirement
from imagehost_core.errors import FieldError, NotFoundError, quote_value
from imagehost_core.models import Scope
from imagehost_server.http.responses import RawResponse, to_litestar
from imagehost_server.integrations import INTEGRATIONS, Integration, UploadTarget
from imagehost_server.routes.handler import ApiRequest, operation

IntegrationPath = Annotated[
    str,
    PathParameter(description="The name of the file.", schema_extra={"enum": list(INTEGRATIONS)}),
]

MEDIA_TYPE = "application/octet-stream"
"""The media type of all files: they are saved, never displayed."""


@operation(
    "GET /integrations/{name}",
    None,
    summary="Get a configuration file with a placeholder for the token.",
    media_type=MEDIA_TYPE,
)
async def get_integration(request: ApiRequest, name: IntegrationPath) -> Response[bytes]:
    """Respond with the file, in which `YOUR_API_TOKEN` stands for the token."""
    return _file(_require_integration(name), UploadTarget(request.host.urls.base_url))


@operation(
    "POST /integrations/{name}",
    SessionRequirement.ONLY,
    summary="Create an API key and get a configuration file with its token.",
    media_type=MEDIA_TYPE,
)
async def create_integration(request: ApiRequest, name: IntegrationPath) -> Response[bytes]:
    """Respond with the file. The key is named after the program and has only the scope `images:write`."""
    return await create_file(request, name)


async def create_file(request: ApiRequest, name: str) -> Response[bytes]:
    """Return the response with a file for a new key, as `create_integration` does.

    Raises:
        NotFoundError: There is no such file.
    """
    integration = _require_integration(name)
    created = await request.call(
        request.host.keys.create, name=integration.program, scopes=[Scope.IMAGES_WRITE]
    )
    return _file(integration, UploadTarget(request.host.urls.base_url, created.token))


def _require_integration(name: str) -> Integration:
    if name not in INTEGRATIONS:
        raise NotFoundError(
            errors=[FieldError("name", f"one of {', '.join(INTEGRATIONS)}", quote_value(name))]
        )
    return INTEGRATIONS[name]


def _file(integration: Integration, target: UploadTarget) -> Response[bytes]:
    headers = (
        ("content-type", MEDIA_TYPE),
        ("content-disposition", f'attachment; filename="{integration.filename}"'),
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
    )
    return to_litestar(RawResponse(200, integration.render(target).encode(), headers))
