"""Metrics: what is counted, for whom, and with how many series."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from typing import Any

import httpx2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client import REGISTRY
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from tests.open_host import open_host
from tests.programs import Program
from tests.server.in_process import serving
from tests.waiting import PATIENCE

from imagehost_core import ImageHost, observer
from imagehost_core.limits import MAX_FILE_BYTES
from imagehost_core.observer import Measurement, PoolLoad
from imagehost_core.settings import LimitSettings
from imagehost_core.testing import make_image
from imagehost_server.metrics import (
    ERRORS_KEPT,
    FAMILIES,
    FOLDER_VARIABLE,
    HTTP_SECONDS,
    PROCESS_STARTS,
    HostCollector,
    Recorder,
    render_metrics,
)
from imagehost_server.settings import MetricsSettings, ServerSettings

METRICS_TOKEN = "a-token-of-32-characters-for-test"
SETTINGS = ServerSettings(
    limits=LimitSettings(api_per_minute=0, api_per_hour=0, api_per_day=0, unauthenticated_per_minute=0),
    metrics=MetricsSettings(token=METRICS_TOKEN),
    trusted_proxies=("127.0.0.1",),
)
PROXIED = {"X-Forwarded-For": "192.0.2.7", "X-Forwarded-Proto": "https"}

REQUEST = {"method": "GET", "route": "/x", "status": "200"}
BREW = {**REQUEST, "method": "other"}

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def parse(text: str) -> Samples:
    """Return the value of each sample, by its name and labels."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples.get((name, tuple(sorted(labels.items()))), 0.0)


@pytest.fixture(scope="module")
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, recorder: Recorder) -> ImageHost:
    path = tmp_path_factory.mktemp("metrics") / "data"
    return ImageHost.open(path, settings=SETTINGS, observe=recorder.observe)


@pytest.fixture(scope="module")
def origin(host: ImageHost, recorder: Recorder) -> Iterator[str]:
    with serving(host, SETTINGS, recorder) as origin:
        yield origin


@pytest.fixture(scope="module")
def client(origin: str, host: ImageHost) -> Iterator[httpx2.Client]:
    token = host.keys.create(owner="admin").token
    headers = {"Authorization": f"Bearer {token}"}
    with httpx2.Client(base_url=origin, headers=headers, timeout=PATIENCE) as client:
        yield client


def scrape(origin: str) -> Samples:
    response = httpx2.get(f"{origin}/metrics", timeout=PATIENCE)
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert response.headers["cache-control"] == "no-store"
    return parse(response.text)


def test_requests_are_counted_by_route_template_method_and_status(origin: str, client: httpx2.Client) -> None:
    before = scrape(origin)
    for _ in range(3):
        client.get("/v1/images/0000000000000000")
    client.head("/api/v1/images/0000000000000000")
    client.get("/v1/images")
    after = scrape(origin)

    def more(**labels: str) -> float:
        name = "imagehost_http_requests_total"
        return value(after, name, **labels) - value(before, name, **labels)

    assert more(method="GET", route="/v1/images/{image_id}", status="404") == 3
    assert more(method="HEAD", route="/v1/images/{image_id}", status="404") == 1
    assert more(method="GET", route="/v1/images", status="200") == 1
    duration = "imagehost_http_request_duration_seconds_count"
    route = "/v1/images/{image_id}"
    assert value(after, duration, route=route) - value(before, duration, route=route) == 4


def test_bytes_of_bodies_tiers_and_work_are_counted(
    origin: str, client: httpx2.Client, host: ImageHost
) -> None:
    before, data = scrape(origin), make_image(300, 200)
    upload = client.post("/v1/upload", files={"image": ("a.png", data)})
    url = f"/img/{upload.json()['data']['id']}"
    first, *others = [httpx2.get(f"{origin}{url}?w=50", timeout=PATIENCE) for _ in range(3)]
    unchanged = httpx2.get(f"{origin}{url}?w=50", headers={"If-None-Match": first.headers["etag"]})
    master = httpx2.get(f"{origin}{url}")
    assert unchanged.status_code == 304
    after = scrape(origin)

    def more(name: str, **labels: str) -> float:
        return value(after, name, **labels) - value(before, name, **labels)

    tiers = {
        tier: more("imagehost_image_lookups_total", tier=tier) for tier in ("render", "memory", "client")
    }
    assert tiers == {"render": 1, "memory": 2, "client": 1}
    assert more("imagehost_image_lookups_total", tier="master") == 1
    sent = sum(len(response.content) for response in (first, *others, master))
    assert more("imagehost_http_response_body_bytes_total", route="image") == sent
    assert more("imagehost_http_request_body_bytes_total", route="/v1/upload") > len(data)
    assert more("imagehost_uploads_total", result="ok") == 1
    assert more("imagehost_upload_received_bytes_total") == len(data)
    assert more("imagehost_upload_stored_bytes_total") == upload.json()["data"]["size"]
    assert more("imagehost_image_tasks_total", task="ingest", outcome="ok") == 1
    assert more("imagehost_image_tasks_total", task="render", outcome="ok") == 1
    assert more("imagehost_database_transaction_duration_seconds_count", result="commit") >= 1
    assert value(after, "imagehost_images") == host.maintenance.statistics().database.images
    assert value(after, "imagehost_host_up") == 1


