"""The container image and its composition with Caddy: linted, and their commands run without an engine."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from importlib.metadata import distributions
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.outside.deploy.conftest import require_program
from tests.outside.deploy.containerfile import Build, assignments, exec_form, instructions
from tests.ports import free_port
from tests.shipped_files import ROOT, shipped

from imagehost_server.settings import load

SYSTEM_PYTHON = "/usr/bin/python3"


@pytest.fixture(scope="module")
def containerfile() -> str:
    return shipped("deploy/Containerfile")


@pytest.fixture(scope="module")
def final(containerfile: str) -> dict[str, str]:
    """The instructions of the last stage; of several with one name, the last."""
    stages: list[dict[str, str]] = []
    for name, argument in instructions(containerfile):
        if name == "FROM":
            stages.append({})
        stages[-1][name] = argument
    return stages[-1]


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    document = yaml.safe_load(shipped("deploy/compose.yaml"))
    assert isinstance(document, dict)
    return document


def test_hadolint_finds_nothing(linters: Path) -> None:
    subprocess.run([linters / "hadolint", ROOT / "deploy/Containerfile"], check=True)


def test_the_composition_matches_the_schema_of_the_compose_specification(linters: Path) -> None:
    schema = ("--builtin-schema", "vendor.compose-spec")
    subprocess.run([linters / "check-jsonschema", *schema, ROOT / "deploy/compose.yaml"], check=True)


def test_the_image_runs_as_a_user_with_a_fixed_id_and_stops_by_sigterm(final: dict[str, str]) -> None:
    user, group = final["USER"].split(":")
    assert (user, group, final["STOPSIGNAL"]) == ("10001", "10001", "SIGTERM")
    assert f"--uid {user}" in final["RUN"]
    assert exec_form(final["ENTRYPOINT"]) == ["imagehost"]
    assert exec_form(final["CMD"]) == ["serve"]


def test_the_data_directory_is_a_volume(final: dict[str, str]) -> None:
    assert final["VOLUME"] == assignments(final["ENV"])["IMAGEHOST_DATA"] == "/data"


def test_image_and_composition_check_health_by_the_same_command(
    final: dict[str, str], compose: dict[str, Any]
) -> None:
    kind, *command = compose["services"]["imagehost"]["healthcheck"]["test"]
    assert (kind, command) == ("CMD", exec_form(final["HEALTHCHECK"]))


def test_the_server_trusts_the_ip_address_of_caddy_alone(compose: dict[str, Any], tmp_path: Path) -> None:
    server, caddy = compose["services"]["imagehost"], compose["services"]["caddy"]
    variables = {
        name: value.replace("${DOMAIN:?the host name of the service}", "images.example.com")
        for name, value in server["environment"].items()
    }
    settings, _ = load(tmp_path, {}, variables)
    assert settings.trusted_proxies == (caddy["networks"]["proxied"]["ipv4_address"],)
    assert settings.base_url == "https://images.example.com/v1"
    assert "ports" not in server
    assert caddy["environment"]["UPSTREAM"] == "imagehost:8000"
    assert caddy["environment"].keys() == {"DOMAIN", "TLS", "UPSTREAM"}


@pytest.mark.parametrize("name", ["compose.yaml", "compose-hosts.yaml"])
def test_no_other_service_gets_the_ip_address_of_caddy(name: str) -> None:
    document = yaml.safe_load(shipped(f"deploy/{name}"))
    caddy = ip_address(document["services"]["caddy"]["networks"]["proxied"]["ipv4_address"])
    (pool,) = document["networks"]["proxied"]["ipam"]["config"]
    subnet, others = ip_network(pool["subnet"]), ip_network(pool["ip_range"])
    assert caddy in subnet
    assert caddy not in others
    assert set(others.hosts()) < set(subnet.hosts())


def test_the_password_is_a_secret_and_the_root_file_system_read_only(compose: dict[str, Any]) -> None:
    server = compose["services"]["imagehost"]
    (secret,) = server["secrets"]
    assert server["environment"]["IMAGEHOST_ADMIN_PASSWORD_FILE"] == f"/run/secrets/{secret}"
    assert compose["secrets"].keys() == {secret}
    assert (server["read_only"], server["cap_drop"], server["init"]) == (True, ["ALL"], True)
    assert "data:/data" in server["volumes"]


def test_an_engine_waits_longer_than_the_server_takes_to_stop(compose: dict[str, Any]) -> None:
    from imagehost_server.serve.supervisor import STOP_SECONDS

    assert int(compose["services"]["imagehost"]["stop_grace_period"].removesuffix("s")) > STOP_SECONDS


def test_the_build_context_has_nothing_but_what_is_copied(workspace: Path, containerfile: str) -> None:
    lines = (workspace / ".dockerignore").read_text(encoding="utf-8").splitlines()
    copied = {
        argument.split()[0]
        for name, argument in instructions(containerfile)
        if name == "COPY" and not argument.startswith("--from")
    }
    assert "*" in lines
    assert {line[1:] for line in lines if line.startswith("!")} == copied


@pytest.fixture(scope="module")
def build(workspace: Path, containerfile: str) -> Iterator[Build]:
    """The image, built in a directory that every user may enter, with Debian's own Python."""
    require_program("uv")
    if not Path("/usr/bin/python3-config").exists():
        pytest.skip("NOT TESTED: the build of the image, because python3-dev is not installed")
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED: the build of the image, which needs root")
    with tempfile.TemporaryDirectory(prefix="imagehost-image-") as directory:
        Path(directory).chmod(0o755)
        build = Build(Path(directory), workspace, SYSTEM_PYTHON)
        build.run(containerfile)
        yield build


