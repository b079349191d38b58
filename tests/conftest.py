"""Fixtures, Hypothesis profiles and markers of all tests."""

from __future__ import annotations

import ctypes
import gc
import inspect
import os
import signal
import sqlite3
import ssl
from collections.abc import Callable, Generator, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpcore2
import httpx2
import pytest
from argon2 import PasswordHasher
from hypothesis import HealthCheck, settings
from tests.faults.trials import COLUMNS, PROPERTY, SOAK
from tests.waiting import PATIENCE
from xdist.workermanage import NodeManager

from imagehost_core._util import machine
from imagehost_core.db.engines import sqlite_database
from imagehost_server.auth import passwords

if TYPE_CHECKING:
    from tests.postgres import PostgresServer

TESTS = Path(__file__).resolve().parent
REQUIRED_IN_CI = {"external", "faults"}
"""Markers of the tests that may be skipped on a developer's machine, but not in CI."""
DIRECTORY_MARKERS = {"faults": "faults", "outside": "external", "extended": "slow"}
"""Directories, anywhere below `tests`, whose tests have a marker.

A test that is marked slow or faults itself has no other of the two: those marked slow run in parallel."""

settings.register_profile(
    "fixed",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
    print_blob=True,
    max_examples=20,  # the same in each run: more are tried by the other profile
)
settings.register_profile("random", parent=settings.get_profile("fixed"), derandomize=False, max_examples=100)
# A run to find new failures has other examples each time: --hypothesis-profile=random.
settings.load_profile("random" if SOAK else "fixed")