def test_upload_requests_that_are_refused_before_their_files_are_counted_by_their_code(
    origin: str, client: httpx2.Client
) -> None:
    file = {"image": ("a.png", make_image(8, 8))}
    large = {"image": ("a.png", bytes(MAX_FILE_BYTES + 1))}
    refused: dict[str, Callable[[], httpx2.Response]] = {
        "VALIDATION_ERROR": lambda: client.post("/v1/upload", files=file, data={"quality": "0"}),
        "BAD_REQUEST": lambda: client.post("/v1/upload", files={"other": ("", "")}),
        "UNSUPPORTED_MEDIA_TYPE": lambda: client.post("/v1/upload", json={}),
        "PAYLOAD_TOO_LARGE": lambda: client.post("/v1/upload", files=large),
        "UNAUTHORIZED": lambda: httpx2.post(f"{origin}/v1/upload", files=file),
    }
    for code, upload in refused.items():
        before = scrape(origin)
        assert upload().json()["error"]["code"] == code
        after = scrape(origin)
        name = "imagehost_uploads_total"
        assert value(after, name, result=code) - value(before, name, result=code) == 1, code
        assert value(after, name, result="ok") == value(before, name, result="ok")


def test_every_family_is_shown_with_its_help_and_type(origin: str) -> None:
    text = httpx2.get(f"{origin}/metrics").text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert families.keys() == FAMILIES.keys()
    for family in FAMILIES.values():
        assert families[family.name].documentation == family.help
        assert f"# TYPE {family.shown_name} {family.type}\n" in text


@given(st.text("ABCXYZ", min_size=1, max_size=12), st.text(st.characters(codec="ascii"), max_size=40))
def test_hostile_methods_and_paths_add_no_series(origin: str, method: str, path: str) -> None:
    target = f"{origin}/{httpx2.URL('/').join(path).path if path.isalnum() else path.encode().hex()}"
    httpx2.request(method, target, timeout=PATIENCE)
    labels = {labels for name, labels in scrape(origin) if name == "imagehost_http_requests_total"}
    assert {dict(each)["method"] for each in labels} <= {"GET", "HEAD", "POST", "OPTIONS", "other"}
    assert len(labels) < 40


def test_the_metrics_are_for_this_machine_or_the_token_only(origin: str) -> None:
    def status(**headers: str) -> int:
        named = {name.replace("_", "-"): content for name, content in headers.items()}
        return httpx2.get(f"{origin}/metrics", headers=named).status_code

    assert status() == 200
    assert status(**PROXIED) == 403
    assert status(**PROXIED, Authorization="Bearer wrong") == 403
    assert status(**PROXIED, Authorization="Basic eDp5") == 403
    assert status(**PROXIED, Authorization=f"Bearer {METRICS_TOKEN}") == 200
    assert status(Via="1.1 proxy") == 403


def test_without_a_setting_no_token_opens_the_metrics(tmp_path: Path) -> None:
    without = ServerSettings(trusted_proxies=("127.0.0.1",))
    with serving(open_host(tmp_path / "data"), without) as origin:
        for token in ("None", "x"):
            headers = {**PROXIED, "Authorization": f"Bearer {token}"}
            assert httpx2.get(f"{origin}/metrics", headers=headers).status_code == 403
        assert httpx2.get(f"{origin}/metrics").status_code == 200


