"""The imagehost server: an ASGI application around the core, and the command `imagehost`."""

from imagehost_server.app import create_app
from imagehost_server.settings import ServerSettings

__all__ = ["ServerSettings", "create_app"]
