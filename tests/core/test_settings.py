"""Defaults and validation of settings."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_client._config import add_version
from imagehost_core.limits import DAY, HOUR, MINUTE
from imagehost_core.models import AccountLimits
from imagehost_core.settings import (
    DeliverySettings,
    LimitSettings,
    PrivateDelivery,
    PurgeSettings,
    RenderingSettings,
    SessionSettings,
    Settings,
    StorageSettings,
    UploadSettings,
    WebhookSettings,
)

URLS = [
    "http://127.0.0.1:8000",
    "https://img.example",
    "https://img.example/x/b",
    "https://img.example:65535",
    "http://[::1]:8000",
    "http://image_host:80",
    "https://xn--bcher-kva.example/i-i",
    "http://127.0.0.1:0",
]
INVALID_URLS = [
    "",
    "img.example",
    "//img.example",
    "ftp://img.example",
    "javascript:alert(1)",
    "https://",
    "https:///a",
    "https://img.example/",
    "https://img.example//a",
    "https://img.example?",
    "https://img.example?a=b",
    "https://img.example#",
    "https://img.example#a",
    "https://me:secret@img.example",
    "https://img.example:65536",
    "https://img.example:port",
    "https://img.example:",
    "https://img.example/a b",
    "https://img.example/a\n",
    "https://img\n.example",
    "https://img.example\r\nX-Evil: 1",
    'https://img.example/"><script>',
    "https://img.example/a)b",
    "https://img.example/[b]",
    "https://img.example/a\\b",
    "https://bücher.example",
    " https://img.example",
]


def test_the_defaults_are_as_documented() -> None:
    limits, delivery = LimitSettings(), DeliverySettings()
    assert (limits.api_per_minute, limits.api_per_hour, limits.api_per_day) == (60, 1_000, 10_000)
    assert (limits.uploads_per_minute, limits.unauthenticated_per_minute) == (10, 60)
    assert limits.bulk_ids_per_minute == 1_000
    assert limits.quota_bytes == 0
    assert (delivery.private, delivery.require_signed) == (PrivateDelivery.RESTRICTED, False)
    assert (delivery.allowed_sizes, delivery.max_age_seconds) == ((), 86_400)
    assert StorageSettings().min_free_bytes == 512 * 1024 * 1024
    assert WebhookSettings().timeout_seconds == 15
    assert not WebhookSettings().allow_loopback


def test_the_default_windows_are_as_documented() -> None:
    api = [(60, MINUTE), (1_000, HOUR), (10_000, DAY)]
    limits = LimitSettings()
    assert [(window.limit, window.seconds) for window in limits.api] == api
    assert [(window.limit, window.seconds) for window in limits.uploads] == [*api, (10, MINUTE)]
    assert [(window.limit, window.seconds) for window in limits.unauthenticated] == [(60, MINUTE)]
    assert [(window.limit, window.seconds) for window in limits.sign_ins] == [(10, MINUTE)]


def test_every_window_has_the_unique_name_of_its_setting() -> None:
    limits = LimitSettings()
    names = [window.name for window in (*limits.uploads, *limits.unauthenticated, *limits.sign_ins)]
    assert len(set(names)) == len(names)
    assert set(names) <= {attribute.name for attribute in attrs.fields(LimitSettings)}


@given(st.lists(st.none() | st.integers(0, 10**6), min_size=5, max_size=5))
def test_overrides_of_an_account_replace_the_hosts_limits(
    values: list[int | None],
) -> None:
    names = [attribute.name for attribute in attrs.fields(AccountLimits)]
    host = LimitSettings(quota_bytes=5)
    limits = host.overridden(AccountLimits(**dict(zip(names, values, strict=True))))
    for name, value in zip(names, values, strict=True):
        assert getattr(limits, name) == (getattr(host, name) if value is None else value)


def test_a_negative_override_raises_value_error() -> None:
    for attribute in attrs.fields(AccountLimits):
        with pytest.raises(ValueError, match=attribute.name):
            AccountLimits(**{attribute.name: -1})


@pytest.mark.parametrize("url", URLS)
def test_a_valid_url_is_kept_unchanged(url: str) -> None:
    assert Settings(base_url=f"{url}/v1").base_url == f"{url}/v1"
    assert Settings(cdn_url=url).delivery_url == url


@pytest.mark.parametrize("url", INVALID_URLS)
def test_a_url_that_would_need_escaping_is_rejected(url: str) -> None:
    with pytest.raises(ValueError, match="for cdn_url but received"):
        Settings(cdn_url=url)
    with pytest.raises(ValueError, match="for base_url but received"):
        Settings(base_url=f"{url}/v1")


@pytest.mark.parametrize(
    "url", ["https://img.example", "https://img.example/v2", "https://a/xv1", "http://x/"]
)
def test_the_version_is_added_to_a_base_url_as_the_client_does(url: str) -> None:
    assert Settings(base_url=url).base_url == f"{url.rstrip('/')}/v1" == add_version(url)


def test_the_error_for_a_section_names_its_class_and_module() -> None:
    limits: Any = {"api_per_minute": 5}
    with pytest.raises(TypeError, match=r"expected imagehost_core\.settings\.LimitSettings for limits"):
        Settings(limits=limits)


@pytest.mark.parametrize(
    ("base_url", "delivery_url"),
    [
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/img"),
        ("https://img.example/v1", "https://img.example/img"),
        ("https://img.example/hosted/v1", "https://img.example/hosted/img"),
        ("https://[::1]:8443/v1", "https://[::1]:8443/img"),
    ],
)
def test_images_are_delivered_at_img_beside_the_version_by_default(base_url: str, delivery_url: str) -> None:
    assert Settings(base_url=base_url).delivery_url == delivery_url
    assert Settings(base_url=base_url, cdn_url="https://cdn.example").delivery_url == "https://cdn.example"


@pytest.mark.parametrize(
    "path", ["/a%20b", "/a;b", "/..", "/x/.", "/images", "/a/b", "/v1", "/api", "/x/api", "/healthz"]
)
def test_a_root_path_that_is_ambiguous_or_needs_escaping_is_rejected(path: str) -> None:
    with pytest.raises(ValueError, match=r"expected a path .* for base_url but received"):
        Settings(base_url=f"https://img.example{path}/v1")


@pytest.mark.parametrize("path", ["", "/photos", "/x/images", "/imagesx", "/a.b~c_d-e/..."])
def test_the_root_path_is_that_of_the_base_url_without_the_version(path: str) -> None:
    settings = Settings(base_url=f"https://img.example{path}/v1")
    assert (settings.root_path, settings.site_url) == (path, f"https://img.example{path}")


@pytest.mark.parametrize("entry", ["320x240", "640x", "x480", "1x1", "8192x8192"])
def test_an_allowed_size_has_a_width_a_height_or_both(entry: str) -> None:
    assert DeliverySettings(allowed_sizes=("1x1", entry)).allowed_sizes == ("1x1", entry)


@pytest.mark.parametrize(
    "entry", ["", "x", "0x5", "5x0", "05x5", "320", "320X240", "320×240", "a", "１x", "1x1\n", "1x1x1"]
)
def test_another_text_is_not_an_allowed_size(entry: str) -> None:
    with pytest.raises(ValueError, match="for allowed_sizes but received"):
        DeliverySettings(allowed_sizes=("1x1", entry))


SECTIONS: dict[str, type[attrs.AttrsInstance]] = {
    "limits": LimitSettings,
    "delivery": DeliverySettings,
    "storage": StorageSettings,
    "uploads": UploadSettings,
    "purge": PurgeSettings,
    "rendering": RenderingSettings,
    "sessions": SessionSettings,
    "webhooks": WebhookSettings,
}
NUMBERS = [
    (kind, attribute.name)
    for kind in SECTIONS.values()
    for attribute in attrs.fields(kind)
    if attribute.type in {"int", "float"}
]


@pytest.mark.parametrize(("name", "kind"), SECTIONS.items())
@pytest.mark.parametrize("value", [{}, None, 5, DeliverySettings, Settings()])
def test_a_section_of_another_type_raises_type_error(
    name: str, kind: type[attrs.AttrsInstance], value: object
) -> None:
    received = type(value).__name__
    expected = f"expected imagehost_core.settings.{kind.__name__} for {name} but received {received}"
    with pytest.raises(TypeError, match=expected):
        Settings(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "kind"), SECTIONS.items())
def test_a_section_has_its_defaults_unless_it_is_set(name: str, kind: type[attrs.AttrsInstance]) -> None:
    assert getattr(Settings(), name) == kind()


@pytest.mark.parametrize(("kind", "name"), NUMBERS)
def test_a_negative_number_raises_value_error(kind: type[attrs.AttrsInstance], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        kind(**{name: -1})


@pytest.mark.parametrize(("kind", "name"), NUMBERS)
def test_every_number_is_validated(kind: type[attrs.AttrsInstance], name: str) -> None:
    assert len(NUMBERS) >= 20
    assert attrs.fields_dict(kind)[name].validator is not None
    kind(**{name: 10 if name == "avif_speed" else 10**9})


@pytest.mark.parametrize("name", ["processes", "queue"])
def test_there_is_at_least_one_process_and_one_queued_task(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        RenderingSettings(**{name: 0})
    assert RenderingSettings().processes >= 1


@pytest.mark.parametrize("value", [0.0, 0.05, float("nan")])
def test_a_timeout_is_at_least_a_tenth_of_a_second(value: float) -> None:
    with pytest.raises(ValueError, match="render_timeout_seconds"):
        RenderingSettings(render_timeout_seconds=value)