def test_a_database_that_fails_hides_only_what_is_read_from_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder()
    recorder.request("GET", "/x", 200, 0.1, 0, 0)
    recorder.fold()
    host = open_host(tmp_path / "data")
    host.close()
    with caplog.at_level(logging.ERROR):
        samples = parse(render_metrics(recorder, host).decode())
    assert "statistics for the metrics cannot be read" in caplog.text
    assert value(samples, "imagehost_host_up") == 0
    assert value(samples, "imagehost_http_requests_total", **REQUEST) == 1
    assert ("imagehost_images", ()) not in samples


def test_a_short_token_is_refused() -> None:
    with pytest.raises(ValueError, match="16"):
        MetricsSettings(token="short")


def test_applications_of_one_process_count_apart() -> None:
    one, other = Recorder(), Recorder()
    one.request("GET", "/x", 200, 0.1, 0, 0)
    one.observe(observer.UploadEnded("ok", 10, 5))
    for recorder, requests, uploads in ((one, 1, 1), (other, 0, 0)):
        recorder.fold()
        samples = parse(generate_latest(HostCollector(recorder)).decode())
        assert value(samples, "imagehost_http_requests_total", **REQUEST) == requests
        assert value(samples, "imagehost_uploads_total", result="ok") == uploads
    assert not [metric for metric in REGISTRY.collect() if metric.name.startswith("imagehost")]


@given(st.lists(st.one_of(st.floats(0, 100), st.none()), min_size=1, max_size=30))
def test_a_histogram_has_each_duration_in_its_bucket_however_often_it_is_folded(
    durations: list[float | None],
) -> None:
    recorder, counted = Recorder(), [seconds for seconds in durations if seconds is not None]
    for seconds in durations:
        if seconds is None:
            recorder.fold()
        else:
            recorder.request("GET", "/x", 200, seconds, 1, 2)
    recorder.fold()
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for metric in recorder.counted().values()
        for sample in metric.samples
        if sample.labels.get("route") == "/x"
    }
    name = HTTP_SECONDS.name
    for bound in HTTP_SECONDS.options["buckets"]:
        expected = sum(seconds <= bound for seconds in counted)
        assert samples.get((f"{name}_bucket", "/x", str(bound)), 0) == expected
    assert samples.get((f"{name}_count", "/x"), 0) == len(counted)
    assert samples.get((f"{name}_sum", "/x"), 0) == pytest.approx(sum(counted))
    assert samples.get(("imagehost_http_requests_total", "GET", "/x", "200"), 0) == len(counted)
    assert samples.get(("imagehost_http_request_body_bytes_total", "/x"), 0) == len(counted)
    assert samples.get(("imagehost_http_response_body_bytes_total", "/x"), 0) == 2 * len(counted)


MEASUREMENTS: list[tuple[Measurement, dict[tuple[str, ...], float]]] = [
    (
        observer.TransactionEnded(waited_seconds=2.0, seconds=3.0, committed=False),
        {
            ("database_transaction_duration_seconds_sum", "rollback"): 3,
            ("database_write_wait_seconds_sum",): 2,
        },
    ),
    (observer.VariantFound(tier="memory"), {("image_lookups_total", "coalesced"): 1}),
    (observer.VariantFound(tier="disk"), {("image_lookups_total", "disk"): 1}),
    (
        observer.WorkerAcquired(lane="heavy", waited_seconds=4.0, admitted=False, flow=""),
        {("image_queue_wait_seconds_sum", "heavy"): 4, ("image_queue_rejections_total", "heavy"): 1},
    ),
    (
        PoolLoad(busy=3, idle=2, waiting=1),
        {("image_workers", "busy"): 3, ("image_workers", "idle"): 2, ("image_queue_length",): 1},
    ),
    (
        observer.TaskEnded(task="render", lane="light", format="webp", seconds=0.5, outcome="timeout"),
        {
            ("image_task_duration_seconds_sum", "render", "light", "webp"): 0.5,
            ("image_tasks_total", "render", "timeout"): 1,
        },
    ),
    (observer.WorkerStarted(), {("image_worker_starts_total",): 1}),
    (observer.WorkerExited(cause="killed"), {("image_worker_exits_total", "killed"): 1}),
    (
        observer.UploadEnded(code="ok", received_bytes=7, stored_bytes=5),
        {
            ("uploads_total", "ok"): 1,
            ("upload_received_bytes_total",): 7,
            ("upload_stored_bytes_total",): 5,
        },
    ),
    (
        observer.SharedDatabaseLoad(
            connections_used=4, connections_waiting=3, lease_age_seconds=0.5, changes_waiting=2
        ),
        {
            ("database_connections_used",): 4,
            ("database_connections_waiting",): 3,
            ("cache_lease_age_seconds",): 0.5,
            ("cache_invalidations_waiting",): 2,
        },
    ),
    (
        observer.InvalidationEnded(seconds=3.5, acknowledged=False),
        {("cache_invalidation_wait_seconds_sum", "expired"): 3.5},
    ),
    (
        observer.StoreRequestEnded(operation="get", succeeded=False, seconds=0.25),
        {("object_store_request_duration_seconds_sum", "get", "failed"): 0.25},
    ),
    (
        observer.StoreBytesTransferred(operation="put", size_bytes=13),
        {("object_store_bytes_total", "put"): 13},
    ),
    (
        observer.DeliveryAttempted(succeeded=False, seconds=6.0),
        {("webhook_attempt_duration_seconds_sum", "failed"): 6},
    ),
    (
        observer.CachePurgeAttempted(succeeded=False, seconds=8.0, given_up=True),
        {("cache_purge_duration_seconds_sum", "failed"): 8, ("cache_purges_given_up_total",): 1},
    ),
    (
        observer.VariantsEvicted(limit="image", count=4, size_bytes=9),
        {("variant_evictions_total", "image"): 4, ("variant_evicted_bytes_total", "image"): 9},
    ),
    (observer.VariantsSwept(stored_bytes=11), {("variant_cache_bytes",): 11}),
]


