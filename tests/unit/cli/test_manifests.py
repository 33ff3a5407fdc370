"""What is installed on a management cluster for a manager of some namespaces."""

from __future__ import annotations

import pytest

from espalier.api.eksa.group import SYSTEM_NAMESPACE
from espalier.api.eksa.upgrades import FrontEnd
from espalier.cli import flags, manifests
from espalier.cli.failures import Usage
from tests.support.audit import grants


def test_with_namespaces_a_role_in_each_takes_the_place_of_rights_everywhere() -> None:
    everywhere = set(grants(manifests.installed()))
    restricted = set(grants(manifests.installed(("a", "b"))))
    assert {grant.resource for grant in restricted if not grant.namespace} == {
        "eksareleases",
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
    }
    moved = {grant[1:] for grant in everywhere - restricted}
    for namespace in ("a", "b"):
        assert {grant[1:] for grant in restricted if grant.namespace == namespace} == moved
    assert {grant.namespace for grant in restricted} == {"", "a", "b", SYSTEM_NAMESPACE}


def test_roles_of_the_namespace_of_the_system_do_not_collide() -> None:
    trees = [tree for tree in manifests.installed((SYSTEM_NAMESPACE,)) if tree["kind"] == "Role"]
    assert len({(tree["metadata"]["namespace"], tree["metadata"]["name"]) for tree in trees}) == 2


def test_clusters_of_other_namespaces_are_not_sent_to_the_webhooks() -> None:
    webhooks = [hook for _, tree in manifests.webhook_configurations("", ("a",)) for hook in tree["webhooks"]]
    selected = {hook["name"].partition(".")[2].partition(".")[0] for hook in webhooks if "namespaceSelector" in hook}
    assert selected == {"clusters"}


def test_namespaces_are_named_by_comma_or_one_by_one() -> None:
    assert flags.namespaces(["a,b", "c", "a"]) == ("a", "b", "c")
    with pytest.raises(Usage, match="found 'Team_A', allowed are names of namespaces"):
        flags.namespaces(["Team_A"])


def test_hooks_need_one_kind_more_which_is_reached_by_name_once_it_is_there() -> None:
    more = [tree for tree in manifests.installed((), FrontEnd.HOOKS) if tree not in manifests.installed()]
    (role,) = more
    rules = [rule for rule in role["rules"] if rule["resources"] == ["extensionconfigs"]]
    assert [(rule["verbs"], rule.get("resourceNames")) for rule in rules] == [
        (["create"], None),
        (["list", "watch", "patch"], ["espalier-in-place"]),
    ]


def test_a_manager_in_the_cluster_is_told_by_which_way_machines_are_upgraded_in_place() -> None:
    (deployment,) = (tree for tree in manifests.deployed("i", (), FrontEnd.HOOKS) if tree["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["args"][-2:] == ["--in-place", "hooks"]
