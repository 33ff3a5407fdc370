"""Every field of a Cluster on Docker: an accepted value shows in what is rendered, or is told to have no effect.

Whatever else is refused at admission, by the schema or by a rule, with its path. No field is left out.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import msgspec
import pytest

from espalier.api.capi import cluster as capi
from espalier.api.definitions.crd import crd_of
from espalier.api.eksa.cluster import Cluster
from espalier.api.manifests import schema
from espalier.api.meta import Tree
from espalier.clusters.admission.admission import Admission
from espalier.clusters.design.render.layered import rendered
from espalier.kube.objects import to_bytes
from espalier.kube.transports.wire import ADMIN
from espalier.runtime.servers.admission import AdmissionRequest
from tests.support.objects.observed_clusters import GARDEN, NAMESPACE, NOW, as_object, datacenter, example, observer
from tests.support.objects.render_inputs import documents
from tests.support.providers.connected_examples import COMPANY, PASSWORD
from tests.support.providers.field_sweep import leaves

CP, GROUP, NETWORK = "controlPlaneConfiguration.", "workerNodeGroupConfigurations[].", "clusterNetwork."
MIRROR, PROXY = "registryMirrorConfiguration.", "proxyConfiguration."
CHECKS: dict[str, tuple[list[Any], list[Any]]] = {
    "nodeStartupTimeout": (["30s", "20m", "0s"], ["29s", "soon"]),
    "unhealthyMachineTimeout": (["1m", "0s"], ["later", "99999999h"]),
    "maxUnhealthy": ([0, 1, "100%"], [-1, "lots"]),
}
TAINT = {"key": "a", "value": "b", "effect": "PreferNoSchedule"}
KUBELETS = {
    "topology.kubernetes.io/zone": "a",
    "node.kubernetes.io/instance-type": "b",
    "a.node.kubernetes.io/c": "d",
    "kubernetes.io/hostname": "e",
    "beta.kubernetes.io/os": "linux",
}
"""Labels that kubelets know."""

OF_NODES: dict[str, tuple[list[Any], list[Any]]] = {
    "labels{}": (
        [{"a": ""}, {"a.example/b": "c" * 63}, KUBELETS],
        [{"a b": "c"}, {"a": "c" * 64}, {"kubernetes.io/role": "a"}],
    ),
    "taints[].effect": ([[TAINT]], [[TAINT | {"effect": "Never"}]]),
    "taints[].key": ([[TAINT | {"key": "x.example/a"}]], [[TAINT | {"key": "a b"}]]),
    "taints[].value": ([[TAINT | {"value": ""}]], [[TAINT | {"value": "a b"}]]),
    "taints[].timeAdded": ([[TAINT | {"timeAdded": "2026-01-01T00:00:00Z"}]], []),
    "kubeletConfiguration": ([{"maxPods": 1}, {"evictionHard": {}}], [{"maxPods": "x"}, {"providerID": "a"}]),
}


class Values(NamedTuple):
    """Values to write into a field."""

    accepted: list[Any]
    refused: list[Any]


MORE: dict[str, Tree] = {
    f"{GROUP}autoscalingConfiguration.minCount": {f"{GROUP}autoscalingConfiguration.maxCount": 5},
    f"{GROUP}upgradeRolloutStrategy.rollingUpdate.maxSurge": {
        f"{GROUP}upgradeRolloutStrategy.rollingUpdate.maxUnavailable": 1
    },
    f"{GROUP}upgradeRolloutStrategy.rollingUpdate.maxUnavailable": {
        f"{GROUP}upgradeRolloutStrategy.rollingUpdate.maxSurge": 1
    },
    **{f"{PROXY}{name}": {PROXY + other: "proxy:1"} for name, other in (("httpProxy", "httpsProxy"),)},
    f"{PROXY}httpsProxy": {f"{PROXY}httpProxy": "proxy:1"},
    f"{PROXY}noProxy[]": {f"{PROXY}httpProxy": "proxy:1", f"{PROXY}httpsProxy": "proxy:1"},
    **{
        MIRROR + name: {MIRROR + "endpoint": "mirror"}
        for name in (
            *("port", "caCertContent", "authenticate", "insecureSkipVerify"),
            *("ociNamespaces[].registry", "ociNamespaces[].namespace"),
        )
    },
}
"""Other fields that a field needs."""

FIELDS: dict[str, Values] = {
    "kubernetesVersion": Values(["1.34", "1.36"], ["1.29", "", "one"]),
    "eksaVersion": Values(["v0.25.1"], ["soon", "v9.0.0"]),
    CP + "count": Values([3, 99], [0, -1, 2, 101]),
    CP + "certSans[]": Values([["a.example", "10.0.0.1", "*.b"]], [["a b"], [""]]),
    CP + "apiServerExtraArgs{}": Values([{"event-ttl": "2h"}, {"v": "0"}], [{"--v": "1"}, {"v": "x"}]),
    CP + "auditPolicyContent": Values(
        ["apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None}]"], ["hello", "rules: [a"]
    ),
    CP + "skipAdmissionForSystemResources": Values([True], ["yes"]),
    CP + "upgradeRolloutStrategy.rollingUpdate.maxSurge": Values([], [2, -1, 0]),
    CP + "upgradeRolloutStrategy.type": Values(["InPlace"], ["Never"]),
    CP + "endpoint.host": Values([], ["10.0.0.1"]),
    **{f"{CP}{name}": Values(*values) for name, values in OF_NODES.items()},
    **{f"{GROUP}{name}": Values(*values) for name, values in OF_NODES.items()},
    **{f"machineHealthCheck.{name}": Values(*values) for name, values in CHECKS.items()},
    **{f"{CP}machineHealthCheck.{name}": Values(*values) for name, values in CHECKS.items()},
    **{f"{GROUP}machineHealthCheck.{name}": Values(*values) for name, values in CHECKS.items()},
    GROUP + "name": Values(["big", "a-b"], ["Big", "a_b", "x" * 60]),
    GROUP + "count": Values([0, 1, 100_000], [-1, 100_001, "many"]),
    GROUP + "kubernetesVersion": Values(["1.34"], ["1.36", "1.29"]),
    GROUP + "failureDomains[]": Values([], [["a"]]),
    GROUP + "autoscalingConfiguration.minCount": Values([0, 1, 2], [6, -1]),
    GROUP + "autoscalingConfiguration.maxCount": Values([2, 100_000], [1, -1, 100_001]),
    GROUP + "upgradeRolloutStrategy.rollingUpdate.maxSurge": Values([0, 5], [-1, 100_001]),
    GROUP + "upgradeRolloutStrategy.rollingUpdate.maxUnavailable": Values([1, 5], [-1, 100_001]),
    GROUP + "upgradeRolloutStrategy.type": Values(["InPlace"], ["Never"]),
    NETWORK + "pods.cidrBlocks[]": Values([["10.1.0.0/16"]], [["10.1.0.0/30"], ["10.0.0.1"], []]),
    NETWORK + "services.cidrBlocks[]": Values([["10.2.0.0/29"]], [["10.2.0.0/30"], ["fd00::/112"]]),
    NETWORK + "nodes.cidrMaskSize": Values([17, 32], [16, 33]),
    NETWORK + "dns.resolvConf.path": Values(["/etc/my.conf"], ["/etc/my conf", "/etc/my.conf\n"]),
    NETWORK + "cni": Values([], ["cilium", "flannel"]),
    NETWORK + "cniConfig.kindnetd": Values([], []),
    "externalEtcdConfiguration.count": Values([1, 3, 99], [0, 2, -1, 101]),
    PROXY + "httpProxy": Values(["http://a:b@proxy:65535"], ["", "proxy", "proxy:0", "proxy:65536"]),
    PROXY + "httpsProxy": Values(["https://proxy:1"], ["", "a b:1"]),
    PROXY + "noProxy[]": Values([["10.0.0.0/8", "a.example"]], [["a,b"], [""]]),
    MIRROR + "endpoint": Values(["mirror.example.com", "10.0.0.9"], ["", "https://mirror", "mirror:5000"]),
    MIRROR + "port": Values(["1", "65535"], ["0", "65536", "http"]),
    MIRROR + "caCertContent": Values([], ["hello"]),
    MIRROR + "authenticate": Values([True], ["yes"]),
    MIRROR + "insecureSkipVerify": Values([True], ["yes"]),
    MIRROR + "ociNamespaces[].registry": Values([[{"registry": "quay.io", "namespace": "a"}]], [[{"registry": "a b"}]]),
    MIRROR + "ociNamespaces[].namespace": Values(
        [[{"registry": "quay.io", "namespace": "a/b"}]], [[{"registry": "quay.io", "namespace": "/"}]]
    ),
    "identityProviderRefs[].kind": Values(
        [[{"kind": "OIDCConfig", "name": "company"}]], [[{"kind": "LDAP", "name": "a"}]]
    ),
    "identityProviderRefs[].name": Values([], [[{"kind": "OIDCConfig", "name": ""}]]),
    "podIamConfig.serviceAccountIssuer": Values(
        ["https://issuer", "https://a/b:c"], ["", "http://issuer", "https://a@b"]
    ),
    "etcdEncryption[]": Values([], [[{"providers": [], "resources": ["secrets"]}]]),
}
"""By path: `[]` is the whole list, `{}` the whole map."""

NO_EFFECT = {
    "gitOpsRef.": "of the management cluster",
    "packages.": "curated packages are not installed",
    "licenseToken": "the licence is not checked",
    "machineGroupRef.": "Docker has no machine configs",
    "skipLoadBalancerDeployment": "Docker's load balancer is part of the infrastructure",
}
"""Fields that are accepted and do nothing, which a warning says.

