"""Albums: records, membership, and consistent counts, covers and events under concurrent changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core import Album, Event, ImageHost, NotFoundError, ValidationError
from imagehost_core.events import AlbumUpdated
from imagehost_core.services.album_rules import MAX_ALBUM_NAME
from imagehost_core.services.albums import MAX_IMAGES_PER_REQUEST
from imagehost_core.testing import make_image
from imagehost_core.uploads import MAX_DESCRIPTION, has_visible_character

if TYPE_CHECKING:
    from tests.programs import Program

EACH_ENGINE = True

SMALL = make_image(8, 8)


@pytest.fixture
def album(host: ImageHost) -> Album:
    return host.albums.create(owner="admin", name="Cats")


@pytest.fixture
def heard(host: ImageHost) -> Iterator[list[Event]]:
    """Events that subscribers received."""
    events: list[Event] = []
    end = host.subscribe(events.append)
    yield events
    end()


def upload(host: ImageHost, album: Album | None = None, owner: str = "admin") -> str:
    return host.upload(SMALL, owner=owner, album_id=album.id if album else None, convert_to_webp=False).id


def refresh(host: ImageHost, album: Album) -> Album:
    return host.albums.get(album.id, owner="admin")


def check(host: ImageHost, album: Album) -> None:
    """Assert that count and cover of an album are those of its images."""
    shown = refresh(host, album)
    members = list(host.images.list(owner="admin", album_id=album.id, per_page=100))
    assert shown.image_count == len(members)
    assert shown.cover == (members[0] if members else None)


def test_a_new_album_is_empty_and_has_the_defaults(album: Album) -> None:
    assert (album.name, album.description, album.is_public) == ("Cats", "", True)
    assert (album.image_count, album.cover) == (0, None)
    assert album.created_at == album.updated_at


@given(st.text(max_size=MAX_ALBUM_NAME + 20))
def test_a_name_is_trimmed_and_has_1_to_100_characters(host: ImageHost, name: str) -> None:
    if has_visible_character(name) and len(name.strip()) <= MAX_ALBUM_NAME and "\0" not in name:
        assert host.albums.create(owner="admin", name=name).name == name.strip()
    else:
        with pytest.raises(ValidationError, match="name"):
            host.albums.create(owner="admin", name=name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        " \t",
        "\u200b",
        "\u2060\ufeff",
        "\x01\x7f",
        "\u202e",
        "\u3164",
        "\u2800",
        "\u200d",
        "\ufe0f",
        "\u0301",
    ],
)
def test_a_name_without_a_visible_character_is_422(host: ImageHost, album: Album, name: str) -> None:
    with pytest.raises(ValidationError, match="at least one of them visible, for name"):
        host.albums.create(owner="admin", name=name)
    with pytest.raises(ValidationError, match="at least one of them visible, for name"):
        host.albums.update(album.id, owner="admin", name=name)


@pytest.mark.parametrize(
    "name", [".", "猫", "\U0001f431", "❤\ufe0f", "می\u200cخواهم", "é", "e\u0301", "\U0001f3f4\u200d☠"]
)
def test_any_visible_character_is_a_name(host: ImageHost, name: str) -> None:
    assert host.albums.create(owner="admin", name=name).name == name


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b"])
def test_a_name_with_invalid_text_is_422(host: ImageHost, name: str) -> None:
    with pytest.raises(ValidationError, match="without NUL and lone surrogates for name"):
        host.albums.create(owner="admin", name=name)


def test_all_errors_of_an_album_are_reported_together(host: ImageHost) -> None:
    with pytest.raises(ValidationError) as caught:
        host.albums.create(owner="admin", name=" ", description="x" * (MAX_DESCRIPTION + 1), is_public=5)  # type: ignore[arg-type]
    assert [fault.name for fault in caught.value.errors] == ["name", "description", "is_public"]


def test_fields_that_are_not_given_stay(host: ImageHost, album: Album) -> None:
    changed = host.albums.update(album.id, owner="admin", description="all of them")
    assert (changed.name, changed.description) == ("Cats", "all of them")
    changed = host.albums.update(str(album.id), owner="admin", is_public=False)
    assert (changed.description, changed.is_public) == ("all of them", False)
    assert changed.updated_at > changed.created_at


def test_albums_are_paged_newest_first_while_others_change(host: ImageHost) -> None:
    host.accounts.create("walker")
    created = [host.albums.create(owner="walker", name=f"{number}").id for number in range(7)]
    first = host.albums.list(owner="walker", per_page=3)
    assert (first.total, first.total_pages) == (7, 3)
    host.albums.delete(created[6], owner="walker")
    host.albums.create(owner="walker", name="new")
    walked = [album.id for album in first]
    cursor = first.next_cursor
    while cursor:
        page = host.albums.list(owner="walker", per_page=3, cursor=cursor)
        walked += [album.id for album in page]
        cursor = page.next_cursor
    assert walked == created[::-1]


ALBUM_REQUESTS: dict[str, Callable[[ImageHost, int, str], object]] = {
    "get": lambda host, album_id, owner: host.albums.get(album_id, owner=owner),
    "update": lambda host, album_id, owner: host.albums.update(album_id, owner=owner, name="mine"),
    "delete": lambda host, album_id, owner: host.albums.delete(album_id, owner=owner),
    "add": lambda host, album_id, owner: host.albums.add_images(album_id, ["x"], owner=owner),
    "remove": lambda host, album_id, owner: host.albums.remove_images(album_id, ["x"], owner=owner),
    "share": lambda host, album_id, owner: host.albums.create_share(album_id, owner=owner),
    "shares": lambda host, album_id, owner: host.albums.list_shares(album_id, owner=owner),
    "end share": lambda host, album_id, owner: host.albums.delete_share(album_id, "x", owner=owner),
    "images": lambda host, album_id, owner: host.images.list(owner=owner, album_id=album_id),
}


@pytest.mark.parametrize("request_name", ALBUM_REQUESTS)
def test_the_album_of_another_account_is_the_same_404_as_a_missing_one(
    host: ImageHost, album: Album, request_name: str
) -> None:
    host.accounts.get_or_create("bob")
    refusals = []
    for album_id in (album.id, 2**40):
        with pytest.raises(NotFoundError) as refused:
            ALBUM_REQUESTS[request_name](host, album_id, "bob")
        refusals.append(refused.value.details.replace(str(album_id), "ID"))
    assert refusals[0] == refusals[1]
    assert refresh(host, album) == album


def test_each_id_of_a_membership_request_has_its_result_in_order(host: ImageHost, album: Album) -> None:
    host.accounts.create("ann")
    new, member, foreign = upload(host), upload(host, album), upload(host, owner="ann")
    requested = [member, "nothing", new, foreign, new, "\0", "x" * 5_000]
    added = host.albums.add_images(album.id, requested, owner="admin")
    now = added.album
    assert [(result.image_id, result.status) for result in added.results] == [
        (member, "unchanged"),
        ("nothing", "not_found"),
        (new, "added"),
        (foreign, "not_found"),
        ("\0", "not_found"),
        ("x" * 5_000, "not_found"),
    ]
    assert (now.image_count, now.cover and now.cover.id) == (2, member)
    removed = host.albums.remove_images(album.id, [member, "nothing", foreign], owner="admin")
    now = removed.album
    assert [result.status for result in removed.results] == ["removed", "not_found", "not_found"]
    assert (now.image_count, now.cover and now.cover.id) == (1, new)
    assert host.images.get(member).album_id is None


@pytest.mark.parametrize("count", [0, MAX_IMAGES_PER_REQUEST + 1])
def test_a_membership_request_has_1_to_1000_ids(host: ImageHost, album: Album, count: int) -> None:
    with pytest.raises(ValidationError, match="1 to 1000 ids"):
        host.albums.add_images(album.id, map(str, range(count)), owner="admin")


def test_an_image_that_moves_changes_both_albums(host: ImageHost, album: Album, heard: list[Event]) -> None:
    other = host.albums.create(owner="admin", name="Dogs")
    image_id = upload(host, other)
    heard.clear()
    added = host.albums.add_images(album.id, [image_id], owner="admin")
    now, (result,) = added.album, added.results
    assert (now.id, now.image_count, result.status) == (album.id, 1, "added")
    reported = [(event.data.id, event.data.image_count) for event in heard if isinstance(event, AlbumUpdated)]
    assert reported == [(album.id, 1), (other.id, 0)]
    assert refresh(host, other).updated_at > other.updated_at
    check(host, album)
    check(host, other)


def test_a_request_that_changes_no_membership_emits_no_event(
    host: ImageHost, album: Album, heard: list[Event]
) -> None:
    image_id = upload(host, album)
    heard.clear()
    host.albums.add_images(album.id, [image_id, "nothing"], owner="admin")
    host.albums.remove_images(album.id, [upload(host)], owner="admin")
    assert [event.type for event in heard] == ["image.uploaded"]


def test_an_update_that_changes_nothing_writes_and_emits_nothing(
    host: ImageHost, album: Album, heard: list[Event]
) -> None:
    assert host.albums.update(album, owner="admin", name=" Cats ", is_public=True) == album
    assert host.albums.update(album, owner="admin") == album
    assert refresh(host, album) == album
    assert heard == []


def test_an_update_of_the_album_of_an_image_emits_an_event_for_each_album(
    host: ImageHost, album: Album, heard: list[Event]
) -> None:
    other = host.albums.create(owner="admin", name="Dogs")
    image_id = upload(host, album)
    before, other_before = refresh(host, album), refresh(host, other)
    for target, expected in (
        (other.id, [(album.id, 0), (other.id, 1)]),
        (other.id, []),
        (None, [(other.id, 0)]),
        (album.id, [(album.id, 1)]),
    ):
        heard.clear()
        host.images.update(image_id, owner="admin", album_id=target, description=f"in {target}")
        events = [event for event in heard if isinstance(event, AlbumUpdated)]
        assert [(event.data.id, event.data.image_count) for event in events] == expected
        assert len(heard) == len(events)
    assert refresh(host, album).updated_at > before.updated_at
    assert refresh(host, other).updated_at > other_before.updated_at
    check(host, album)
    check(host, other)
    heard.clear()
    with pytest.raises(ValidationError):
        host.images.update(image_id, album_id=999_999)
    assert heard == []


def test_deleting_an_album_keeps_its_images_without_delete_images(host: ImageHost, album: Album) -> None:
    image_id = upload(host, album)
    host.albums.delete(album.id, owner="admin")
    assert host.images.get(image_id).album_id is None
    other = host.albums.create(owner="admin", name="Dogs")
    gone = [upload(host, other) for _ in range(3)]
    host.albums.delete(other.id, owner="admin", delete_images=True)
    for image_id in gone:
        with pytest.raises(NotFoundError):
            host.images.get(image_id)


def test_the_id_of_a_deleted_album_is_not_reused(host: ImageHost) -> None:
    album = host.albums.create(owner="admin", name="Cats")
    host.albums.delete(album.id, owner="admin")
    for call in (host.albums.get, host.albums.update, host.albums.delete):
        with pytest.raises(NotFoundError):
            call(album.id, owner="admin")
    for members in (host.albums.add_images, host.albums.remove_images):
        with pytest.raises(NotFoundError):
            members(album.id, ["x"], owner="admin")
    assert host.albums.create(owner="admin", name="Dogs").id > album.id


def test_an_image_that_left_the_album_meanwhile_is_not_deleted(host: ImageHost, album: Album) -> None:
    """It leaves after the list of members was read, while another member is deleted."""
    first, second = upload(host, album), upload(host, album)
    saved: list[str] = []

    def save(event: Event) -> None:
        if event.type == "image.deleted" and not saved:
            saved.append(second if event.data.id == first else first)
            host.images.update(saved[0], album_id=None)

    end = host.subscribe(save)
    host.albums.delete(album.id, owner="admin", delete_images=True)
    end()
    assert host.images.get(saved[0]).album_id is None


def test_an_image_deleted_meanwhile_does_not_stop_the_deletion_of_its_album(
    host: ImageHost, album: Album
) -> None:
    members = {upload(host, album) for _ in range(3)}

    def race(event: Event) -> None:
        if event.type == "image.deleted" and len(members) == 3:
            members.remove(event.data.id)  # type: ignore[arg-type]
            host.images.delete(members.pop())

    end = host.subscribe(race)
    host.albums.delete(album.id, owner="admin", delete_images=True)
    end()
    with pytest.raises(NotFoundError):
        refresh(host, album)


def test_an_image_uploaded_meanwhile_is_deleted_with_its_album(host: ImageHost, album: Album) -> None:
    upload(host, album)
    late: list[str] = []

    def join(event: Event) -> None:
        if event.type == "image.deleted" and not late:
            late.append(upload(host, album))

    end = host.subscribe(join)
    host.albums.delete(album.id, owner="admin", delete_images=True)
    end()
    with pytest.raises(NotFoundError):
        host.images.get(late[0])


def change_at_random(host: ImageHost, numbers: Sequence[int], seed: int) -> None:
    """Upload into two albums, move, remove and delete at random."""
    chance = Random(seed)
    for _ in range(5):
        album_id, other = chance.sample(numbers, 2)
        image = host.upload(SMALL, owner="admin", album_id=album_id, convert_to_webp=False)
        act = chance.randrange(4)
        if act == 0:
            host.albums.add_images(other, [image.id], owner="admin")
        elif act == 1:
            host.albums.remove_images(album_id, [image.id], owner="admin")
        elif act == 2:
            host.images.delete(image.id)
        shown = host.albums.get(album_id, owner="admin")
        assert (shown.image_count == 0) is (shown.cover is None)


def test_counts_and_covers_are_consistent_under_concurrent_changes_of_threads(host: ImageHost) -> None:
    albums = [host.albums.create(owner="admin", name="Cats") for _ in range(2)]
    numbers = [album.id for album in albums]
    with ThreadPoolExecutor(8) as executor:
        for done in [executor.submit(change_at_random, host, numbers, seed) for seed in range(8)]:
            done.result()
    for album in albums:
        check(host, album)


RANDOM_CHANGES = """
    import sys
    sys.path.insert(0, sys.argv[3])
    from test_albums import ImageHost, change_at_random
    from imagehost_core import Settings
    from imagehost_core.settings import RenderingSettings
    settings = Settings(rendering=RenderingSettings(processes=1))
    with ImageHost.open(sys.argv[1], settings=settings) as host:
        print("ready")
        sys.stdin.readline()
        change_at_random(host, [1, 2], int(sys.argv[2]))
        print("done")
