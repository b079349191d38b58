"""Connections to PostgreSQL through PgBouncer, and as a role that may not change the schema."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import attrs
import psycopg
import pytest
from click.testing import CliRunner
from tests.core.services.conftest import ONE_WORKER
from tests.ports import free_port
from tests.postgres import UNPRIVILEGED, PostgresServer
from tests.waiting import PATIENCE

from imagehost_core import ImageHost, Settings
from imagehost_core.cluster.postgres_database import PostgresDatabase
from imagehost_core.errors import EngineUnavailableError, InstallationError
from imagehost_core.settings import SettingsError
from imagehost_core.testing import make_image
from imagehost_server.cli.main import main

pytestmark = pytest.mark.external
GRANTS = (
    "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO server",
    "GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO server",
)


@contextmanager
def run_pgbouncer(server_port: int, mode: str, pool_size: int = 20) -> Iterator[int]:
    """Run PgBouncer for a block, and yield its port; skip the test without it."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        pytest.skip("NOT TESTED: PgBouncer, because it is not installed")
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="imagehost-pgbouncer-") as name:
        # Its user, if the tests run as root, is another.
        Path(name).chmod(0o755)
        yield from _run(program, Path(name), port, server_port, mode, pool_size)


def _run(
    program: str, directory: Path, port: int, server_port: int, mode: str, pool_size: int
) -> Iterator[int]:
    (directory / "users").write_text('"postgres" ""\n', encoding="utf-8")
    (directory / "pgbouncer.ini").write_text(
        f"""
[databases]
* = host=127.0.0.1 port={server_port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {directory / "users"}
pool_mode = {mode}
default_pool_size = {pool_size}
""",
        encoding="utf-8",
    )
    user = {"user": UNPRIVILEGED} if os.geteuid() == 0 else {}
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen([program, directory / "pgbouncer.ini"], stderr=log, **user)  # type: ignore[call-overload]
    try:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                psycopg.connect(f"postgresql://postgres@127.0.0.1:{port}/postgres").close()
                break
            except psycopg.OperationalError:
                assert time.monotonic() < deadline, (directory / "log").read_text(encoding="utf-8")
                time.sleep(0.05)
        yield port
    finally:
        process.kill()
        process.wait()


def test_a_pooler_in_transaction_mode_is_refused(postgres_url: str, postgres_server: PostgresServer) -> None:
    name = postgres_url.rpartition("/")[2]
    with run_pgbouncer(postgres_server.port, "transaction") as port:
        for _ in range(3):
            with pytest.raises(SettingsError, match="pool_mode = session"):
                PostgresDatabase(postgres_server.url_of(name, port))


def test_a_pooler_in_session_mode_is_used(postgres_url: str, postgres_server: PostgresServer) -> None:
    name = postgres_url.rpartition("/")[2]
    with (
        run_pgbouncer(postgres_server.port, "session") as port,
        closing(PostgresDatabase(postgres_server.url_of(name, port))) as database,
    ):
        for number in range(20):
            assert database.fetch_one("SELECT CAST(:n AS bigint) AS n", {"n": number}) == {"n": number}


