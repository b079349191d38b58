"""Settings: their sources, validation, and redaction of tokens."""

from __future__ import annotations

import copy
import pickle
import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_client import AsyncClient, Client, ConfigurationError
from imagehost_client._config import is_loopback, resolve
from imagehost_client._redact import LOGGED_HEADERS, Secret, redact_headers, redact_url
from imagehost_client.testing import FakeImageHost

TOKEN = "ihk_0123456789abcdefghijklmnopqrstuvwxyz"


def test_arguments_take_precedence_over_variables() -> None:
    environ = {
        "IMAGEHOST_BASE_URL": "https://a/v1",
        "IMAGEHOST_TOKEN": "t1",
        "IMAGEHOST_CDN_URL": "https://c/i/",
    }
    config = resolve(None, None, environ=environ)
    assert (config.base_url, config.cdn_url) == ("https://a/v1", "https://c/i")
    assert config.token is not None
    assert config.token.get_secret_value() == "t1"
    config = resolve("https://b/v1/", "t2", cdn_url="https://d/img", environ=environ)
    assert (config.base_url, config.cdn_url) == ("https://b/v1", "https://d/img")
    assert config.token is not None
    assert config.token.get_secret_value() == "t2"


def test_the_default_cdn_url_is_on_the_host_of_the_api() -> None:
    assert resolve("https://h:8443/v1", None, environ={}).cdn_url == "https://h:8443/img"


def test_a_client_without_a_token_is_anonymous() -> None:
    assert resolve("https://h/v1", None, environ={}).token is None
    assert resolve("https://h/v1", "", environ={"IMAGEHOST_TOKEN": "t"}).token is None


@pytest.mark.parametrize(
    "url",
    [
        "",
        "images.example.com",
        "ftp://h/v1",
        "https://",
        "https://h:port/v1",
        "https://[::1/v1",
        "https://h/v1?x=1",
        "https://h/v1#x",
        "https://user:s3cret@h/v1",
        "http://images.example.com/v1",
        "http://127.0.0.1.example.com/v1",
    ],
)
def test_an_unsafe_base_url_is_rejected(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        resolve(url, TOKEN, environ={})
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("url", ["https://h/v1/images", "https://h/v2", "https://h/v2/v1", "https://h/v10/"])
def test_a_base_url_of_another_version_or_of_a_resource_is_rejected(url: str) -> None:
    with pytest.raises(ConfigurationError, match="ends in /v1 for base_url"):
        resolve(url, TOKEN, environ={})


@pytest.mark.parametrize(
    ("url", "base", "images"),
    [
        ("https://h", "https://h/v1", "https://h/img"),
        ("https://h/", "https://h/v1", "https://h/img"),
        ("https://h/v1/", "https://h/v1", "https://h/img"),
        ("https://h/api", "https://h/api/v1", "https://h/img"),
        ("https://h/site", "https://h/site/v1", "https://h/site/img"),
        ("https://h/xv1", "https://h/xv1/v1", "https://h/xv1/img"),
    ],
)
def test_the_version_is_added_to_a_base_url_without_one(url: str, base: str, images: str) -> None:
    config = resolve(url, TOKEN, environ={})
    assert (config.base_url, config.cdn_url) == (base, images)
    assert resolve(None, TOKEN, environ={"IMAGEHOST_BASE_URL": url}).base_url == base


@pytest.mark.parametrize(
    ("url", "images"),
    [
        ("https://h/v1", "https://h/img"),
        ("https://h/api/v1", "https://h/img"),
        ("https://h/photos/v1/", "https://h/photos/img"),
        ("https://h/photos/api/v1", "https://h/photos/img"),
    ],
)
def test_the_base_url_may_have_a_path_prefix(url: str, images: str) -> None:
    config = resolve(url, TOKEN, environ={})
    assert (config.base_url, config.cdn_url) == (url.rstrip("/"), images)


def test_plain_http_is_allowed_on_loopback_or_explicitly() -> None:
    for url in (
        "http://127.0.0.1:8000/v1",
        "http://[::1]/v1",
        "http://localhost/v1",
        "http://a.localhost/v1",
    ):
        assert resolve(url, None, environ={}).base_url == url
    config = resolve("http://images.example.com/v1", None, allow_http=True, environ={})
    assert config.base_url == "http://images.example.com/v1"
    with pytest.raises(ConfigurationError, match="cdn_url"):
        resolve("https://h/v1", None, cdn_url="http://h/img", environ={})


@given(st.ip_addresses())
def test_loopback_ip_addresses_are_recognised(url: object) -> None:
    assert is_loopback(str(url)) == getattr(url, "is_loopback", None)


@pytest.mark.parametrize("token", ["a b", "a\nb", "ü"])
def test_an_invalid_token_is_rejected_and_not_in_the_error(token: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        resolve("https://h/v1", token, environ={})
    assert token not in str(caught.value)


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("inf"), float("nan")])
def test_an_invalid_timeout_is_rejected(seconds: float) -> None:
    with pytest.raises(ConfigurationError, match="timeout"):
        resolve("https://h/v1", None, timeout=seconds, environ={})
    assert resolve("https://h/v1", None, timeout=None, environ={}).timeout is None


def test_a_negative_number_of_retries_is_rejected() -> None:
    with pytest.raises(ValueError, match="max_retries"):
        resolve("https://h/v1", None, max_retries=-1, environ={})


def test_no_repr_contains_the_token() -> None:
    client = Client("https://h/v1", TOKEN)
    texts = [repr(client), repr(client.config), repr(client.config.token), str(client.config.token)]
    texts += [repr(vars(client)), repr(AsyncClient("https://h/v1", TOKEN))]
    assert [text for text in texts if TOKEN in text] == []
    client.close()


def test_no_traceback_with_local_variables_contains_the_token() -> None:
    with Client("http://127.0.0.1:9/v1", TOKEN, max_retries=0) as client:
        try:
            client.images.get("x")
        except Exception as error:
            text = "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())
    assert "APIConnectionError" in text
    assert TOKEN not in text


def test_a_secret_cannot_be_pickled_and_its_hint_is_short() -> None:
    secret = Secret(TOKEN)
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    with pytest.raises(TypeError):
        copy.deepcopy(secret)
    assert secret.hint() == "ihk_01…"
    assert Secret("short").hint() == "***"


def test_only_listed_headers_are_logged() -> None:
    headers = {"Authorization": "Bearer x", "Set-Cookie": "a=b", "X-Request-Id": "r", "X-Other": "1"}
    assert redact_headers(headers) == {"x-request-id": "r"}
    assert redact_headers(headers.items()) == {"x-request-id": "r"}
    assert not {"authorization", "cookie", "set-cookie"} & LOGGED_HEADERS


def test_passwords_and_signatures_in_urls_are_redacted() -> None:
    assert redact_url("https://u:p@h/a?w=3&sig=abc&b=#f") == "https://h/a?w=3&sig=***&b="


class CountingHost(FakeImageHost):
    """A host that counts how often its transport is closed."""

    closed = 0

    def close(self) -> None:
        self.closed += 1


def test_with_options_returns_a_client_that_shares_connections() -> None:
    host = CountingHost()
    client = host.client()
    other = client.with_options(timeout=1, deadline=2, max_retries=0, pace=True)
    assert (other.config.timeout, other.config.deadline, other.config.retry.max_retries) == (1, 2, 0)
    assert other.config.pace
    assert client.with_options().config == client.config
    assert other.images is not client.images
    other.close()
    assert host.closed == 0
    assert other.account().usage.images == 0
    client.close()
    assert host.closed == 1
    with pytest.raises(RuntimeError, match="closed"):
        other.account()
