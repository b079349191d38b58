"""The base of the state machine that compares hosts with a model: hosts, changes, crashes and choices."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar

import psycopg
from attrs import define, field
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from tests.faults.host_operations import OPERATIONS, HostSource
from tests.faults.host_view import AccountState, View, differences
from tests.faults.reference_model import Model, error_of
from tests.faults.trials import Trials
from tests.object_store import S3Server
from tests.postgres import PostgresServer

from imagehost_core import Image, ImageHost, ImageHostError
from imagehost_core.errors import InsufficientStorageError
from imagehost_core.formats import FormatName
from imagehost_core.settings import SQLITE
from imagehost_core.testing import FrozenClock

OWNERS = ("admin", "anna")
UNKNOWN_IMAGE = "0" * 16
"""An id that no image has."""
FILENAMES = ("cat.png", "Cat IMG_2034.jpg", "b.gif", "harbour view.webp", "noext")
DESCRIPTIONS = ("", "a harbour", "Cat and dog", "IMG 2034")
SETTLE_SECONDS = 30.0
PROGRAM = "from tests.faults.host_operations import main; main()"


@define
class Driver:
    """The program of `host_operations`, which makes changes that are killed."""

    process: subprocess.Popen[str]

    def run(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """Make a change; return its `result` or the name of its `error`, or `None` if it was killed."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        status, response = json.loads(self.process.stdout.readline())
        assert status == (-signal.SIGKILL if response is None else 0), f"{request}: status {status}"
        outcome: dict[str, Any] | None = response
        return outcome


@contextmanager
def run_driver(program: str = PROGRAM) -> Iterator[Driver]:
    """Run a program that makes changes, during a block."""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        try:
            yield Driver(process)
        finally:
            process.kill()


@define
class Environment:
    """What all runs of the state machine share.

    Attributes:
        engine: The engine.
        driver: The program that makes changes and is killed.
        trials: The row of the table.
        postgres: The server of the databases, if the engine uses it.
        s3: The server of the storage, if the engine uses it.
        stored: Format, size and SHA-256 of uploads by content and options: the same each time.
        rendered: The bytes of variants by the SHA-256 of the master and parameters, likewise.
    """

    engine: str
    driver: Driver
    trials: Trials
    postgres: PostgresServer | None = None
    s3: S3Server | None = None
    stored: dict[str, tuple[FormatName, int, str]] = field(factory=dict)
    rendered: dict[tuple[str, str], bytes] = field(factory=dict)


