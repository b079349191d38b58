"""The dashboard has only fields that Grafana's schema of dashboards and of Prometheus queries has."""

from __future__ import annotations

import json
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard, Panel
from grafana_foundation_sdk.models.prometheus import Dataquery
from tests.shipped_files import shipped


def unknown(expected: object, received: object, path: str = "") -> list[str]:
    """Return the paths of the values that another does not have; it may have more."""
    members: list[tuple[str, object, object]]
    if isinstance(expected, dict) and isinstance(received, dict):
        members = [(name, value, received.get(name)) for name, value in expected.items()]
    elif isinstance(expected, list) and isinstance(received, list) and len(expected) == len(received):
        members = [(f"{index}", value, received[index]) for index, value in enumerate(expected)]
    else:
        return [] if expected == received else [path]
    return [found for name, value, other in members for found in unknown(value, other, f"{path}/{name}")]


def test_grafana_reads_every_field_of_the_dashboard(workspace: Path) -> None:
    content = json.loads(shipped("deploy/grafana-dashboard.json"))
    register_default_plugins()
    dashboard = Dashboard.from_json(content)
    assert unknown(content, json.loads(JSONEncoder().encode(dashboard))) == []
    assert dashboard.panels
    for panel in dashboard.panels:
        assert isinstance(panel, Panel)
        assert panel.targets
        assert all(isinstance(target, Dataquery) for target in panel.targets)
