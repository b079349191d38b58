"""Applications of one process that share the registration of their routes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any

import pytest
from litestar import Litestar
from litestar.datastructures import State
from litestar.events import SimpleEventEmitter
from litestar.handlers import HTTPRouteHandler


@contextmanager
def routes_registered_once() -> Iterator[None]:
    """Make new applications copies of the first one with the same routes, whose registration takes 0.2 s.

    Only the state and the lifespan differ.
    """
    registered: dict[tuple[str | None, ...], Litestar] = {}

    def create(
        handlers: Sequence[HTTPRouteHandler], *, state: State, lifespan: Any, **options: Any
    ) -> Litestar:
        names = tuple(handler.name for handler in handlers)
        if names not in registered:
            registered[names] = Litestar(handlers, **options)
        app = copy(registered[names])
        app.state = state
        app._lifespan_managers = lifespan
        app.event_emitter = SimpleEventEmitter(())
        app.asgi_router = copy(app.asgi_router)
        app.asgi_router.app = app
        return app

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("imagehost_server.app.Litestar", create)
        yield
