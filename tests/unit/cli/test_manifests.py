"""The manifests for a management cluster: the manager, its rights, and what calls it."""

from __future__ import annotations

import copy

import pytest
import yaml

from espalier.api.eksa.upgrades import FrontEnd
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.apiserver.schema.expressions import cel
from espalier.cli.install import manifests
from espalier.cli.kit import flags
from espalier.cli.kit.failures import Exit, Usage
from espalier.cli.main import run
from espalier.cli.programs import webhook_configurations
from espalier.providers.registry import PROVIDERS
from tests.support.command_line import understood
from tests.support.sampling import sampled
from tests.support.servers.audit import grants


def test_namespaces_have_roles_in_place_of_wide_rights() -> None:
    everywhere = set(grants(manifests.installed(PROVIDERS)))
    restricted = set(grants(manifests.installed(PROVIDERS, ("a", "b"))))
    assert {grant.resource for grant in restricted if not grant.namespace} == {
        "customresourcedefinitions",
        "deployments",  # of one name: that of Cluster API's manager
        "eksareleases",
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
        "vspheredeploymentzones",
        "vspherefailuredomains",
    }
    moved = {grant[1:] for grant in everywhere - restricted}
    for namespace in ("a", "b"):
        assert {grant[1:] for grant in restricted if grant.namespace == namespace} == moved
    assert {grant.namespace for grant in restricted} == {"", "a", "b", SYSTEM_NAMESPACE}


def test_roles_of_namespace_of_system_do_not_collide() -> None:
    trees = [tree for tree in manifests.installed(PROVIDERS, (SYSTEM_NAMESPACE,)) if tree["kind"] == "Role"]
    assert len({(tree["metadata"]["namespace"], tree["metadata"]["name"]) for tree in trees}) == 2


def test_clusters_of_other_namespaces_reach_no_webhook() -> None:
    webhooks = [hook for _, tree in manifests.webhook_configurations("", ("a",)) for hook in tree["webhooks"]]
    selected = {hook["name"].partition(".")[2].partition(".")[0] for hook in webhooks if "namespaceSelector" in hook}
    assert selected == {"clusters"}


def test_namespaces_are_named_by_comma_or_one_by_one() -> None:
    assert flags.namespaces(["a,b", "c", "a"]) == ("a", "b", "c")
    with pytest.raises(Usage, match="found 'Team_A', allowed are comma-separated names"):
        flags.namespaces(["Team_A"])


def test_right_to_copy_kubeconfigs_is_per_namespace(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["manifests", "--kubeconfig-copies", "-n", "team-a,team-b"]) == 0
    trees = list(yaml.safe_load_all(capsys.readouterr().out))
    assert trees == manifests.kubeconfig_copy_rights(["team-a", "team-b"])
    for wrong in ([], ["-n", "a", "--image", "x"], ["-n", "a", "--webhook-url", "https://x"]):
        assert run(["manifests", "--kubeconfig-copies", *wrong]) == 2
        assert "--kubeconfig-copies needs --namespace" in capsys.readouterr().err


def policies() -> dict[str, Tree]:
    result = (tree for tree in manifests.installed(PROVIDERS) if tree["kind"] == "ValidatingAdmissionPolicy")
    return {tree["metadata"]["name"]: tree for tree in result}


def test_policy_holds_webhooks_but_their_authority() -> None:
    """Whatever this build writes into a webhook is compared."""
    policy = policies()[manifests.NAME]
    same, _ = (validation["expression"] for validation in policy["spec"]["validations"])
    webhooks = [hook for _, tree in manifests.webhook_configurations("", ("a",)) for hook in tree["webhooks"]]
    for field in {field for hook in webhooks for field in hook} - {"name", "clientConfig"}:
        assert f"new.?{field} == old.?{field}" in same
    assert "caBundle" not in same
    assert manifests.ACCOUNT in policy["spec"]["matchConditions"][0]["expression"]


def allowed(new: Tree, old: Tree, name: str = manifests.NAME) -> bool:
    """True if a policy, by default that of webhook configurations, lets the manager make `new` of `old`."""
    policy = policies()[name]
    anything = {"x-kubernetes-int-or-string": True}  # the type that nothing is known of
    for validation in policy["spec"]["validations"]:
        text = validation["expression"].replace("oldObject", "oldSelf").replace("object.", "self.")
        expression = cel.compiled(text, anything)
        if expression.value(cel.Variables(new, old, has_old=True)) is not True:
            return False
    return True


ADDRESSES = [("", "service"), ("https://10.0.0.1:9443", "url")]


