"""The routes of the JSON interface, one file a resource."""

from imagehost_server.routes import albums, gallery, images, service, upload

ROUTES = (*upload.ROUTES, *images.ROUTES, *gallery.ROUTES, *albums.ROUTES, *service.ROUTES)

__all__ = ["ROUTES"]
