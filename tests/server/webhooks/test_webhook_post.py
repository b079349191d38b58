"""One webhook request: checks of the IP addresses, and verification of TLS certificates."""

from __future__ import annotations

import asyncio
import inspect
import re
import ssl
from pathlib import Path

import pytest
from tests.certificates import create_certificate
from tests.server.webhooks.async_receiver import LOOPBACK_TOO, post, receiving
from tests.waiting import PATIENCE

from imagehost_core import PayloadTooLargeError
from imagehost_core.endpoints import parse_endpoint_url, require_public_address
from imagehost_server.http import outgoing
from imagehost_server.http.outgoing import Outgoing, UnreachableError

pytestmark = pytest.mark.anyio


POLICIES = {
    "background/purge_sender.py": "require_ip_address",  # the URL is the operator's own
    "background/webhook_sender.py": "require_public_address",
    "routes/upload.py": "require_public_address",
}
"""The policy of each module that sends requests. Only URLs of the operator's own may be of any network."""


def test_every_sender_of_requests_names_its_policy_for_ip_addresses() -> None:
    package = Path(outgoing.__file__).parents[1]
    used = dict[str, str]()
    for path in sorted(package.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if "Outgoing(" in source and path != Path(outgoing.__file__):
            names = set(re.findall(r"\brequire_\w*address\b", source))
            assert len(names) == 1, f"{path}: expected one policy but received {names}"
            used[path.relative_to(package).as_posix()] = names.pop()
    assert used == POLICIES
    policy = inspect.signature(Outgoing).parameters["policy"]
    assert policy.default is inspect.Parameter.empty


async def test_dns_rebinding_to_loopback_connects_to_nothing() -> None:
    async with receiving() as internal:

        async def resolve(_host: str, _port: int) -> list[str]:
            return ["127.0.0.1"]

        endpoint = parse_endpoint_url(f"https://rebinding.example.com:{internal.port}/")
        with pytest.raises(UnreachableError, match="public IP address"):
            await Outgoing(require_public_address, resolve=resolve).request(
                "POST", endpoint, {}, b"{}", timeout=PATIENCE
            )
    assert internal.connections == 0


@pytest.mark.parametrize(
    ("rest", "ends"),
    [
        (b"Content-Length: 10\r\n\r\nhalf", True),
        (b"Content-Length: 10\r\n\r\nhalf", False),
        (b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", False),
        (b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nrubbish\r\n", True),
    ],
)
async def test_the_status_line_decides_whatever_becomes_of_the_body(
    rest: bytes, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outgoing, "EXCERPT_SECONDS", 0.2)
    closed = asyncio.Event()

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        writer.write(b"HTTP/1.1 202 Accepted\r\n" + rest)
        await writer.drain()
        if not ends:
            await closed.wait()
        writer.close()

    server = await asyncio.start_server(respond, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        response = await Outgoing(LOOPBACK_TOO).request(
            "POST", parse_endpoint_url(url, allow_loopback=True), {}, b"{}", timeout=PATIENCE
        )
        closed.set()
    assert (response.status, response.excerpt) == (202, "half")


@pytest.mark.parametrize("status", [302, 404, 503])
async def test_a_download_has_no_body_but_that_of_a_response_2xx(status: int) -> None:
    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 %d X\r\nLocation: /\r\nContent-Length: 4\r\n\r\npage" % status)
        writer.close()

    async def write(piece: bytes) -> None:
        raise AssertionError(f"expected nothing but received {piece!r}")

    async with await asyncio.start_server(respond, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        endpoint = parse_endpoint_url(url, allow_loopback=True)
        why = "redirects are not followed: " if status == 302 else ""
        with pytest.raises(UnreachableError, match=f"^{why}the status {status}$"):
            await Outgoing(LOOPBACK_TOO).download(endpoint, write, timeout=60, max_bytes=9)


async def test_a_download_that_is_declared_too_large_is_refused_before_its_body_with_its_size() -> None:
    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\npage")
        writer.close()

    async def write(piece: bytes) -> None:
        raise AssertionError(f"expected nothing but received {piece!r}")

    async with await asyncio.start_server(respond, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        endpoint = parse_endpoint_url(url, allow_loopback=True)
        with pytest.raises(PayloadTooLargeError, match="at most 9 bytes for the image but received 10 bytes"):
            await Outgoing(LOOPBACK_TOO).download(endpoint, write, timeout=60, max_bytes=9)


async def test_one_private_address_among_public_ones_is_refused() -> None:
    async def resolve(_host: str, _port: int) -> list[str]:
        return ["8.8.8.8", "10.0.0.1"]

    with pytest.raises(UnreachableError, match="public IP address"):
        await Outgoing(require_public_address, resolve=resolve).request(
            "POST", parse_endpoint_url("https://mixed.example.com/"), {}, b"", timeout=PATIENCE
        )


async def test_a_name_without_an_ip_address_is_a_failure_with_the_reason() -> None:
    async def resolve(_host: str, _port: int) -> list[str]:
        return []

    with pytest.raises(UnreachableError, match="has no IP address"):
        await Outgoing(require_public_address, resolve=resolve).request(
            "POST", parse_endpoint_url("https://nowhere.example.com/"), {}, b"", timeout=PATIENCE
        )


async def test_tls_certificates_are_verified_for_the_name(tmp_path: Path) -> None:
    """A server with an untrusted certificate receives nothing of the event."""
    certificate = create_certificate(tmp_path, "DNS:localhost")
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(certificate.cert, certificate.key)

    async def resolve(_host: str, _port: int) -> list[str]:
        return ["127.0.0.1"]

    async with receiving(tls=serving) as receiver:
        endpoint = parse_endpoint_url(f"https://localhost:{receiver.port}/", allow_loopback=True)
        with pytest.raises(UnreachableError, match="TLS failed"):
            await post(endpoint, LOOPBACK_TOO, resolve=resolve)
        assert receiver.requests == []
        trusting = ssl.create_default_context(cafile=certificate.cert)
        response = await Outgoing(LOOPBACK_TOO, resolve=resolve, tls=trusting).request(
            "POST", endpoint, {}, b"{}", timeout=PATIENCE
        )
        assert response.status == 200
        other = parse_endpoint_url(f"https://127.0.0.1:{receiver.port}/", allow_loopback=True)
        with pytest.raises(UnreachableError, match="TLS failed"):
            await Outgoing(LOOPBACK_TOO, resolve=resolve, tls=trusting).request(
                "POST", other, {}, b"{}", timeout=PATIENCE
            )
