"""Hosts against a model in memory, by random sequences of changes, reads, restarts and crashes.

Two hosts are open on the same data. A change is made on one of them, or by a process that is killed at a step
of the change, beside the open hosts or alone; then the hosts must show the state before the change or after
it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any
from urllib.parse import urlsplit

import attrs
import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test
from tests.faults.change_rules import ChangeRules
from tests.faults.host_operations import HostSource
from tests.faults.host_view import View, differences
from tests.faults.modelled_hosts import OWNERS, Environment, run_driver
from tests.faults.reference_model import error_of
from tests.faults.trials import SOAK, Record, Trials, run_trials, trial_count
from tests.object_store import S3Server, shared_s3_server

from imagehost_core import Image, Page, restore
from imagehost_core.coordination.generations import GenerationTable
from imagehost_core.db.counters import count_image
from imagehost_core.db.engines.database import Transaction
from imagehost_core.db.repositories import images
from imagehost_core.db.repositories.outbox import OutboxRepository
from imagehost_core.errors import NotFoundError, UnauthorizedError
from imagehost_core.formats import Format
from imagehost_core.lists import ImageFilter, ImageSort
from imagehost_core.services.image_lists import ImageLists
from imagehost_core.settings import SQLITE
from imagehost_core.webhooks import Attempt

pytestmark = pytest.mark.slow

ENGINES = ("sqlite+folder", pytest.param("postgres+s3", marks=pytest.mark.external))
SEARCHES = ("cat", "harb", "img_2034", "2034 cat", "c", "dog a", "nothing", "...")
TRANSFORMS = ("w=10", "w=8&h=8&fm=png", "h=5&fm=jpg&q=50", "")
SORTS = st.sampled_from(ImageSort)
EXAMPLES = int(os.environ.get("IMAGEHOST_TEST_EXAMPLES", "200"))
"""Sequences of rules in the soak."""


class HostMachine(ChangeRules):
    """The reads, and what concerns a host as a whole."""

    @rule(
        data=st.data(), number=st.integers(0, 1), per_page=st.integers(1, 5), sort=st.sampled_from(ImageSort)
    )
    def list_images(self, data: st.DataObject, number: int, per_page: int, sort: ImageSort) -> None:
        """Read all pages of a list, by number and by cursor."""
        times = st.sampled_from(sorted({self.clock.now, *(i.created_at for i in self.model.images.values())}))
        optional: dict[str, st.SearchStrategy[Any]] = {
            "q": st.sampled_from(SEARCHES),
            "is_public": st.booleans(),
            "format": st.sampled_from((Format.PNG, Format.JPEG, Format.WEBP, Format.GIF)),
            "created_after": times,
            "created_before": times,
        }
        filters = data.draw(st.fixed_dictionaries({}, optional=optional), "filters")
        owner = self.owner(data)
        album = data.draw(st.none() | st.sampled_from([*sorted(self.model.albums), 10**9]), "album")
        self.compare_list(number, per_page, owner, album, filters, sort)

    def compare_list(
        self,
        number: int,
        per_page: int,
        owner: str,
        album: int | None,
        filters: dict[str, Any],
        sort: ImageSort,
    ) -> None:
        """Compare all pages of a list with the model."""
        lists = self.hosts[number].images

        def read(**request: Any) -> Any:
            return lists.list(owner=owner, album_id=album, sort=sort, per_page=per_page, **filters, **request)

        conditions = ImageFilter(**filters)
        self.compare_pages(
            read, lambda: self.model.list_images(owner, album, conditions, sort), conditions.has_total
        )

    @rule(data=st.data(), number=st.integers(0, 1), per_page=st.integers(1, 5))
    def read_gallery(self, data: st.DataObject, number: int, per_page: int) -> None:
        """Read all pages of the gallery, or of a public album."""
        album = data.draw(st.none() | st.sampled_from([*sorted(self.model.albums), 10**9]), "album")
        host = self.hosts[number]

        def read(**request: Any) -> Any:
            return host.gallery(album_id=album, per_page=per_page, **request)

        self.compare_pages(read, lambda: self.model.gallery(album), has_total=True)

    def compare_pages(
        self, read: Callable[..., Any], expect: Callable[[], list[Image]], has_total: bool
    ) -> None:
        """Compare a list with the model: each page by its number and by its cursor, totals and errors."""
        self.environment.trials.tried += 1
        expected_error = error_of(expect)
        assert error_of(read) is expected_error
        if expected_error is not None:
            return
        expected, by_number, by_cursor = expect(), [], []
        number, cursor = 1, None
        while page := read(page=number):
            assert page.total == (len(expected) if has_total else None)
            by_number += page.items
            number += 1
        while True:
            page = read(cursor=cursor)
            by_cursor += page.items
            cursor = page.next_cursor
            if cursor is None:
                break
        assert by_number == expected
        assert by_cursor == expected

    @rule(data=st.data(), number=st.integers(0, 1), params=st.sampled_from(TRANSFORMS))
    def render(self, data: st.DataObject, number: int, params: str) -> None:
        """Render a variant: the same bytes on each host, and nothing of an image that was deleted."""
        image_id, host = self.image(data), self.hosts[number]
        self.environment.trials.tried += 1
        image = self.model.images.get(image_id)
        if image is None:
            assert error_of(lambda: host.render(image_id, params)) is NotFoundError
            return
        rendered = host.render(image_id, params).data
        assert rendered == self.environment.rendered.setdefault((image.sha256, params), rendered)

    @rule(data=st.data(), number=st.integers(0, 1), viewer=st.sampled_from((None, *OWNERS)))
    def resolve(self, data: st.DataObject, number: int, viewer: str | None) -> None:
        """Request the URL of an image, as an account or as everyone."""
        if viewer is None or not self.model.accounts[viewer].is_suspended:
            self.compare_access(number, self.image(data), viewer)

    def compare_access(self, number: int, image_id: str, viewer: str | None) -> None:
        """Compare who gets an image with the model."""
        self.environment.trials.tried += 1
        host = self.hosts[number]
        account = viewer and host.accounts.get(viewer)
        error = error_of(lambda: host.delivery.resolve(image_id, viewer=account or None))
        assert error is (None if self.model.can_view(image_id, viewer) else NotFoundError)

    @rule(data=st.data(), number=st.integers(0, 1))
    def sign(self, data: st.DataObject, number: int) -> None:
        """Request the signed URL of an image on the other host."""
        image_id = self.image(data)
        self.environment.trials.tried += 1
        if image_id not in self.model.images:
            assert error_of(lambda: self.hosts[number].images.signed_url(image_id)) is NotFoundError
            return
        url = urlsplit(self.hosts[number].images.signed_url(image_id, "w=9", expires_in=60).url)
        path = url.path.rpartition("/")[2]
        error = error_of(lambda: self.hosts[1 - number].delivery.resolve(path, url.query))
        assert error is (None if self.model.can_view(image_id, None, is_signed=True) else NotFoundError)

    @precondition(lambda self: self.model.tokens)
    @rule(data=st.data(), number=st.integers(0, 1))
    def authenticate(self, data: st.DataObject, number: int) -> None:
        """Use the token of a key."""
        token = data.draw(st.sampled_from(sorted(self.model.tokens)), "token")
        state = self.model.keys[self.model.tokens[token]]
        self.environment.trials.tried += 1
        if state.is_revoked or self.model.accounts[state.owner].is_suspended:
            assert error_of(lambda: self.hosts[number].authenticate(token)) is UnauthorizedError
            return
        principal = self.hosts[number].authenticate(token)
        assert (principal.account.name, principal.scopes) == (state.owner, state.scopes)

    @rule(number=st.integers(0, 1))
    def send_events(self, number: int) -> None:
        """Send all events that are due: those of the model, each once."""
        host = self.hosts[number]
        self.environment.trials.tried += 1
        while leased := host.webhooks.lease(20):
            for each in leased:
                body = json.loads(each.body)
                self.model.webhooks[each.webhook.id].events.remove((body["type"], str(body["data"]["id"])))
            host.webhooks.report(
                (each, Attempt(at=self.clock.now, status=200, duration_ms=1, response="")) for each in leased
            )
        for webhook in self.model.webhooks.values():
            assert not webhook.events or self.model.accounts[webhook.owner].is_suspended

    @rule(number=st.integers(0, 1))
    def restart(self, number: int) -> None:
        """Close a host and open it again."""
        other = self.hosts[1 - number]
        self.hosts[number].close()
        self.opened += 1
        opened = self.source(number).open(self.clock, f"host {self.opened}")
        self.hosts = [opened, other] if number == 0 else [other, opened]

    @rule(number=st.integers(0, 1))
    def restore(self, number: int) -> None:
        """Restore a backup into a new directory; with SQLite, go on with it."""
        self.environment.trials.tried += 1
        self.opened += 1
        path, copy = self.directory / f"backup-{self.opened}", self.directory / f"data-{self.opened}"
        with path.open("wb") as file:
            self.hosts[number].backups.write(file)
        with path.open("rb") as file:
            restored = restore([file], copy)
        assert restored.image_count == len(self.model.images)
        if self.database == SQLITE:
            self.close()
            self.data = copy
            self.open()
            return
        source = HostSource(str(copy), SQLITE, "folder")
        host = source.open(self.clock, f"host {self.opened}")
        try:
            assert not differences(self.model.view(), View.read(host))
        finally:
            host.close()


@pytest.fixture(scope="module")
def s3_server() -> Iterator[S3Server]:
    """An S3 server, whose credentials are in the environment."""
    with shared_s3_server() as server:
        yield server


def run_machine(shared: Environment, examples: int, steps: int) -> None:
    """Run the state machine with random sequences of rules."""

    class Machine(HostMachine):
        """The state machine in this environment."""

        environment = shared

    options = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        derandomize=not SOAK,
        database=None,
        phases=(Phase.generate, Phase.shrink) if SOAK else (Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(seed(shared.trials.seed)(Machine) if SOAK else Machine, settings=options)


@pytest.mark.parametrize("engine", ENGINES)
def test_hosts_equal_a_model_in_memory_after_each_change_crash_and_restart(
    engine: str, request: pytest.FixtureRequest, record_property: Record
) -> None:
    with run_trials("reference model: changes and reads", engine, record_property) as trials:
        # After the servers, whose addresses and credentials it inherits.
        servers: dict[str, Any] = {}
        if engine == "postgres+s3":
            servers["postgres"] = request.getfixturevalue("postgres_server")
            servers["s3"] = request.getfixturevalue("s3_server")
        with run_driver() as driver:
            environment = Environment(engine, driver, trials, **servers)
            run_machine(environment, trial_count(4 if engine == "sqlite+folder" else 2, EXAMPLES), 40)


@pytest.fixture
def machine() -> Iterator[HostMachine]:
    """Two hosts with three images in an album, equal to their model."""
    with run_driver(NOT_ATOMIC) as driver:

        class Machine(HostMachine):
            """The state machine, with a program whose `update_many` changes one image after the other."""

            environment = Environment("sqlite+folder", driver, Trials("planted faults", "sqlite+folder", 0))

        machine = Machine()
        try:
            machine.begin()
            machine.perform("create_album", {"owner": "admin", "name": "Cats", "is_public": True}, "first")
            options = {"album_id": next(iter(machine.model.albums))}
            upload = {"owner": "admin", "content": 0, "filename": "a.png", "key": None, "options": options}
            for _ in range(3):
                machine.perform("upload", upload, "first")
            machine.compare_all()
            yield machine
        finally:
            machine.close()
            machine.stack.close()


NOT_ATOMIC = """
from tests.faults import host_operations

