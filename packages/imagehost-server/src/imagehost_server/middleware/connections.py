"""The open connections of one process: limits in total and per client, and which ones are closed for others.

A client that opens thousands of connections and sends nothing must not take the places of others. So at a
limit the oldest idle connection is closed for the new one: that of the same client at the limit per client,
that of the client with the most idle connections at the limit of all. A connection with a request in progress
is never closed for another. While none is idle, the new one gets an extra place: for a probe, or a refusal.
The newest connections have the extra places, so clients that stall cannot hold them. Every operation takes
constant time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from imagehost_core.limits import ip_address_key
from imagehost_server.http.client_address import Network, is_trusted_proxy

EXTRA_CONNECTIONS = 512
"""Connections beyond a limit, while none is idle; for a further one the oldest of them is closed."""


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
        key: The rate limit key of its client's IP address; `None` for a trusted proxy.
        evict: Closes the connection at once, and returns whether it could: not while it sends a response.

    Attributes:
        is_open: Whether the connection is in the table: neither closed nor evicted.
        is_admitted: Whether it is within the limits; otherwise it has an extra place.
    """

    __slots__ = ("_client", "_evict", "_key", "_table", "is_admitted", "is_open")

    def __init__(self, table: ConnectionTable, key: str | None, evict: Callable[[], bool]) -> None:
        self._table = table
        self._key = key
        self._client: _Client | None = None
        self._evict = evict
        self.is_open = True
        self.is_admitted = False

    def admit(self) -> bool:
        """Admit the connection, as idle, if the limits allow it; return whether it is, or was before."""
        if not self.is_admitted and self.is_open and self._table.make_room(self._key):
            self._table.remove_extra(self)
            self._client = self._table.count(self._key)
            self.is_admitted = True
            self.set_idle()
        return self.is_admitted

    def set_evict(self, evict: Callable[[], bool]) -> None:
        """Replace the function that closes the connection."""
        self._evict = evict

    def set_idle(self) -> None:
        """Mark the connection as idle from now on: it may be closed for another."""
        if self.is_open and self._client is not None:
            self._table.add_idle(self, self._client)

    def set_busy(self) -> None:
        """Mark the connection as one with a request in progress."""
        if self._client is not None:
            self._table.remove_idle(self, self._client)

    def remove(self) -> None:
        """Remove the connection from the table, since it is closed."""
        if self.is_open:
            self.is_open = False
            self.set_busy()
            if self.is_admitted:
                self._table.subtract(self._client)
            else:
                self._table.remove_extra(self)

    def evict(self) -> None:
        """Close the connection, or mark it as busy if it still sends a response."""
        if self._evict() or not self.is_admitted:
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
        self._limit_per_client = limit_per_client or limit + 1
        self._trusted = trusted
        self._count = 0
        self._clients: dict[str, _Client] = {}
        # The connections beyond the limits, the oldest first.
        self._extra: OrderedDict[OpenConnection, None] = OrderedDict()
        # The clients by the number of their idle connections, and the highest number.
        self._by_idle: dict[int, OrderedDict[_Client, None]] = {}
        self._most_idle = 0

    def __len__(self) -> int:
        """Return the number of open connections."""
        return self._count + len(self._extra)

    def add(self, ip_address: str, evict: Callable[[], bool]) -> OpenConnection:
        """Add a new connection, which is idle, within the limits or in an extra place; close others for it.

        Args:
            ip_address: The IP address of the peer, or another text for a peer without one.
            evict: Closes the connection at once, and returns whether it could.
        """
        key = None if is_trusted_proxy(ip_address, self._trusted) else ip_address_key(ip_address)
        connection = OpenConnection(self, key, evict)
        if not connection.admit():
            if len(self._extra) == EXTRA_CONNECTIONS:
                next(iter(self._extra)).evict()
            self._extra[connection] = None
            self._on_change(len(self))
        return connection

    def make_room(self, key: str | None) -> bool:
        """Close idle connections for one of a client, and return whether the limits allow it now."""
        client = None if key is None else self._clients.get(key)
        while client is not None and client.count >= self._limit_per_client:
            if not client.idle:
                return False
            next(iter(client.idle)).evict()
        while self._count >= self._limit and self._most_idle:
            next(iter(next(iter(self._by_idle[self._most_idle])).idle)).evict()
        return self._count < self._limit

    def count(self, key: str | None) -> _Client | None:
        """Count a connection, and return its client; `None` for a trusted proxy."""
        self._count += 1
        self._on_change(len(self))
        if key is None:
            return None
        client = self._clients.setdefault(key, _Client(key))
        client.count += 1
        return client

    def subtract(self, client: _Client | None) -> None:
        """Stop counting a connection of a client."""
        self._count -= 1
        self._on_change(len(self))
        if client is not None:
            client.count -= 1
            if not client.count:
                del self._clients[client.key]

    def remove_extra(self, connection: OpenConnection) -> None:
        """Free the extra place of a connection, if it has one."""
        if connection in self._extra:
            del self._extra[connection]
            self._on_change(len(self))

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
