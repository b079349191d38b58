"""The open connections of one process: limits in total and per client, and which ones are closed for others.

A client that opens thousands of connections and sends nothing must not take the places of others. So at a
limit the oldest idle connection is closed for the new one: that of the same client at the limit per client,
that of the client with the most idle connections at the limit of all. A connection with a request in progress
is never closed for another. Every operation takes constant time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from imagehost_core.limits import ip_address_key
from imagehost_server.http.client_address import Network, is_trusted_proxy

EXTRA_CONNECTIONS = 512
"""Connections beyond a limit that get 503, while none is idle; further ones are not accepted."""


class _Client:
    """The connections of one client.

    Attributes:
        key: The rate limit key of its IP address.
        count: The number of its open connections.
        idle: Its idle connections, the oldest first.
    """

    __slots__ = ("count", "idle", "key")

    def __init__(self, key: str) -> None:
        self.key = key
        self.count = 0
        self.idle: OrderedDict[OpenConnection, None] = OrderedDict()


class OpenConnection:
    """An open connection in a table.

    Args:
        table: The table.
        client: Its client; `None` for a trusted proxy.
        evict: Closes the connection at once, and returns whether it could: not while it sends a response.
    """

    __slots__ = ("_client", "_evict", "_is_open", "_table")

    def __init__(self, table: ConnectionTable, client: _Client | None, evict: Callable[[], bool]) -> None:
        self._table = table
        self._client = client
        self._evict = evict
        self._is_open = True

    @property
    def is_open(self) -> bool:
        """Whether the connection is in the table: neither closed nor evicted."""
        return self._is_open

    @property
    def is_within_limits(self) -> bool:
        """Whether the table has no more connections than the limits allow, of the client and of all."""
        return self._table.is_within_limits(self._client)

    def set_evict(self, evict: Callable[[], bool]) -> None:
        """Replace the function that closes the connection."""
        self._evict = evict

    def set_idle(self) -> None:
        """Mark the connection as idle from now on: it may be closed for another."""
        if self._is_open and self._client is not None:
            self._table.add_idle(self, self._client)

    def set_busy(self) -> None:
        """Mark the connection as one with a request in progress."""
        if self._client is not None:
            self._table.remove_idle(self, self._client)

    def remove(self) -> None:
        """Remove the connection from the table, since it is closed."""
        if self._is_open:
            self._is_open = False
            self.set_busy()
            self._table.subtract(self._client)

    def evict(self) -> None:
        """Close the connection, or mark it as busy if it still sends a response."""
        if self._evict():
            self.remove()
        else:
            self.set_busy()


class ConnectionTable:
    """The open connections of one process; not thread-safe, for one event loop.

    Args:
        limit: Connections of all clients.
        limit_per_client: Connections of one client IP address; of IPv6, all addresses of one network share
            it. 0 = unlimited.
        trusted: Networks of trusted proxies. Their connections count for `limit` only, and are not closed for
            others: requests through them are limited by the IP addresses that they forward.
        on_change: Receives the number of open connections when it has changed.

    Attributes:
        is_draining: Whether each connection is closed after its next response.
    """

    def __init__(
        self,
        limit: int,
        limit_per_client: int = 0,
        trusted: tuple[Network, ...] = (),
        on_change: Callable[[int], object] = lambda _count: None,
    ) -> None:
        self.is_draining = False
        self._limit = limit
        self._on_change = on_change
        self._limit_per_client = limit_per_client or limit + EXTRA_CONNECTIONS
        self._trusted = trusted
        self._count = 0
        self._clients: dict[str, _Client] = {}
        # The clients by the number of their idle connections, and the highest number.
        self._by_idle: dict[int, OrderedDict[_Client, None]] = {}
        self._most_idle = 0

    def __len__(self) -> int:
        """Return the number of open connections."""
        return self._count

    def add(self, ip_address: str, evict: Callable[[], bool]) -> OpenConnection | None:
        """Add a new connection, which is idle; close others for it.

        Args:
            ip_address: The IP address of the peer, or another text for a peer without one.
            evict: Closes the connection at once, and returns whether it could.

        Returns:
            The connection, or `None` if it must not be accepted.
        """
        client = None if is_trusted_proxy(ip_address, self._trusted) else self._client(ip_address)
        self._count += 1
        self._on_change(self._count)
        if client is not None:
            client.count += 1
        self._make_room(client)
        if not self.is_within_limits(client, EXTRA_CONNECTIONS):
            self.subtract(client)
            return None
        connection = OpenConnection(self, client, evict)
        connection.set_idle()
        return connection

    def is_within_limits(self, client: _Client | None, extra: int = 0) -> bool:
        """Return whether the connections, of one client and of all, are at most `extra` beyond the limits."""
        within = client is None or client.count <= self._limit_per_client + extra
        return within and self._count <= self._limit + extra

    def add_idle(self, connection: OpenConnection, client: _Client) -> None:
        """Add a connection to its client's idle ones, as the newest of them."""
        if connection in client.idle:
            client.idle.move_to_end(connection)
            return
        client.idle[connection] = None
        self._sort(client, len(client.idle) - 1)

    def remove_idle(self, connection: OpenConnection, client: _Client) -> None:
        """Remove a connection from its client's idle ones, if it is there."""
        if connection in client.idle:
            del client.idle[connection]
            self._sort(client, len(client.idle) + 1)

    def subtract(self, client: _Client | None) -> None:
        """Stop counting a connection of a client."""
        self._count -= 1
        self._on_change(self._count)
        if client is not None:
            client.count -= 1
            if not client.count:
                del self._clients[client.key]

    def _client(self, ip_address: str) -> _Client:
        key = ip_address_key(ip_address)
        client = self._clients.get(key)
        if client is None:
            client = self._clients[key] = _Client(key)
        return client

    def _make_room(self, client: _Client | None) -> None:
        """Close idle connections until the limits are met, or none is idle."""
        while client is not None and client.count > self._limit_per_client and client.idle:
            next(iter(client.idle)).evict()
        while self._count > self._limit and self._most_idle:
            next(iter(next(iter(self._by_idle[self._most_idle])).idle)).evict()

    def _sort(self, client: _Client, before: int) -> None:
        """Move a client to the others with its number of idle connections, from those with `before`."""
        idle = len(client.idle)
        if before:
            peers = self._by_idle[before]
            del peers[client]
            if not peers:
                del self._by_idle[before]
        if idle:
            self._by_idle.setdefault(idle, OrderedDict())[client] = None
        if idle > self._most_idle or (before == self._most_idle and before not in self._by_idle):
            # Numbers change by one, so the next lower number is the highest now.
            self._most_idle = idle