class ModelledHosts(RuleBasedStateMachine):
    """Two hosts on the same data, and the model. Rules are in subclasses.

    Attributes:
        environment: What all runs share; a subclass sets it.
    """

    environment: ClassVar[Environment]

    def __init__(self) -> None:
        super().__init__()
        environment, self.stack = self.environment, ExitStack()
        self.directory = Path(
            self.stack.enter_context(tempfile.TemporaryDirectory(prefix="imagehost-model-"))
        )
        self.database, self.storage = SQLITE, "folder"
        if environment.postgres is not None and environment.s3 is not None:
            self.database = self.stack.enter_context(environment.postgres.empty_database())
            self.storage = environment.s3.url()
        self.clock, self.opened, self.data = FrozenClock(), 0, self.directory / "data"
        self.hosts: list[ImageHost] = []
        self.uploads: dict[str, dict[str, Any]] = {}
        self.model = Model(self.clock.now)

    def source(self, number: int) -> HostSource:
        """Return a host; with PostgreSQL each has a directory of its own."""
        path = self.data if self.database == SQLITE else self.directory / f"host-{number}"
        return HostSource(str(path), self.database, self.storage)

    def open(self) -> None:
        """Open the hosts that are closed."""
        while len(self.hosts) < 2:
            self.opened += 1
            self.hosts.append(self.source(len(self.hosts)).open(self.clock, f"host {self.opened}"))

    def close(self) -> None:
        """Close all hosts."""
        while self.hosts:
            self.hosts.pop().close()

    @initialize()
    def begin(self) -> None:
        """Open the hosts, with two accounts and a webhook."""
        self.open()
        self.hosts[0].accounts.create("anna")
        self.model.accounts = {name: AccountState() for name in OWNERS}
        self.perform("create_webhook", {"owner": "admin", "events": []}, "first")

    def teardown(self) -> None:
        """Compare everything, and close the hosts."""
        try:
            if self.hosts:
                self.compare_all()
                self.collect_garbage(0)
        finally:
            self.close()
            self.stack.close()

    # Changes

    def perform(self, name: str, arguments: dict[str, Any], where: str, step: int = 0) -> None:
        """Make a change on a host or in a process that is killed, and in the model."""
        self.environment.trials.tried += 1
        if where.startswith("killed"):
            self.perform_killed(name, arguments, step, is_alone=where.endswith("alone"))
            return
        host = self.hosts[where == "second"]
        expected = self.expected_error(name, arguments)
        result: Any = None
        received: type[Exception] | None
        try:
            result = OPERATIONS[name](host, **arguments)
            received = None
        except ImageHostError as error:
            received = type(error)
        assert received is expected, f"{name}: expected {expected} but received {received}"
        if received is not None:
            return
        record = host.images.get(result) if name == "upload" else None
        modelled = self.model.apply(name, arguments, result, record)
        assert modelled == result, f"expected {modelled} but received {result}"
        if record is not None:
            self.check_upload(arguments, record)

    def expected_error(self, name: str, arguments: dict[str, Any]) -> type[Exception] | None:
        """Return the error that a change must raise."""
        if name.startswith("create"):
            return None
        if name != "upload":
            return error_of(lambda: self.model.copy().apply(name, arguments, None))
        owner, options = arguments["owner"], arguments["options"]
        if self.model.previous_upload(owner, arguments["key"]):
            return None
        album = {"album_id": options.get("album_id")}
        if error := error_of(lambda: self.model._require_album(owner, album)):
            return error
        quota = self.model.accounts[owner].quota_bytes
        stored = self.environment.stored.get(self.upload_key(arguments))
        if quota and stored and self.model.usage(owner)[2] + stored[1] > quota:
            return InsufficientStorageError
        return None

    @staticmethod
    def upload_key(arguments: dict[str, Any]) -> str:
        """Return what determines the stored bytes of an upload."""
        options = {name: arguments["options"].get(name) for name in ("format", "convert_to_webp", "quality")}
        return json.dumps([arguments["content"], options], sort_keys=True)

    def check_upload(self, arguments: dict[str, Any], record: Image) -> None:
        """Check that an upload has stored the same as each equal one."""
        stored = (record.format, record.size, record.sha256)
        known = self.environment.stored.setdefault(self.upload_key(arguments), stored)
        assert known == stored, f"expected {known} for the upload but received {stored}"
        quota = self.model.accounts[arguments["owner"]].quota_bytes
        assert not quota or self.model.usage(arguments["owner"])[2] <= quota

    def perform_killed(self, name: str, arguments: dict[str, Any], step: int, *, is_alone: bool) -> None:
        """Make a change in a process that is killed at a step: all of it has happened then, or nothing."""
        if is_alone:
            self.close()
        self.opened += 1
        source = self.source(0 if is_alone else 2)
        request = {
            "name": name,
            "arguments": arguments,
            "step": step,
            "now": self.clock.now.isoformat(),
            "seed": f"host {self.opened}",
            "source": {"path": source.path, "database": source.database, "storage": source.storage},
        }
        outcome = self.environment.driver.run(request)
        self.settle()
        self.open()
        received = View.read(self.hosts[0])
        expected = self.expected_error(name, arguments)
        if outcome is not None:
            error = None if expected is None else expected.__name__
            assert outcome.get("error") == error, f"{name}: expected {error} but received {outcome}"
        candidates = [self.model] if outcome is None or expected is not None else []
        if expected is None:
            candidates += self.outcomes(name, arguments, (outcome or {}).get("result"), received)
        found = [differences(candidate.view(), received) for candidate in candidates]
        best = next((model for model, lines in zip(candidates, found, strict=True) if not lines), None)
        assert best is not None, f"{name} killed at {step}: {found}"
        self.model = best
        assert not differences(best.view(), View.read(self.hosts[1]))

    def outcomes(self, name: str, arguments: dict[str, Any], result: Any, received: View) -> list[Model]:
        """Return the models of a change that has been made, with the ids that a host has."""
        if name.startswith(("create", "upload")):
            model = self.model
            kinds: dict[str, tuple[dict[Any, Any], dict[Any, Any]]] = {
                "upload": (received.images, model.images),
                "create_album": (received.albums, model.albums),
                "create_key": (received.keys, model.keys),
                "create_webhook": (received.webhooks, model.webhooks),
            }
            after, before = kinds[name]
            new = sorted(after.keys() - before.keys(), key=str)
            if previous := name == "upload" and model.previous_upload(arguments["owner"], arguments["key"]):
                new = [previous]
            if len(new) != 1:
                return []
            result = result or ([new[0], ""] if name == "create_key" else new[0])
        models = [self.model.copy()]
        record = received.images.get(result) if name == "upload" else None
        models[0].apply(name, arguments, result, record)
        if name == "delete_album" and arguments["delete_images"]:
            members = [
                image.id for image in self.model.images.values() if image.album_id == arguments["album"]
            ]
            for count in range(1, len(members) + 1):
                for ids in combinations(members, count):
                    models.append(self.model.copy())
                    models[-1].delete_many(arguments["owner"], list(ids))
        return models

    def settle(self) -> None:
        """Wait until PostgreSQL has ended what a killed process has begun."""
        if self.database == SQLITE:
            return
        active = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND backend_type = 'client backend' AND state <> 'idle' AND pid <> pg_backend_pid()"
        )
        deadline = time.monotonic() + SETTLE_SECONDS
        with psycopg.connect(self.database, autocommit=True) as connection:
            while connection.execute(active).fetchall() != [(0,)] and time.monotonic() < deadline:
                time.sleep(0.01)

    # Checks of everything

    @rule()
    def compare_all(self) -> None:
        """Compare everything that both hosts show with the model."""
        self.environment.trials.tried += 1
        expected = self.model.view()
        for host in self.hosts:
            assert not differences(expected, View.read(host))

    @rule(number=st.integers(0, 1))
    def collect_garbage(self, number: int) -> None:
        """Collect garbage; then the integrity check finds nothing."""
        self.environment.trials.tried += 1
        self.hosts[number].maintenance.collect_garbage()
        assert [*self.hosts[number].check()] == []
        if self.database == SQLITE:
            stored = {path.parent.name for path in (self.data / "images").rglob("master")}
            assert stored == self.model.images.keys()

    # Choices

    def owner(self, data: st.DataObject) -> str:
        """Choose an account that is not suspended."""
        names = [name for name, state in self.model.accounts.items() if not state.is_suspended]
        return data.draw(st.sampled_from(names), "owner")

    def image(self, data: st.DataObject) -> str:
        """Choose an image: of any account, deleted, or of no account."""
        return data.draw(
            st.sampled_from([*sorted(self.model.images), *sorted(self.model.deleted)[:2], UNKNOWN_IMAGE]),
            "image",
        )

    def some_images(self, data: st.DataObject) -> list[str]:
        """Choose different images, as `image` does."""
        ids = [*sorted(self.model.images), *sorted(self.model.deleted)[:2], UNKNOWN_IMAGE]
        return data.draw(st.lists(st.sampled_from(ids), min_size=1, max_size=6, unique=True), "images")

    def album(self, data: st.DataObject) -> int:
        """Choose an album: of any account, or of none."""
        return data.draw(st.sampled_from([*sorted(self.model.albums), 10**9]), "album")

    def changes(self, data: st.DataObject) -> dict[str, Any]:
        """Choose changes of an image."""
        values = {
            "description": st.sampled_from(DESCRIPTIONS),
            "filename": st.sampled_from(FILENAMES),
            "is_public": st.booleans(),
            "album_id": st.sampled_from([None, *sorted(self.model.albums)]),
            "images_public": st.booleans(),
        }
        return data.draw(st.fixed_dictionaries({}, optional=values), "changes")
