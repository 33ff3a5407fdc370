"""Rows of all clusters, and their HTML."""

from __future__ import annotations

from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

import pytest

from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.releases.release import Bundles, EKSARelease
from espalier.api.eksa.vocabulary.group import MOVE_ANNOTATION, PAUSED_ANNOTATION
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.meta import Tree
from espalier.dashboard.html import fleet as html
from espalier.dashboard.models.fleet import (
    LONGEST,
    ClusterRow,
    ReleaseFacts,
    Support,
    manager_of,
    row_of,
    skew_of,
    summary_of,
)
from espalier.dashboard.models.health import Health, advice
from espalier.dashboard.observation import only_support
from espalier.kube.objects import Object, to_bytes

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOSTILE = "</td><script>alert(1)</script><img src=x onerror=alert(1)>\"'`&\u202egnp\x1b[2J"
BUNDLES = {"apiVersion": "anywhere.eks.amazonaws.com/v1alpha1", "name": "bundles-1", "namespace": "eksa-system"}


def cluster(
    *conditions: Tree, phase: str = "Running", annotations: dict[str, str] | None = None, **spec: Any
) -> Object:
    return Object(
        to_bytes(
            {
                "apiVersion": Cluster.resource.api_version,
                "kind": "Cluster",
                "metadata": {
                    "name": "garden",
                    "namespace": "default",
                    "uid": "u",
                    "annotations": annotations or {},
                    "creationTimestamp": "2025-12-31T00:00:00Z",
                },
                "spec": {
                    "kubernetesVersion": "1.35",
                    "eksaVersion": "v0.25.0",
                    "managementCluster": {"name": "laptop"},
                    "controlPlaneConfiguration": {"count": 3},
                    "workerNodeGroupConfigurations": [{"name": "a", "count": 2}, {"name": "b", "count": 5}],
                    "datacenterRef": {"kind": "VSphereDatacenterConfig", "name": "garden"},
                    **spec,
                },
                "status": {"conditions": list(conditions), "phase": phase} if conditions else {},
            }
        )
    )


def condition(status: str, reason: str = "Good", message: str = "", type_: str = "Ready") -> Tree:
    since = "2025-12-31T23:59:00Z"
    return {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}


def facts(ends: str = "2026-02-01") -> ReleaseFacts:
    release = {
        "metadata": {"name": "eksa-v0-25-0"},
        "spec": {
            "date": "",
            "version": "v0.25.0",
            "gitCommit": "",
            "bundleManifestUrl": "",
            "bundlesRef": BUNDLES,
        },
    }
    bundles = {
        "metadata": {"name": "bundles-1", "namespace": "eksa-system", "managedFields": [{"manager": "x"}]},
        "spec": {
            "number": 1,
            "cliMinVersion": "a",
            "cliMaxVersion": "b",
            "versionsBundles": [{"kubeVersion": "1.35", "endOfStandardSupport": ends, "cilium": {"manifest": {}}}],
        },
    }
    reduced = only_support(Object(to_bytes(bundles)))
    assert b"cilium" not in reduced.raw
    assert b"managedFields" not in reduced.raw
    return ReleaseFacts([Object(to_bytes(release)).decode(EKSARelease)], [reduced.decode(Bundles)])


def row(object_: Object, facts_: ReleaseFacts | None = None, **managers: str) -> ClusterRow:
    return row_of(object_, facts_ or ReleaseFacts(), managers, NOW)


def test_record_of_this_api_counts_no_machines() -> None:
    """The spec of the local environment's record has a control plane that no machine runs."""
    serves = condition("True", "ServesThisAPI", type_="ControlPlaneReady")
    shown = row(cluster(condition("True"), serves, managementCluster={"name": "garden"}))
    assert (shown.control_planes, shown.workers) == (0, 0)


def test_row_has_what_spec_and_release_say() -> None:
    shown = row(cluster(condition("True")), facts(), laptop="v0.26.0")
    assert shown.state == (Health.READY, "Ready")
    assert (shown.provider, shown.kubernetes, shown.release) == ("vSphere", "1.35", "v0.25.0")
    assert (shown.control_planes, shown.workers) == (3, 7)
    assert shown.behind == 1
    assert shown.support == Support("2026-02-01", is_over=False, is_due=True)
    assert shown.message == ""


@pytest.mark.parametrize(
    ("ends", "is_over", "is_due"),
    [("2027-01-01", False, False), ("2025-12-31", True, True), ("", False, False), ("soon", False, False)],
)
def test_support_is_due_before_and_after_its_end(ends: str, is_over: bool, is_due: bool) -> None:
    assert row(cluster(condition("True")), facts(ends)).support == Support(ends, is_over, is_due)


def test_support_is_unknown_without_a_release() -> None:
    assert row(cluster(condition("True"))).support == Support()
    assert row(cluster(condition("True"), kubernetesVersion="1.20"), facts()).support == Support()


