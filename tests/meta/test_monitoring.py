"""The pages and files for monitoring agree with the metrics."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.shipped_files import shipped

from imagehost_server.metrics import FAMILIES


def sample_names() -> set[str]:
    """Return the name of every sample."""
    suffixes = ("_bucket", "_sum", "_count")
    return {
        name
        for family in FAMILIES.values()
        for name in (
            [family.shown_name]
            if family.type != "histogram"
            else [family.name + suffix for suffix in suffixes]
        )
    }


def expressions(workspace: Path) -> dict[str, list[str]]:
    """Return the expressions of the alert rules and of the dashboard."""
    rules = shipped("deploy/prometheus-alerts.yml")
    dashboard = json.loads(shipped("deploy/grafana-dashboard.json"))
    return {
        "alerts": re.findall(r"expr: (?:>-\n\s+)?(.+)", rules),
        "dashboard": [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]],
    }


def test_every_metric_is_documented_with_its_type_labels_and_meaning(workspace: Path) -> None:
    page = (workspace / "docs" / "operate.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(imagehost_\w+)` \| (\w+) \| (.+?) \| (.+) \|$", page, re.MULTILINE)
    assert {name: tuple(others) for name, *others in rows} == {
        family.shown_name: (
            family.type,
            ", ".join(f"`{label}`" for label in family.labels) or "–",
            family.help,
        )
        for family in FAMILIES.values()
    }


def test_every_metric_that_the_pages_name_exists(workspace: Path) -> None:
    page = (workspace / "docs" / "operate.md").read_text(encoding="utf-8")
    names = sample_names() | {family.shown_name for family in FAMILIES.values()}
    assert set(re.findall(r"`(imagehost_\w+)`", page)) <= names


@pytest.mark.parametrize(("file", "least"), [("alerts", 10), ("dashboard", 20)])
def test_every_expression_names_only_metrics_and_labels_that_exist(
    workspace: Path, file: str, least: int
) -> None:
    found = expressions(workspace)[file]
    assert len(found) >= least
    for expression in found:
        assert set(re.findall(r"\bimagehost_\w+", expression)) <= sample_names()
        for name, selector in re.findall(r"\b(imagehost_\w+)\{([^}]*)\}", expression):
            family = FAMILIES[re.sub(r"_(total|bucket|sum|count)$", "", name)]
            assert set(re.findall(r"(\w+)\s*(?:=|!=|=~|!~)\s*\"", selector)) <= set(family.labels)
        names = re.sub(r"_(total|bucket|sum|count)\b", "", expression)
        labels = {label for name in re.findall(r"\bimagehost_\w+", names) for label in FAMILIES[name].labels}
        for grouped in re.findall(r"\bby \(([^)]*)\)", expression):
            assert set(grouped.split(", ")) <= {*labels, "le"}


def test_every_panel_has_a_title_and_a_place_of_its_own(workspace: Path) -> None:
    dashboard = json.loads(shipped("deploy/grafana-dashboard.json"))
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard["panels"]]
    titles = [panel["title"] for panel in dashboard["panels"]]
    assert len(set(places)) == len(set(titles)) == len(places)