@pytest.mark.parametrize(("measurement", "expected"), MEASUREMENTS)
def test_each_measurement_of_a_host_is_counted(
    measurement: Measurement, expected: dict[tuple[str, ...], float]
) -> None:
    recorder = Recorder()
    recorder.observe(measurement)
    assert {
        (sample.name.removeprefix("imagehost_"), *sample.labels.values()): sample.value
        for metric in recorder.counted().values()
        for sample in metric.samples
        if sample.value
        and not sample.name.endswith(("_bucket", "_count"))
        and metric.name != PROCESS_STARTS.name
    } == expected


def test_every_kind_of_measurement_is_counted() -> None:
    kinds = {kind.__name__ for kind in Measurement.__subclasses__()}
    assert {type(measurement).__name__ for measurement, _ in MEASUREMENTS} == kinds


def test_an_application_that_ends_has_counted_all_its_requests(tmp_path: Path) -> None:
    recorder = Recorder()
    with serving(open_host(tmp_path / "data"), SETTINGS, recorder) as origin:
        for _ in range(3):
            assert httpx2.get(f"{origin}/healthz", timeout=PATIENCE).status_code == 200
    (counted,) = (
        sample.value
        for sample in recorder.counted()["imagehost_http_requests"].samples
        if sample.labels["route"] == "/healthz"
    )
    assert counted == 3


PROCESS = """
import os, sys
from imagehost_core.observer import VariantsSwept
from imagehost_server.metrics import Recorder, Slot

recorder = Recorder(slot=Slot.claim())
recorder.connections(3)

async def count():
    for number in range(int(sys.argv[1])):
        status = 500 if f"{number}" in sys.argv[3:] else 200
        recorder.request("BREW", "/x", status, 0.1, 1, 1, request_id=f"{sys.argv[2]}-{number}")

import asyncio
asyncio.run(count())
recorder.fold()
recorder.observe(VariantsSwept(int(sys.argv[1])))
print("counted", flush=True)
sys.stdin.read()
"""
"""A server process that counts requests."""

SCRAPE = """
import json, sys
from pathlib import Path
from attrs import asdict
from imagehost_server.metrics import HostCollector, Recorder, Slot
from prometheus_client.exposition import generate_latest

recorder = Recorder(slot=Slot.claim())
errors = [asdict(error) for error in recorder.recent_errors()]
print(json.dumps([generate_latest(HostCollector(recorder)).decode(), errors]))
"""
"""Another one, which prints the metrics and the latest errors of all."""


@contextmanager
def process(requests: int, name: str = "", *failed: int) -> Iterator[None]:
    """Let a process count requests, which runs until the block ends, and is killed then."""
    running = Program(PROCESS, requests, name, *failed)
    assert running.read_line() == "counted"
    yield
    running.kill()


def scrape_all() -> tuple[Samples, list[dict[str, Any]]]:
    """Return the metrics and the latest errors of all processes."""
    program = Program(SCRAPE)
    text, errors = json.loads(program.read_line())
    program.end()
    return parse(text), errors


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the processes share."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    return tmp_path


several_processes = pytest.mark.skipif(sys.platform == "win32", reason="there, one process serves")


