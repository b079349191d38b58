"""Prometheus's own tool accepts the metrics and the alert rules."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from imagehost_core import ImageHost
from imagehost_server.metrics import Recorder, render_metrics

pytestmark = [
    pytest.mark.external,
    pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool of the package prometheus"),
]


def promtool(*arguments: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["promtool", *arguments], input=data, capture_output=True, check=False)


def test_the_alert_rules_are_valid(workspace: Path) -> None:
    done = promtool("check", "rules", str(workspace / "deploy" / "prometheus-alerts.yml"))
    assert done.returncode == 0, done.stderr


def test_the_metrics_follow_the_conventions(tmp_path: Path) -> None:
    recorder = Recorder()
    recorder.request("GET", "/v1/images", 200, 0.1, 10, 20)
    recorder.fold()
    with ImageHost.open(tmp_path / "data", observe=recorder.observe) as host:
        text = render_metrics(recorder, host)
    done = promtool("check", "metrics", data=text)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
