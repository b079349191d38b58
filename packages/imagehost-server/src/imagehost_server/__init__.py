"""imagehost over HTTP: an ASGI application around the core, and the command line `imagehost`."""

from imagehost_server.app import create_app
from imagehost_server.settings import ServerSettings

__all__ = ["ServerSettings", "create_app"]
