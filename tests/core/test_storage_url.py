"""URLs of image stores."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.settings import (
    SettingsError,
    StorageProvider,
    StorageSettings,
    StorageUrl,
    parse_storage_url,
    settings_from_environment,
)

NAMES = st.from_regex(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", fullmatch=True)
SEGMENTS = st.from_regex(r"[A-Za-z0-9._-]{1,20}", fullmatch=True).filter(lambda text: text not in {".", ".."})
ENDPOINTS = st.builds(
    "{}://{}:{}".format,
    st.sampled_from(["http", "https"]),
    st.sampled_from(["127.0.0.1", "[::1]", "s3.example.org"]),
    st.integers(0, 65_535),
)


@given(
    st.builds(
        StorageUrl,
        provider=st.sampled_from(StorageProvider),
        bucket=NAMES,
        prefix=st.lists(SEGMENTS, max_size=3).map("/".join),
        endpoint=st.none() | ENDPOINTS,
        region=st.none() | st.just("eu-central-1"),
    )
)
def test_the_text_of_a_url_is_parsed_as_the_same_url(url: StorageUrl) -> None:
    assert parse_storage_url(str(url)) == url


@given(st.text() | st.text().map("s3://".__add__) | st.text().map("s3://bucket/".__add__))
def test_a_text_is_a_url_without_credentials_or_an_error(text: str) -> None:
    try:
        url = parse_storage_url(text)
    except ValueError:
        return
    if url is not None:
        assert "@" not in str(url)
        assert not {"", ".", ".."} & set(url.prefix.split("/")) or not url.prefix
        assert parse_storage_url(str(url)) == url


def test_the_folder_is_no_object_store() -> None:
    assert parse_storage_url(StorageSettings().url) is None


def test_a_slash_at_the_end_means_nothing() -> None:
    assert parse_storage_url("s3://bucket/a/") == parse_storage_url("s3://bucket/a")
    assert parse_storage_url("s3://bucket/") == parse_storage_url("s3://bucket")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Folder",
        "bucket",
        "s3:/bucket",
        "ftp://bucket",
        "s3://",
        "s3://ab",
        "s3://bucket//a",
        "s3://bucket/../a",
        "s3://bucket/a b",
        "s3://bucket/a%2Fb",
        "s3://bucket/ä",
        "s3://bucket#a",
        "s3://bucket:80/a",
        "s3://bucket?endpoint=",
        "s3://bucket?endpoint=ftp://127.0.0.1",
        "s3://bucket?endpoint=http://user@127.0.0.1",
        "s3://bucket?endpoint=http://127.0.0.1:99999",
        "s3://bucket?endpoint=http://a&endpoint=http://b",
        "s3://bucket?region=EU",
        "s3://bucket?secret=x",
        "s3://bucket?x",
    ],
)
def test_other_texts_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_storage_url(text)
    with pytest.raises(ValueError, match=r"expected .* for url but received another value"):
        StorageSettings(url=text)


def test_a_url_with_credentials_is_rejected_and_not_repeated() -> None:
    with pytest.raises(SettingsError, match="expected a URL without credentials") as caught:
        settings_from_environment({"IMAGEHOST_STORAGE": "s3://key:hunter2@bucket/prefix"})
    assert "hunter2" not in str(caught.value)
    assert "IMAGEHOST_STORAGE" in str(caught.value)
