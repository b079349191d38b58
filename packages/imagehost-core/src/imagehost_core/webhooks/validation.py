"""The fields of a webhook destination: what its owner may say, and how it is stored."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Mapping

from imagehost_core.errors import FieldError, ValidationError, quote_value
from imagehost_core.events import EVENT_TYPES
from imagehost_core.uploads.options import description_errors
from imagehost_core.webhooks.endpoint import parse_endpoint_url, require_public_addresses

Resolve = Callable[[str, int], Iterable[str]]
"""A function that returns the addresses of a name."""


def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a name, as the system resolves it; none where it does not."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return [str(address[0]) for *_, address in found]


def validate_webhook(
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
    values, faults = dict(changes), list[FieldError]()
    for name, check in _VALIDATORS.items():
        if name in values:
            faults.extend(check(values[name]))
    url = values.get("url")
    if isinstance(url, str):
        faults.extend(_endpoint_errors(url, resolve, allow_loopback))
    if faults:
        raise ValidationError(errors=faults)
    if "events" in values:
        values["events"] = tuple(dict.fromkeys(values["events"]))  # type: ignore[call-overload]
    return values


def _endpoint_errors(url: str, resolve: Resolve, allow_loopback: bool) -> Iterable[FieldError]:
    try:
        destination = parse_endpoint_url(url, allow_loopback=allow_loopback)
    except ValidationError as error:
        return error.errors
    try:
        # A name that does not resolve yet is taken; its addresses are checked at each attempt.
        require_public_addresses(resolve(destination.host, destination.port), allow_loopback=allow_loopback)
    except ValidationError:
        # Which addresses a name has within our network is nothing to learn from.
        return [
            FieldError(
                "url", "an https address whose name leads only to where everybody can", quote_value(url)
            )
        ]
    return ()


def _url_errors(value: object) -> Iterable[FieldError]:
    if not isinstance(value, str):
        yield FieldError("url", "an https address", quote_value(value))


def _events_errors(value: object) -> Iterable[FieldError]:
    known = ", ".join(EVENT_TYPES)
    if not isinstance(value, tuple | list):
        yield FieldError("events", f"a list of some of {known}", quote_value(value))
        return
    unknown = [kind for kind in value if kind not in EVENT_TYPES]
    if unknown:
        yield FieldError("events", f"some of {known}", ", ".join(map(quote_value, unknown)))


def _description_errors(value: object) -> Iterable[FieldError]:
    if isinstance(value, str):
        return description_errors(value)
    return [FieldError("description", "text", quote_value(value))]


def _active_errors(value: object) -> Iterable[FieldError]:
    if not isinstance(value, bool):
        yield FieldError("is_active", "true or false", quote_value(value))


_VALIDATORS: dict[str, Callable[[object], Iterable[FieldError]]] = {
    "url": _url_errors,
    "events": _events_errors,
    "description": _description_errors,
    "is_active": _active_errors,
}
