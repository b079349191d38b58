"""The fields of a webhook destination: what its owner may say, and how it is stored."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Mapping

from imagehost_core.errors import Fault, ValidationError, quoted
from imagehost_core.events import EVENT_TYPES
from imagehost_core.uploads.options import description_faults
from imagehost_core.webhooks.endpoint import check_addresses, parse_destination

Resolve = Callable[[str, int], Iterable[str]]
"""A function that returns the addresses of a name."""


def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a name, as the system resolves it; none where it does not."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return [str(address[0]) for *_, address in found]


def check_fields(
    changes: Mapping[str, object], resolve: Resolve, *, allow_loopback: bool
) -> dict[str, object]:
    """Return fields as they are stored.

    Args:
        changes: Those that are given.
        resolve: Returns the addresses of a name.
        allow_loopback: Whether a destination may be on loopback.

    Raises:
        ValidationError: A value is not allowed. Names every fault.
    """
    values, faults = dict(changes), list[Fault]()
    for name, check in _CHECKS.items():
        if name in values:
            faults.extend(check(values[name]))
    url = values.get("url")
    if isinstance(url, str):
        faults.extend(_destination_faults(url, resolve, allow_loopback))
    if faults:
        raise ValidationError(faults=faults)
    if "events" in values:
        values["events"] = tuple(dict.fromkeys(values["events"]))  # type: ignore[call-overload]
    return values


def _destination_faults(url: str, resolve: Resolve, allow_loopback: bool) -> Iterable[Fault]:
    try:
        destination = parse_destination(url, allow_loopback=allow_loopback)
    except ValidationError as error:
        return error.faults
    try:
        # A name that does not resolve yet is taken; its addresses are checked at each attempt.
        check_addresses(resolve(destination.host, destination.port), allow_loopback=allow_loopback)
    except ValidationError:
        # Which addresses a name has within our network is nothing to learn from.
        return [Fault("url", "an https address whose name leads only to where everybody can", quoted(url))]
    return ()


def _url_faults(value: object) -> Iterable[Fault]:
    if not isinstance(value, str):
        yield Fault("url", "an https address", quoted(value))


def _events_faults(value: object) -> Iterable[Fault]:
    known = ", ".join(EVENT_TYPES)
    if not isinstance(value, tuple | list):
        yield Fault("events", f"a list of some of {known}", quoted(value))
        return
    unknown = [kind for kind in value if kind not in EVENT_TYPES]
    if unknown:
        yield Fault("events", f"some of {known}", ", ".join(map(quoted, unknown)))


def _description_faults(value: object) -> Iterable[Fault]:
    if isinstance(value, str):
        return description_faults(value)
    return [Fault("description", "text", quoted(value))]


def _active_faults(value: object) -> Iterable[Fault]:
    if not isinstance(value, bool):
        yield Fault("is_active", "true or false", quoted(value))


_CHECKS: dict[str, Callable[[object], Iterable[Fault]]] = {
    "url": _url_faults,
    "events": _events_faults,
    "description": _description_faults,
    "is_active": _active_faults,
}
