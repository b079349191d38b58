"""Loading of settings from environment variables and TOML."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from enum import StrEnum

import attrs
import pytest
from attrs import field, frozen
from attrs.validators import le
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.settings import (
    PrivateDelivery,
    ResolvedSetting,
    Settings,
    SettingsError,
    SettingsSource,
    from_environment,
    from_toml,
    resolve_settings,
    setting_paths,
    settings_from_environment,
    variable_name,
)

VARIABLES: dict[str, tuple[str, str, object]] = {
    "IMAGEHOST_BASE_URL": ("base_url", "https://img.example/v1", "https://img.example/v1"),
    "IMAGEHOST_CDN_URL": ("cdn_url", "https://cdn.example", "https://cdn.example"),
    "IMAGEHOST_LIMITS_API_PER_MINUTE": ("limits.api_per_minute", "6", 6),
    "IMAGEHOST_LIMITS_API_PER_HOUR": ("limits.api_per_hour", "0", 0),
    "IMAGEHOST_LIMITS_API_PER_DAY": ("limits.api_per_day", "100000", 100_000),
    "IMAGEHOST_LIMITS_UPLOADS_PER_MINUTE": ("limits.uploads_per_minute", " 1\r", 1),
    "IMAGEHOST_LIMITS_QUOTA_BYTES": ("limits.quota_bytes", "1000000000000", 10**12),
    "IMAGEHOST_WEBHOOKS_ALLOW_LOOPBACK": ("webhooks.allow_loopback", "True", True),
    "IMAGEHOST_DELIVERY_PRIVATE": ("delivery.private", "unlisted", PrivateDelivery.UNLISTED),
    "IMAGEHOST_DELIVERY_REQUIRE_SIGNED": ("delivery.require_signed", "1", True),
    "IMAGEHOST_DELIVERY_ALLOWED_SIZES": (
        "delivery.allowed_sizes",
        "320x240, 640x,,x480",
        ("320x240", "640x", "x480"),
    ),
}
"""The documented variables of the core: path, text and value."""


def value_of(settings: object, path: str) -> object:
    for name in path.split("."):
        settings = getattr(settings, name)
    return settings


def environment_error(variables: Mapping[str, str]) -> str:
    """Return the message of the error for invalid variables."""
    with pytest.raises(SettingsError) as caught:
        settings_from_environment(variables)
    return str(caught.value)


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@frozen(kw_only=True)
class Deep:
    number: int = 5
    ratio: float = field(default=1.5, validator=le(2.0))


@frozen(kw_only=True)
class Tree:
    """A setting of each type."""

    name: str = "n"
    maybe: str | None = None
    flag: bool = False
    colour: Colour = Colour.RED
    many: tuple[str, ...] = ()
    deep: Deep = Deep()

    def __attrs_post_init__(self) -> None:
        if self.flag and self.maybe is None:
            raise ValueError("expected maybe beside flag but it is missing")


def read(path: str, value: object) -> object:
    """Return the setting that is parsed from a value of a file."""
    return value_of(resolve_settings([SettingsSource("imagehost.toml", {path: value})], Tree)[0], path)


def file_error(path: str, value: object) -> str:
    """Return the message of the error for an invalid value of a file."""
    with pytest.raises(SettingsError) as caught:
        read(path, value)
    return str(caught.value)


@pytest.mark.parametrize("name", VARIABLES)
def test_every_documented_variable_sets_its_setting(name: str) -> None:
    path, text, value = VARIABLES[name]
    assert variable_name(path) == name
    assert value_of(settings_from_environment({name: text}), path) == value


def test_all_documented_variables_can_be_set_together() -> None:
    settings = settings_from_environment({name: text for name, (_, text, _) in VARIABLES.items()})
    assert [value_of(settings, path) for path, _, _ in VARIABLES.values()] == [
        value for _, _, value in VARIABLES.values()
    ]


def test_without_variables_settings_have_their_defaults() -> None:
    assert settings_from_environment({}) == Settings()
    assert settings_from_environment({"PATH": "/bin", "HOME": "/", "XIMAGEHOST_A": "1"}) == Settings()


@pytest.mark.parametrize("resolved", resolve_settings([], Settings)[1], ids=lambda resolved: resolved.path)
def test_every_default_can_be_set_as_a_variable(resolved: ResolvedSetting) -> None:
    value = resolved.value
    text = ",".join(value) if isinstance(value, tuple) else "" if value is None else str(value)
    assert value_of(settings_from_environment({resolved.variable: text}), resolved.path) == value


def test_variable_names_are_unique() -> None:
    names = [variable_name(path) for path, _ in setting_paths(Settings)]
    assert len(set(names)) == len(names)
    assert "IMAGEHOST_TOKEN" not in names


@pytest.mark.parametrize(
    ("path", "text", "value"),
    [
        ("limits.quota_bytes", "10GiB", 10 * 2**30),
        ("limits.quota_bytes", "10 GiB", 10 * 2**30),
        ("limits.quota_bytes", "1.5KiB", 1_536),
        ("limits.quota_bytes", "2TB", 2 * 10**12),
        ("limits.quota_bytes", "7kB", 7_000),
        ("limits.quota_bytes", "9B", 9),
        ("sessions.lifetime_seconds", "24h", 86_400),
        ("sessions.lifetime_seconds", "7d", 604_800),
        ("sessions.lifetime_seconds", "15m", 900),
        ("rendering.render_timeout_seconds", "30s", 30.0),
        ("rendering.render_timeout_seconds", "0.5s", 0.5),
    ],
)
def test_sizes_and_durations_can_have_a_unit(path: str, text: str, value: object) -> None:
    assert value_of(settings_from_environment({variable_name(path): text}), path) == value
    parsed = resolve_settings([SettingsSource("imagehost.toml", {path: text})], Settings)[0]
    assert value_of(parsed, path) == value


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("IMAGEHOST_LIMITS_API_PER_MINUTE", "many", "an integer"),
        ("IMAGEHOST_LIMITS_API_PER_MINUTE", "", "an integer"),
        ("IMAGEHOST_LIMITS_API_PER_MINUTE", "6.5", "an integer"),
        ("IMAGEHOST_LIMITS_API_PER_MINUTE", "--5", "an integer"),
        ("IMAGEHOST_LIMITS_API_PER_MINUTE", "６０", "an integer"),
        ("IMAGEHOST_LIMITS_API_PER_MINUTE", "1_000", "an integer"),
        ("IMAGEHOST_LIMITS_QUOTA_BYTES", "9" * 5_000, "an integer, or a size like 10GiB"),
        ("IMAGEHOST_LIMITS_QUOTA_BYTES", "10 gib", "an integer, or a size like 10GiB"),
        ("IMAGEHOST_LIMITS_QUOTA_BYTES", "0.0001KiB", "an integer, or a size like 10GiB"),
        ("IMAGEHOST_LIMITS_QUOTA_BYTES", "30s", "an integer, or a size like 10GiB"),
        *(
            (
                "IMAGEHOST_RENDERING_RENDER_TIMEOUT_SECONDS",
                text,
                "a number, or a duration like 30s or 24h",
            )
            for text in ("soon", "inf", "nan", "5MB", "-5s", "5s5m")
        ),
        ("IMAGEHOST_DELIVERY_REQUIRE_SIGNED", "maybe", "true or false"),
        ("IMAGEHOST_DELIVERY_REQUIRE_SIGNED", "", "true or false"),
        ("IMAGEHOST_DELIVERY_PRIVATE", "public", "one of restricted, unlisted"),
        ("IMAGEHOST_DELIVERY_PRIVATE", "", "one of restricted, unlisted"),
    ],
)
def test_the_error_for_a_malformed_variable_names_the_expected_type(
    name: str, text: str, expected: str
) -> None:
    assert (
        environment_error({name: text})
        == f"expected {expected} for {name} but received {text!r} (environment)"
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("IMAGEHOST_LIMITS_API_PER_MINUTE", "-1"),
        ("IMAGEHOST_RENDERING_PROCESSES", "0"),
        ("IMAGEHOST_RENDERING_RENDER_TIMEOUT_SECONDS", "0"),
        ("IMAGEHOST_BASE_URL", "https://img.example"),
        ("IMAGEHOST_CDN_URL", "cdn.example"),
        ("IMAGEHOST_DELIVERY_ALLOWED_SIZES", "320x240,huge"),
    ],
)
def test_the_error_for_an_invalid_variable_names_the_received_value(name: str, text: str) -> None:
    message = environment_error({name: text, "IMAGEHOST_LIMITS_API_PER_HOUR": "5"})
    assert name in message
    assert text.split(",")[-1] in message
    assert "environment" in message
    assert message.startswith("expected ")


@pytest.mark.parametrize(
    "name",
    [
        "IMAGEHOST_",
        "IMAGEHOST_LIMIT_API_PER_MINUTE",
        "IMAGEHOST_QUOTA",
        "IMAGEHOST_LIMITS",
        "IMAGEHOST_base_url",
    ],
)
def test_an_unknown_variable_with_the_prefix_is_an_error(name: str) -> None:
    assert environment_error({name: "1"}) == f"expected the name of a setting but received {name}"


def test_all_unknown_variables_are_reported_together() -> None:
    assert environment_error({"IMAGEHOST_B": "1", "IMAGEHOST_A": "1"}).endswith(
        "received IMAGEHOST_A, IMAGEHOST_B"
    )


@pytest.mark.parametrize("name", ["IMAGEHOST_TOKEN", "IMAGEHOST_PROFILE"])
def test_the_variables_of_the_client_are_ignored(name: str) -> None:
    assert settings_from_environment({name: "x", "IMAGEHOST_BASE_URL": "https://a/v1"}).base_url


@pytest.mark.parametrize(
    "path", [path for path, _ in setting_paths(Settings) if path.endswith(("_seconds", "_bytes"))]
)
def test_a_duration_or_size_with_which_nothing_can_be_computed_is_an_error(path: str) -> None:
    unit = "d" if path.endswith("_seconds") else "TiB"
    for value in (10**30, f"{'9' * 18}{unit}"):
        with pytest.raises(SettingsError, match="expected at most"):
            resolve_settings([SettingsSource("imagehost.toml", {path: value})], Settings)


@pytest.mark.parametrize(
    "name",
    [
        "IMAGEHOST_SERVICE_HOST",
        "IMAGEHOST_SERVICE_PORT",
        "IMAGEHOST_SERVICE_PORT_HTTP",
        "IMAGEHOST_PORT",
        "IMAGEHOST_PORT_8000_TCP",
        "IMAGEHOST_PORT_8000_TCP_ADDR",
    ],
)
def test_the_variables_of_a_kubernetes_service_are_ignored(name: str) -> None:
    assert settings_from_environment({name: "tcp://10.0.0.1:8000"}) == Settings()


def test_a_toml_file_sets_settings_in_tables() -> None:
    text = """
    base_url = "https://img.example/v1"
    [limits]
    api_per_minute = 6
    [delivery]
    private = "unlisted"
    require_signed = true
    allowed_sizes = ["320x240", "640x"]
    [rendering]
    render_timeout_seconds = 5
    [storage]
    """
    settings, resolved = resolve_settings([from_toml("imagehost.toml", tomllib.loads(text))], Settings)
    assert settings.limits.api_per_minute == 6
    assert settings.delivery.private is PrivateDelivery.UNLISTED
    assert settings.delivery.require_signed
    assert settings.delivery.allowed_sizes == ("320x240", "640x")
    assert settings.rendering.render_timeout_seconds == 5.0
    assert {setting.path for setting in resolved if setting.origin == "imagehost.toml"} == {
        "base_url",
        "limits.api_per_minute",
        "delivery.private",
        "delivery.require_signed",
        "delivery.allowed_sizes",
        "rendering.render_timeout_seconds",
    }


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("quota = 1", "quota"),
        ("limits = 1", "limits"),
        ("[limits]\nquota = 1", "limits.quota"),
        ("[limitz]\napi_per_minute = 1\n[limits]\nx = 1", "limits.x, limitz"),
        ("[limitz]", "limitz"),
        ("[limits.deeper]\na = 1", "limits.deeper"),
        ('"limits.api" = 1', "limits.api"),
    ],
)
def test_an_unknown_key_of_a_file_is_an_error(text: str, names: str) -> None:
    with pytest.raises(SettingsError) as caught:
        from_toml("imagehost.toml", tomllib.loads(text))
    assert str(caught.value) == f"expected the name of a setting in imagehost.toml but received {names}"


def test_the_error_for_a_value_of_a_file_names_its_path() -> None:
    assert (
        file_error("deep.number", "x")
        == "expected an integer for deep.number but received 'x' (imagehost.toml)"
    )
    assert file_error("deep.ratio", 3) == (
        "expected an allowed value for deep.ratio but received 3.0 (imagehost.toml): "
        "'ratio' must be <= 2.0: 3.0"
    )


def test_the_first_source_with_a_setting_takes_precedence() -> None:
    flags = SettingsSource("flags", {"deep.number": 1})
    variables = from_environment({"IMAGEHOST_DEEP_NUMBER": "2", "IMAGEHOST_NAME": "two"}, Tree)
    file = from_toml("imagehost.toml", {"deep": {"number": 3, "ratio": 0.5}, "name": "three"}, Tree)
    tree, resolved = resolve_settings([flags, variables, file], Tree)
    assert tree == Tree(name="two", deep=Deep(number=1, ratio=0.5))
    origins = {setting.path: setting.origin for setting in resolved}
    assert origins == {
        "name": "environment",
        "maybe": "default",
        "flag": "default",
        "colour": "default",
        "many": "default",
        "deep.number": "flags",
        "deep.ratio": "imagehost.toml",
    }


def test_an_overridden_value_is_not_parsed() -> None:
    overridden = SettingsSource("imagehost.toml", {"deep.number": "x"})
    assert (
        resolve_settings([SettingsSource("flags", {"deep.number": 1}), overridden], Tree)[0].deep.number == 1
    )


@pytest.mark.parametrize("text", ["true", "TRUE", "1", "yes", "On", " true\r"])
def test_a_boolean_can_be_set_to_true_in_several_spellings(text: str) -> None:
    assert resolve_settings([SettingsSource("x", {"flag": text, "maybe": "m"})], Tree)[0].flag
    assert resolve_settings([SettingsSource("x", {"flag": True, "maybe": "m"})], Tree)[0].flag


@pytest.mark.parametrize("value", ["false", "0", "No", "OFF", False, 0])
def test_a_boolean_can_be_set_to_false_in_several_spellings(value: object) -> None:
    assert read("flag", value) is False


@pytest.mark.parametrize(
    ("path", "value", "parsed"),
    [
        ("deep.number", "-7", -7),
        ("deep.number", 7, 7),
        ("deep.ratio", "1e-1", 0.1),
        ("deep.ratio", 1, 1.0),
        ("maybe", "", None),
        ("maybe", " x ", "x"),
        ("many", "", ()),
        ("many", "a", ("a",)),
        ("many", " a , b ,", ("a", "b")),
        ("many", ["a", " b "], ("a", "b")),
        ("many", ("a",), ("a",)),
        ("colour", "blue", Colour.BLUE),
        ("colour", Colour.BLUE, Colour.BLUE),
    ],
)
def test_a_value_is_parsed_according_to_the_settings_type(path: str, value: object, parsed: object) -> None:
    assert read(path, value) == parsed


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("deep.number", True, "an integer"),
        ("deep.number", 1.5, "an integer"),
        ("deep.number", None, "an integer"),
        ("deep.number", {}, "an integer"),
        ("deep.ratio", True, "a number"),
        ("deep.ratio", [1], "a number"),
        pytest.param("deep.ratio", 10**400, "a number", id="an integer beyond all floats"),
        ("name", 5, "text"),
        ("maybe", 5, "text"),
        ("many", 5, "a list, or text with commas"),
        ("many", {"a": 1}, "a list, or text with commas"),
        ("colour", "green", "one of red, blue"),
        ("colour", [], "one of red, blue"),
        ("colour", 1, "one of red, blue"),
        ("flag", "2", "true or false"),
        ("flag", 1.0, "true or false"),
        ("flag", [], "true or false"),
    ],
)
def test_a_value_of_another_type_is_rejected(path: str, value: object, expected: str) -> None:
    assert file_error(path, value).startswith(f"expected {expected} for {path} but received ")


def test_the_error_for_contradictory_values_names_their_origins() -> None:
    with pytest.raises(SettingsError) as caught:
        resolve_settings(
            [SettingsSource("flags", {"flag": True}), SettingsSource("imagehost.toml", {"name": "x"})], Tree
        )
    assert str(caught.value) == "expected maybe beside flag but it is missing (from flags, imagehost.toml)"


def test_the_repr_of_a_source_does_not_contain_its_values() -> None:
    assert "secret" not in repr(SettingsSource("environment", {"name": "secret"}))


@given(
    st.dictionaries(
        st.sampled_from([variable_name(path) for path, _ in setting_paths(Settings)]), st.text(), max_size=4
    )
)
def test_any_text_is_a_valid_setting_or_an_error_that_names_the_variable(variables: dict[str, str]) -> None:
    try:
        settings = settings_from_environment(variables)
    except SettingsError as error:
        assert any(name in str(error) for name in variables)  # noqa: PT017
        assert str(error).startswith("expected ")  # noqa: PT017
    else:
        assert attrs.has(type(settings))
