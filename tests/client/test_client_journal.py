"""The journal of a batch upload: resuming, its owner, and images that were deleted since."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.client.conftest import Caller, delete_images, stored_images, without_delays

from imagehost_client import (
    APIConnectionError,
    Client,
    ConfigurationError,
    ForbiddenError,
    Scope,
    UnauthorizedError,
    UploadResult,
)
from imagehost_client._journal import FinishedUpload
from imagehost_client._resumption import find_images
from imagehost_client.testing import FakeImageHost, make_png


def client_with_token(host: FakeImageHost, token: str) -> Client:
    """Return a client of the host without delays."""
    return without_delays(Client(host.base_url, token, transport=host))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A directory of two images."""
    directory = tmp_path / "photos"
    directory.mkdir()
    for number in range(2):
        (directory / f"{number}.png").write_bytes(make_png(number + 1, 1))
    return directory


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """The path of a journal that does not exist yet."""
    return tmp_path / "journal"


class StopError(Exception):
    """The exception that interrupts a batch."""


def test_an_interrupted_batch_resumes_without_duplicates(
    call: Caller, host: FakeImageHost, tmp_path: Path
) -> None:
    for number in range(6):
        (tmp_path / f"{number}.png").write_bytes(make_png(number + 1, 1))
    journal = tmp_path / "journal"
    results_before: list[UploadResult] = []

    def stop(result: UploadResult) -> None:
        results_before.append(result)
        if len(results_before) == 3:
            raise StopError

    with pytest.raises(StopError):
        call(lambda client: client.upload_many(tmp_path, journal=journal, parallel=1, on_result=stop))
    results = call(lambda client: client.upload_many(tmp_path, journal=journal))
    assert [result.image.width for result in results] == [1, 2, 3, 4, 5, 6]
    assert sum(result.resumed for result in results) >= 3
    assert len(stored_images(host)) == 6
    repeated = call(lambda client: client.upload_many(tmp_path, journal=journal))
    assert [result.image for result in repeated] == [result.image for result in results]
    assert all(result.resumed for result in repeated)