See `clusters/observe/rules/unsupported.py`, and `rules.py` of the provider.
"""

ELSEWHERE = {
    "bundlesRef.": "`test_versions`",
    "datacenterRef.": "whose cluster it is: `test_admission`",
    "managementCluster.": "`test_management`",
    "etcdEncryption[].": "refused as a whole",
    "upgradeRolloutStrategy.fallback": "of upgrades in place: `test_in_place_story`",
    "clusterNetwork.cniConfig.cilium": "the stories of the CNI, `test_admission`",
}
"""Fields whose tests are others."""


SPEC = crd_of(Cluster)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
ALL = list(leaves(SPEC))


def is_of(path: str, fields: dict[str, str]) -> bool:
    return any(part in f"{path}." for part in fields)


def written(path: str, value: Any, tree: Tree | None = None) -> Tree:
    """The example with a field; of a list of objects, the whole list is the value."""
    copied = copy.deepcopy(tree if tree is not None else example()[0])
    at: Any = copied["spec"]
    path_of_group = path.replace(GROUP, "workerNodeGroupConfigurations.0.")
    parts = path_of_group.partition("[]")[0].removesuffix("{}").split(".")
    for part in parts[:-1]:
        at = at[int(part)] if part.isdecimal() else at.setdefault(part, {})
    at[parts[-1]] = value
    return copied


def asked(path: str, value: Any) -> Tree:
    tree = example()[0]
    if path.startswith(f"{GROUP}autoscaling"):
        del tree["spec"]["workerNodeGroupConfigurations"][0]["count"]
        tree = written(f"{GROUP}autoscalingConfiguration.minCount", 2, tree)
    if "upgradeRolloutStrategy.rollingUpdate" in path:
        tree = written(f"{path.partition('rollingUpdate')[0]}type", "RollingUpdate", tree)
    for other, given in MORE.get(path, {}).items():
        tree = written(other, given, tree)
    return written(path, value, tree)


FORK = msgspec.json.decode(to_bytes(crd_of(capi.Cluster)))


def verdict(tree: Tree) -> list[str]:
    """The refusals by the schema and by admission."""
    results = [str(violation) for violation in schema.violations(Cluster, tree)]
    if results:
        return results
    known = observer(datacenter(), COMPANY, PASSWORD, FORK)
    request = AdmissionRequest("CREATE", "Cluster", NAMESPACE, "garden", ADMIN, as_object(tree), None)
    answer = Admission(known, lambda: NOW).validate(request)
    return [] if answer.allowed else [answer.message]


def shown(tree: Tree) -> list[Tree]:
    scope = observer(tree, datacenter(), COMPANY, PASSWORD, FORK).scope(GARDEN)
    assert scope is not None
    assert scope.render_input is not None, scope.missing
    return [*documents(rendered(scope.render_input)), *map(msgspec.to_builtins, _others(rendered(scope.render_input)))]


def _others(value: Any) -> list[Any]:
    return [*value.extras, *([value.etcd.machine_template, value.etcd.cluster] if value.etcd else [])]


@pytest.mark.parametrize("path", FIELDS)
def test_a_value_shows_or_is_refused(path: str) -> None:
    before = shown(example()[0])
    strategy = f"{path}.".endswith("upgradeRolloutStrategy.type.")
    for value in FIELDS[path].accepted:
        tree = asked(path, value)
        assert verdict(tree) == [], value
        assert strategy or path.endswith("timeAdded") or shown(tree) != before or _is_default(path, value), value
    for value in FIELDS[path].refused:
        assert verdict(asked(path, value)), value


def _is_default(path: str, value: Any) -> bool:
    return (path, value) in DEFAULTS


DEFAULTS = ((f"{CP}machineHealthCheck.maxUnhealthy", "100%"),)


def test_no_field_is_left_out() -> None:
    known = {path.removesuffix("{}") for path in FIELDS}
    left = [
        path
        for path in ALL
        if path.removesuffix("{}") not in known and not is_of(path, NO_EFFECT) and not is_of(path, ELSEWHERE)
    ]
    assert left == []


def test_how_many_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    accepted = sum(len(field.accepted) for field in FIELDS.values())
    refused = sum(len(field.refused) for field in FIELDS.values())
    with capsys.disabled():
        print(f"\n{len(ALL)} fields of a Cluster: {len(FIELDS)} swept, {accepted} values accepted, {refused} refused")
    assert accepted > 60
    assert refused > 80
