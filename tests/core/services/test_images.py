"""Images: get, list, iterate, update, gallery, owners and references."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
from tests.open_host import open_host

from imagehost_core import BadRequestError, Image, ImageHost, NotFoundError, UploadOptions, ValidationError
from imagehost_core.testing import FrozenClock, make_image

PNG = make_image(40, 30)


@pytest.fixture(scope="module")
def image(host: ImageHost) -> Image:
    """An image of the account `admin`."""
    return host.upload(PNG, owner="admin", filename="cat.png", convert_to_webp=False)


def test_another_accounts_image_is_the_same_404_as_a_missing_image(host: ImageHost, image: Image) -> None:
    other = host.accounts.get_or_create("other")
    assert host.images.get(image.id) == host.images.get(image.id, owner="admin") == image
    assert host.images.get(image.id, owner=host.accounts.get("admin")) == image
    for owner in (other, "other", "nobody"):
        with pytest.raises(NotFoundError):
            host.images.get(image.id, owner=owner)
    with pytest.raises(NotFoundError):
        host.images.get("not an id")


def test_given_fields_are_changed_and_the_others_stay(host: ImageHost) -> None:
    image = host.upload(PNG, owner="admin", filename="cat.png", description="old", convert_to_webp=False)
    album = host.albums.create(owner="admin", name="a")
    changed = host.images.update(image.id, owner="admin", description="new")
    assert (changed.description, changed.filename, changed.is_public) == ("new", "cat.png", True)
    assert changed.updated_at > image.updated_at
    assert changed.created_at == image.created_at
    assert host.images.update(image.id, album_id=str(album.id)).album_id == album.id
    assert host.images.update(image.id, is_public=False).album_id == album.id
    assert host.images.update(image.id, album_id=None).album_id is None
    assert host.images.get(image.id) == host.images.list(owner="admin").items[0]


def test_an_update_that_changes_nothing_writes_nothing(host: ImageHost) -> None:
    album = host.albums.create(owner="admin", name="a")
    image = host.upload(PNG, owner="admin", filename="cat.png", album_id=album.id, convert_to_webp=False)
    album = host.albums.get(album.id, owner="admin")
    assert host.images.update(image.id) == image
    same = host.images.update(
        image.id, album_id=str(album.id), description="", is_public=True, filename="../cat.jpg"
    )
    assert same == host.images.get(image.id) == image
    assert host.albums.get(album.id, owner="admin") == album


@pytest.mark.parametrize(
    ("given", "stored"),
    [("dog.png", "dog.png"), ("../etc/dog", "dog.png"), ("dog.jpg", "dog.png"), ("a\nb.PNG", "ab.PNG")],
)
def test_a_new_filename_is_cleaned_and_gets_the_extension_of_the_stored_format(
    host: ImageHost, given: str, stored: str
) -> None:
    image = host.upload(PNG, owner="admin", filename="cat.png", convert_to_webp=False)
    assert host.images.update(image.id, filename=given).filename == stored
    assert host.images.get(image.id).original_filename == "cat.png"


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"description": "x" * 2_001}, "description"),
        ({"description": None}, "description"),
        ({"is_public": "true"}, "is_public"),
        ({"is_public": None}, "is_public"),
        ({"filename": " "}, "filename"),
        ({"filename": None}, "filename"),
        ({"album_id": "x"}, "album_id"),
        ({"album_id": 0}, "album_id"),
        ({"album_id": 10**9}, "album_id"),
        ({"album_id": True}, "album_id"),
    ],
)
def test_a_wrong_value_is_422_and_nothing_is_changed(
    host: ImageHost, image: Image, changes: dict[str, object], named: str
) -> None:
    before = host.images.get(image.id)
    with pytest.raises(ValidationError, match=f"for {named}"):
        host.images.update(image.id, **changes)  # type: ignore[arg-type]
    assert host.images.get(image.id) == before


def test_all_errors_are_reported_together(host: ImageHost, image: Image) -> None:
    with pytest.raises(ValidationError) as caught:
        host.images.update(image.id, album_id="x", description="\0", is_public=1, filename="")  # type: ignore[arg-type]
    assert [fault.name for fault in caught.value.errors] == [
        "album_id",
        "description",
        "is_public",
        "filename",
    ]


def test_another_accounts_album_is_422(host: ImageHost, image: Image) -> None:
    foreign = host.albums.create(owner=host.accounts.get_or_create("stranger"), name="theirs")
    with pytest.raises(ValidationError, match="album_id"):
        host.images.update(image.id, album_id=foreign.id)


def test_a_field_that_cannot_be_changed_is_a_type_error(host: ImageHost, image: Image) -> None:
    with pytest.raises(TypeError, match="sha256"):
        host.images.update(image.id, sha256="0")  # type: ignore[call-arg]


def test_updating_another_accounts_image_is_404(host: ImageHost, image: Image) -> None:
    with pytest.raises(NotFoundError):
        host.images.update(image.id, owner=host.accounts.get_or_create("other"), description="mine")


def test_a_list_of_an_unknown_or_foreign_album_is_404_and_of_a_misshapen_one_400(host: ImageHost) -> None:
    foreign = host.albums.create(owner=host.accounts.get_or_create("stranger"), name="theirs")
    for album_id in (foreign.id, 10**9):
        with pytest.raises(NotFoundError):
            host.images.list(owner="admin", album_id=album_id)
    for malformed in ("x", 0, -1, "01"):
        with pytest.raises(BadRequestError):
            host.images.list(owner="admin", album_id=malformed)


def test_lists_are_newest_first_and_paged_by_page_and_cursor(
    tmp_path: Path, opened: Callable[..., ImageHost]
) -> None:
    clock = FrozenClock()
    host = opened()
    with open_host(tmp_path / "data", settings=host.settings, clock=clock) as timed:
        created = []
        for number in range(7):
            clock.advance(seconds=number % 2)
            created.append(timed.upload(PNG, owner="admin", is_public=number != 3))
        expected = [each.id for each in sorted(created, key=lambda each: (each.created_at, each.id))[::-1]]
        pages = [timed.images.list(owner="admin", page=page, per_page=3) for page in (1, 2, 3, 4)]
        assert [each.id for page in pages for each in page] == expected
        assert {(page.total, page.total_pages) for page in pages} == {(7, 3)}
        walked, cursor = list(pages[0]), pages[0].next_cursor
        timed.images.delete(walked[-1].id)
        clock.advance(seconds=5)
        timed.upload(PNG, owner="admin")
        while cursor is not None:
            page = timed.images.list(owner="admin", per_page=3, cursor=cursor)
            walked += page
            cursor = page.next_cursor
        assert [each.id for each in walked] == expected
        assert created[3].id not in [each.id for each in timed.gallery(per_page=100)]
        assert created[0].created_at - clock.now < timedelta(0)


def test_the_gallery_has_the_public_images_of_all_accounts(
    opened: Callable[..., ImageHost],
) -> None:
    host = opened()
    first, second = (host.upload(PNG, owner=host.accounts.get_or_create(name)) for name in ("one", "two"))
    assert [each.id for each in host.gallery()] == [second.id, first.id]
    host.images.update(second.id, is_public=False)
    assert [each.id for each in host.gallery()] == [first.id]


def test_an_account_without_images_has_an_empty_list(host: ImageHost) -> None:
    assert len(host.images.list(owner=host.accounts.get_or_create("without-images"))) == 0


def test_get_or_create_called_by_several_threads_creates_one_account(host: ImageHost) -> None:
    with ThreadPoolExecutor(8) as executor:
        ids = list(executor.map(lambda _turn: host.accounts.get_or_create("twin").id, range(8)))
    assert len(set(ids)) == 1


def test_an_owner_that_does_not_exist_is_404_in_every_method(host: ImageHost, image: Image) -> None:
    album = host.albums.create(owner="admin", name="one")
    key = host.keys.create(owner="admin")
    calls: list[Callable[[], object]] = [
        lambda: host.upload(PNG, owner="missing"),
        lambda: host.images.get(image, owner="missing"),
        lambda: host.images.list(owner="missing"),
        lambda: next(host.images.iter(owner="missing")),
        lambda: host.images.update(image, owner="missing", description="x"),
        lambda: host.images.delete(image, owner="missing"),
        lambda: host.images.signed_url(image, owner="missing"),
        lambda: host.albums.create(owner="missing", name="x"),
        lambda: host.albums.list(owner="missing"),
        lambda: host.albums.get(album, owner="missing"),
        lambda: host.albums.update(album, owner="missing", name="x"),
        lambda: host.albums.add_images(album, [image], owner="missing"),
        lambda: host.albums.remove_images(album, [image], owner="missing"),
        lambda: host.albums.delete(album, owner="missing"),
        lambda: host.keys.create(owner="missing"),
        lambda: host.keys.list(owner="missing"),
        lambda: host.keys.get(key, owner="missing"),
        lambda: host.keys.update(key, owner="missing", name="x"),
        lambda: host.keys.delete(key, owner="missing"),
        lambda: host.webhooks.create(owner="missing", url="https://8.8.8.8/"),
        lambda: host.webhooks.list(owner="missing"),
        lambda: host.accounts.get("missing"),
    ]
    for call in calls:
        with pytest.raises(NotFoundError, match="of an account but received 'missing'"):
            call()


def test_a_record_is_accepted_wherever_an_id_is(host: ImageHost) -> None:
    image, album = host.upload(PNG, owner="admin"), host.albums.create(owner="admin", name="one")
    assert host.images.get(image) == image
    assert host.render(image, "w=10").width == 10
    assert image.id in host.images.signed_url(image).url
    host.albums.add_images(album, [image], owner="admin")
    assert [each.id for each in host.images.list(owner="admin", album_id=album)] == [image.id]
    key = host.keys.create(owner="admin")
    assert host.keys.delete(key, owner="admin").id == key.id
    webhook = host.webhooks.create(owner="admin", url="https://8.8.8.8/")
    delivery = host.webhooks.test(webhook, owner="admin")
    assert host.webhooks.retry(webhook, delivery, owner="admin").id == delivery.id
    host.albums.delete(album, owner="admin")
    host.images.delete(image)


def test_iter_yields_every_image_once_while_images_are_added_and_deleted(host: ImageHost) -> None:
    owner = host.accounts.get_or_create("iterating")
    stored = [host.upload(PNG, owner=owner) for _ in range(7)]
    images = host.images.iter(owner=owner, per_page=2)
    seen = [next(images).id, next(images).id]
    host.images.delete(stored[-1])
    host.upload(PNG, owner=owner)
    seen += [each.id for each in images]
    assert seen == [each.id for each in reversed(stored)]


def test_options_together_with_keywords_are_a_type_error(host: ImageHost) -> None:
    with pytest.raises(TypeError, match="quality"):
        host.upload(PNG, owner="admin", options=UploadOptions(), quality=50)
