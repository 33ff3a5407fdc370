"""The pods that `espalier manifests` deploys, as flags set them."""

from __future__ import annotations

import pytest
import yaml

from espalier.api.meta import Tree
from espalier.api.text.quantities import amount
from espalier.cli.install import deployment, manifests
from espalier.cli.kit.failures import Usage
from espalier.cli.main import run
from espalier.cli.programs.webhook_configurations import DASHBOARD_SERVICE, SERVICE
from tests.support.command_line import understood
from tests.support.objects.deployments import combinations, deployed, pods


def rendered(*words: str) -> list[dict[str, Tree]]:
    """For each program, its objects by kind."""
    return [{tree["kind"]: tree for tree in trees} for trees in deployed(pods(*words))]


def pod(objects: dict[str, Tree]) -> Tree:
    spec: Tree = objects["Deployment"]["spec"]["template"]["spec"]
    return spec


def test_replicas_spread_and_survive_drains_by_default() -> None:
    for objects in rendered():
        labels = objects["Deployment"]["spec"]["template"]["metadata"]["labels"]
        budget = objects["PodDisruptionBudget"]["spec"]
        assert budget["selector"]["matchLabels"] == labels
        assert budget["maxUnavailable"] < objects["Deployment"]["spec"]["replicas"]
        assert budget["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
        spread = pod(objects)["topologySpreadConstraints"]
        assert [item["topologyKey"] for item in spread] == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
        assert {item["whenUnsatisfiable"] for item in spread} == {"ScheduleAnyway"}
        assert all(item["labelSelector"]["matchLabels"] == labels for item in spread)
        assert pod(objects)["tolerations"] == [
            {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}
        ]
        assert pod(objects)["containers"][0]["resources"]["limits"] == {"memory": "2Gi"}


def test_nodes_are_held_apart_only_where_asked() -> None:
    for objects in rendered("--topology-spread", "DoNotSchedule"):
        by_node, by_zone = pod(objects)["topologySpreadConstraints"]
        assert (by_node["whenUnsatisfiable"], by_zone["whenUnsatisfiable"]) == ("DoNotSchedule", "ScheduleAnyway")


def test_flags_set_the_fields_they_name() -> None:
    words = ("--image-pull-secret=one", "--image-pull-secret=two", "--priority-class=high", "--node-selector=a/b=c")
    for objects in rendered(*words, "--toleration=k=v", "--toleration=x:NoExecute", "--memory-limit=0"):
        spec = pod(objects)
        assert spec["imagePullSecrets"] == [{"name": "one"}, {"name": "two"}]
        assert spec["priorityClassName"] == "high"
        assert spec["nodeSelector"] == {"a/b": "c"}
        assert spec["tolerations"] == [
            {"key": "k", "operator": "Equal", "value": "v"},
            {"key": "x", "operator": "Exists", "effect": "NoExecute"},
        ]
        assert "limits" not in spec["containers"][0]["resources"]


def test_metrics_are_closed_unless_asked_for() -> None:
    for objects in rendered():
        assert "metrics" not in str(objects["NetworkPolicy"])
        assert understood(pod(objects)["containers"][0]["args"])["metrics_address"].startswith("127.0.0.1:")


@pytest.mark.parametrize(
    ("words", "namespaces"), [((), ["monitoring"]), (("--metrics-namespace=a,b",), ["a", "b"])], ids=["usual", "named"]
)
def test_metrics_are_open_to_namespaces_that_scrape(words: tuple[str, ...], namespaces: list[str]) -> None:
    for objects in rendered("--metrics", *words):
        (container,) = pod(objects)["containers"]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        assert understood(container["args"])["metrics_address"] == f":{ports['metrics']}"
        rules = objects["NetworkPolicy"]["spec"]["ingress"]
        (opened,) = (rule for rule in rules if rule["ports"] == [{"protocol": "TCP", "port": "metrics"}])
        (selected,) = opened["from"][0]["namespaceSelector"]["matchExpressions"]
        assert selected == {"key": "kubernetes.io/metadata.name", "operator": "In", "values": namespaces}
        assert all("from" in rule or rule["ports"] == [{"protocol": "TCP", "port": "webhooks"}] for rule in rules)


@pytest.mark.parametrize("namespaces", [None, (), ("ingress", "edge")], ids=["none", "forwarded", "named"])
def test_dashboard_is_open_to_named_namespaces_only(namespaces: tuple[str, ...] | None) -> None:
    trees = manifests.deployed("example.com/espalier:v1", dashboard=namespaces)
    services = {tree["metadata"]["name"]: tree["spec"] for tree in trees if tree["kind"] == "Service"}
    objects = {tree["kind"]: tree for tree in trees}
    (container,) = pod(objects)["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    rules = objects["NetworkPolicy"]["spec"]["ingress"]
    opened = [rule for rule in rules if rule["ports"][0]["port"] == "dashboard"]
    if namespaces is None:
        assert set(services) == {SERVICE}
        assert (ports.get("dashboard"), understood(container["args"])["dashboard_address"]) == (None, "0")
    else:
        assert services[DASHBOARD_SERVICE] == {
            "selector": objects["Deployment"]["spec"]["selector"]["matchLabels"],
            "ports": [{"name": "dashboard", "port": 443, "targetPort": "dashboard"}],
        }
        assert understood(container["args"])["dashboard_address"] == f":{ports['dashboard']}"
    named = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(namespaces or ())}
    assert [rule["from"] for rule in opened] == (
        [[{"namespaceSelector": {"matchExpressions": [named]}}]] if namespaces else []
    )


def test_programs_understand_their_arguments() -> None:
    """With every combination of flags, and each has the ports that it says it listens on."""
    for words in combinations(all_=False):
        for objects in rendered(*words):
            (container,) = pod(objects)["containers"]
            assert all(understood(container["args"]).values()) is not None
            assert container["args"][0] == container["name"]
            listened = {word for word in container["args"] if word.startswith(":")}
            assert listened == {f":{port['containerPort']}" for port in container["ports"]}
            named = {volume["name"] for volume in pod(objects)["volumes"]}
            assert {mount["name"] for mount in container["volumeMounts"]} == named


def test_gardenlet_reads_kubeconfig_that_is_mounted() -> None:
    *_, gardenlet = rendered()
    asked = understood(pod(gardenlet)["containers"][0]["args"])
    mount = pod(gardenlet)["containers"][0]["volumeMounts"][1]
    assert asked["seed"] == "west"
    assert str(asked["garden_kubeconfig"]) == f"{mount['mountPath']}/kubeconfig"
    assert {"name": mount["name"], "secret": {"secretName": "gardenlet-kubeconfig"}} in pod(gardenlet)["volumes"]


def test_the_default_limit_is_one_that_is_allowed() -> None:
    least, request = amount(deployment.LEAST_MEMORY), amount(deployment.MEMORY_REQUEST)
    assert request < least <= amount(deployment.MEMORY_LIMIT)
    assert pods("--memory-limit", deployment.LEAST_MEMORY).memory_limit == deployment.LEAST_MEMORY


REFUSED = [
    ("--memory-limit", "512m", "found '512m' (0.512 bytes), allowed is a quantity of at least 256Mi"),
    ("--memory-limit", "255Mi", "found '255Mi' (267,386,880 bytes)"),
    ("--memory-limit", "-1Gi", "allowed is a quantity of at least 256Mi"),
    ("--memory-limit", "lots", "found 'lots', allowed is a quantity of at least 256Mi, such as 2Gi, or 0"),
    ("--memory-limit", "99999E", "allowed is a quantity"),
    ("--memory-limit", "1e999999999", "allowed is a quantity"),
    ("--memory-limit", "", "allowed is a quantity"),
    ("--toleration", "=x", "allowed is KEY[=VALUE][:EFFECT] with effect NoSchedule, PreferNoSchedule or NoExecute"),
    ("--toleration", "a:Never", "allowed is KEY[=VALUE][:EFFECT]"),
    ("--toleration", "a=b c", "allowed is KEY[=VALUE][:EFFECT]"),
    ("--node-selector", "a", "allowed is KEY=VALUE"),
    ("--priority-class", "A_B", "allowed is the name of a PriorityClass"),
    ("--image-pull-secret", "a/b", "allowed is the name of a Secret in eksa-system"),
    ("--metrics-namespace", "monitoring", "found without --metrics"),
]


@pytest.mark.parametrize(("flag", "value", "message"), REFUSED, ids=lambda value: str(value)[:20])
def test_a_wrong_value_is_refused(flag: str, value: str, message: str) -> None:
    with pytest.raises(Usage) as refused:
        pods(f"{flag}={value}")
    assert str(refused.value).startswith(f"{flag}: ")
    assert message in str(refused.value)


WRONG = [
    (["--webhook-url", "https://a:1", "--dashboard"], "--dashboard: found without --image"),
    (["--image", "a/b:c", "--dashboard-namespace", "edge"], "--dashboard-namespace: found without --dashboard"),
    (["--image", "a/b:c", "--dashboard", "--dashboard-namespace", "A_"], "--dashboard-namespace: found 'A_'"),
    (["--of", "garden", "--image", "a/b:c", "--dashboard"], "--dashboard: found with --of garden"),
    (["--webhook-url", "https://a:1", "--metrics"], "--metrics: found without --image"),
    (
        ["--image", "a", "--node-selector", "a=b", "--node-selector", "a=c"],
        "--node-selector: found a=b and a=c, allowed is one value",
    ),
    (["--of", "garden", "--memory-limit", "1Gi"], "--memory-limit: found without --image"),
    (["--of", "seed", "--image", "a"], "--of seed: found --image without --seed"),
    (["--of", "seed", "--seed", "a"], "--of seed: found --seed without --image"),
    (["--of", "seed", "--image", "a", "--seed", "A"], "--seed: found 'A', allowed is the name of a Seed"),
    (["--of", "seed", "--webhook-url", "https://a"], "--webhook-url: found with --of seed"),
    (["--of", "garden", "--webhook-url", "https://a", "--image", "a"], "--of garden: give either --image"),
    (["--of", "garden", "--seed", "a"], "--seed: found with --of garden"),
    (["--image", "a", "--seed", "a"], "--seed: found with --of manager"),
    (["--image", "a", "--webhook-secret", "A_B"], "--webhook-secret: found 'A_B', allowed is the name of a Secret"),
    (["--webhook-url", "https://a:1", "--webhook-secret", "a"], "--webhook-secret: found without --image"),
    (["--of", "seed", "--webhook-secret", "a"], "--webhook-secret: found with --of seed, allowed is --of manager"),
    (["--of", "garden", "-n", "a"], "--namespace: found with --of garden, allowed is --of manager"),
    (["--of", "seed", "--in-place", "hooks"], "--in-place: found with --of seed"),
    (["--of", "seed", "--management-cluster", "a/b"], "--management-cluster: found with --of seed"),
    (["--of", "seed", "--beside-gardener"], "--beside-gardener: found with --of seed, allowed is --of garden"),
    (["--beside-gardener", "--image", "a"], "--beside-gardener: found with --of manager, allowed is --of garden"),
    (["--of", "garden", "--kubeconfig-copies"], "--kubeconfig-copies: found with --of garden"),
]


@pytest.mark.parametrize(("words", "message"), WRONG, ids=lambda value: str(value)[:40])
def test_flags_that_do_not_go_together_are_refused(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["manifests", *words]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


def test_what_gardener_has_is_left_out_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    trees = []
    for words in ((), ("--beside-gardener",)):
        assert run(["manifests", "--of", "garden", *words]) == 0
        trees.append(list(yaml.safe_load_all(capsys.readouterr().out)))
    every, beside = trees
    left_out = [tree for tree in every if tree not in beside]
    assert beside == [tree for tree in every if tree not in left_out]
    assert [tree["metadata"]["name"] for tree in left_out if tree["kind"] != "CustomResourceDefinition"] == [
        "gardener.cloud:system:project-member",
        "gardener.cloud:system:project-viewer",
    ], "Gardener aggregates its roles of these names from others"
    assert "CustomResourceDefinition" not in {tree["kind"] for tree in beside}


@pytest.mark.parametrize("of", ["garden", "seed"])
def test_gardens_and_seeds_get_deployment_with_image(of: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["manifests", "--of", of, "--image", "a:v1", *(["--seed", "west"] if of == "seed" else [])]) == 0
    trees = list(yaml.safe_load_all(capsys.readouterr().out))
    (made,) = (tree for tree in trees if tree["kind"] == "Deployment")
    accounts = {tree["metadata"]["name"] for tree in trees if tree["kind"] == "ServiceAccount"}
    assert made["spec"]["template"]["spec"]["serviceAccountName"] in accounts
    services = {tree["metadata"]["name"] for tree in trees if tree["kind"] == "Service"}
    hooks = [hook for tree in trees for hook in tree.get("webhooks", ())]
    assert {hook["clientConfig"]["service"]["name"] for hook in hooks} == services
