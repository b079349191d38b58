"""The table of open connections: which ones are closed for others, against a model that sorts lists."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from attrs import field, mutable
from hypothesis import given
from hypothesis import strategies as st

from imagehost_server.middleware.connections import EXTRA_CONNECTIONS, ConnectionTable, OpenConnection

PROXY = "192.0.2.1"
CLIENTS = ["192.0.2.2", "192.0.2.3", "2001:db8::1", PROXY]


@mutable(eq=False)
class Peer:
    """A connection of a test: its client, and whether it is open, idle and able to close at once."""

    ip_address: str
    is_open: bool = True
    is_idle: bool = True
    is_sending: bool = False
    slot: OpenConnection | None = None

    def evict(self) -> bool:
        assert self.is_open
        assert self.is_idle
        self.is_idle = False
        self.is_open = self.is_sending
        return not self.is_sending


@mutable
class Server:
    """A table and its connections, the longest idle first; and those that it closed, in order."""

    table: ConnectionTable
    peers: list[Peer] = field(factory=list)
    closed: list[Peer] = field(factory=list)

    def connect(self, ip_address: str) -> Peer:
        peer = Peer(ip_address)

        def evict() -> bool:
            self.closed.append(peer)
            return peer.evict()

        peer.slot = self.table.add(ip_address, evict)
        if peer.slot is not None:
            self.peers.append(peer)
        return peer

    def open_peers(self, ip_address: str = "") -> list[Peer]:
        return [peer for peer in self.peers if peer.is_open and ip_address in ("", peer.ip_address)]

    def idle_peers(self, ip_address: str) -> list[Peer]:
        return [peer for peer in self.open_peers(ip_address) if peer.is_idle and ip_address != PROXY]


@given(
    st.integers(1, 9),
    st.integers(0, 5),
    st.lists(st.tuples(st.sampled_from(["busy", "idle", "lose", *CLIENTS, *CLIENTS]), st.integers(0, 99))),
)
def test_the_oldest_idle_connection_of_the_client_with_most_of_them_is_closed_for_a_new_one(
    limit: int, limit_per_client: int, steps: list[tuple[str, int]]
) -> None:
    server = Server(ConnectionTable(limit, limit_per_client, (ip_network(PROXY),)))
    for step, number in steps:
        peers = server.open_peers()
        if step in CLIENTS:
            idle = {client: server.idle_peers(client) for client in CLIENTS}
            mine = len(server.open_peers(step)) + 1
            peer = server.connect(step)
            assert peer.slot is not None
            closed = [other for other in server.closed if other in peers]
            for count, other in enumerate(closed):
                # Busy connections may exceed a limit, so one new connection can close several idle ones.
                is_own = step != PROXY and 0 < limit_per_client < mine and bool(idle[step])
                most = max(map(len, idle.values()))
                assert is_own or len(peers) + 1 - count > limit
                assert idle[other.ip_address][0] is other
                assert other.ip_address == step if is_own else len(idle[other.ip_address]) == most
                del idle[other.ip_address][0]
                mine -= other.ip_address == step
            assert not idle[step] or not 0 < limit_per_client < mine
            assert not any(idle.values()) or len(peers) + 1 - len(closed) <= limit
        elif peers:
            peer = peers[number % len(peers)]
            assert peer.slot is not None
            if step == "lose":
                peer.is_open = False
                peer.slot.remove()
            elif step == "busy":
                peer.is_idle = False
                peer.slot.set_busy()
            else:
                peer.is_idle = True
                peer.slot.set_idle()
                server.peers.remove(peer)
                server.peers.append(peer)
        assert len(server.table) == len(server.open_peers())
        for peer in server.open_peers():
            assert peer.slot is not None
            own = 0 if peer.ip_address == PROXY else len(server.open_peers(peer.ip_address))
            within = len(server.open_peers()) <= limit and (not limit_per_client or own <= limit_per_client)
            assert peer.slot.is_within_limits is within


def test_one_client_cannot_close_the_connections_of_others() -> None:
    server = Server(ConnectionTable(100, 50))
    others = [server.connect(f"192.0.2.{number}") for number in range(40)]
    for _ in range(1_000):
        server.connect("198.51.100.7")
    assert all(peer.is_open for peer in others)
    assert len(server.open_peers("198.51.100.7")) == 50


def test_a_network_of_ipv6_addresses_and_a_mapped_address_are_one_client() -> None:
    server = Server(ConnectionTable(100, 2))
    peers = [server.connect(f"2001:db8::{number:x}") for number in range(1, 4)]
    assert [peer.is_open for peer in peers] == [False, True, True]
    peers = [server.connect(address) for address in ("192.0.2.9", "::ffff:192.0.2.9", "192.0.2.9")]
    assert [peer.is_open for peer in peers] == [False, True, True]


@pytest.mark.parametrize("clients", [1, EXTRA_CONNECTIONS + 2])
def test_connections_far_beyond_a_limit_are_not_accepted_while_all_are_busy(clients: int) -> None:
    server = Server(ConnectionTable(10_000, 1) if clients == 1 else ConnectionTable(1))
    for number in range(EXTRA_CONNECTIONS + 1):
        peer = server.connect(str(ip_network(0x0A000000 + number % clients)[0]))
        assert peer.slot is not None
        peer.is_idle = False
        peer.slot.set_busy()
    assert server.connect("10.0.0.0").slot is None
    assert len(server.table) == EXTRA_CONNECTIONS + 1
    assert server.peers[0].slot is not None
    server.peers[0].slot.remove()
    assert server.connect("10.0.0.0").slot is not None


def test_connections_of_a_trusted_proxy_are_never_closed_for_others() -> None:
    server = Server(ConnectionTable(3, 1, (ip_network("192.0.2.0/30"),)))
    proxies = [server.connect(PROXY) for _ in range(3)]
    client = server.connect("198.51.100.7")
    assert all(peer.is_open for peer in proxies)
    assert client.slot is not None
    assert not client.slot.is_within_limits
    assert server.connect(PROXY).slot is not None
    assert not client.is_open


def test_a_connection_that_still_sends_a_response_is_not_closed() -> None:
    server = Server(ConnectionTable(2))
    sending, waiting = server.connect("192.0.2.2"), server.connect("192.0.2.2")
    sending.is_sending = True
    server.connect("192.0.2.2")
    assert (sending.is_open, waiting.is_open) == (True, False)
    assert len(server.table) == 2