@pytest.mark.parametrize(("url", "address"), sampled(ADDRESSES, 1), ids=["service", "url"])
def test_manager_changes_only_authorities_of_webhooks(url: str, address: str) -> None:
    for _, installed in manifests.webhook_configurations(url):
        assert allowed(copy.deepcopy(installed), installed)
        trusting = copy.deepcopy(installed)
        for hook in trusting["webhooks"]:
            hook["clientConfig"]["caBundle"] = "Y2E="
        assert allowed(trusting, installed)
        for place, hook in enumerate(installed["webhooks"]):
            for field in {*hook, "namespaceSelector", "objectSelector", "matchConditions", "timeoutSeconds"}:
                changed = copy.deepcopy(installed)
                if field == "clientConfig":
                    changed["webhooks"][place][field][address] = "another"
                else:
                    changed["webhooks"][place][field] = "another"
                assert not allowed(changed, installed), field
        for field in ("labels", "annotations", "finalizers", "ownerReferences"):
            changed = copy.deepcopy(installed)
            changed["metadata"][field] = "another"
            assert not allowed(changed, installed), field


@pytest.mark.parametrize("url", ["", "https://10.0.0.1:9443"], ids=["service", "url"])
def test_the_manager_neither_adds_nor_removes_webhooks(url: str) -> None:
    for _, installed in manifests.webhook_configurations(url):
        hooks = installed["webhooks"]
        for others in ([], hooks[1:], [*hooks, {**hooks[0], "name": "other.example.com"}], [*hooks, hooks[0]]):
            assert not allowed({**installed, "webhooks": others}, installed)


IMAGE = "registry.example.com/espalier:v0.26.0"


def printed(capsys: pytest.CaptureFixture[str], *flags_: str) -> dict[str, Tree]:
    """The printed objects, by kind, where there is one of it in the namespace of the system."""
    assert run(["manifests", "--image", IMAGE, *flags_]) == 0
    trees = list(yaml.safe_load_all(capsys.readouterr().out))
    return {tree["kind"]: tree for tree in trees if tree["metadata"].get("namespace") == SYSTEM_NAMESPACE}


@pytest.mark.demand(L27="in one container", L64="its Deployment")
def test_container_of_manager_can_not_touch_its_node(capsys: pytest.CaptureFixture[str]) -> None:
    result = printed(capsys)
    spec = result["Deployment"]["spec"]
    pod = spec["template"]["spec"]
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
    assert pod["serviceAccountName"] == result["ServiceAccount"]["metadata"]["name"]
    (container,) = pod["containers"]
    assert container["image"] == IMAGE
    assert container["securityContext"] == {
        "runAsNonRoot": True,
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert pod["securityContext"] == {"runAsUser": 65532, "runAsGroup": 65532}
    assert not any(pod.get(field) for field in ("hostNetwork", "hostPID", "hostIPC"))
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]} == {"temporary": "/tmp"}
    assert volumes["temporary"].keys() == {"name", "emptyDir"}


