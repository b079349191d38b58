"""Traffic of all kinds on a server with two processes: all that is acknowledged holds, and no memory leaks.

A run has two parts. In the first, the server is restarted (SIGTERM), killed, its processes are killed one by
one, and, in the soak, its clock jumps in both directions, by a library that makes it several times slower. In
the second part, no server process ends and the clock is the real one, so that memory and descriptors can be
measured: image workers are killed, and `imagehost backup`, `gc` and `fsck` run beside the server. Before it,
the caches of all processes are filled. The soak takes `IMAGEHOST_TEST_MINUTES` and the time of filling, by
default 60: a sixth for the first part, a quarter as warm-up, in which the clients do not pause between
requests, and the rest for the slopes. Until each entry of the caches has been replaced, what allocators have
free between the others grows.
"""

from __future__ import annotations

import logging
import os
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import cycle
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from tests.faults.conftest import NO_LIMITS, client_of
from tests.faults.disturbed_service import Receiver, Service, run_receiver, until
from tests.faults.faked_clock import clock_file_variables
from tests.faults.filled_caches import fill_caches
from tests.faults.mixed_traffic import TrafficClient, make_files, run_clients
from tests.faults.process_usage import MIB, UsageLog, count_descriptors, read_usage
from tests.faults.trials import SOAK, Record, run_trials
from tests.object_store import shared_s3_server
from tests.postgres import FAST, run_postgres

pytestmark = pytest.mark.slow

ENGINES = ("sqlite+folder", "postgres+s3") if SOAK else ("sqlite+folder",)
MINUTES = float(os.environ.get("IMAGEHOST_TEST_MINUTES", "60"))
CLOCK_SECONDS = {"sqlite+folder": 3_600, "postgres+s3": 600}
"""The jump of the clock. S3 refuses requests that are signed with a time that is wrong by 15 minutes."""
CLIENTS = 4
INTERVAL = CLIENTS / 25
"""Seconds between two operations of a client, on average."""
SAMPLE_SECONDS, STEP_SECONDS = 10.0, 20.0
MAX_MIB_PER_HOUR = 1.0
MIN_SLOPE_SECONDS = 1_500.0
"""Shorter measurements are reported, but not judged."""
MAX_ADDED_DESCRIPTORS = 20
"""Those of connections of the database that stay open for reuse, and of image workers that are idle."""
MEMORY_CACHE_MIB = 8
VARIABLES = {
    **NO_LIMITS,
    "IMAGEHOST_LIMITS_UNAUTHENTICATED_PER_MINUTE": "0",
    "IMAGEHOST_LIMITS_PAGES_PER_MINUTE": "0",
    "IMAGEHOST_WEBHOOKS_ALLOW_LOOPBACK": "true",
    # Caches that are full after minutes.
    "IMAGEHOST_DELIVERY_MEMORY_CACHE_BYTES": f"{MEMORY_CACHE_MIB}MiB",
    "IMAGEHOST_DELIVERY_DISK_CACHE_BYTES": "64MiB",
    "IMAGEHOST_STORAGE_CACHE_BYTES": "64MiB",
}
STEPS = ("gc", "kill image worker", "backup", "fsck") if SOAK else ("gc", "backup")

log = logging.getLogger(__name__)


@contextmanager
def open_engine(engine: str, directory: Path) -> Iterator[dict[str, str]]:
    """Yield the settings of an engine."""
    if engine == "sqlite+folder":
        yield {}
        return
    with run_postgres(*FAST) as postgres, postgres.empty_database() as url, shared_s3_server() as store:
        yield {"IMAGEHOST_DATABASE": url, "IMAGEHOST_STORAGE": store.url()}


