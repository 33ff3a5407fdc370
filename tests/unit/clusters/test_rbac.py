"""The rights that are asked for: no wildcard, and Secrets are read in the system's namespace alone."""

from __future__ import annotations

from espalier.api.core import CONFIG_MAP, SECRET
from espalier.api.eksa.group import GROUP
from espalier.clusters import rbac
from espalier.clusters.provider import infrastructures
from espalier.kube.rbac import APPLY, FOLLOW, Right, trees
from espalier.providers.docker.kinds import DockerDatacenterConfig
from espalier.providers.registry import PROVIDERS
from espalier.upgrades import rbac as upgrade_rights
from tests.support.orchard import (
    KINDS,
    ORCHARD,
    OrchardCluster,
    OrchardMachineConfig,
    OrchardMachineTemplate,
    OrchardZone,
)

READS = {"get", "list", "watch"}


def test_no_right_is_a_wildcard() -> None:
    for rule in trees(
        [*rbac.everywhere(PROVIDERS), *rbac.system(PROVIDERS), *upgrade_rights.system(infrastructures(PROVIDERS))]
    ):
        assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
        assert rule["verbs"]


def test_secrets_are_read_in_the_namespace_of_the_system_alone() -> None:
    everywhere = [right for right in rbac.everywhere(PROVIDERS) if SECRET in right.resources]
    assert everywhere == []


def test_where_copies_of_kubeconfigs_are_wished_for_secrets_are_written_and_not_read() -> None:
    """The answer to a patch is the object: to patch is to read."""
    (copies,) = rbac.COPIES
    assert copies == Right((SECRET,), ("create", "update"))


def test_of_the_secrets_of_the_system_one_is_patched() -> None:
    patched = [right for right in rbac.system(PROVIDERS) if SECRET in right.resources and "patch" in right.verbs]
    assert [right.names for right in patched] == [("espalier-webhook-server-cert",)]


def test_a_provider_asks_for_what_its_clusters_link_and_for_what_these_name() -> None:
    kinds = {kind.resource for kind in KINDS if kind.resource.group == GROUP}
    (linked,) = (right for right in rbac.namespaced(ORCHARD) if kinds & set(right.resources) and not right.subresource)
    assert set(linked.resources) == {*kinds, DockerDatacenterConfig.resource}
    assert set(linked.verbs) == {"list", "watch", "patch"}
    own = set(rbac.namespaced(ORCHARD)) - set(rbac.namespaced(PROVIDERS)) - {linked}
    assert own == {Right((OrchardMachineConfig.resource,), ("patch",), "status")}
    kinds = {OrchardCluster.resource, OrchardMachineTemplate.resource, SECRET}
    made = {Right((one,), (*FOLLOW, *APPLY, "delete")) for one in kinds}
    more = set(rbac.system(ORCHARD)) - set(rbac.system(PROVIDERS))
    assert more == {Right((SECRET, CONFIG_MAP), FOLLOW), *made}
    without_namespace = set(rbac.cluster_scoped(ORCHARD)) - set(rbac.cluster_scoped(PROVIDERS))
    assert without_namespace == {Right((OrchardZone.resource,), (*FOLLOW, *APPLY, "delete"))}


def test_objects_of_cluster_api_are_touched_in_the_namespace_of_the_system_alone() -> None:
    groups = {resource.group for right in rbac.everywhere(PROVIDERS) for resource in right.resources}
    assert not [group for group in groups if group.endswith("cluster.x-k8s.io")]


def test_webhook_configurations_are_reached_by_name() -> None:
    named = [right for right in rbac.everywhere(PROVIDERS) if "webhook" in right.resources[0].plural]
    assert [right.names for right in named] == [(rbac.VALIDATING_WEBHOOKS,), (rbac.MUTATING_WEBHOOKS,)]


def test_a_right_becomes_a_rule_of_a_role() -> None:
    right = Right((SECRET,), ("patch",), "status", ("a",))
    assert right.tree == {
        "apiGroups": [""],
        "resources": ["secrets/status"],
        "verbs": ["patch"],
        "resourceNames": ["a"],
    }