@pytest.mark.slow
def test_the_build_creates_the_user_and_the_data_directory(build: Build) -> None:
    passwd = (build.root / "etc" / "passwd").read_text(encoding="utf-8")
    assert "imagehost:x:10001:10001::/nonexistent:/usr/sbin/nologin" in passwd
    status = (build.root / "data").stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (10_001, 10_001, 0o700)
    (installed,) = (build.root / "opt" / "imagehost" / "lib").glob("python*/site-packages")
    packages = {path.name for path in installed.glob("imagehost_*")}
    assert {"imagehost_core", "imagehost_server"} <= packages
    assert "imagehost_client" not in packages


@pytest.mark.slow
def test_the_image_names_the_version_and_the_hashes_of_each_package_that_it_has(build: Build) -> None:
    requirements = (build.root / "opt" / "imagehost" / "requirements.txt").read_text(encoding="utf-8")
    locked = dict(
        re.findall(
            r"(?m)^([\w.-]+)==(\S+)(?= .*\\\n    --hash=sha256:| \\\n    --hash=sha256:)", requirements
        )
    )
    (installed,) = (build.root / "opt" / "imagehost" / "lib").glob("python*/site-packages")
    names = {
        re.sub(r"[._]", "-", found["Name"]).lower(): found["Version"]
        for found in (each.metadata for each in distributions(path=[str(installed)]))
        if not found["Name"].startswith("imagehost-")
    }
    assert names.items() <= locked.items()
    assert "://" not in requirements


@pytest.mark.slow
def test_the_command_of_the_image_serves_and_its_health_check_notices_it(
    build: Build, final: dict[str, str], tmp_path: Path
) -> None:
    port = free_port()
    variables = {
        **build.variables,
        # As a container publishes the port.
        "IMAGEHOST_SERVER_HOST": "127.0.0.1",
        "IMAGEHOST_SERVER_PORT": str(port),
    }
    assert build.variables["IMAGEHOST_SERVER_HOST"] == "0.0.0.0"
    user, group = map(int, final["USER"].split(":"))
    check = [argument.replace(":8000", f":{port}") for argument in exec_form(final["HEALTHCHECK"])]
    program = shutil.which(check[0], path=variables["PATH"])
    assert program is not None
    assert program.startswith(str(build.root))

    def is_healthy() -> bool:
        check_command = [program, *check[1:]]
        done = subprocess.run(check_command, env=variables, user=user, capture_output=True, check=False)
        return done.returncode == 0

    assert not is_healthy()
    command = [str(shutil.which(build.command[0], path=variables["PATH"])), *build.command[1:]]
    with subprocess.Popen(
        command,
        cwd=build.map(final["WORKDIR"]),
        env=variables,
        user=user,
        group=group,
        extra_groups=[],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("Serving "):
                    break
            for _ in range(600):
                if is_healthy() or process.poll() is not None:
                    break
            assert is_healthy()
            process.terminate()
            assert process.wait(30) == 0
        finally:
            process.kill()
    assert any((build.root / "data").iterdir())