def check_images(service: Service, clients: list[TrafficClient]) -> list[str]:
    """Return what contradicts the models: images that are missing, changed or left, and their counts."""
    wrong = []
    images = {key: image for client in clients for key, image in client.images.items()}
    acknowledged = {key for client in clients for key in client.uploaded}
    deleted = {key for client in clients for key in client.deleted}
    words = {word for client in clients for word in client.unanswered}
    records: dict[str, Any] = {}
    query = "?per_page=100"
    with client_of(service.server, service.token) as http:
        while query:
            data = http.get(f"/v1/images{query}").raise_for_status().json()["data"]
            records |= {record["id"]: record for record in data["images"]}
            cursor = data["pagination"]["next_cursor"]
            query = cursor and f"?per_page=100&cursor={cursor}"
        for image_id, image in images.items():
            record = records.get(image_id)
            found = record and (record["sha256"], record["is_public"], record["album_id"])
            if found != (image.sha256, image.is_public, image.album_id):
                wrong.append(f"expected {image} for {image_id} but received {found}")
            http.get(f"/img/{image_id}?w=33").raise_for_status()
        wrong += [f"{image_id} is listed after its deletion" for image_id in deleted & records.keys()]
        for image_id in records.keys() - acknowledged:
            if records[image_id]["description"].removeprefix("mixed ") not in words:
                wrong.append(f"{image_id} is stored, but no upload of it was without a response")
        usage = http.get("/v1/account").raise_for_status().json()["data"]["usage"]
        expected = (len(records), sum(record["size"] for record in records.values()))
        if (usage["images"], usage["bytes"]) != expected:
            wrong.append(f"expected {expected} for the usage but received {usage}")
    return wrong


def check_events(service: Service, clients: list[TrafficClient], receiver: Receiver) -> list[str]:
    """Return the events that are not delivered although `imagehost webhooks retry-now` makes them due."""
    expected = {("image.uploaded", key) for client in clients for key in client.uploaded}
    expected |= {("image.deleted", key) for client in clients for key in client.deleted}

    def is_complete() -> bool:
        service.run_command("webhooks", "retry-now")
        return expected <= receiver.received

    return [] if until(is_complete) else [f"not delivered: {sorted(expected - receiver.received)}"]


