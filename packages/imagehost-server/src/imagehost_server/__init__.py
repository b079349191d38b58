"""The imagehost server: an ASGI application around the core, and the command `imagehost`.

Names are imported from their modules on first use (PEP 562), so that commands which serve nothing do not load
the web framework.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from imagehost_server.app import create_app
    from imagehost_server.settings import ServerSettings

_EXPORTS = {"ServerSettings": "imagehost_server.settings", "create_app": "imagehost_server.app"}
"""The public names by their modules."""

__all__ = ["ServerSettings", "create_app"]


def __getattr__(name: str) -> object:
    """Import a public name."""
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_EXPORTS[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
