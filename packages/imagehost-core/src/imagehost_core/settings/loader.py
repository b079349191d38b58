"""Where settings come from: any number of sources, of which the first that names one wins.

A setting is a leaf of a tree of attrs classes. `limits.api_per_minute` of `Settings` is the variable
`IMAGEHOST_LIMITS_API_PER_MINUTE`; a table `[limits]` with `api_per_minute = 60` in a TOML file says
the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from math import isfinite, nan
from types import NoneType, UnionType
from typing import TypeVar, get_args, get_origin, get_type_hints

import attrs
from attrs import field, frozen

from imagehost_core.settings.model import Settings

PREFIX = "IMAGEHOST_"
ENVIRONMENT = "environment"
"""What a source of variables is called."""

S = TypeVar("S", bound=attrs.AttrsInstance)


class SettingsError(ValueError):
    """A setting cannot be read; its text names the setting, its source, and what was expected."""


@frozen
class SettingsSource:
    """Named values, by path: `{"limits.api_per_minute": "60"}`.

    Attributes:
        origin: How to call it: `environment`, or a file's name.
        values: Text, or what a TOML file holds.
    """

    origin: str
    values: Mapping[str, object] = field(repr=False)


@frozen
class ResolvedSetting:
    """One setting: its path, its value, and where that came from."""

    path: str
    value: object
    origin: str

    @property
    def variable(self) -> str:
        """The variable that sets it."""
        return variable_name(self.path)


def variable_name(path: str) -> str:
    """Return the name of the variable of a setting: `IMAGEHOST_LIMITS_QUOTA_BYTES`."""
    return PREFIX + path.replace(".", "_").upper()


def setting_paths(kind: type[attrs.AttrsInstance], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield the path and type of every setting of a tree of classes."""
    hints = get_type_hints(kind)
    for attribute in attrs.fields(kind):
        annotation = hints[attribute.name]
        if isinstance(annotation, type) and attrs.has(annotation):
            yield from setting_paths(annotation, f"{prefix}{attribute.name}.")
        else:
            yield prefix + attribute.name, annotation


def from_environment(
    variables: Mapping[str, str], kind: type[attrs.AttrsInstance] = Settings
) -> SettingsSource:
    """Return the settings that variables hold.

    Args:
        variables: `os.environ`, or the like.
        kind: The tree of classes.

    Raises:
        SettingsError: A variable begins with `IMAGEHOST_`, but there is no such setting: a setting
            spelled wrongly is not left out silently.
    """
    names = {variable_name(path): path for path, _ in setting_paths(kind)}
    meant = (name for name in variables if name.startswith(PREFIX) and not _FOREIGN.fullmatch(name))
    unknown = sorted(name for name in meant if name not in names and name not in CLIENT_VARIABLES)
    if unknown:
        raise SettingsError(f"expected the name of a setting but received {', '.join(unknown)}")
    return SettingsSource(
        ENVIRONMENT, {names[name]: text for name, text in variables.items() if name in names}
    )


CLIENT_VARIABLES = frozenset({PREFIX + "TOKEN"})
"""Variables of the same prefix which the client reads; `IMAGEHOST_BASE_URL` is read by both."""

_FOREIGN = re.compile(
    PREFIX + r"(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_[0-9]+_(TCP|UDP)(_(PROTO|PORT|ADDR))?)?)"
)
"""What Kubernetes sets in every container, beside a service that is called `imagehost`."""


def from_toml(
    origin: str, tree: Mapping[str, object], kind: type[attrs.AttrsInstance] = Settings
) -> SettingsSource:
    """Return the settings that a TOML file holds.

    Args:
        origin: The file's name.
        tree: What it holds.
        kind: The tree of classes.

    Raises:
        SettingsError: There is no setting of such a name.
    """
    known = {path for path, _ in setting_paths(kind)}
    values = dict(_flatten(tree, {path[: path.rfind(".") + 1] for path in known}))
    unknown = sorted(values.keys() - known)
    if unknown:
        raise SettingsError(f"expected the name of a setting in {origin} but received {', '.join(unknown)}")
    return SettingsSource(origin, values)


