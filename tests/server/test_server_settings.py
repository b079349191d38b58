"""Settings: sources, defaults and errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.settings import SettingsError
from imagehost_server.settings import FILE, ListenSettings, ServerSettings, is_loopback, load


def test_flags_precede_variables_the_file_and_defaults(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(
        '[server]\nport = 1\nhost = "::1"\n[log]\nlevel = "error"\n', encoding="utf-8"
    )
    variables = {"IMAGEHOST_SERVER_PORT": "2", "IMAGEHOST_LOG_LEVEL": "debug", "HOME": "/"}
    settings, resolved = load(tmp_path, {"server.port": 3}, variables)
    origins = {setting.path: setting.origin for setting in resolved}
    assert (settings.server.port, origins["server.port"]) == (3, "flags")
    assert (settings.log.level, origins["log.level"]) == ("debug", "environment")
    assert (settings.server.host, origins["server.host"]) == ("::1", FILE)
    assert (settings.server.workers, origins["server.workers"]) == (1, "default")


@pytest.mark.parametrize(
    ("flags", "base_url"),
    [
        ({}, "http://127.0.0.1:8000/v1"),
        ({"server.port": 81}, "http://127.0.0.1:81/v1"),
        ({"server.host": "0.0.0.0"}, "http://127.0.0.1:8000/v1"),
        ({"server.host": "::"}, "http://[::1]:8000/v1"),
        (
            {"server.host": "img.example", "server.tls_cert": "c", "server.tls_key": "k"},
            "https://img.example:8000/v1",
        ),
    ],
)
def test_the_default_base_url_is_derived_from_host_and_port(
    tmp_path: Path, flags: dict[str, object], base_url: str
) -> None:
    assert load(tmp_path, flags, {})[0].base_url == base_url
    variables = {"IMAGEHOST_BASE_URL": "https://a.example/v1"}
    assert load(tmp_path, flags, variables)[0].base_url == "https://a.example/v1"


def test_the_default_cdn_url_is_derived_from_the_base_url(tmp_path: Path) -> None:
    assert load(tmp_path, {"server.port": 81}, {})[0].delivery_url == "http://127.0.0.1:81/img"


@pytest.mark.parametrize(
    ("variables", "details"),
    [
        ({"IMAGEHOST_SERVER_PORT": "70000"}, "port"),
        ({"IMAGEHOST_SERVER_PORT": "x"}, "IMAGEHOST_SERVER_PORT"),
        ({"IMAGEHOST_SERVER_WORKERS": "0"}, "workers"),
        ({"IMAGEHOST_SERVER_TLS_CERT": "cert.pem"}, "tls_key is missing"),
        ({"IMAGEHOST_DELIVERY_ACCEL_REDIRECT": "/files"}, r"received '/files' \(environment\): '\w+' must"),
        ({"IMAGEHOST_TRUSTED_PROXIES": "10.0.0.0/8, proxy"}, "trusted_proxies"),
        ({"IMAGEHOST_TRUSTED_PROXIES": "10.0.0.1/8"}, "trusted_proxies"),
        ({"IMAGEHOST_HTTP_BODY_IDLE_TIMEOUT_SECONDS": "0"}, "body_idle_timeout_seconds"),
        ({"IMAGEHOST_LOG_LEVEL": "loud"}, "debug, info, warning, error"),
        ({"IMAGEHOST_LIMITS_API_PER_MINUTE": "-1"}, "api_per_minute"),
        ({"IMAGEHOST_WEB_LOGO_FILE": "missing.png"}, "logo_file"),
        ({"IMAGEHOST_WEB_LOGO_FILE": __file__}, "SVG, PNG or WebP"),
        ({"IMAGEHOST_WEB_ACCENT": "red"}, "#1f5fd6"),
        ({"IMAGEHOST_WEB_ACCENT": "#1f5fd6}"}, "accent"),
        ({"IMAGEHOST_SERVER_PROT": "1"}, "IMAGEHOST_SERVER_PROT"),
    ],
)
def test_an_invalid_value_is_an_error_that_names_the_setting(
    tmp_path: Path, variables: dict[str, str], details: str
) -> None:
    with pytest.raises(SettingsError, match=details):
        load(tmp_path, {}, variables)


@pytest.mark.parametrize("text", ["[server", "port = 1", "[server]\nports = 1", "a = " + "[" * 9_999])
def test_an_invalid_file_is_an_error_that_names_the_file(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError, match=FILE):
        load(tmp_path, {}, {})


def test_the_server_has_every_setting_of_the_core(tmp_path: Path) -> None:
    paths = {setting.path for setting in load(tmp_path, {}, {})[1]}
    assert {
        "base_url",
        "limits.quota_bytes",
        "rendering.processes",
        "trusted_proxies",
        "server.port",
    } <= paths
    assert isinstance(load(tmp_path, {}, {})[0], ServerSettings)


@given(st.ip_addresses(v=4))
def test_ipv4_loopback_is_recognized_also_as_a_mapped_ipv6_address(address: object) -> None:
    assert is_loopback(str(address)) == is_loopback(f"::ffff:{address}") == str(address).startswith("127.")


def test_a_host_name_is_not_a_loopback_address() -> None:
    assert not is_loopback("localhost")
    assert ListenSettings().origin == "http://127.0.0.1:8000"


@pytest.mark.parametrize(
    ("name", "expected"),
    [("server", "ListenSettings"), ("http", "HttpSettings"), ("limits", "LimitSettings")],
)
def test_a_section_of_another_type_raises_type_error(name: str, expected: str) -> None:
    with pytest.raises(
        TypeError, match=rf"expected imagehost_\w+\.settings\.{expected} for {name} but received dict"
    ):
        ServerSettings(**{name: {}})  # type: ignore[arg-type]
