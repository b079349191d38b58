"""The Kubernetes manifest: valid, and in agreement with the container image, the settings and itself."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.outside.deploy.containerfile import instructions
from tests.shipped_files import ROOT, shipped

from imagehost_core.limits import MAX_FILE_BYTES, MAX_FILES_PER_REQUEST
from imagehost_core.settings import SettingsError
from imagehost_server.cli.bootstrap import read_password
from imagehost_server.middleware.header_checks import PROBE_PATHS
from imagehost_server.serve.supervisor import STOP_SECONDS
from imagehost_server.settings import ServerSettings, load

Resource = dict[str, Any]


@pytest.fixture(scope="module")
def manifest() -> dict[str, Resource]:
    """The resources, by kind."""
    documents = yaml.safe_load_all(shipped("deploy/kubernetes.yaml"))
    return {resource["kind"]: resource for resource in documents}


@pytest.fixture(scope="module")
def pod(manifest: dict[str, Resource]) -> Resource:
    pod = manifest["Deployment"]["spec"]["template"]["spec"]
    assert isinstance(pod, dict)
    return pod


@pytest.fixture(scope="module")
def container(pod: Resource) -> Resource:
    (container,) = pod["containers"]
    assert isinstance(container, dict)
    return container


@pytest.fixture(scope="module")
def host() -> Resource:
    """A host of the composition of two."""
    document = yaml.safe_load(shipped("deploy/compose-hosts.yaml"))
    host = document["services"]["imagehost-1"]
    assert isinstance(host, dict)
    return host


@pytest.fixture
def settings(container: Resource, tmp_path: Path) -> ServerSettings:
    """The settings of a pod; a name that is none fails."""
    variables = {variable["name"]: variable["value"] for variable in container["env"] if "value" in variable}
    return load(tmp_path, {}, variables)[0]


def gib(size: str) -> int:
    return int(size.removesuffix("Gi")) * 2**30


def volumes(pod: Resource) -> list[tuple[str, Resource]]:
    return [(volume["name"], volume) for volume in pod["volumes"]]


def find(value: object, key: str) -> Iterator[Any]:
    """Yield the values of a key, at any depth."""
    members = dict(enumerate(value)) if isinstance(value, list) else value
    for name, member in members.items() if isinstance(members, dict) else ():
        if name == key:
            yield member
        yield from find(member, key)


def test_kubernetes_validate_finds_nothing(linters: Path) -> None:
    subprocess.run([linters / "kubernetes-validate", "--strict", ROOT / "deploy/kubernetes.yaml"], check=True)


def test_a_pod_has_the_engines_the_secrets_and_the_image_of_a_host_of_the_composition(
    settings: ServerSettings, container: Resource, host: Resource
) -> None:
    assert {variable["name"] for variable in container["env"]} >= host["environment"].keys()
    others = {each["name"] for each in container["env"] if not each["name"].startswith("IMAGEHOST_")}
    assert others < host["environment"].keys()
    assert settings.database.startswith("postgresql://")
    assert settings.storage.url.startswith("s3://")
    assert container["image"] == host["image"]


def test_ports_and_probes_are_those_of_the_server(container: Resource) -> None:
    exposed = dict(instructions(shipped("deploy/Containerfile")))["EXPOSE"]
    (port,) = container["ports"]
    assert port["containerPort"] == int(exposed)
    paths = {
        kind: container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "liveness", "readiness")
    }
    assert paths == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}
    assert set(paths.values()) == PROBE_PATHS
    assert {probe["port"] for probe in find(container, "httpGet")} == {port["name"]}


def test_what_is_named_exists(manifest: dict[str, Resource], pod: Resource, container: Resource) -> None:
    secret, service = manifest["Secret"], manifest["Service"]
    keys = secret["stringData"].keys()
    references = list(find(container, "secretKeyRef"))
    assert {reference["name"] for reference in references} == {secret["metadata"]["name"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == dict(volumes(pod)).keys()
    mounted = dict(volumes(pod))["secrets"]["secret"]
    assert mounted["secretName"] == secret["metadata"]["name"]
    assert {each["key"] for each in [*references, *mounted["items"]]} == keys

    labels = manifest["Deployment"]["spec"]["template"]["metadata"]["labels"]
    namespaces = {**labels, "kubernetes.io/metadata.name": manifest["Ingress"]["spec"]["ingressClassName"]}
    assert service["spec"]["selector"] == labels
    assert all(match.items() <= namespaces.items() for match in find(list(manifest.values()), "matchLabels"))
    assert len(list(find(list(manifest.values()), "matchLabels"))) == 5

    (port,), (exposed,) = service["spec"]["ports"], container["ports"]
    policy = manifest["NetworkPolicy"]["spec"]["ingress"]
    assert port["targetPort"] == policy[0]["ports"][0]["port"] == exposed["name"]
    (backend,) = find(manifest["Ingress"], "backend")
    assert backend["service"] == {"name": service["metadata"]["name"], "port": {"name": port["name"]}}


def test_the_host_name_is_that_of_the_base_url(
    manifest: dict[str, Resource], settings: ServerSettings
) -> None:
    ingress = manifest["Ingress"]["spec"]
    (rule,), (tls,) = ingress["rules"], ingress["tls"]
    assert tls["hosts"] == [rule["host"]]
    assert settings.base_url == f"https://{rule['host']}/v1"


def test_a_pod_stops_after_the_service_sends_it_no_more_requests(
    settings: ServerSettings, pod: Resource, container: Resource
) -> None:
    probe = container["readinessProbe"]
    drain = settings.server.drain_seconds
    assert probe["periodSeconds"] * probe["failureThreshold"] < drain
    assert drain + STOP_SECONDS < pod["terminationGracePeriodSeconds"]


def test_the_data_directory_has_room_for_both_caches_and_uploads(
    settings: ServerSettings, pod: Resource, container: Resource
) -> None:
    caches = settings.storage.cache_bytes + settings.delivery.disk_cache_bytes
    sizes = {name: volume["emptyDir"]["sizeLimit"] for name, volume in volumes(pod) if "emptyDir" in volume}
    uploads = 4 * MAX_FILES_PER_REQUEST * MAX_FILE_BYTES
    # A process may exceed each cache by a tenth.
    assert 1.1 * caches + uploads < gib(sizes["data"])
    requested = container["resources"]["requests"]["ephemeral-storage"]
    assert sum(map(gib, sizes.values())) <= gib(requested)


def test_a_pod_runs_as_the_user_of_the_image_and_with_the_restrictions_of_the_composition(
    pod: Resource, container: Resource, host: Resource
) -> None:
    image = dict(instructions(shipped("deploy/Containerfile")))
    context = pod["securityContext"]
    assert f"{context['runAsUser']}:{context['runAsGroup']}" == image["USER"]
    assert context["fsGroup"] == context["runAsGroup"]
    restrictions = container["securityContext"]
    assert restrictions["readOnlyRootFilesystem"] is host["read_only"]
    assert restrictions["capabilities"]["drop"] == host["cap_drop"]
    assert restrictions["allowPrivilegeEscalation"] is False


def test_the_secret_is_empty_and_refused_until_it_is_filled(
    manifest: dict[str, Resource],
    settings: ServerSettings,
    pod: Resource,
    container: Resource,
    tmp_path: Path,
) -> None:
    assert set(manifest["Secret"]["stringData"].values()) == {""}
    (mount,) = (mount for mount in container["volumeMounts"] if mount["name"] == "secrets")
    (item,) = next(find(pod["volumes"], "items"))
    assert settings.admin.password_file == f"{mount['mountPath']}/{item['path']}"
    path = tmp_path / "admin_password"
    path.touch()
    with pytest.raises(SettingsError, match="expected"):
        read_password(str(path))
