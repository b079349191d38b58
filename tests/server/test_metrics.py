"""Metrics: what is counted, for whom, and with how many series."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from tests.server.in_process import serving

from imagehost_core import ImageHost
from imagehost_core.settings import LimitSettings
from imagehost_core.testing import make_image
from imagehost_server.metrics import FAMILIES, Kind, MetricTable, Recorder, create_table_file
from imagehost_server.metrics.exposition import render_metrics
from imagehost_server.metrics.families import HTTP_CONNECTIONS, HTTP_REQUESTS, HTTP_SECONDS, VARIANT_BYTES
from imagehost_server.metrics.table import MAX_SERIES
from imagehost_server.settings import MetricsSettings, ServerSettings

METRICS_TOKEN = "a-token-of-32-characters-for-test"
SETTINGS = ServerSettings(
    limits=LimitSettings(api_per_minute=0, api_per_hour=0, api_per_day=0, unauthenticated_per_minute=0),
    metrics=MetricsSettings(token=METRICS_TOKEN),
    trusted_proxies=("127.0.0.1",),
)
PROXIED = {"X-Forwarded-For": "192.0.2.7", "X-Forwarded-Proto": "https"}

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
    return Recorder(MetricTable())


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
    with httpx2.Client(base_url=origin, headers=headers, timeout=60) as client:
        yield client


def scrape(origin: str) -> Samples:
    response = httpx2.get(f"{origin}/metrics", timeout=60)
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
    first, *others = [httpx2.get(f"{origin}{url}?w=50", timeout=60) for _ in range(3)]
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


def test_every_family_is_shown_with_its_help_and_type(origin: str) -> None:
    text = httpx2.get(f"{origin}/metrics").text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert families.keys() == FAMILIES.keys()
    for family in FAMILIES.values():
        assert families[family.name].documentation == family.help
        assert f"# TYPE {family.shown_name} " in text


@settings(max_examples=20)
@given(st.text("ABCXYZ", min_size=1, max_size=12), st.text(st.characters(codec="ascii"), max_size=40))
def test_hostile_methods_and_paths_add_no_series(origin: str, method: str, path: str) -> None:
    target = f"{origin}/{httpx2.URL('/').join(path).path if path.isalnum() else path.encode().hex()}"
    httpx2.request(method, target, timeout=60)
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
    with serving(ImageHost.open(tmp_path / "data"), without) as origin:
        for token in ("None", "x"):
            headers = {**PROXIED, "Authorization": f"Bearer {token}"}
            assert httpx2.get(f"{origin}/metrics", headers=headers).status_code == 403
        assert httpx2.get(f"{origin}/metrics").status_code == 200


def test_a_database_that_fails_hides_only_what_is_read_from_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder(MetricTable())
    recorder.request("GET", "/x", 200, 0.1, 0, 0)
    host = ImageHost.open(tmp_path / "data")
    host.close()
    with caplog.at_level(logging.ERROR):
        samples = parse(render_metrics(recorder.table, host).decode())
    assert "statistics for the metrics cannot be read" in caplog.text
    assert value(samples, "imagehost_host_up") == 0
    assert value(samples, "imagehost_http_requests_total", method="GET", route="/x", status="200") == 1
    assert ("imagehost_images", ()) not in samples


def test_a_short_token_is_refused() -> None:
    with pytest.raises(ValueError, match="16"):
        MetricsSettings(token="short")


@given(st.lists(st.floats(0, 100), min_size=1, max_size=30))
def test_a_histogram_has_each_duration_in_its_buckets(durations: list[float]) -> None:
    table = MetricTable()
    recorder = Recorder(table)
    for seconds in durations:
        recorder.request("GET", "/x", 200, seconds, 0, 0)
    values = table.totals()[HTTP_SECONDS.name, "/x"]
    bounds = (*HTTP_SECONDS.buckets, float("inf"))
    cumulated = [sum(values[: index + 1]) for index in range(len(bounds))]
    assert cumulated == [sum(seconds <= bound for seconds in durations) for bound in bounds]
    assert values[-1] == pytest.approx(sum(durations))


OTHER_PROCESS = """
import os, sys
from imagehost_server.metrics import MetricTable, Recorder
from imagehost_server.metrics.families import VARIANT_BYTES

