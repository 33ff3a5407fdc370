"""Alerts and the dashboard ask for metrics that exist, and lead to pages that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from espalier.api.eksa.vocabulary import reasons
from espalier.cli.clusters import monitoring
from espalier.clusters.report import measures
from espalier.etcdbackup.snapshotter import measures as snapshots
from espalier.kube.measures import Measure
from espalier.runtime import metrics

DOCS = Path(__file__).parents[3] / "docs"
KNOWN: dict[str, Measure] = {
    measure.name + ("_total" if measure.type == "counter" else ""): measure
    for measure in (*measures.MEASURES, *metrics.MEASURES, snapshots.LATEST_TIMESTAMP)
}
ASKED = [
    *((alert.name, alert.expression) for alert in monitoring.alerts()),
    *((panel.title, panel.expression) for panel in monitoring.panels()),
]
METRIC = re.compile(r"\b(?:espalier|etcdbr|controller_runtime|leader_election|workqueue)_\w+")


@pytest.mark.parametrize(("name", "expression"), ASKED, ids=[name for name, _ in ASKED])
def test_an_expression_asks_for_what_is_measured(name: str, expression: str) -> None:
    asked = set(METRIC.findall(expression))
    assert asked
    assert asked <= KNOWN.keys(), name
    for metric, selector in re.findall(r"(\w+)\{([^}]*)\}", expression):
        labels = re.findall(r"(\w+)[=!]", selector)
        assert set(labels) <= set(KNOWN[metric].labels), name
    assert expression.count("(") == expression.count(")")


def test_an_alert_leads_to_a_page() -> None:
    for alert in monitoring.alerts():
        page, _, heading = alert.page.partition("#")
        text = (DOCS / page).read_text()
        assert not heading or f"\n## {heading.capitalize()}\n" in text, alert.name


def test_links_lead_where_the_documentation_is() -> None:
    (group,) = monitoring.prometheus_rule("https://docs.example/")["spec"]["groups"]
    assert group["rules"][0]["annotations"]["runbook_url"] == "https://docs.example/reference/conditions.html"
    assert group["rules"][2]["annotations"]["runbook_url"] == "https://docs.example/second-day.html#certificates"
    assert "use_directory_urls: false" in (DOCS.parent / "mkdocs.yml").read_text()
    (group,) = monitoring.prometheus_rule()["spec"]["groups"]
    assert group["rules"][0]["annotations"]["runbook"] == "docs/reference/conditions.md"
    assert monitoring.prometheus_rule(labels={"a": "b"})["metadata"]["labels"] == {"a": "b"}


def test_every_metric_of_clusters_is_asked_for() -> None:
    asked_for = {KNOWN[metric] for _, expression in ASKED for metric in METRIC.findall(expression)}
    assert set(measures.MEASURES) - asked_for == {measures.PHASE}
    assert reasons.Reason.CERTIFICATES_EXPIRED in (DOCS / "reference" / "conditions.md").read_text()


def test_panels_lie_side_by_side() -> None:
    board = json.loads(json.dumps(monitoring.dashboard()))
    cells: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        own = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not own & cells
        cells |= own
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
