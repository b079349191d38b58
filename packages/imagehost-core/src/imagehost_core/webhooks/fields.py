"""The fields of a webhook that its owner sets, and their rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from attrs import evolve

from imagehost_core._util.fields import require_known
from imagehost_core.endpoints import (
    HostResolver,
    is_loopback_url,
    parse_endpoint_url,
    require_public_addresses,
)
from imagehost_core.errors import FieldError, ValidationError, quote_value
from imagehost_core.events import EVENT_TYPES
from imagehost_core.uploads import description_errors


def validate_webhook(
    changes: Mapping[str, object], resolve: HostResolver, *, allow_loopback: bool
) -> dict[str, object]:
    """Return a webhook's fields in their stored form.

    Args:
        changes: The fields that are set.
        resolve: The resolver of host names.
        allow_loopback: Whether the endpoint may be on loopback.

    Raises:
        ValidationError: Values are not allowed; every one is listed in `errors`.
        TypeError: There is no such field.
    """
    require_known(changes, _VALIDATORS)
    values = dict(changes)
    errors = list[FieldError]()
    for name, validate in _VALIDATORS.items():
        if name in values:
            errors.extend(validate(values[name]))
    url = values.get("url")
    if isinstance(url, str):
        errors.extend(_endpoint_errors(url, resolve, allow_loopback))
    if errors:
        raise ValidationError(errors=errors)
    if "events" in values:
        values["events"] = tuple(dict.fromkeys(values["events"]))  # type: ignore[call-overload]
    return values


def _endpoint_errors(url: str, resolve: HostResolver, allow_loopback: bool) -> Iterable[FieldError]:
    try:
        endpoint = parse_endpoint_url(url, allow_loopback=allow_loopback)
    except ValidationError as error:
        if allow_loopback or not is_loopback_url(url):
            return error.errors
        setting = "the setting webhooks.allow_loopback (IMAGEHOST_WEBHOOKS_ALLOW_LOOPBACK)"
        return [evolve(each, expected=f"{each.expected}, or {setting},") for each in error.errors]
    try:
        # A name that does not resolve yet is accepted; its IP addresses are checked at each attempt.
        require_public_addresses(resolve(endpoint.host, endpoint.port), allow_loopback=allow_loopback)
    except ValidationError:
        # The error does not disclose the IP addresses of names in the host's own network.
        expected = "an https URL whose host name resolves to public IP addresses only"
        return [FieldError("url", expected, quote_value(url))]
    return ()


def _url_errors(value: object) -> Iterable[FieldError]:
    if not isinstance(value, str):
        yield FieldError("url", "an https URL", quote_value(value))


def _events_errors(value: object) -> Iterable[FieldError]:
    allowed = ", ".join(EVENT_TYPES)
    if not isinstance(value, tuple | list):
        yield FieldError("events", f"a list of some of {allowed}", quote_value(value))
        return
    unknown = [event_type for event_type in value if event_type not in EVENT_TYPES]
    if unknown:
        yield FieldError("events", f"some of {allowed}", ", ".join(map(quote_value, unknown)))


def _active_errors(value: object) -> Iterable[FieldError]:
    if not isinstance(value, bool):
        yield FieldError("is_active", "true or false", quote_value(value))


_VALIDATORS: dict[str, Callable[[object], Iterable[FieldError]]] = {
    "url": _url_errors,
    "events": _events_errors,
    "description": description_errors,
    "is_active": _active_errors,
}
