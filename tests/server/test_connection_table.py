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

    @property
    def is_admitted(self) -> bool:
        return self.slot is not None and self.slot.is_admitted

    def evict(self) -> bool:
        assert self.is_open
        assert self.is_idle or not self.is_admitted
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
        self.peers.append(peer)
        return peer

    def open_peers(self, ip_address: str = "") -> list[Peer]:
        return [peer for peer in self.peers if peer.is_open and ip_address in ("", peer.ip_address)]

    def admitted(self, ip_address: str = "") -> list[Peer]:
        return [peer for peer in self.open_peers(ip_address) if peer.is_admitted]

    def idle_peers(self, ip_address: str) -> list[Peer]:
        return [peer for peer in self.admitted(ip_address) if peer.is_idle and ip_address != PROXY]


@given(
    st.integers(1, 9),
    st.integers(0, 5),
    st.lists(
        st.tuples(st.sampled_from(["busy", "idle", "lose", "admit", *CLIENTS, *CLIENTS]), st.integers(0, 99))
    ),
)
def test_the_oldest_idle_connection_of_the_client_with_most_of_them_is_closed_for_a_new_one(
    limit: int, limit_per_client: int, steps: list[tuple[str, int]]
) -> None:
    server = Server(ConnectionTable(limit, limit_per_client, (ip_network(PROXY),)))
    for step, number in steps:
        peers, admitted = server.open_peers(), server.admitted()
        extra = [peer for peer in peers if not peer.is_admitted]
        if step in CLIENTS or (step == "admit" and extra):
            client = extra[number % len(extra)].ip_address if step == "admit" else step
            idle = {other: server.idle_peers(other) for other in CLIENTS}
            is_bounded = client != PROXY and limit_per_client > 0
            mine, count = len(server.admitted(client)), len(admitted)
            if step == "admit":
                peer = extra[number % len(extra)]
                assert peer.slot is not None
                peer.slot.admit()
            else:
                peer = server.connect(client)
            for other in [other for other in server.closed if other in admitted]:
                is_own = is_bounded and mine >= limit_per_client
                assert is_own or count >= limit
                assert idle[other.ip_address].pop(0) is other
                if is_own:
                    assert other.ip_address == client
                else:
                    assert len(idle[other.ip_address]) + 1 == max(
                        1 + len(idle[other.ip_address]), *map(len, idle.values())
                    )
                mine -= other.ip_address == client
                count -= 1
            is_over = is_bounded and mine >= limit_per_client
            is_within = count < limit and not is_over
            assert peer.is_admitted is is_within
            # Otherwise nothing was left to close.
            assert is_within or not (idle[client] if is_over else any(idle.values()))
        elif peers and step != "admit":
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
        assert len(server.admitted()) <= limit
        for client in {*CLIENTS} - {PROXY}:
            assert not limit_per_client or len(server.admitted(client)) <= limit_per_client


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
def test_the_newest_connections_have_the_places_beyond_a_limit_whatever_they_do(clients: int) -> None:
    server = Server(ConnectionTable(10_000, 1) if clients == 1 else ConnectionTable(1))
    for number in range(EXTRA_CONNECTIONS + 1):
        peer = server.connect(str(ip_network(0x0A000000 + number % clients)[0]))
        peer.is_idle, peer.is_sending = False, number % 2 > 0
        assert peer.slot is not None
        peer.slot.set_busy()
        assert peer.is_admitted is (number == 0)
    newest = [server.connect("10.0.0.0") for _ in range(9)]
    assert server.closed == server.peers[1:10]
    assert len(server.table) == EXTRA_CONNECTIONS + 1
    assert not any(peer.is_admitted for peer in newest)
    first = server.peers[0].slot
    assert first is not None
    first.remove()
    assert newest[0].slot is not None
    assert newest[0].slot.admit()
    assert len(server.table) == EXTRA_CONNECTIONS


def test_connections_of_a_trusted_proxy_are_never_closed_for_others() -> None:
    server = Server(ConnectionTable(3, 1, (ip_network("192.0.2.0/30"),)))
    proxies = [server.connect(PROXY) for _ in range(3)]
    client = server.connect("198.51.100.7")
    assert all(peer.is_open for peer in proxies)
    assert not client.is_admitted
    assert proxies[0].slot is not None
    assert client.slot is not None
    proxies[0].slot.remove()
    assert client.slot.admit()
    assert server.connect(PROXY).is_admitted
    assert not client.is_open


def test_a_connection_that_still_sends_a_response_is_not_closed() -> None:
    server = Server(ConnectionTable(2))
    sending, waiting = server.connect("192.0.2.2"), server.connect("192.0.2.2")
    sending.is_sending = True
    server.connect("192.0.2.2")
    assert (sending.is_open, waiting.is_open) == (True, False)
    assert len(server.table) == 2