def test_a_host_and_its_commands_work_through_a_pooler_of_sessions(
    postgres_url: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    with run_pgbouncer(postgres_server.port, "session") as port:
        url = postgres_server.url_of(postgres_url.rpartition("/")[2], port)
        with ImageHost.open(tmp_path / "data", settings=settings_of(url)) as host:
            kept, deleted = (host.upload(make_image(8, 8), owner="admin") for _ in range(2))
            host.images.delete(deleted.id, owner="admin")
            assert [image.id for image in host.images.list(owner="admin").items] == [kept.id]
        archive = str(tmp_path / "backup.tar.zst")
        for command in (["fsck"], ["gc"], ["backup", archive], ["users", "list"], ["upgrade"]):
            variables = {"IMAGEHOST_DATABASE": url}
            result = CliRunner().invoke(main, [*command, "--data", str(tmp_path / "data")], env=variables)
            assert result.exit_code == 0, f"{command}: {result.output}"


def test_a_parameter_that_a_pooler_refuses_is_an_error_of_the_settings(
    postgres_url: str, postgres_server: PostgresServer
) -> None:
    with run_pgbouncer(postgres_server.port, "session") as port:
        url = postgres_server.url_of(postgres_url.rpartition("/")[2], port)
        with pytest.raises(SettingsError, match=f":{port}/.*unsupported startup parameter: options"):
            PostgresDatabase(f"{url}?options=-c%20work_mem%3D8MB")


def test_a_pooler_that_is_full_is_named_before_its_own_limit(
    postgres_url: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    name = postgres_url.rpartition("/")[2]
    ImageHost.open(tmp_path / "data", settings=settings_of(postgres_url)).close()
    with run_pgbouncer(postgres_server.port, "session", pool_size=3) as port, ExitStack() as others:
        url = postgres_server.url_of(name, port)
        others.enter_context(psycopg.connect(url)).execute("SELECT 1")
        for _ in range(2):  # Of three sessions, one or none is left, and a start takes two at once.
            others.enter_context(psycopg.connect(url)).execute("SELECT 1")
            with pytest.raises(
                EngineUnavailableError, match=rf"127.0.0.1:{port}/.*pool.*is full.*_pool_size"
            ):
                PostgresDatabase(url, timeout=1)
        variables = {"IMAGEHOST_DATABASE": url, "IMAGEHOST_POSTGRES_TIMEOUT_SECONDS": "1"}
        result = CliRunner().invoke(main, ["users", "list", "--data", str(tmp_path / "data")], env=variables)
        assert result.exit_code == 1
        assert f":{port}/" in result.output
        assert "pool is full" in result.output


def settings_of(url: str) -> Settings:
    return attrs.evolve(ONE_WORKER, database=url)


def test_a_role_that_may_not_create_tables_serves_a_database_that_is_up_to_date(
    postgres_url: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    name = postgres_url.rpartition("/")[2]
    url = postgres_url.replace("//postgres@", "//server@")
    postgres_server.execute("DROP ROLE IF EXISTS server")
    postgres_server.execute("CREATE ROLE server LOGIN")
    try:
        with pytest.raises(InstallationError, match=r"role server may not migrate it .*imagehost upgrade"):
            ImageHost.open(tmp_path / "data", settings=settings_of(url))
        ImageHost.open(tmp_path / "data", settings=settings_of(postgres_url)).close()
        with pytest.raises(InstallationError, match=r"permission denied for table migrations.*GRANT"):
            ImageHost.open(tmp_path / "data", settings=settings_of(url))
        for grant in GRANTS:
            postgres_server.execute(grant, name)
        for _ in range(2):
            with ImageHost.open(tmp_path / "data", settings=settings_of(url)) as host:
                album = host.albums.create("A", owner="admin")
                image = host.upload(make_image(8, 8), owner="admin", album_id=album.id)
                assert host.images.list(owner="admin").total == 1
                host.images.update(image.id, owner="admin", description="x")
                host.images.delete(image.id, owner="admin")
                host.maintenance.collect_garbage()
                assert list(host.check()) == []
        postgres_server.execute("DELETE FROM migrations WHERE name = 'postgres_secrets'", name)
        with pytest.raises(InstallationError, match="imagehost upgrade"):
            ImageHost.open(tmp_path / "data", settings=settings_of(url))
    finally:
        postgres_server.execute("DROP OWNED BY server", name)
        postgres_server.execute("DROP ROLE server")


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_the_command_upgrade_leaves_a_database_that_is_up_to_date(
    request: pytest.FixtureRequest, tmp_path: Path, engine: str
) -> None:
    database = request.getfixturevalue("postgres_url") if engine == "postgres" else "sqlite"
    ImageHost.open(tmp_path / "data", settings=settings_of(database)).close()
    for _ in range(2):
        command = ["upgrade", "--data", str(tmp_path / "data")]
        result = CliRunner().invoke(main, command, env={"IMAGEHOST_DATABASE": database})
        assert (result.exit_code, result.output) == (0, "The database is up to date\n")