@several_processes
def test_the_metrics_are_those_of_all_processes(folder: Path) -> None:
    with process(5), process(6):
        samples, _ = scrape_all()
        assert value(samples, "imagehost_http_requests_total", **BREW) == 11
        assert value(samples, "imagehost_http_request_duration_seconds_count", route="/x") == 11
        assert value(samples, "imagehost_http_connections") == 6
        assert value(samples, "imagehost_variant_cache_bytes") == 6, "the value that was set last"
        memory = [dict(labels)["process"] for name, labels in samples if name.endswith("_memory_bytes")]
        assert sorted(memory) == ["image_workers", "server-0", "server-1", "server-2", "supervisor"]


@several_processes
def test_counts_of_killed_processes_stay_and_their_gauges_end(folder: Path) -> None:
    for count in (1, 2):
        with process(count), process(count):
            pass
    samples, _ = scrape_all()
    assert value(samples, "imagehost_http_requests_total", **BREW) == 6
    assert value(samples, "imagehost_http_connections") == 0
    memory = [dict(labels)["process"] for name, labels in samples if name.endswith("_memory_bytes")]
    assert "server-1" not in memory
    names = sorted(path.name for path in folder.glob("*.pid"))
    assert names == ["0.pid", "1.pid"], "a process that replaces another takes its files"


@several_processes
def test_the_latest_errors_are_those_of_all_processes_also_of_killed_ones(folder: Path) -> None:
    for name in ("first", "second"):
        with process(3, name, 1):
            pass
    with process(2, "third", 0):
        _, errors = scrape_all()
    assert [error["request_id"] for error in errors] == ["third-0", "second-1", "first-1"]
    assert {(error["status"], error["method"], error["route"]) for error in errors} == {(500, "other", "/x")}


@given(st.lists(st.sampled_from([200, 500, 503, 507]), max_size=5 * ERRORS_KEPT))
@example([500, *[503] * (2 * ERRORS_KEPT)])
def test_refused_requests_do_not_push_failures_out_of_the_latest_errors(statuses: list[int]) -> None:
    recorder = Recorder()
    for number, status in enumerate(statuses):
        recorder.request("GET", "/x", status, 0.1, 0, 0, request_id=str(number))
    failed = [str(number) for number, status in enumerate(statuses) if status == 500]
    refused = [str(number) for number, status in enumerate(statuses) if status > 500]
    kept = [int(error.request_id) for error in recorder.recent_errors()]
    assert {*map(str, kept)} == {*failed[-ERRORS_KEPT:], *refused[-ERRORS_KEPT:]}
    assert kept == sorted(kept, reverse=True), "the newest first"


CREATE_FOLDER = """
import sys
from imagehost_server.metrics import create_folder

folder = create_folder()
print(folder, oct(folder.stat().st_mode), flush=True)
sys.stdin.read()
"""
"""The parent of server processes, until the end of its input."""


@several_processes
def test_the_folder_of_a_server_that_was_killed_is_removed_by_the_next_and_no_other() -> None:
    def create() -> tuple[Program, Path]:
        server = Program(CREATE_FOLDER)
        path, mode = server.read_line().split()
        assert mode.endswith("700"), "it is for this user only"
        return server, Path(path)

    running, used = create()
    ended, left = create()
    ended.kill()
    last, next_ = create()
    last.kill()
    assert used.is_dir()
    assert not left.exists()
    running.kill()
    for folder in (used, next_):
        rmtree(folder, ignore_errors=True)


def test_every_name_follows_the_conventions_of_prometheus() -> None:
    for family in FAMILIES.values():
        assert family.name.startswith("imagehost_")
        assert not family.name.endswith("_total")
        assert family.help.endswith((".", "else 0."))
        buckets = family.options.get("buckets", ())
        assert bool(buckets) is (family.type == "histogram")
        if buckets:
            assert family.name.endswith("_seconds")
            assert list(buckets) == sorted(set(buckets))


def test_methods_that_clients_make_up_share_one_series() -> None:
    recorder = Recorder()
    for number in range(50):
        recorder.request(f"METHOD{number}", "/x", 405, 0.1, 0, 0)
    recorder.fold()
    samples = parse(generate_latest(HostCollector(recorder)).decode())
    counted = {labels: count for (name, labels), count in samples.items() if name.endswith("requests_total")}
    assert counted == {(("method", "other"), ("route", "/x"), ("status", "405")): 50}