NodeManager.EXIT_TIMEOUT = round(PATIENCE)
"""Seconds until pytest-xdist kills a process that has no tests left. On a loaded machine, one that measures
coverage needs more than the 10 seconds of its default to save it."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage meanwhile and less later: it would take a fifth and a tenth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000)
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Add the markers of `DIRECTORY_MARKERS`."""
    for item in items:
        own = {mark.name for mark in item.iter_markers()}
        for marker in map(DIRECTORY_MARKERS.get, item.path.relative_to(TESTS).parent.parts):
            if marker and (marker == "external" or not own & {"slow", "faults"}):
                item.add_marker(marker)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Let a test fail after its `time_limit` or `PATIENCE`, such as one of a deadline that is gone.

    `faulthandler_timeout`, for tests that do not return to Python, would end the whole run.
    """
    markers = {mark.name for mark in item.iter_markers()}
    limit = item.get_closest_marker("time_limit")
    if not hasattr(signal, "SIGALRM") or (limit is None and markers & {"slow", "faults", "external"}):
        return (yield)
    seconds = PATIENCE if limit is None else limit.args[0]

    def fail(*_: object) -> None:
        pytest.fail(f"expected a test that ends within {seconds} seconds")

    previous = signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report a skipped test that CI requires as failed, with the reason of the skip."""
    report = yield
    is_skip = report.skipped and not hasattr(report, "wasxfail")
    markers = {mark.name for mark in item.iter_markers()}
    if is_skip and os.environ.get("CI") and markers & REQUIRED_IN_CI:
        report.outcome = "failed"
        report.longrepr = f"expected no skip in CI but received: {report.longreprtext}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what the trials of `tests/faults` have tried."""
    rows = sorted(
        tuple(map(str, value))
        for reports in terminalreporter.stats.values()
        for report in reports
        for key, value in getattr(report, "user_properties", ())
        if key == PROPERTY and report.when == "call"
    )
    if rows:
        terminalreporter.section("trials")
        widths = [max(map(len, column)) for column in zip(COLUMNS, *rows, strict=True)]
        for row in (COLUMNS, *rows):
            terminalreporter.write_line("  ".join(map(str.ljust, row, widths)).rstrip())


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Return asyncio, on which the server runs, as the backend of async tests."""
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def _certificates_are_loaded_once() -> Iterator[None]:
    """Give HTTP clients one SSL context: each would load all certificates of the system in 25 ms of CPU."""
    load = httpcore2.default_ssl_context

    @cache
    def cached(*variables: str | None, trust_env: bool) -> ssl.SSLContext:
        return load(_trust_env=trust_env)

    def shared(*, _trust_env: bool = True) -> ssl.SSLContext:
        variables = map(os.environ.get, ("SSL_CERT_FILE", "SSL_CERT_DIR"))
        return cached(*variables, trust_env=_trust_env)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(httpcore2, "default_ssl_context", shared)
        yield


@pytest.fixture(scope="session", autouse=True)
def _requests_have_time() -> Iterator[None]:
    """Let requests without a timeout wait longer than 5 seconds, as servers run beside other tests."""
    default = inspect.signature(httpx2.get).parameters["timeout"].default
    with pytest.MonkeyPatch.context() as patch:
        for phase in ("connect", "read", "write"):
            patch.setattr(default, phase, PATIENCE)
        yield


@pytest.fixture(scope="session", autouse=True)
def password_hasher() -> Iterator[PasswordHasher]:
    """Hash passwords with the least effort, as the default takes 0.1 s of CPU; yield the default."""
    default = passwords.HASHER
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "HASHER", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
        yield default


@pytest.fixture(scope="session", autouse=True)
def _hosts_open_quickly() -> Iterator[None]:
    """Open new hosts with half of the CPU: copy a database that was migrated once, and read the limits of
    this process once.
    """
    migrate = sqlite_database.migrate

    @cache
    def migrated() -> sqlite3.Connection:
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        migrate(connection)
        return connection

    def copy_or_migrate(connection: sqlite3.Connection, path: Path | None = None) -> None:
        if connection.execute("SELECT 1 FROM sqlite_master").fetchone():
            migrate(connection, path)
        else:
            migrated().backup(connection)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite_database, "migrate", copy_or_migrate)
        for name in ("cpu_quota", "memory_limit"):
            patch.setattr(machine, name, cache(getattr(machine, name)))
        yield
    if migrated.cache_info().currsize:
        migrated().close()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """Run a PostgreSQL server whose databases are fast, but do not survive a power failure."""
    from tests.postgres import FAST, run_postgres

    with run_postgres(*FAST) as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """Yield the URL of an empty PostgreSQL database."""
    with postgres_server.empty_database() as url:
        yield url


@pytest.fixture(scope="session")
def workspace() -> Path:
    """Return the root directory of the repository."""
    return TESTS.parent


@pytest.fixture
def system_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls that make files durable and replace others, in order.

    They are `sync NAME`, `syncfs NAME` (of a whole file system) and `rename NAME NAME`.
    """
    calls: list[str] = []
    fsync, load_library = os.fsync, ctypes.CDLL

    def name(descriptor: int) -> str:
        return Path(f"/proc/self/fd/{descriptor}").readlink().name

    def record_fsync(descriptor: int) -> None:
        calls.append(f"sync {name(descriptor)}")
        fsync(descriptor)

    def record(rename: Callable[[Path, Path], None]) -> Callable[[Path, Path], None]:
        def record_rename(source: Path, target: Path) -> None:
            calls.append(f"rename {Path(source).name} {Path(target).name}")
            rename(source, target)

        return record_rename

    def load_recorded(*arguments: Any, **options: Any) -> ctypes.CDLL:
        library = load_library(*arguments, **options)
        syncfs = library["syncfs"]

        def record_syncfs(descriptor: int) -> int:
            calls.append(f"syncfs {name(descriptor)}")
            return int(syncfs(descriptor))

        setattr(library, "syncfs", record_syncfs)  # noqa: B010 - a function that the class does not declare
        return library

    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(os, "rename", record(os.rename))
    monkeypatch.setattr(os, "replace", record(os.replace))
    monkeypatch.setattr(ctypes, "CDLL", load_recorded)
    return calls
