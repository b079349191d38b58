"""Settings from several sources: for each setting, the first source that has it takes precedence.

A setting is a leaf of a tree of attrs classes. `limits.api_per_minute` of `Settings` is set by the variable
`IMAGEHOST_LIMITS_API_PER_MINUTE`, or by `api_per_minute = 60` in the table `[limits]` of a TOML file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from fractions import Fraction
from math import isfinite, nan
from types import NoneType, UnionType
from typing import TypeVar, get_args, get_origin, get_type_hints

import attrs
from attrs import field, frozen

from imagehost_core.settings.model import Settings
from imagehost_core.settings.secrets import mask_value, show_value

PREFIX = "IMAGEHOST_"
ENVIRONMENT = "environment"
"""The origin of settings from environment variables."""

S = TypeVar("S", bound=attrs.AttrsInstance)


class SettingsError(ValueError):
    """A setting is invalid; the message names the setting, its origin and the expected value."""


@frozen
class SettingsSource:
    """Settings by path, such as `{"limits.api_per_minute": "60"}`, from one source.

    Attributes:
        origin: The source's name in messages: `environment`, or a file name.
        values: Text, or values of TOML types.
    """

    origin: str
    values: Mapping[str, object] = field(repr=False)


@frozen
class ResolvedSetting:
    """A setting with the origin of its value.

    Attributes:
        path: Its path.
        value: Its value, which can be a secret.
        shown: The value with `***` in place of secrets.
        origin: The name of the source.
    """

    path: str
    value: object = field(repr=False)
    shown: object
    origin: str

    @property
    def variable(self) -> str:
        """The name of the setting's environment variable."""
        return variable_name(self.path)


def variable_name(path: str) -> str:
    """Return the name of a setting's environment variable, such as `IMAGEHOST_LIMITS_QUOTA_BYTES`."""
    return PREFIX + _SHORT_NAMES.get(path, path).replace(".", "_").upper()


_SHORT_NAMES = {"storage.url": "storage"}
"""Settings whose variable has another name; `IMAGEHOST_STORAGE` goes with `IMAGEHOST_DATABASE`."""


