"""The rights that are asked for: no wildcard, and Secrets are read in the system's namespace alone."""

from __future__ import annotations

import pytest

from espalier.api.core import CONFIG_MAP, SECRET
from espalier.api.eksa.upgrades import FrontEnd
from espalier.api.eksa.vocabulary.group import GROUP
from espalier.cli.programs import components
from espalier.clusters import rbac
from espalier.clusters.observe.references import IDENTITY_PROVIDERS
from espalier.kube.rbac import APPLY, FOLLOW, Right, trees
from espalier.providers.kinds import PROVIDER_KINDS
from espalier.providers.registry import PROVIDERS
from tests.support.providers.orchard import (
    KINDS,
    ORCHARD,
    OrchardCluster,
    OrchardMachineConfig,
    OrchardMachineTemplate,
    OrchardZone,
)

READS = {"get", "list", "watch"}


@pytest.mark.demand("U64")
def test_no_right_is_a_wildcard() -> None:
    rights = [item.rights for item in components.of_manager(PROVIDERS, front_end=FrontEnd.HOOKS)]
    for rule in trees(right for item in rights for right in (*item.everywhere, *item.system, *item.by_owners)):
        assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
        assert rule["verbs"]


def test_secrets_are_read_in_namespace_of_system_alone() -> None:
    everywhere = [right for right in rbac.rights(PROVIDERS).everywhere if SECRET in right.resources]
    assert everywhere == []


def test_copies_write_secrets_without_reading_them() -> None:
    """The answer to a patch is the object: to patch is to read."""
    (copies,) = rbac.rights(PROVIDERS).by_owners
    assert copies == Right((SECRET,), ("create", "update"))


def test_secrets_are_written_in_the_system_namespace() -> None:
    """That of the webhooks' certificate, and those of clusters, such as the files of nodes that hold passwords."""
    patched = [right for right in rbac.rights(PROVIDERS).system if SECRET in right.resources and "patch" in right.verbs]
    assert [right.names for right in patched] == [("espalier-webhook-server-cert",), ()]


def test_provider_asks_for_linked_and_named_kinds() -> None:
    kinds = {kind.resource for kind in KINDS if kind.resource.group == GROUP}
    watched = rbac.rights(ORCHARD).watched
    (linked,) = (right for right in watched if kinds & set(right.resources) and not right.subresource)
    of_build = {kind.resource for kind in PROVIDER_KINDS}
    assert set(linked.resources) == {*kinds, *of_build, *IDENTITY_PROVIDERS}
    assert set(linked.verbs) == {"list", "watch", "patch", "delete"}
    own = set(rbac.rights(ORCHARD).watched) - set(rbac.rights(PROVIDERS).watched) - {linked}
    assert own == {Right((OrchardMachineConfig.resource,), ("patch",), "status")}
    kinds = {OrchardCluster.resource, OrchardMachineTemplate.resource}
    made = {Right((kind,), (*FOLLOW, *APPLY, "delete")) for kind in kinds}
    more = set(rbac.rights(ORCHARD).system) - set(rbac.rights(PROVIDERS).system)
    assert more == {Right((SECRET, CONFIG_MAP), FOLLOW), *made}
    without_namespace = set(rbac.rights(ORCHARD).cluster_scoped) - set(rbac.rights(PROVIDERS).cluster_scoped)
    assert without_namespace == {Right((OrchardZone.resource,), (*FOLLOW, *APPLY, "delete"))}


def test_cluster_api_objects_are_in_system_namespace() -> None:
    """Those of vSphere's failure domains have no namespace."""
    results = {resource for right in rbac.rights(PROVIDERS).everywhere for resource in right.resources}
    groups = {resource.group for resource in results if resource.namespaced}
    assert not [group for group in groups if group.endswith("cluster.x-k8s.io")]


def test_webhook_configurations_are_reached_by_name() -> None:
    named = [right for right in rbac.rights(PROVIDERS).everywhere if "webhook" in right.resources[0].plural]
    assert [right.names for right in named] == [(rbac.VALIDATING_WEBHOOKS,), (rbac.MUTATING_WEBHOOKS,)]


def test_a_right_becomes_a_rule_of_a_role() -> None:
    right = Right((SECRET,), ("patch",), "status", ("a",))
    assert right.tree == {
        "apiGroups": [""],
        "resources": ["secrets/status"],
        "verbs": ["patch"],
        "resourceNames": ["a"],
    }
