"""The routes of the JSON API, one module per resource."""

from imagehost_server.routes import (
    accounts,
    albums,
    images,
    integrations,
    keys,
    service,
    sessions,
    upload,
    webhooks,
)
from imagehost_server.routes.handler import handlers_of

ROUTES = handlers_of(upload, images, albums, sessions, accounts, keys, webhooks, integrations, service)
ROUTE_SCOPES = {route.opt["operation"].route: route.opt["operation"].requirement for route in ROUTES}
"""The requirement of each route, by method and path; `None`: no token is required."""

__all__ = ["ROUTES", "ROUTE_SCOPES"]
