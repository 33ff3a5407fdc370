"""The object after a manifest is applied to it."""

from __future__ import annotations

import copy
import json
import re
from datetime import UTC, datetime
from typing import Any

from espalier.api.definitions.structural import object_schema
from espalier.api.manifests.manifests import kinds_of
from espalier.api.meta import Tree
from espalier.clusters.preview.apply import LAST_APPLIED, applied
from espalier.providers.kinds import CATALOG, EKSA_KINDS
from tests.support.objects.observed_clusters import applied as stored
from tests.support.objects.observed_clusters import as_object, example

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def cluster(**spec: Any) -> Tree:
    tree = next(tree for tree in example(**spec) if tree["kind"] == "Cluster")
    tree["metadata"] = {"name": "garden", "namespace": "team-a"}
    return tree


def spec(live: Tree | None, manifest: Tree) -> Tree:
    result: Tree = applied(as_object(live) if live is not None else None, manifest, now=NOW).tree["spec"]
    return result


def test_a_new_object_is_as_the_manifest_says() -> None:
    new = applied(None, cluster(), now=NOW)
    assert new.tree["spec"] == cluster()["spec"]
    assert (new.metadata.generation, new.metadata.creation_timestamp) == (1, "2026-03-01T00:00:00Z")


def test_applied_field_that_is_omitted_now_goes_away() -> None:
    live = stored(cluster(machineHealthCheck={"maxUnhealthy": 1}), "eks-a-cli")
    assert "machineHealthCheck" not in spec(live, cluster())


def test_fields_set_by_others_stay() -> None:
    live = stored(cluster(), "kubectl")
    live["spec"]["licenseToken"] = "set-by-somebody"
    assert spec(live, cluster())["licenseToken"] == "set-by-somebody"


def test_fields_last_applied_by_kubectl_go_away() -> None:
    live = cluster(machineHealthCheck={"maxUnhealthy": 1}, licenseToken="set-by-somebody")
    last = cluster(machineHealthCheck={"maxUnhealthy": 1})
    live["metadata"] |= {"annotations": {LAST_APPLIED: json.dumps(last)}, "uid": "u", "generation": 4}
    new = applied(as_object(live), cluster(), now=NOW)
    assert "machineHealthCheck" not in new.tree["spec"]
    assert new.tree["spec"]["licenseToken"] == "set-by-somebody"
    assert new.metadata.generation == 5


def test_annotations_of_kubectl_and_controllers_stay() -> None:
    live = cluster()
    last = cluster()
    last["metadata"]["annotations"] = {}  # kubectl always says so
    noted = {LAST_APPLIED: json.dumps(last), "noted": "by-the-manager"}
    live["metadata"] |= {"annotations": noted, "uid": "u", "generation": 4}
    new = applied(as_object(live), cluster(), now=NOW)
    assert (new.metadata.annotations, new.metadata.generation) == (noted, 4)


def test_omitted_release_stays_unless_kubectl_set_it() -> None:
    """kubectl takes away what it set, this program never does; as a field of others it stays in any case."""
    manifest = cluster()
    del manifest["spec"]["eksaVersion"]
    assert spec(stored(cluster(), "eks-a-cli"), manifest)["eksaVersion"] == "v0.26.0"
    assert "eksaVersion" not in spec(stored(cluster(), "kubectl"), manifest)
    live = cluster()
    for last, left in ((cluster(), None), (manifest, "v0.26.0")):
        live["metadata"] |= {"annotations": {LAST_APPLIED: json.dumps(last)}, "uid": "u", "generation": 4}
        assert spec(live, copy.deepcopy(manifest)).get("eksaVersion") == left


def test_own_apply_leaves_the_fields_of_kubectl() -> None:
    live = cluster(machineHealthCheck={"maxUnhealthy": 1})
    live["metadata"] |= {"annotations": {LAST_APPLIED: json.dumps(live)}, "uid": "u", "generation": 4}
    for there in (live, stored(live, "kubectl")):
        new = applied(as_object(there), cluster(), now=NOW, by_espalier=True)
        assert new.tree["spec"]["machineHealthCheck"] == {"maxUnhealthy": 1}


def test_null_field_goes_away_whoever_set_it() -> None:
    live = cluster(bundlesRef={"apiVersion": "a", "name": "b", "namespace": "c"})
    assert "bundlesRef" not in spec(live, cluster(bundlesRef=None))


def test_equal_content_is_no_new_generation() -> None:
    live = stored(cluster(), "eks-a-cli")
    new = applied(as_object(live), cluster(), now=NOW)
    assert new.metadata.generation == 1
    assert new.tree["spec"] == live["spec"]


def test_kinds_of_manifests_replace_lists() -> None:
    """Applying is told without their schemas, which take long to make; so none of them may say otherwise."""
    for kind in EKSA_KINDS:
        if kind.resource.kind in kinds_of(CATALOG):
            spec = json.dumps(object_schema(kind)["properties"]["spec"])
            assert set(re.findall(r'"x-kubernetes-list-type": "(\w+)"', spec)) <= {"atomic"}
            assert "x-kubernetes-map-type" not in spec
