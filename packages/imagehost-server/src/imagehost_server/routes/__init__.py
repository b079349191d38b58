"""The routes of the JSON API, one module per resource."""

from imagehost_server.routes import (
    account,
    accounts,
    albums,
    bulk,
    gallery,
    images,
    integrations,
    keys,
    service,
    session,
    upload,
    webhooks,
)

ROUTES = (
    *upload.ROUTES,
    *images.ROUTES,
    *bulk.ROUTES,
    *gallery.ROUTES,
    *albums.ROUTES,
    *session.ROUTES,
    *account.ROUTES,
    *accounts.ROUTES,
    *keys.ROUTES,
    *webhooks.ROUTES,
    *integrations.ROUTES,
    *service.ROUTES,
)

__all__ = ["ROUTES"]
