"""The event loop of a server process: uvloop where it is installed."""

from __future__ import annotations

import sys
from typing import Any

if sys.platform == "win32":
    from asyncio import ProactorEventLoop as _Loop
else:
    try:
        from uvloop import Loop as _Loop
    except ImportError:  # another Python than CPython
        from asyncio import SelectorEventLoop as _Loop  # type: ignore[assignment]

HANDSHAKE_SECONDS = 10.0
"""Timeout of TLS handshakes, during which a connection does not count for `max_connections`."""
TLS_SHUTDOWN_SECONDS = 2.0
"""Timeout of TLS shutdown."""


class TlsTimeoutLoop(_Loop):
    """An event loop with shorter timeouts of TLS handshakes and shutdowns, which uvicorn cannot set."""

    handshake_timeout = HANDSHAKE_SECONDS
    shutdown_timeout = TLS_SHUTDOWN_SECONDS

    async def create_server(self, *args: Any, **options: Any) -> Any:
        """Create a server as asyncio does."""
        if options.get("ssl") is not None:
            options |= {
                "ssl_handshake_timeout": self.handshake_timeout,
                "ssl_shutdown_timeout": self.shutdown_timeout,
            }
        return await super().create_server(*args, **options)