"""


@pytest.mark.slow
def test_counts_and_covers_are_consistent_under_concurrent_changes_of_processes(
    opened: Callable[..., ImageHost], tmp_path: Path, program: Callable[..., Program]
) -> None:
    host = opened()
    albums = [host.albums.create(owner="admin", name="Cats") for _ in range(2)]
    assert [album.id for album in albums] == [1, 2]
    started = [program(RANDOM_CHANGES, tmp_path / "data", seed, Path(__file__).parent) for seed in range(3)]
    for one in started:
        assert one.read_line() == "ready"
    for one in started:
        one.write_line()
    for one in started:
        assert one.read_line() == "done"
        assert one.end() == 0
    for album in albums:
        check(host, album)


def test_an_album_event_has_the_count_of_its_own_transaction(
    host: ImageHost, album: Album, heard: list[Event]
) -> None:
    """Events of one album from many threads: each count is one that the album had at that time."""
    images = [upload(host) for _ in range(12)]
    heard.clear()
    with ThreadPoolExecutor(6) as executor:
        list(
            executor.map(lambda image_id: host.albums.add_images(album.id, [image_id], owner="admin"), images)
        )
    counts = sorted(event.data.image_count for event in heard if isinstance(event, AlbumUpdated))
    assert counts == list(range(1, 13))
