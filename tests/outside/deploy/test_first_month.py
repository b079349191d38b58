"""What an operator does in the first month, by the commands of the pages, beginning with nothing.

The test fills in ports, host names and directories; `REPLACED` of the machines names what is no real program.
"""

from __future__ import annotations

import os
import re
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from tests.certificates import create_certificate
from tests.object_store import shared_s3_server
from tests.outside.deploy.machines import machines
from tests.ports import free_port
from tests.postgres import FAST, run_postgres
from tests.waiting import PATIENCE

from imagehost_core import ImageHost
from imagehost_core.testing import make_image
from imagehost_server.testing import environment

pytestmark = pytest.mark.slow


def blocks(workspace: Path, page: str, heading: str) -> list[str]:
    """Return the blocks of commands below a heading of a page, before the next heading."""
    text = (workspace / "docs" / page).read_text(encoding="utf-8")
    section = re.search(rf"(?ms)^#+ {re.escape(heading)}\n(.*?)(?=^#+ |\Z)", text)
    assert section is not None, heading
    return re.findall(r"(?ms)^```(?:sh|bash)\n(.*?)^```$", section[1])


def run(directory: Path, block: str, variables: dict[str, str] | None = None) -> str:
    """Run a block in a directory, and return its output."""
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", block],
        cwd=directory,
        env=of_this_environment(variables),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, f"{block}{done.stdout}{done.stderr}"
    return done.stdout


@contextmanager
def started(directory: Path, block: str, variables: dict[str, str] | None = None) -> Iterator[str]:
    """Run a block whose last command serves, and yield the origin that it prints."""
    *_, last = block.rstrip().replace("\\\n", "").splitlines()
    assert "imagehost serve" in last
    with subprocess.Popen(
        ["bash", "-e", "-o", "pipefail", "-c", block],
        cwd=directory,
        env=of_this_environment(variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        try:
            lines = []
            for line in process.stdout:
                lines.append(line)
                if serving := re.match(r"Serving (https?://\S+)/v1", line):
                    yield serving[1]
                    break
            else:
                pytest.fail("".join(lines))
        finally:
            os.killpg(process.pid, 15)
            process.stdout.read()


def of_this_environment(variables: dict[str, str] | None) -> dict[str, str]:
    """Return variables with which `imagehost` is that of the environment of the tests."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return environment({"PATH": path, **(variables or {})})


def test_a_host_is_installed_upgraded_and_restored_on_a_second_machine(workspace: Path) -> None:
    install, users, upgrade = blocks(workspace, "deploy.md", "With systemd")
    (restore,) = blocks(workspace, "backup.md", "On another machine")
    *prepare, enable = install.strip().splitlines()
    ports = [free_port() for _ in range(2)]
    listen = [f"echo IMAGEHOST_SERVER_PORT={port} >> /etc/imagehost.env" for port in ports]
    with (
        machines(workspace, "host", "new-host") as (host, new_host),
        httpx2.Client(timeout=PATIENCE) as client,
    ):
        host.run("\n".join([*prepare, listen[0], enable]))
        journal = (host.path / "run" / "imagehost.journal").read_text(encoding="utf-8")
        token = re.search(r"ihk_\w+", journal)
        assert token is not None, journal
        uploaded = client.post(
            f"http://127.0.0.1:{ports[0]}/v1/upload",
            headers={"Authorization": f"Bearer {token[0]}"},
            files={"image": ("a.png", make_image())},
        )
        origin, separator, path = uploaded.json()["data"]["url"].partition("/img/")
        assert origin == "https://images.example.com"
        urls = [f"http://127.0.0.1:{port}{separator}{path}" for port in ports]
        image = client.get(urls[0]).content
        listed = host.run(users)
        assert "admin" in listed
        host.run(upgrade)
        assert client.get(urls[0]).content == image
        # What the first two lines of the page would install again.
        shutil.copytree(host.path / "opt", new_host.path / "opt", symlinks=True, dirs_exist_ok=True)
        new_host.run("\n".join([*prepare[2:], listen[1]]))
        host.run(f"cd /srv\n{restore}")
        assert client.get(urls[1]).content == image
        assert new_host.run(users) == listed


def test_a_host_moves_from_a_directory_to_postgresql_and_an_object_store(
    workspace: Path, tmp_path: Path
) -> None:
    block = blocks(workspace, "scaling.md", "Moving a host to other engines")[0]
    with ImageHost.open(tmp_path / "imagehost") as host:
        ids = [host.upload(make_image(), owner="admin").id for _ in range(3)]
        token = host.keys.create(owner="admin").token
    with (
        run_postgres(*FAST) as postgres,
        postgres.empty_database() as database,
        shared_s3_server() as store,
    ):
        for documented, tested in {
            "postgresql://imagehost@db/imagehost": database,
            "s3://bucket/images": f"'{store.url()}'",
            "/srv/": f"{tmp_path}/",
        }.items():
            assert documented in block
            block = block.replace(documented, tested)
        variables = {"IMAGEHOST_SERVER_PORT": f"{free_port()}"}
        with started(tmp_path, block, variables) as origin:
            headers = {"Authorization": f"Bearer {token}"}
            listed = httpx2.get(f"{origin}/v1/images", headers=headers, timeout=PATIENCE).json()["data"]
            assert {image["id"] for image in listed["images"]} == set(ids)
            statuses = [httpx2.get(f"{origin}/img/{each}", timeout=PATIENCE).status_code for each in ids]
            assert statuses == [200, 200, 200]


def test_a_forgotten_password_a_certificate_and_a_restore_drill(workspace: Path, tmp_path: Path) -> None:
    (forgotten,) = blocks(workspace, "accounts.md", "Forgotten passwords")
    serve = next(block for block in blocks(workspace, "serve.md", "HTTPS") if "--tls-cert" in block)
    (drill,) = blocks(workspace, "backup.md", "Restore drill")
    (look,) = blocks(workspace, "backup.md", "The format")
    with ImageHost.open(tmp_path / "data") as host:
        host.accounts.create("anna")
        image = host.upload(make_image(), owner="anna")
    certificate = create_certificate(tmp_path)
    password = run(tmp_path, forgotten).split()[-1]
    variables = {"IMAGEHOST_SERVER_PORT": f"{free_port()}"}
    with started(tmp_path, serve, variables):
        verified = ssl.create_default_context(cafile=str(certificate.cert))
        origin = f"https://127.0.0.1:{variables['IMAGEHOST_SERVER_PORT']}"
        body = {"username": "anna", "password": password}
        signed_in = httpx2.post(f"{origin}/v1/session", json=body, verify=verified, timeout=PATIENCE)
        assert signed_in.status_code == 201
    backups = ["imagehost backup full.tar.zst", "imagehost backup Wed.tar.zst --since full.tar.zst"]
    run(tmp_path, "\n".join(backups), {"IMAGEHOST_DATA": "./data"})
    run(tmp_path, look.replace("monday.tar.zst", "full.tar.zst"))
    port = free_port()
    with started(tmp_path, drill.replace("8900", f"{port}")) as origin:
        assert httpx2.get(f"{origin}/img/{image.id}", timeout=PATIENCE).status_code == 200