def test_an_upload_with_a_lost_response_is_repeated_with_its_key(host: FakeImageHost, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(make_png())
    journal = tmp_path / "journal"
    with without_delays(host.client()) as client:
        first = client.upload_many(tmp_path, journal=journal)[0].unwrap()
        lines = journal.read_text().split("\n")
        journal.write_text(
            "\n".join(line for line in lines if "finished" not in line) + '{"finished": "truncated'
        )
        result = client.upload_many(tmp_path, journal=journal)[0]
    assert result.image == first
    assert result.image is not None
    assert result.image.meta.replayed
    assert not result.resumed


def test_the_keys_of_a_batch_come_from_the_random_source_of_the_client(
    host: FakeImageHost, tmp_path: Path
) -> None:
    (tmp_path / "a.png").write_bytes(make_png())
    journal = tmp_path / "journal"
    with without_delays(host.client()) as client:
        client.environment.new_key = lambda: "a key of the test"
        client.upload_many(tmp_path / "a.png", journal=journal)
    assert '"key": "a key of the test"' in journal.read_text()


def test_a_changed_file_or_other_options_are_uploaded_again(host: FakeImageHost, tmp_path: Path) -> None:
    path, journal = tmp_path / "a.png", tmp_path / "journal"
    path.write_bytes(make_png(1, 1))
    with without_delays(host.client()) as client:
        client.upload_many(path, journal=journal)
        assert not client.upload_many(path, journal=journal, is_public=False)[0].resumed
        path.write_bytes(make_png(2, 1))
        assert not client.upload_many(path, journal=journal)[0].resumed
        os.utime(path, (1, 1))
        assert not client.upload_many(path, journal=journal)[0].resumed
    assert len(stored_images(host)) == 4


def test_sources_other_than_paths_are_not_in_the_journal(host: FakeImageHost, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    with without_delays(host.client()) as client:
        results = client.upload_many([make_png(), tmp_path / "missing.png"], journal=journal)
    assert [result.error is None for result in results] == [True, False]
    assert [list(json.loads(line)) for line in journal.read_text().splitlines() if line] == [
        ["journal", "base_url", "account", "token_sha256"]
    ]


@pytest.mark.parametrize(
    "line", ["7", "[]", '{"started": []}', '{"finished": "x", "image": {}}', '{"finished": "x"}', "\x00"]
)
def test_an_invalid_line_of_a_journal_is_ignored(
    line: str, host: FakeImageHost, photos: Path, journal: Path
) -> None:
    with without_delays(host.client()) as client:
        client.upload_many([], journal=journal)
        journal.write_text(journal.read_text() + line)
        assert client.upload_many(photos, journal=journal)[0].error is None
        assert [result.resumed for result in client.upload_many(photos, journal=journal)] == [True, True]


@pytest.mark.parametrize(
    ("text", "received"),
    [
        ("7\n", "without"),
        ("my notes\n", "without"),
        ('{"started": "x", "key": "y"}\n', "without"),
        ('{"journal": 3}\n', "without"),
        ('{"journal": 2}\n', "version 2"),
        ('{"journal": 4, "base_url": "x"}\n', "version 4"),
        ('{"journal": 1}', "version 1"),
    ],
)
def test_a_file_that_is_not_a_journal_of_this_version_is_refused_and_unchanged(
    text: str, received: str, call: Caller, host: FakeImageHost, photos: Path, journal: Path
) -> None:
    journal.write_text(text)
    with pytest.raises(ConfigurationError, match=f"expected a journal of version 3 .* {received}"):
        call(lambda client: client.upload_many(photos, journal=journal))
    assert (host.requests, journal.read_text()) == ([], text)


def test_a_journal_of_another_account_is_refused(
    call: Caller, host: FakeImageHost, photos: Path, journal: Path
) -> None:
    call(lambda client: client.upload_many(photos, journal=journal))
    with (
        client_with_token(host, host.add_account("bob")) as other,
        pytest.raises(ConfigurationError, match=r"'bob' .* received one of account 'admin'"),
    ):
        other.upload_many(photos, journal=journal)
    assert stored_images(host, "bob") == []


def test_a_journal_of_another_host_is_refused(call: Caller, photos: Path, journal: Path) -> None:
    call(lambda client: client.upload_many(photos, journal=journal))
    other_host = FakeImageHost(base_url="https://other.example.com/v1")
    with (
        without_delays(other_host.client()) as other,
        pytest.raises(ConfigurationError, match=r"other\.example\.com"),
    ):
        other.upload_many(photos, journal=journal)
    assert stored_images(other_host) == []


def test_a_new_token_of_the_same_account_continues_its_journal(
    host: FakeImageHost, photos: Path, journal: Path
) -> None:
    with without_delays(host.client()) as client:
        client.upload_many(photos, journal=journal)
        session = client.sessions.create("admin", "secret")
    with client_with_token(host, session.token) as client:
        assert all(result.resumed for result in client.upload_many(photos, journal=journal))


def client_with_scopes(host: FakeImageHost, *scopes: Scope) -> Client:
    with host.client() as owner:
        token = owner.keys.create("key", scopes=scopes).token
    return client_with_token(host, token)


def test_a_journal_of_a_token_without_the_scope_account_read_is_bound_to_the_token(
    host: FakeImageHost, photos: Path, journal: Path
) -> None:
    scopes: tuple[Scope, ...] = ("images:write", "images:read")
    with client_with_scopes(host, *scopes) as client:
        client.upload_many(photos, journal=journal)
        assert all(result.resumed for result in client.upload_many(photos, journal=journal))
    assert json.loads(journal.read_text().split("\n")[1])["account"] is None
    with (
        client_with_scopes(host, *scopes) as other,
        pytest.raises(ConfigurationError, match="expected a journal of a token on"),
    ):
        other.upload_many(photos, journal=journal)


def test_the_journal_contains_no_token(host: FakeImageHost, photos: Path, journal: Path) -> None:
    with without_delays(host.client()) as client:
        client.upload_many(photos, journal=journal)
    assert host.accounts["admin"] not in journal.read_text()


@pytest.mark.parametrize("has_journal", [False, True])
def test_with_an_invalid_token_every_result_is_an_error(
    has_journal: bool, call: Caller, host: FakeImageHost, photos: Path, journal: Path
) -> None:
    if has_journal:
        call(lambda client: client.upload_many(photos, journal=journal))
    before = journal.read_text() if has_journal else ""
    with client_with_token(host, "ihk_wrong") as client:
        results = client.upload_many(photos, journal=journal)
    assert [(type(result.error), result.attempted) for result in results] == [(UnauthorizedError, False)] * 2
    assert journal.read_text().strip() == before.strip()


def test_with_a_host_that_is_down_every_result_is_an_error(
    call: Caller, host: FakeImageHost, photos: Path, journal: Path
) -> None:
    call(lambda client: client.upload_many(photos, journal=journal))
    host.drop(times=4)
    results = call(lambda client: client.upload_many(photos, journal=journal))
    assert [(type(result.error), result.image) for result in results] == [(APIConnectionError, None)] * 2


def test_a_host_that_fails_while_images_are_checked_is_an_error_of_finished_files_only(
    call: Caller, host: FakeImageHost, photos: Path, journal: Path
) -> None:
    call(lambda client: client.upload_many(photos, journal=journal))
    (photos / "2.png").write_bytes(make_png(3, 1))
    delete_images(host)
    with client_with_scopes(host, "account:read", "images:write") as client:
        results = client.upload_many(photos, journal=journal)
    assert [(type(result.error), result.attempted) for result in results] == [
        (ForbiddenError, False),
        (ForbiddenError, False),
        (type(None), True),
    ]


def test_deleted_images_are_uploaded_again_with_new_keys(
    call: Caller, host: FakeImageHost, photos: Path, journal: Path
) -> None:
    first, second = call(lambda client: client.upload_many(photos, journal=journal))
    call(lambda client: client.images.delete(first.image))
    host.requests.clear()
    results = call(lambda client: client.upload_many(photos, journal=journal))
    assert host.requests.count(("POST", "/upload")) == 1
    assert [result.resumed for result in results] == [False, True]
    assert results[0].image.id != first.image.id
    assert not results[0].image.meta.replayed
    assert results[1].image == second.image
    repeated = call(lambda client: client.upload_many(photos, journal=journal))
    assert [result.image for result in repeated] == [result.image for result in results]
    assert all(result.resumed for result in repeated)


def test_an_interrupted_upload_of_a_deleted_image_is_repeated_with_its_new_key(
    host: FakeImageHost, photos: Path, journal: Path
) -> None:
    path = photos / "0.png"
    with without_delays(host.client()) as client:
        client.images.delete(client.upload_many(path, journal=journal)[0].unwrap())
        image = client.upload_many(path, journal=journal)[0].unwrap()
        lines = journal.read_text().strip().splitlines()
        assert "finished" in lines[-1]
        journal.write_text("\n".join(lines[:-1]))
        assert client.upload_many(path, journal=journal)[0].image == image
    assert {image.id for image in stored_images(host)} == {image.id}


def test_an_image_that_was_deleted_after_its_response_was_lost_is_uploaded_again(
    call: Caller, host: FakeImageHost, photos: Path, journal: Path
) -> None:
    results = call(lambda client: client.upload_many(photos, journal=journal))
    lines = journal.read_text().splitlines()
    journal.write_text("\n".join(line for line in lines if "finished" not in line))
    call(lambda client: client.images.delete(results[0].image))
    repeated = call(lambda client: client.upload_many(photos, journal=journal))
    assert repeated[0].image.id != results[0].image.id
    assert repeated[1].image == results[1].image
    assert {image.id for image in stored_images(host)} == {result.image.id for result in repeated}


def test_a_token_for_uploads_only_repeats_an_upload_whose_response_was_lost(
    host: FakeImageHost, photos: Path, journal: Path
) -> None:
    with client_with_scopes(host, "images:write") as client:
        client.upload_many(photos, journal=journal)
        lines = journal.read_text().splitlines()
        journal.write_text("\n".join(line for line in lines if "finished" not in line))
        assert [result.error for result in client.upload_many(photos, journal=journal)] == [None, None]
    assert len(stored_images(host)) == 2


def test_the_current_record_of_a_finished_image_is_returned(
    call: Caller, host: FakeImageHost, photos: Path, journal: Path
) -> None:
    first = call(lambda client: client.upload_many(photos, journal=journal))[0].image
    changed = call(lambda client: client.images.update(first, description="New"))
    assert call(lambda client: client.upload_many(photos, journal=journal))[0].image == changed


def test_checking_many_finished_images_takes_a_request_for_a_hundred(
    host: FakeImageHost, photos: Path, journal: Path
) -> None:
    for number in range(2, 105):
        (photos / f"{number}.png").write_bytes(make_png(number + 1, 1))
    with without_delays(host.client()) as client:
        client.upload_many(photos, journal=journal)
        host.requests.clear()
        assert all(result.resumed for result in client.upload_many(photos, journal=journal))
    assert Counter(host.requests) == {("GET", "/account"): 1, ("GET", "/images"): 2}


@pytest.fixture(scope="module")
def module_host() -> FakeImageHost:
    """A host for all examples of Hypothesis."""
    return FakeImageHost()


@settings(max_examples=10, deadline=None)
@given(kinds=st.lists(st.sampled_from(["finished", "deleted", "other"]), max_size=12))
def test_exactly_the_existing_images_are_found_in_a_bounded_number_of_requests(
    kinds: list[str], module_host: FakeImageHost
) -> None:
    host = module_host
    with without_delays(host.client()) as client:
        images = [client.upload(make_png()) for _ in kinds]
        wanted = [image for image, kind in zip(images, kinds, strict=True) if kind != "other"]
        deleted = [image for image, kind in zip(images, kinds, strict=True) if kind == "deleted"]
        if deleted:
            client.images.delete_many(deleted)
        host.requests.clear()
        uploads = [FinishedUpload(image.id, image.created_at) for image in wanted]
        found: dict[str, Any] = client._run_calls(find_images(uploads))
    assert set(found) == {image.id for image in wanted} - {image.id for image in deleted}
    assert len(host.requests) <= 2 * len(wanted)
