"""All errors of a request are reported together, with the first of 400, 404 and 422 as the status."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from imagehost_core import Account, Image, ImageHost, ImageHostError, NotFoundError, ValidationError
from imagehost_core.errors import ErrorCollector
from imagehost_core.testing import make_image

PAST = datetime(2020, 1, 1, tzinfo=UTC)
MISSING = "0000000000000000"
LONG = "x" * 2_001

INVALID_ALBUM: dict[str, object] = {"name": "", "description": LONG, "is_public": "yes"}
INVALID_IMAGE: dict[str, object] = {
    "album_id": 10**9,
    "description": LONG,
    "is_public": 1,
    "filename": " ",
}
INVALID_KEY: dict[str, object] = {"name": "x" * 101, "scopes": ["images:paint"], "expires_at": PAST}
INVALID_WEBHOOK: dict[str, object] = {
    "url": "http://example.com",
    "events": ["image.painted"],
    "description": LONG,
}
VALID: dict[str, object] = {
    "album_id": None,
    "description": "",
    "is_public": True,
    "filename": "cat.png",
    "name": "cats",
    "scopes": ["images:read"],
    "expires_at": None,
    "url": "https://8.8.8.8/",
    "events": ["image.deleted"],
}


@pytest.fixture(scope="module")
def image(host: ImageHost) -> Image:
    """An image of the account `admin`."""
    return host.upload(make_image(40, 30), owner="admin", filename="cat.png")


@pytest.fixture(scope="module")
def stranger(host: ImageHost) -> Account:
    """An account that owns nothing."""
    return host.accounts.get_or_create("stranger")


Call = Callable[..., object]


def caught(call: Call, *arguments: object, **keywords: object) -> ImageHostError:
    with pytest.raises(ImageHostError) as error:
        call(*arguments, **keywords)
    return error.value


def names(error: ImageHostError) -> list[str]:
    return sorted(each.name for each in error.errors)


def creators(host: ImageHost) -> dict[str, tuple[Call, Mapping[str, object]]]:
    return {
        "albums": (host.albums.create, INVALID_ALBUM),
        "keys": (host.keys.create, INVALID_KEY),
        "webhooks": (host.webhooks.create, INVALID_WEBHOOK),
    }


def changers(host: ImageHost, image: Image) -> dict[str, tuple[Call, str | int, Mapping[str, object]]]:
    album = host.albums.create(owner="admin", name="one")
    key = host.keys.create(owner="admin")
    webhook = host.webhooks.create(owner="admin", url="https://8.8.8.8/")
    return {
        "albums": (host.albums.update, album.id, INVALID_ALBUM),
        "images": (host.images.update, image.id, INVALID_IMAGE),
        "keys": (host.keys.update, key.id, INVALID_KEY),
        "webhooks": (host.webhooks.update, webhook.id, {**INVALID_WEBHOOK, "is_active": 1}),
    }


RESOURCES = ("albums", "images", "keys", "webhooks")


@pytest.mark.parametrize("resource", ["albums", "keys", "webhooks"])
def test_creating_reports_every_value_that_is_not_allowed(host: ImageHost, resource: str) -> None:
    create, invalid = creators(host)[resource]
    error = caught(create, owner="admin", **invalid)
    assert type(error) is ValidationError
    assert names(error) == sorted(invalid)


@pytest.mark.parametrize("resource", RESOURCES)
def test_updating_a_missing_resource_is_404_and_also_reports_every_value(
    host: ImageHost, image: Image, resource: str
) -> None:
    update, _, invalid = changers(host, image)[resource]
    missing = 10**9 if resource == "albums" else MISSING
    error = caught(update, missing, owner="admin", **invalid)
    assert type(error) is NotFoundError
    assert f"received {missing!r}" in error.details
    assert names(error) == sorted(invalid)


@pytest.mark.parametrize("resource", RESOURCES)
def test_updating_another_accounts_resource_reports_the_same_as_a_missing_one(
    host: ImageHost, image: Image, stranger: Account, resource: str
) -> None:
    update, foreign, invalid = changers(host, image)[resource]
    missing = 10**9 if resource == "albums" else MISSING
    errors = [caught(update, ref, owner=stranger, **invalid) for ref in (foreign, missing)]
    assert {type(error) for error in errors} == {NotFoundError}
    first, second = (error.details for error in errors)
    assert first.replace(f"received {foreign!r};", "ID") == second.replace(f"received {missing!r};", "ID")


@pytest.mark.parametrize("resource", RESOURCES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_the_details_name_exactly_the_values_that_are_not_allowed(
    host: ImageHost, image: Image, resource: str, data: st.DataObject
) -> None:
    update, ref, invalid = changers(host, image)[resource]
    wrong = data.draw(st.lists(st.sampled_from(sorted(invalid)), min_size=1, unique=True))
    changes = {name: invalid[name] if name in wrong else VALID.get(name, True) for name in invalid}
    error = caught(update, ref, owner="admin", **changes)
    assert {each.name for each in error.errors} == set(wrong)


def test_a_missing_image_and_the_album_of_another_account_are_reported_together(
    host: ImageHost, stranger: Account
) -> None:
    foreign = host.albums.create(owner="admin", name="theirs")
    error = caught(host.images.update, MISSING, owner=stranger, album_id=foreign.id)
    assert type(error) is NotFoundError
    assert MISSING in error.details
    assert names(error) == sorted(["album_id"])


@pytest.mark.parametrize("images", [[], ["x"] * 1_001, [5], "abc", 7])
def test_membership_of_a_missing_album_also_reports_the_images(host: ImageHost, images: object) -> None:
    for change in (host.albums.add_images, host.albums.remove_images):
        error = caught(change, 10**9, images, owner="admin")
        assert type(error) is NotFoundError
        assert "image_ids" in error.details


def test_signing_reports_the_image_the_parameters_and_the_lifetime(host: ImageHost, image: Image) -> None:
    params = {"w": "0", "h": "x", "q": "101", "fit": "crop", "fm": "bmp"}
    error = caught(host.images.signed_url, MISSING, params, owner="admin", expires_in=0)
    assert type(error) is NotFoundError
    assert MISSING in error.details
    assert names(error) == sorted([*params, "expires_in"])
    known = caught(host.images.signed_url, image, params, expires_in=0)
    assert (type(known), known.errors) == (ValidationError, error.errors)


def test_signing_reports_an_output_that_is_not_possible_with_the_lifetime(
    host: ImageHost, image: Image
) -> None:
    error = caught(host.images.signed_url, image, "w=8192&h=8192", expires_in=0)
    assert type(error) is ValidationError
    assert names(error) == sorted(["the output", "expires_in"])


def test_a_webhook_too_many_is_reported_with_the_values(host: ImageHost) -> None:
    owner = host.accounts.get_or_create("subscriber")
    for _ in range(100):
        host.webhooks.create(owner=owner, url="https://8.8.8.8/")
    error = caught(host.webhooks.create, owner=owner, **INVALID_WEBHOOK)
    assert names(error) == sorted([*INVALID_WEBHOOK, "webhooks"])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", 5),
        ("name", "\0"),
        ("scopes", 5),
        ("scopes", "images:read"),
        ("scopes", [[]]),
        ("scopes", []),
        ("expires_at", "tomorrow"),
        ("expires_at", datetime(2990, 1, 1)),
    ],
)
def test_a_key_field_of_another_type_is_422(host: ImageHost, field: str, value: object) -> None:
    error = caught(host.keys.create, owner="admin", **{field: value})
    assert type(error) is ValidationError
    assert names(error) == sorted([field])


def test_a_key_field_that_does_not_exist_is_a_type_error(host: ImageHost) -> None:
    key = host.keys.create(owner="admin")
    with pytest.raises(TypeError, match="prefix"):
        host.keys.update(key, owner="admin", prefix="ihk_")  # type: ignore[call-arg]


def test_a_collector_can_be_used_by_embedding_programs(host: ImageHost) -> None:
    errors = ErrorCollector()
    with errors.catch():
        host.images.get(MISSING)
    with errors.catch():
        host.albums.create(owner="admin", name="")
    with pytest.raises(NotFoundError, match=rf"{MISSING}.*for name"):
        errors.raise_if_any()