recorder = Recorder(MetricTable(int(sys.argv[1])))
recorder.connections(3)
for _ in range(int(sys.argv[2])):
    recorder.request("GET", "/x", 200, 0.1, 1, 1)
position = recorder.table.series(VARIANT_BYTES)
recorder.table.values[position], recorder.table.values[position + 1] = 10.0, 900.0
print("counted", flush=True)
sys.stdin.read()
os.kill(os.getpid(), 9)
"""
"""A program that counts requests, and kills itself at the end of its input."""


@contextmanager
def other_process(descriptor: int, requests: int) -> Iterator[None]:
    """Let another process count requests, which runs until the block ends, and is killed then."""
    with subprocess.Popen(
        [sys.executable, "-c", OTHER_PROCESS, str(descriptor), str(requests)],
        pass_fds=(descriptor,),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"counted\n"
        yield


@pytest.fixture
def descriptor() -> Iterator[int]:
    """The descriptor of a table for three processes."""
    number = create_table_file(3)
    yield number
    os.close(number)


REQUESTS = (HTTP_REQUESTS.name, "GET", "/x", "200")


def test_counts_of_killed_processes_stay_and_their_gauges_end(descriptor: int) -> None:
    for count in (3, 4):
        with other_process(descriptor, count):
            pass
    own = Recorder(MetricTable(descriptor))
    totals = own.table.totals()
    assert totals[REQUESTS] == [7.0]
    assert totals[HTTP_CONNECTIONS.name,] == [0.0]
    assert [process.name for process in own.table.processes()] == ["server-0"]
    own.request("GET", "/x", 200, 0.1, 0, 0)
    assert own.table.totals()[REQUESTS] == [8.0]


def test_processes_that_run_at_a_time_have_slots_of_their_own(descriptor: int) -> None:
    own = Recorder(MetricTable(descriptor))
    own.request("GET", "/x", 200, 0.1, 0, 0)
    own.connections(2)
    position = own.table.series(VARIANT_BYTES)
    own.table.values[position], own.table.values[position + 1] = 20.0, 300.0
    with other_process(descriptor, 5), other_process(descriptor, 6):
        totals = own.table.totals()
        assert totals[REQUESTS] == [12.0]
        assert totals[HTTP_CONNECTIONS.name,] == [8.0]
        assert totals[VARIANT_BYTES.name,] == [20.0, 300.0], "the value that was set last"
        names = [process.name for process in own.table.processes()]
        assert names == ["server-0", "server-1", "server-2"]


def test_a_full_table_refuses_further_series() -> None:
    table = MetricTable()
    for number in range(MAX_SERIES):
        table.series(HTTP_REQUESTS, "GET", f"/{number}", "200")
    with pytest.raises(OverflowError, match="space"):
        table.series(HTTP_REQUESTS, "GET", "/more", "200")
    assert table.series(HTTP_REQUESTS, "GET", "/7", "200") == 7


def test_every_name_follows_the_conventions_of_prometheus() -> None:
    for family in FAMILIES.values():
        assert family.name.startswith("imagehost_")
        assert not family.name.endswith("_total")
        assert family.help.endswith((".", "else 0."))
        assert bool(family.buckets) is (family.kind is Kind.HISTOGRAM)
        if family.buckets:
            assert family.name.endswith("_seconds")
            assert list(family.buckets) == sorted(set(family.buckets))


def test_methods_that_clients_make_up_share_one_series() -> None:
    table = MetricTable()
    recorder = Recorder(table)
    for number in range(50):
        recorder.request(f"METHOD{number}", "/x", 405, 0.1, 0, 0)
    counted = {key: values for key, values in table.totals().items() if key[0] == HTTP_REQUESTS.name}
    assert counted == {(HTTP_REQUESTS.name, "other", "/x", "405"): [50.0]}