def update_many(host, owner, images, changes):
    for image in images:
        host.images.update(image, owner=owner, **changes)

host_operations.OPERATIONS["update_many"] = update_many
host_operations.main()
"""


def fails(check: Callable[[], object]) -> bool:
    """Return whether a check fails."""
    try:
        check()
    except AssertionError:
        return True
    return False


def test_a_counter_that_a_bulk_deletion_does_not_change_is_found(
    machine: HostMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def count_uploads(transaction: Transaction, before: Image | None, after: Image | None) -> None:
        if after is not None:
            count_image(transaction, before, after)

    monkeypatch.setattr(images, "count_image", count_uploads)
    machine.perform("delete_many", {"owner": "admin", "images": [*machine.model.images][:2]}, "second")
    assert fails(machine.compare_all)
    assert fails(lambda: machine.collect_garbage(0))


def test_a_page_without_its_last_image_is_found(
    machine: HostMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check() -> None:
        machine.compare_list(1, 2, "admin", None, {}, ImageSort.FILENAME)

    complete = ImageLists.list

    def list_images(*arguments: Any, **keywords: Any) -> Page[Image]:
        page = complete(*arguments, **keywords)
        return attrs.evolve(page, items=page.items[:-1])

    assert not fails(check)
    monkeypatch.setattr(ImageLists, "list", list_images)
    assert fails(check)


def test_a_change_that_the_other_host_does_not_notice_is_found(
    machine: HostMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = next(iter(machine.model.images))
    machine.compare_access(1, image, None)
    monkeypatch.setattr(GenerationTable, "bump", lambda *_: nullcontext())
    machine.perform("update", {"owner": "admin", "image": image, "changes": {"is_public": False}}, "first")
    assert fails(lambda: machine.compare_access(1, image, None))


def test_a_lost_event_is_found(machine: HostMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OutboxRepository, "record", lambda *_: None)
    machine.perform("delete", {"owner": "admin", "image": next(iter(machine.model.images))}, "first")
    assert fails(machine.compare_all)
    assert fails(lambda: machine.send_events(0))


def test_a_killed_bulk_change_of_which_a_part_has_happened_is_found(machine: HostMachine) -> None:
    ids = [*machine.model.images]

    def kill_changes() -> None:
        for step in range(1, 200, 5):
            changes = {"description": f"step {step}"}
            arguments = {"owner": "admin", "images": ids, "changes": changes}
            machine.perform("update_many", arguments, "killed beside", step)

    with pytest.raises(AssertionError, match="update_many killed at"):
        kill_changes()