@pytest.mark.parametrize(
    ("conditions", "phase", "state"),
    [
        ([], "", (Health.UNKNOWN, "Not reported yet")),
        ([condition("False", Reason.MISSING_DEPENDENT_OBJECTS)], "Failed", (Health.FAILING, "Failing")),
        ([condition("False", "ScalingUp")], "Creating", (Health.CHANGING, "Creating")),
        ([condition("False", "RollingOut")], "Upgrading", (Health.CHANGING, "Upgrading")),
        ([condition("False", Reason.MISSING_DEPENDENT_OBJECTS)], "Upgrading", (Health.FAILING, "Failing")),
        ([condition("False", Reason.PAUSED)], "Running", (Health.PAUSED, "Paused")),
        ([condition("Unknown", "Nobody")], "Running", (Health.UNKNOWN, "Not ready")),
        ([condition("False", "x"), condition("True", "x", type_="Stalled")], "Upgrading", (Health.FAILING, "Failing")),
    ],
)
def test_state_is_what_the_status_reports(conditions: list[Tree], phase: str, state: tuple[Health, str]) -> None:
    assert row(cluster(*conditions, phase=phase or "Running")).state == state


@pytest.mark.parametrize(("synced", "drift"), [([], None), (["False"], True), (["True"], False), (["Unknown"], None)])
def test_drift_is_what_synced_says(synced: list[str], drift: bool | None) -> None:
    conditions = [condition(status, type_="Synced") for status in synced]
    assert row(cluster(condition("True"), *conditions)).drift is drift


@pytest.mark.parametrize("annotation", [PAUSED_ANNOTATION, MOVE_ANNOTATION])
def test_pause_is_shown_beside_a_state(annotation: str) -> None:
    paused = cluster(condition("True"), annotations={annotation: ""})
    assert row(paused).is_paused
    managing = cluster(condition("True"), annotations={annotation: ""}, managementCluster={"name": "garden"})
    assert not row(managing).is_paused


@pytest.mark.parametrize(
    ("manager", "words", "holds"),
    [
        ("v0.25.3", "", False),
        ("v0.26.0", "1 behind", False),
        ("v0.27.0", "2 behind: ", True),
        ("v0.28.0", "3 behind, more than 2", True),
        ("v0.24.0", "ahead", True),
        ("", "", False),
        ("what", "", False),
    ],
)
def test_skew_is_that_of_the_management_cluster(manager: str, words: str, holds: bool) -> None:
    text, is_held = skew_of(row(cluster(condition("True")), laptop=manager))
    assert text.startswith(words)
    assert bool(text) == bool(words)
    assert is_held is holds


def test_management_cluster_is_one_that_names_itself() -> None:
    assert manager_of(cluster(managementCluster={"name": "garden"})) == "v0.25.0"
    assert manager_of(cluster()) is None
    assert manager_of(cluster(kubernetesVersion=7)) is None


def test_unreadable_cluster_has_a_row_that_says_so() -> None:
    shown = row(cluster(kubernetesVersion=7))
    assert shown.state == (Health.FAILING, "Unreadable")
    assert "kubernetesVersion" in shown.message


def test_message_of_a_row_is_short_and_without_secrets() -> None:
    message = "the proxy http://me:hunter2hunter2@proxy:3128 refuses me:hunter2hunter2 " + "x" * LONGEST
    proxy = {"httpProxy": "http://me:hunter2hunter2@proxy:3128"}
    shown = row(cluster(condition("False", "x", message), proxyConfiguration=proxy))
    assert "hunter2" not in shown.message
    assert len(shown.message) < LONGEST + 30


def test_summary_counts_states_and_what_is_due() -> None:
    rows = [
        row(cluster(condition("True"), condition("False", type_="Synced")), facts(), laptop="v0.26.0"),
        row(cluster(condition("False", "x"), phase="Upgrading")),
    ]
    counts = summary_of(rows)
    assert (counts.total, counts.drifted, counts.support_due, counts.behind) == (2, 1, 1, 1)
    assert counts.by_health[Health.READY] == counts.by_health[Health.CHANGING] == 1


def test_advice_is_the_prose_of_a_reason() -> None:
    assert advice(Reason.MISSING_DEPENDENT_OBJECTS) == (
        "an object that the spec names does not exist; create it",
        "somebody has to act",
    )
    assert advice("OfSomebodyElse") == ("", "")


class Elements(HTMLParser):
    """The names of all elements and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def elements(text: str) -> Elements:
    parser = Elements()
    parser.feed(text)
    return parser


def test_html_of_a_row_has_no_element_of_a_tenant() -> None:
    plain = elements(html.fragment(row(cluster(condition("False", "x", "y"))), "/r/", NOW).html)
    hostile = cluster(
        condition("False", HOSTILE, HOSTILE),
        kubernetesVersion="1.35",
        eksaVersion=HOSTILE,
        datacenterRef={"kind": HOSTILE, "name": HOSTILE},
    )
    shown = elements(html.fragment(row(hostile), "/r/", NOW).html)
    assert shown.names <= plain.names | {"span"}
    assert shown.attributes <= plain.attributes
    assert "</td><script>" in shown.text
    assert not set(shown.text) & {"\u202e", "\x1b"}


def test_html_of_a_row_is_bounded() -> None:
    big = "x" * 100_000
    shown = html.fragment(row(cluster(condition("False", big, big), eksaVersion=big)), "/r/", NOW)
    assert len(shown.html) < 6000