def read_first_error(path: Path) -> str:
    """Return the first error of a server's log, with its traceback."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    first = next((number for number, line in enumerate(lines) if " ERROR " in line), len(lines))
    return "\n".join(["first error of the log:", *lines[first : first + 60]])


def run_first_part(service: Service, seconds: float, choice: random.Random) -> None:
    """Restart the server, kill its processes and set its clock, for a time and at least once each."""
    steps = (
        ["restart", "clock ahead", "kill server process", "clock behind", "kill server"]
        if SOAK
        else ["kill server process"]
    )
    choice.shuffle(steps)
    ended = monotonic() + seconds
    for number, step in enumerate(cycle(steps)):
        if number >= len(steps) and monotonic() >= ended:
            return
        if step.startswith("clock"):
            service.run_step(step)
        else:
            service.disturb(step)
        sleep(STEP_SECONDS if SOAK else 0.5)


def run_second_part(
    service: Service, clients: list[TrafficClient], seconds: float, warm_up: float, usage: UsageLog
) -> None:
    """Disturb the server without ending a process of it, for a time and at least once each; log its usage."""
    for client in clients:
        client.interval = 0.0
    began = sampled = monotonic()
    due = 0.0
    for number in cycle(range(len(STEPS))):
        now = monotonic()
        if now >= began + seconds and number == 0 and due:
            return
        service.run_step(STEPS[number])
        due = monotonic() + (STEP_SECONDS if SOAK else 0)
        while monotonic() < due:
            if monotonic() >= max(sampled, began + warm_up):
                for client in clients:
                    client.interval = INTERVAL
                sampled = monotonic() + SAMPLE_SECONDS
                usage.add(read_usage(service.server.process.pid))
            sleep(0.5)


@pytest.mark.parametrize("engine", ENGINES)
def test_all_that_is_acknowledged_holds_in_mixed_traffic_and_nothing_grows(
    engine: str, tmp_path: Path, record_property: Record
) -> None:
    seconds = MINUTES * 60 if SOAK else 0.0
    # test_wrong_clocks has the jumps outside the soak: the library slows the few seconds of traffic too much.
    clock = clock_file_variables(tmp_path, tmp_path / "clock") if SOAK else {}
    variables = {**VARIABLES, **clock}
    with ExitStack() as stack, run_trials("mixed traffic: requests", engine, record_property) as trials:
        variables |= stack.enter_context(open_engine(engine, tmp_path))
        receiver = stack.enter_context(run_receiver())
        service = Service(tmp_path, variables, CLOCK_SECONDS[engine])
        stack.callback(service.stop)
        webhook = {"url": receiver.url, "events": ["image.uploaded", "image.deleted"]}
        with client_of(service.server, service.token) as http:
            http.post("/v1/webhooks", json=webhook).raise_for_status()
        names = [f"c{trials.seed}n{number}" for number in range(CLIENTS)]
        options = (make_files(), INTERVAL, service.is_disturbed.is_set)
        clients = [TrafficClient(service.server.origin, service.token, name, *options) for name in names]
        usage = UsageLog()
        with run_clients(clients):
            run_first_part(service, seconds / 6, trials.random)
            service.use_real_clock()
        if SOAK:
            service.run_command("users", "create", "caches")
            token = service.run_command("keys", "create", "--user", "caches").strip()
            fill_caches(service.server, token, MEMORY_CACHE_MIB * MIB)
        baseline = count_descriptors(read_usage(service.server.process.pid))
        log.info("mixed traffic: first part %s, descriptors %s", service.done, dict(baseline))
        with run_clients(clients):
            run_second_part(service, clients, seconds * 5 / 6, seconds / 4, usage)
        last: list[Counter[str]] = []

        def is_idle() -> bool:
            last[:] = [count_descriptors(read_usage(service.server.process.pid))]
            return all(last[0][role] <= count + MAX_ADDED_DESCRIPTORS for role, count in baseline.items())

        if not until(is_idle):
            trials.failures.append(f"expected {baseline} for the descriptors but received {last}")
        trials.failures += check_events(service, clients, receiver)
        trials.failures += check_images(service, clients)
        service.check()
        trials.failures += service.wrong + [wrong for client in clients for wrong in client.wrong]
        statuses: dict[tuple[str, int], int] = {}
        for client in clients:
            for key, count in client.statuses.items():
                statuses[key] = statuses.get(key, 0) + count
        trials.tried = sum(statuses.values())
        if trials.failures:
            trials.failures.insert(0, read_first_error(service.server.log))
        for failure in trials.failures:
            log.error("mixed traffic: %s", failure)
        log.info("mixed traffic: statuses %s", statuses)
        log.info("mixed traffic: %d events, steps %s", len(receiver.received), service.done)
        log.info("mixed traffic: descriptors %s, at first %s", last, dict(baseline))
        if SOAK:
            slopes = usage.slopes()
            log.info("mixed traffic: MiB per hour %s", slopes)
            log.info("mixed traffic: descriptors per hour %s", usage.descriptor_slopes())
            if seconds * 7 / 12 >= MIN_SLOPE_SECONDS:
                trials.failures += [
                    f"{name}: {slope} MiB/h" for name, slope in slopes.items() if slope >= MAX_MIB_PER_HOUR
                ]


def test_a_leak_is_found_below_the_memory_of_requests_in_progress() -> None:
    usage = UsageLog()
    for second in range(0, 1_200, 10):
        leaked, in_progress = 2 * MIB * second / 3_600, 0 if second % 40 == 0 else 30 * MIB
        usage.memory["server process"][second] = 70 * MIB + leaked + in_progress
    usage.memory["server process that was killed"][0] = MIB
    assert usage.slopes() == {"server process": pytest.approx(2)}