def setting_paths(kind: type[attrs.AttrsInstance], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield the path and type of every setting in a tree of attrs classes."""
    yield from ((path, annotation) for path, annotation, _ in _leaves(kind, prefix))


def _leaves(
    kind: type[attrs.AttrsInstance], prefix: str = ""
) -> Iterator[tuple[str, object, attrs.Attribute[object]]]:
    hints = get_type_hints(kind)
    for attribute in attrs.fields(kind):
        annotation = hints[attribute.name]
        if isinstance(annotation, type) and attrs.has(annotation):
            yield from _leaves(annotation, f"{prefix}{attribute.name}.")
        else:
            yield prefix + attribute.name, annotation, attribute


def from_environment(
    variables: Mapping[str, str], kind: type[attrs.AttrsInstance] = Settings
) -> SettingsSource:
    """Return the settings in environment variables.

    Args:
        variables: The environment, such as `os.environ`.
        kind: The root class of the settings.

    Raises:
        SettingsError: A variable begins with `IMAGEHOST_` but is not a setting's, such as a misspelled one.
    """
    names = {variable_name(path): path for path, _ in setting_paths(kind)}
    prefixed = (name for name in variables if name.startswith(PREFIX) and not _KUBERNETES.fullmatch(name))
    unknown = sorted(name for name in prefixed if name not in names and name not in OTHER_VARIABLES)
    if unknown:
        raise SettingsError(f"expected the name of a setting but received {', '.join(unknown)}")
    return SettingsSource(
        ENVIRONMENT, {names[name]: text for name, text in variables.items() if name in names}
    )


OTHER_VARIABLES = frozenset({PREFIX + "TOKEN", PREFIX + "PROFILE", PREFIX + "DATA"})
"""Variables with this prefix that are no settings: two of the client, and `DATA` of the command line."""

_KUBERNETES = re.compile(
    PREFIX + r"(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_[0-9]+_(TCP|UDP)(_(PROTO|PORT|ADDR))?)?)"
)
"""Variables that Kubernetes sets for a service named `imagehost`."""


def from_toml(
    origin: str, tree: Mapping[str, object], kind: type[attrs.AttrsInstance] = Settings
) -> SettingsSource:
    """Return the settings in a TOML document.

    Args:
        origin: The file's name.
        tree: The parsed document.
        kind: The root class of the settings.

    Raises:
        SettingsError: A key is not a setting's.
    """
    paths = {path for path, _ in setting_paths(kind)}
    values = dict(_flatten(tree, {path[: path.rfind(".") + 1] for path in paths}))
    unknown = sorted(values.keys() - paths)
    if unknown:
        raise SettingsError(f"expected the name of a setting in {origin} but received {', '.join(unknown)}")
    return SettingsSource(origin, values)


def resolve_settings(
    sources: Sequence[SettingsSource], kind: type[S]
) -> tuple[S, tuple[ResolvedSetting, ...]]:
    """Return the settings from several sources, and each setting with its origin.

    Args:
        sources: The sources, in order of precedence; a setting that none has keeps its default.
        kind: The root class of the settings.

    Raises:
        SettingsError: A value is malformed or not allowed.
    """
    configured: dict[str, tuple[object, str]] = {}
    for path, annotation, attribute in _leaves(kind):
        for source in sources:
            if path in source.values:
                configured[path] = (_read(path, annotation, attribute, source), source.origin)
                break
    settings = _build(kind, "", configured)
    resolved = (
        ResolvedSetting(
            path,
            value := _value(settings, path),
            mask_value(attribute, value),
            configured[path][1] if path in configured else "default",
        )
        for path, _, attribute in _leaves(kind)
    )
    return settings, tuple(resolved)


def settings_from_environment(variables: Mapping[str, str]) -> Settings:
    """Return the core's settings from environment variables.

    Raises:
        SettingsError: A value is malformed or not allowed, or a variable is not a setting's.
    """
    return resolve_settings([from_environment(variables)], Settings)[0]


def _flatten(
    tree: Mapping[str, object], sections: set[str], prefix: str = ""
) -> Iterator[tuple[str, object]]:
    for name, value in tree.items():
        if isinstance(value, Mapping) and f"{prefix}{name}." in sections:
            yield from _flatten(value, sections, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _build(kind: type[S], prefix: str, configured: Mapping[str, tuple[object, str]]) -> S:
    hints = get_type_hints(kind)
    values: dict[str, object] = {}
    for attribute in attrs.fields(kind):
        path, annotation = prefix + attribute.name, hints[attribute.name]
        if isinstance(annotation, type) and attrs.has(annotation):
            values[attribute.name] = _build(annotation, f"{path}.", configured)
        elif path in configured:
            value, origin = configured[path]
            _validate(attribute, value, _name(path, origin), origin)
            values[attribute.name] = value
    try:
        return kind(**values)
    except ValueError as error:
        origins = {configured[prefix + name][1] for name in values if prefix + name in configured}
        raise SettingsError(f"{error} (from {', '.join(sorted(origins))})") from error


def _validate(attribute: attrs.Attribute[object], value: object, name: str, origin: str) -> None:
    """Raise SettingsError, naming the value's origin, unless the attribute's validator accepts the value."""
    if attribute.validator is None:
        return
    try:
        attribute.validator(None, attribute, value)
    except ValueError as error:
        if f" for {attribute.name} but received " in str(error):
            raise SettingsError(f"{error} ({name}, {origin})") from error
        received = show_value(attribute, value)
        text = f"expected an allowed value for {name} but received {received} ({origin}): {error.args[0]}"
        raise SettingsError(text) from error


def _name(path: str, origin: str) -> str:
    return variable_name(path) if origin == ENVIRONMENT else path


def _value(settings: object, path: str) -> object:
    for name in path.split("."):
        settings = getattr(settings, name)
    return settings


def _read(
    path: str, annotation: object, attribute: attrs.Attribute[object], source: SettingsSource
) -> object:
    value = source.values[path]
    quantity = next((each for suffix, each in _QUANTITIES.items() if path.endswith(suffix)), None)
    try:
        parsed = value.strip() if isinstance(value, str) else value
        if quantity is None:
            return _parse(annotation, parsed)
        number = _parse(annotation, quantity.without_unit(parsed))
        if isinstance(number, int | float) and number > quantity.most:
            raise ValueError(f"at most {quantity.most}")
        return number
    except ValueError as error:
        expected = f"{error}{f', or {quantity.example}' if quantity else ''}"
        name = _name(path, source.origin)
        raise SettingsError(
            f"expected {expected} for {name} but received {show_value(attribute, value)} ({source.origin})"
        ) from None


@frozen
class Quantity:
    """A kind of values whose text can have a unit.

    Attributes:
        units: The value of each unit.
        example: A text with a unit, for errors.
        most: The largest value with which sums, times and the database can be computed.
    """

    units: Mapping[str, int]
    example: str
    most: int

    def without_unit(self, value: object) -> object:
        """Return the number of a text like `10GiB`; any other value as it is."""
        match = _WITH_UNIT.fullmatch(value) if isinstance(value, str) else None
        if match is None or match["unit"] not in self.units:
            return value
        number = Fraction(match["number"]) * self.units[match["unit"]]
        return int(number) if number.denominator == 1 else float(number)


_WITH_UNIT = re.compile(r"(?P<number>[0-9]{1,18}(?:\.[0-9]{1,6})?) ?(?P<unit>[A-Za-z]+)", re.ASCII)
SIZE = Quantity(
    {"B": 1}
    | {f"{prefix}iB": 1024**power for power, prefix in enumerate("KMGT", 1)}
    | {f"{'k' if prefix == 'K' else prefix}B": 1000**power for power, prefix in enumerate("KMGT", 1)},
    "a size like 10GiB",
    10**18 - 1,
)
"""Sizes in bytes, with units of 1024 (IEC 80000-13) or of 1000 (SI)."""
DURATION = Quantity({"s": 1, "m": 60, "h": 3_600, "d": 86_400}, "a duration like 30s or 24h", 36_500 * 86_400)
"""Durations in seconds, of at most 100 years."""
_QUANTITIES = {"_bytes": SIZE, "_seconds": DURATION}
"""The kinds of settings with units, by the end of their names."""


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
