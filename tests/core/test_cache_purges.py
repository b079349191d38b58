"""Requests that purge an image from a shared cache, and the delays of their retries."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.cache_purges import MAX_RETRY_DELAY, build_purge_request, retry_delay
from imagehost_core.ids import ImageId
from imagehost_core.settings import PurgeSettings, SettingsError, settings_from_environment

IMAGE = ImageId("0123456789abcdef")
URL = f"https://images.example.com/img/{IMAGE}"


def test_the_url_the_headers_and_the_body_name_the_image() -> None:
    settings = PurgeSettings(
        url="https://api.example.com/zones/7/purge?key={id}",
        headers=("Authorization: Bearer secret", "Content-Type: application/json", "X-Tag: {tag}", "Empty:"),
        body='{"tags":["{tag}"],"files":["{url}"]}',
    )
    request = build_purge_request(settings, IMAGE, URL)
    assert (request.method, request.url) == ("POST", f"https://api.example.com/zones/7/purge?key={IMAGE}")
    assert request.headers == {
        "Authorization": "Bearer secret",
        "Content-Type": "application/json",
        "X-Tag": f"img-{IMAGE}",
        "Empty": "",
    }
    assert request.body == f'{{"tags":["img-{IMAGE}"],"files":["{URL}"]}}'.encode()


def test_neither_the_settings_nor_the_request_show_secrets() -> None:
    settings = PurgeSettings(url="https://api.example.com", headers=("Authorization: Bearer secret",))
    assert "secret" not in f"{settings} {build_purge_request(settings, IMAGE, URL)}"


@pytest.mark.parametrize(
    "url",
    [
        "ftp://cache",
        "cache.example.com",
        "https://user:secret@cache",
        "https://cache/#x",
        "https://cache/a b",
        "https://cache/\\",
        "",
    ],
)
def test_a_url_that_no_request_can_have_is_rejected(url: str) -> None:
    with pytest.raises(ValueError, match="an http or https URL"):
        PurgeSettings(url=url)


@pytest.mark.parametrize("line", ["X-Key", "X Key: 1", ": 1", "X-Key: a\r\nHost: b", "X-Key: é"])
def test_a_header_that_no_request_can_have_is_rejected_without_its_value(line: str) -> None:
    with pytest.raises(ValueError, match="lines like 'Name: value' for headers but received another"):
        PurgeSettings(headers=(line,))


@pytest.mark.parametrize("status", ["", "2xx", "099", "600", "4040"])
def test_success_statuses_are_http_statuses(status: str) -> None:
    with pytest.raises(ValueError, match="expected HTTP statuses for success_statuses"):
        PurgeSettings(success_statuses=("404", status))


@pytest.mark.parametrize("name", ["method", "tag_header"])
def test_methods_and_names_of_headers_are_tokens(name: str) -> None:
    with pytest.raises(ValueError, match=f"for {name} but received 'a b'"):
        PurgeSettings(**{name: "a b"})  # type: ignore[arg-type]


def test_an_invalid_variable_stops_the_start() -> None:
    with pytest.raises(SettingsError, match="for url but received 'cache'"):
        settings_from_environment({"IMAGEHOST_PURGE_URL": "cache"})


@given(st.integers(1, 10_000))
def test_delays_grow_from_5_seconds_to_10_minutes(attempts: int) -> None:
    assert timedelta(seconds=5) <= retry_delay(attempts) <= retry_delay(attempts + 1) <= MAX_RETRY_DELAY


def test_the_first_delays_are_5_20_80_and_320_seconds() -> None:
    assert [retry_delay(attempts).seconds for attempts in range(1, 6)] == [5, 20, 80, 320, 600]