def resolve(sources: Sequence[SettingsSource], kind: type[S]) -> tuple[S, tuple[ResolvedSetting, ...]]:
    """Return the settings, and where each came from.

    Args:
        sources: The first that names a setting wins; what none names has its default.
        kind: The tree of classes.

    Raises:
        SettingsError: A value cannot be read, or is not allowed.
    """
    found: dict[str, tuple[object, str]] = {}
    for path, annotation in setting_paths(kind):
        for source in sources:
            if path in source.values:
                found[path] = (_read(path, annotation, source), source.origin)
                break
    settings = _build(kind, "", found)
    default = "default"
    resolved = (
        ResolvedSetting(path, _value(settings, path), found[path][1] if path in found else default)
        for path, _ in setting_paths(kind)
    )
    return settings, tuple(resolved)


def from_env(variables: Mapping[str, str]) -> Settings:
    """Return the core's settings as variables give them.

    Raises:
        SettingsError: A value cannot be read, or a name is no setting's.
    """
    return resolve([from_environment(variables)], Settings)[0]


def _flatten(
    tree: Mapping[str, object], sections: set[str], prefix: str = ""
) -> Iterator[tuple[str, object]]:
    for name, value in tree.items():
        if isinstance(value, Mapping) and f"{prefix}{name}." in sections:
            yield from _flatten(value, sections, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _build(kind: type[S], prefix: str, found: Mapping[str, tuple[object, str]]) -> S:
    hints = get_type_hints(kind)
    values: dict[str, object] = {}
    for attribute in attrs.fields(kind):
        path, annotation = prefix + attribute.name, hints[attribute.name]
        if isinstance(annotation, type) and attrs.has(annotation):
            values[attribute.name] = _build(annotation, f"{path}.", found)
        elif path in found:
            value, origin = found[path]
            _validate(attribute, value, _name(path, origin), origin)
            values[attribute.name] = value
    try:
        return kind(**values)
    except ValueError as error:
        origins = {found[prefix + name][1] for name in values if prefix + name in found}
        raise SettingsError(f"{error} (from {', '.join(sorted(origins))})") from error


def _validate(attribute: attrs.Attribute[object], value: object, name: str, origin: str) -> None:
    """Let a value pass that its class will take, so that an error can name where the value came from."""
    if attribute.validator is None:
        return
    try:
        attribute.validator(None, attribute, value)
    except ValueError as error:
        if f" for {attribute.name} but received " in str(error):
            raise SettingsError(f"{error} ({name}, {origin})") from error
        text = f"expected an allowed value for {name} but received {value!r} ({origin}): {error}"
        raise SettingsError(text) from error


def _name(path: str, origin: str) -> str:
    return variable_name(path) if origin == ENVIRONMENT else path


def _value(settings: object, path: str) -> object:
    for name in path.split("."):
        settings = getattr(settings, name)
    return settings


def _read(path: str, annotation: object, source: SettingsSource) -> object:
    value = source.values[path]
    try:
        return _parse(annotation, value.strip() if isinstance(value, str) else value)
    except ValueError as error:
        name = _name(path, source.origin)
        raise SettingsError(f"expected {error} for {name} but received {value!r} ({source.origin})") from None


def _parse(annotation: object, value: object) -> object:
    if isinstance(annotation, UnionType):
        (inner,) = (arg for arg in get_args(annotation) if arg is not NoneType)
        return None if value == "" else _parse(inner, value)
    if get_origin(annotation) is tuple:
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, list | tuple):
            raise ValueError("a list, or text with commas")
        return tuple(str(part).strip() for part in parts if str(part).strip())
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        choices = {member.value: member for member in annotation}
        if not isinstance(value, str) or value not in choices:
            raise ValueError(f"one of {', '.join(choices)}")
        return choices[value]
    assert isinstance(annotation, type)
    return _PARSERS[annotation](value)


def _integer(value: object) -> int:
    number = int(value) if isinstance(value, str) and _INTEGER.fullmatch(value) else value
    if isinstance(number, int) and not isinstance(number, bool):
        return number
    raise ValueError("an integer")


def _number(value: object) -> float:
    try:
        number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else nan
    except (ValueError, OverflowError):
        number = nan
    if isfinite(number):
        return number
    raise ValueError("a number")


_INTEGER = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_BOOLEANS = {"true": True, "1": True, "yes": True, "on": True}
_BOOLEANS |= {"false": False, "0": False, "no": False, "off": False}


def _boolean(value: object) -> bool:
    text = str(value).lower()
    if text not in _BOOLEANS:
        raise ValueError("true or false")
    return _BOOLEANS[text]


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise ValueError("text")


_PARSERS: dict[type, Callable[[object], object]] = {
    int: _integer,
    float: _number,
    bool: _boolean,
    str: _text,
}
