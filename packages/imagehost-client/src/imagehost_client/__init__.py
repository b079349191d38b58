"""A typed client for imagehost, sync and async, with streaming uploads and safe retries.

The public names are those in `__all__` of the modules in `_SOURCES`, which are imported on first use (PEP
562), so that importing the package is fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from imagehost_client import models as models
    from imagehost_client import testing as testing
    from imagehost_client import urls as urls
    from imagehost_client import webhooks as webhooks
    from imagehost_client._config import __version__ as __version__
    from imagehost_client._types import *
    from imagehost_client.aclient import *
    from imagehost_client.client import *
    from imagehost_client.downloads import *
    from imagehost_client.errors import *
    from imagehost_client.models import *
    from imagehost_client.pages import *
    from imagehost_client.uploads import *

    __all__: list[str]

_MODULES = ("models", "testing", "urls", "webhooks")
"""The public modules."""

_SOURCES = ("errors", "models", "_types", "client", "pages", "downloads", "aclient", "uploads", "_config")
"""The modules whose public names the package has too; a name is looked up in this order."""


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(f"imagehost_client.{name}")
    if name == "__all__":
        names = (import_module(f"imagehost_client.{source}").__all__ for source in _SOURCES)
        return sorted((*_MODULES, *(name for some in names for name in some)))
    for source in () if name.startswith("_") and name != "__version__" else _SOURCES:
        module = import_module(f"imagehost_client.{source}")
        if name in module.__all__:
            value: object = getattr(module, name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'imagehost_client' has no attribute {name!r}")


def __dir__() -> list[str]:
    names: list[str] = import_module(__name__).__all__
    return names