@pytest.mark.soak
def test_manager_serves_what_probes_and_webhooks_ask(capsys: pytest.CaptureFixture[str]) -> None:
    result = printed(capsys)
    pod = result["Deployment"]["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    asked = understood(container["args"])
    assert asked["webhook_address"] == f":{ports['webhooks']}"
    assert asked["health_address"] == f":{ports['health']}"
    probes = {name: container[f"{name}Probe"]["httpGet"] for name in ("liveness", "readiness")}
    assert probes == {
        "liveness": {"path": "/healthz", "port": "health"},
        "readiness": {"path": "/readyz", "port": "health"},
    }
    service = result["Service"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    (port,) = service["spec"]["ports"]
    assert port["targetPort"] in ports
    for _, tree in manifests.webhook_configurations():
        for hook in tree["webhooks"]:
            reference = hook["clientConfig"]["service"]
            assert (reference["name"], reference["namespace"], reference["port"]) == (
                service["metadata"]["name"],
                service["metadata"]["namespace"],
                port["port"],
            )
    names = webhook_configurations.SERVICE_NAMES.split(",")
    assert f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc" in names


@pytest.mark.soak
def test_manager_watches_namespaces_of_its_rights_only(capsys: pytest.CaptureFixture[str]) -> None:
    for given, expected in (([], ()), (["--namespace", "team-a,team-b"], ("team-a", "team-b"))):
        (container,) = printed(capsys, *given)["Deployment"]["spec"]["template"]["spec"]["containers"]
        assert flags.namespaces(understood(container["args"])["namespace"]) == expected


def test_hooks_need_a_kind_that_is_reached_by_name() -> None:
    more = [
        tree
        for tree in manifests.installed(PROVIDERS, (), FrontEnd.HOOKS)
        if tree not in manifests.installed(PROVIDERS)
    ]
    role, of_system = more
    assert [rule for rule in of_system["rules"] if rule["resources"] == ["machines/finalizers"]]
    rules = [rule for rule in role["rules"] if rule["resources"] == ["extensionconfigs"]]
    assert [(rule["verbs"], rule.get("resourceNames")) for rule in rules] == [
        (["create"], None),
        (["list", "watch", "patch"], ["espalier-in-place"]),
    ]


def test_deployment_has_the_front_end_of_in_place() -> None:
    (deployment,) = (tree for tree in manifests.deployed("i", (), FrontEnd.HOOKS) if tree["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["args"][-2:] == ["--in-place", "hooks"]


@pytest.mark.soak
def test_management_identity_can_be_part_of_manifests(capsys: pytest.CaptureFixture[str]) -> None:
    assert "ConfigMap" not in printed(capsys)
    named = printed(capsys, "--management-cluster", "default/laptop")["ConfigMap"]
    assert named["metadata"] == {"name": "management-cluster", "namespace": SYSTEM_NAMESPACE}
    assert named["data"] == {"namespace": "default", "name": "laptop"}
    for wrong in ("laptop", "/laptop", "default/", "a/b/c", "Default/laptop", f"default/{'a' * 64}"):
        assert run(["manifests", "--image", IMAGE, "--management-cluster", wrong]) == 2
        assert "allowed is NAMESPACE/NAME" in capsys.readouterr().err


def test_clusters_are_deleted_without_a_manager() -> None:
    hooks = [hook for _, tree in manifests.webhook_configurations() for hook in tree["webhooks"]]
    asked = {
        (hook["name"].split(".")[0], hook["rules"][0]["resources"][0]): hook["failurePolicy"]
        for hook in hooks
        if "DELETE" in hook["rules"][0]["operations"]
    }
    assert asked == {
        ("delete", "clusters"): "Ignore",
        ("validate", "eksareleases"): "Fail",
        ("validate", "bundles"): "Fail",
        ("validate", "releases"): "Fail",
    }


@pytest.mark.soak
def test_webhooks_alone_are_reached_from_other_pods(capsys: pytest.CaptureFixture[str]) -> None:
    result = printed(capsys)
    pod = result["Deployment"]["spec"]["template"]
    policy = result["NetworkPolicy"]["spec"]
    assert policy["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert policy["policyTypes"] == ["Ingress"]
    assert policy["ingress"] == [{"ports": [{"protocol": "TCP", "port": "webhooks"}]}]
    (container,) = pod["spec"]["containers"]
    assert "webhooks" in {port["name"] for port in container["ports"]}
    assert understood(container["args"])["metrics_address"].startswith("127.0.0.1:")


@pytest.mark.parametrize("image", ["espalier", "example.com:5000/a/b:v1", "[::1]:5000/a:v1", f"a/b@sha256:{'0a' * 32}"])
def test_an_image_of_the_manager_is_an_image_reference(image: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["manifests", "--image", image]) == 0
    (deployed,) = (tree for tree in yaml.safe_load_all(capsys.readouterr().out) if tree["kind"] == "Deployment")
    assert [container["image"] for container in deployed["spec"]["template"]["spec"]["containers"]] == [image]


@pytest.mark.parametrize("image", ["BAD IMAGE", "Espalier:v1", "a/b:", "a//b", "a/b:v1\nkind: Secret", "a@sha256:1"])
def test_an_invalid_image_is_refused(image: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["manifests", "--image", image]) == Exit.USAGE
    captured = capsys.readouterr()
    assert "allowed is an image reference such as" in captured.err
    assert captured.out == ""


def test_manager_changes_its_own_secrets_only() -> None:
    label = {"cluster.anywhere.eks.amazonaws.com/cluster-name": "garden"}
    own, keys = ("Opaque", label), ("cluster.x-k8s.io/secret", label)
    verdicts = [
        ("garden-node-files", *own, True),
        ("espalier-webhook-server-cert", "kubernetes.io/tls", None, True),
        ("garden-ca", *keys, False),
        ("vsphere-credentials", "Opaque", None, False),
        ("espalier-gate-key", "Opaque", None, False),
    ]
    for name, type_, labels, verdict in verdicts:
        metadata = {"name": name} | ({"labels": labels} if labels else {})
        secret: Tree = {"metadata": metadata, "type": type_}
        assert allowed(secret, secret, f"{manifests.NAME}-secrets") is verdict, name
