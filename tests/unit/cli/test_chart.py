"""The Helm chart: it is generated, and renders what `espalier manifests` prints for the flags of its values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import jsonschema_rs
import pytest
import yaml

from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.cli.install import chart, chart_values, commands, manifests
from espalier.cli.install.templates import Template
from espalier.cli.main import run
from espalier.cli.programs import manager
from espalier.cli.programs.webhook_configurations import SERVICE_NAMES
from tests.support.servers import helm
from tests.support.servers.helm import CHART, Helm, sets, trees_of

REPOSITORY, TAG, DIGEST = "registry.example.com/espalier", "v1", f"sha256:{'0a' * 32}"
IMAGE = {"image.repository": REPOSITORY, "image.tag": TAG}
Key = tuple[str, str, str]


def test_the_chart_in_the_tree_is_the_generated_one() -> None:
    """When this fails: make chart."""
    results = {path.relative_to(CHART).as_posix(): path.read_text() for path in CHART.rglob("*") if path.is_file()}
    assert results == chart.files()


def test_notes_fit_a_terminal_of_80_columns() -> None:
    """Helm prints them as they are."""
    assert [line for line in chart.files()["templates/NOTES.txt"].splitlines() if len(line) > 80] == []


def test_yaml_of_the_chart_has_no_anchors() -> None:
    for name, text in chart.files().items():
        assert not re.search(r"(?m)^ *(- )*(\S+: )?[&*]\w", text), name


def test_values_have_defaults_that_the_schema_allows() -> None:
    schema = json.loads(chart_values.schema())
    values = yaml.safe_load(chart_values.values_yaml())
    jsonschema_rs.validate(schema, values)
    for value in chart_values.VALUES:
        place = values
        for part in value.path.split("."):
            place = place[part]
        assert place == value.default


def allows(values: Tree) -> bool:
    """The judgement of the schema on these values beside the defaults of the others."""
    every = yaml.safe_load(chart_values.values_yaml()) | values
    return jsonschema_rs.is_valid(json.loads(chart_values.schema()), every)


EMPTY: tuple[object, ...] = ("", [], {})
NULLABLE = {"resources", "tolerations"}


@pytest.mark.parametrize("value", chart_values.VALUES, ids=lambda value: value.path)
def test_values_with_a_default_are_not_null(value: chart_values.Value) -> None:
    """Helm takes null for "without the default", and hands the schema the values without that key."""
    schema = json.loads(chart_values.schema())
    parts = value.path.split(".")
    may_lack = value.default in EMPTY or value.path in NULLABLE
    assert jsonschema_rs.is_valid(schema, lacking(parts)) == may_lack
    for depth in range(1, len(parts)):
        assert not jsonschema_rs.is_valid(schema, lacking(parts[:depth])), parts[:depth]


def lacking(parts: list[str]) -> Tree:
    """The default values without this one."""
    values: Tree = yaml.safe_load(chart_values.values_yaml())
    place = values
    for part in parts[:-1]:
        place = place[part]
    del place[parts[-1]]
    return values


def test_labels_of_objects_are_not_overridden() -> None:
    trees = manifests.everything(image="a")
    metadata = [*(tree["metadata"] for tree in trees), *(tree["spec"]["template"]["metadata"] for tree in trees[-1:])]
    keys = {key for item in metadata for key in item.get("labels", ())}
    assert len(keys) == 4
    assert allows({"commonLabels": {"team": "a"}})
    assert [key for key in keys if allows({"commonLabels": {key: "a"}})] == []


def test_text_like_a_template_stays_text() -> None:
    template = Template()
    tree = {"a": "{{ fail }}", "b": template.value(".Values.b")}
    assert template.text([tree]) == "a: '{{ \"{{\" }} fail }}'\nb: {{ .Values.b }}\n"


def by_name(trees: Iterable[Tree]) -> dict[Key, Tree]:
    results = list(trees)
    named = {(tree["kind"], tree["metadata"].get("namespace", ""), tree["metadata"]["name"]): tree for tree in results}
    assert len(named) == len(results)
    return named


def printed(capsys: pytest.CaptureFixture[str], *flags: str) -> dict[Key, Tree]:
    """The objects of `espalier manifests`, but for the namespace, which Helm creates before a release."""
    assert run(["manifests", "--image", f"{REPOSITORY}:{TAG}", *flags]) == 0
    trees = by_name(trees_of(capsys.readouterr().out))
    del trees["Namespace", "", SYSTEM_NAMESPACE]
    return trees


def rendered(folder: Path, values: Tree) -> dict[Key, Tree]:
    """The objects of the chart; some are kept when it is uninstalled, or upgraded without a value."""
    trees = by_name(Helm(folder).rendered(*sets(IMAGE | values)))
    for (kind, _, _), tree in trees.items():
        assert tree["metadata"].pop("annotations", {}) == (chart.KEEP if kind in RETAINED else {})
    return trees


RETAINED = ("CustomResourceDefinition", "ConfigMap")
CONTROL_PLANE = {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}
SAME: dict[str, tuple[tuple[str, ...], Tree]] = {
    "default": ((), {}),
    "--image": (("--image", f"{REPOSITORY}@{DIGEST}"), {"image.tag": "", "image.digest": DIGEST}),
    "--image with both": (("--image", f"{REPOSITORY}:{TAG}@{DIGEST}"), {"image.digest": DIGEST}),
    "--namespace": (("--namespace", "team-a,123,team-a"), {"namespaces": ["team-a", "123", "team-a"]}),
    "--namespace of the system": (("--namespace", SYSTEM_NAMESPACE), {"namespaces": [SYSTEM_NAMESPACE]}),
    "--in-place": (("--in-place", "hooks"), {"inPlace": "hooks"}),
    "--management-cluster": (("--management-cluster", "default/1"), {"managementCluster": "default/1"}),
    "--webhook-secret": (("--webhook-secret", "issued"), {"webhooks.secretName": "issued"}),
    "--image-pull-secret": (
        ("--image-pull-secret", "a", "--image-pull-secret", "b"),
        {"imagePullSecrets": [{"name": "a"}, {"name": "b"}]},
    ),
    "--node-selector": (
        ("--node-selector", "node.example.com/pool=1", "--node-selector", "on=true"),
        {"nodeSelector": {"node.example.com/pool": "1", "on": "true"}},
    ),
    "--toleration": (
        ("--toleration", "a=b:NoExecute", "--toleration", "c"),
        {
            "tolerations": [
                {"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute"},
                {"key": "c", "operator": "Exists"},
            ]
        },
    ),
    "--topology-spread": (("--topology-spread", "DoNotSchedule"), {"topologySpread": "DoNotSchedule"}),
    "--priority-class": (("--priority-class", "high"), {"priorityClassName": "high"}),
    "--memory-limit": (("--memory-limit", "1Gi"), {"resources.limits.memory": "1Gi"}),
    "--memory-limit 0": (("--memory-limit", "0"), {"resources.limits": None}),
    "--metrics": (("--metrics",), {"metrics.enabled": True}),
    "--metrics-namespace": (
        ("--metrics", "--metrics-namespace", "a,b"),
        {"metrics.enabled": True, "metrics.namespaces": ["a", "b"]},
    ),
    "--dashboard": (("--dashboard",), {"dashboard.enabled": True}),
    "--dashboard-namespace": (
        ("--dashboard", "--dashboard-namespace", "a,b"),
        {"dashboard.enabled": True, "dashboard.namespaces": ["a", "b"]},
    ),
    "--dashboard with --metrics": (("--dashboard", "--metrics"), {"dashboard.enabled": True, "metrics.enabled": True}),
    "all at once": (
        ("-n", "a,b", "--in-place", "hooks", "--metrics", "--priority-class", "p", "--image-pull-secret", "s"),
        {
            "namespaces": ["a", "b"],
            "inPlace": "hooks",
            "metrics.enabled": True,
            "priorityClassName": "p",
            "imagePullSecrets": [{"name": "s"}],
        },
    ),
}


@helm.NEEDED
@pytest.mark.often("default", "--namespace", "all at once")
@pytest.mark.parametrize("case", SAME)
def test_the_chart_renders_what_manifests_print(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags, values = SAME[case]
    assert rendered(tmp_path, values) == printed(capsys, *flags)


def test_every_flag_of_pods_has_a_value_of_the_chart() -> None:
    flags = {option.opts[0] for option in commands.manifests.params}
    assert flags - chart_values.OF_FLAGS.keys() == {
        "--of",
        "--format",
        "--output-dir",
        "--beside-gardener",
        "--webhook-url",
        "--kubeconfig-copies",
        "--seed",
    }
    assert {flag for flag in chart_values.OF_FLAGS if not any(case.startswith(flag) for case in SAME)} == set()
    paths = {value.path for value in chart_values.VALUES}
    for flag, words in chart_values.OF_FLAGS.items():
        assert [path for path in re.findall(r"[\w.]+\w", words) if path != "and" and not known(path, paths)] == [], flag


def known(path: str, paths: set[str]) -> bool:
    return any(path == item or path.startswith(f"{item}.") for item in paths)


@helm.NEEDED
def test_values_without_a_flag_set_what_they_name(tmp_path: Path) -> None:
    affinity: Tree = AFFINITIES["node"]
    values: Tree = {
        "replicas": 3,
        "podDisruptionBudget.maxUnavailable": "50%",
        "affinity": affinity,
        "extraArgs": ["--log-level=debug", "--sync-period=1h"],
        "image.pullPolicy": "Always",
        "resources.requests": {"cpu": "1", "memory": "1Gi"},
    }
    trees = rendered(tmp_path, values)
    (deployed,) = (tree for (kind, *_), tree in trees.items() if kind == "Deployment")
    (budget,) = (tree for (kind, *_), tree in trees.items() if kind == "PodDisruptionBudget")
    pod = deployed["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert deployed["spec"]["replicas"] == 3
    assert budget["spec"]["maxUnavailable"] == "50%"
    assert pod["affinity"] == affinity
    assert container["args"][-2:] == ["--log-level=debug", "--sync-period=1h"]
    assert container["imagePullPolicy"] == "Always"
    assert container["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}


@helm.NEEDED
def test_common_labels_are_on_all_objects_and_pods(tmp_path: Path) -> None:
    plain = rendered(tmp_path, {})
    labels = {"team": "infra", "example.com/on": "true"}
    for key, tree in rendered(tmp_path, {"commonLabels": labels}).items():
        assert tree["metadata"].pop("labels") == plain[key]["metadata"].pop("labels", {}) | labels
        if key[0] == "Deployment":
            pods, before = (item["spec"]["template"]["metadata"]["labels"] for item in (tree, plain[key]))
            assert pods == before | labels
            before |= labels
        assert tree == plain[key]


@helm.NEEDED
@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("networkPolicy.enabled", "NetworkPolicy"),
        ("podDisruptionBudget.enabled", "PodDisruptionBudget"),
        ("crds.enabled", "CustomResourceDefinition"),
    ],
)
def test_parts_are_left_out_where_disabled(path: str, kind: str, tmp_path: Path) -> None:
    plain = rendered(tmp_path, {})
    without = rendered(tmp_path, {path: False})
    assert without == {key: tree for key, tree in plain.items() if key[0] != kind} != plain


@helm.NEEDED
def test_definitions_are_deleted_only_where_asked(tmp_path: Path) -> None:
    trees = Helm(tmp_path).rendered(*sets(IMAGE | {"crds.keep": False}))
    assert [tree for tree in trees if tree["metadata"].get("annotations")] == []


@helm.NEEDED
def test_a_service_monitor_finds_the_port_of_the_pods(tmp_path: Path) -> None:
    plain = rendered(tmp_path, {"metrics.enabled": True})
    own = {"enabled": True, "labels": {"release": "prometheus"}, "interval": "30s"}
    values = {"metrics.enabled": True, "metrics.serviceMonitor": own}
    more = {key: tree for key, tree in rendered(tmp_path, values).items() if key not in plain}
    service, monitor = more.values()
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert monitor["spec"]["endpoints"] == [{"port": service["spec"]["ports"][0]["name"], "interval": "30s"}]
    (deployed,) = (tree for (kind, *_), tree in plain.items() if kind == "Deployment")
    pods = deployed["spec"]["template"]
    assert service["spec"]["selector"].items() <= pods["metadata"]["labels"].items()
    ports = {port["name"] for port in pods["spec"]["containers"][0]["ports"]}
    assert service["spec"]["ports"][0]["targetPort"] in ports


@helm.NEEDED
def test_helm_lint_finds_nothing(tmp_path: Path) -> None:
    ended = Helm(tmp_path).run("lint", "--strict", str(CHART), *sets(IMAGE), "--namespace", SYSTEM_NAMESPACE)
    assert ended.code == 0, ended.output
    assert "WARNING" not in ended.output


def issuing(folder: Path, values: Tree) -> tuple[list[Tree], list[str]]:
    """Objects of cert-manager, and the arguments of the manager."""
    trees = rendered(folder, values)
    (deployed,) = (tree for (kind, *_), tree in trees.items() if kind == "Deployment")
    arguments: list[str] = deployed["spec"]["template"]["spec"]["containers"][0]["args"]
    return [tree for tree in trees.values() if tree["apiVersion"] == "cert-manager.io/v1"], arguments


@helm.NEEDED
def test_cert_manager_issues_for_names_of_the_service(tmp_path: Path) -> None:
    trees, arguments = issuing(tmp_path, {"webhooks.certManager.enabled": True})
    (serving,) = (tree for tree in trees if "dnsNames" in tree["spec"])
    assert serving["spec"]["dnsNames"] == SERVICE_NAMES.split(",")
    assert arguments[-2:] == ["--webhook-secret", serving["spec"]["secretName"]]
    names = {tree["metadata"]["name"] for tree in trees if tree["kind"] == "Issuer"}
    referred = {tree["spec"]["issuerRef"]["name"] for tree in trees if tree["kind"] == "Certificate"}
    assert referred == names
    (authority,) = (tree for tree in trees if "ca" in tree["spec"])
    (root,) = (tree for tree in trees if tree["spec"].get("isCA"))
    assert authority["spec"]["ca"]["secretName"] == root["spec"]["secretName"]
    assert serving["spec"]["issuerRef"]["name"] == authority["metadata"]["name"]


@helm.NEEDED
def test_an_issuer_of_the_user_takes_the_place_of_ours(tmp_path: Path) -> None:
    reference = {"name": "corporate", "kind": "ClusterIssuer"}
    values = {"webhooks.certManager": {"enabled": True, "issuerRef": reference}, "webhooks.secretName": "mine"}
    (serving,), arguments = issuing(tmp_path, values)
    assert serving["spec"]["issuerRef"] == reference
    assert serving["spec"]["secretName"] == arguments[-1] == "mine"


WRONG: list[tuple[Tree, str]] = [
    ({"replicas": "two"}, "/replicas"),
    ({"repilcas": 3}, "repilcas"),
    ({"image.digest": "sha256:1"}, "/image/digest"),
    ({"image.tag": "a b"}, "/image/tag"),
    ({"image.repository": "BAD IMAGE"}, "/image/repository"),
    ({"topologySpread": "Never"}, "'ScheduleAnyway', 'DoNotSchedule'"),
    ({"namespaces": ["Team_A"]}, "/namespaces/0"),
    ({"managementCluster": "laptop"}, "/managementCluster"),
    ({"imagePullSecrets": ["a"]}, "/imagePullSecrets/0"),
    ({"resources.limits.memory": "lots"}, "/resources/limits/memory"),
    ({"resources.limits.memory": "512m"}, "/resources/limits/memory"),
    ({"resources.limits.memory": 512}, "/resources/limits/memory"),
    ({"commonLabels": {"app.kubernetes.io/name": "a"}}, "/commonLabels/app.kubernetes.io~1name"),
    ({"commonLabels": {"clusterctl.cluster.x-k8s.io/move": "a"}}, "clusterctl.cluster.x-k8s.io~1move"),
    ({"metrics.serviceMonitor.labels": {"app.kubernetes.io/name": "a"}}, "app.kubernetes.io~1name"),
    ({"nodeSelector": {"a": 1}}, "/nodeSelector/a"),
    ({"inPlace": "never"}, "'annotations', 'hooks'"),
    ({"webhooks.secretName": "A_B"}, "/webhooks/secretName"),
    ({"extraArgs": ["manager"]}, "/extraArgs/0"),
    ({"metrics.namespaces": []}, "/metrics/namespaces"),
    ({"metrics.serviceMonitor.enabled": True}, "metrics.serviceMonitor.enabled: found without metrics.enabled"),
    ({"image.repository": ""}, "image.repository: found none, allowed is the name of the image"),
    ({"replicas": 2**31}, "/replicas"),
    ({"replicas": None}, "at '': missing property 'replicas'"),
    ({"crds.keep": None}, "at '/crds': missing property 'keep'"),
    ({"metrics": None}, "at '': missing property 'metrics'"),
    ({"imagePullSecrets": [{"name": "A_"}]}, "/imagePullSecrets/0/name"),
    ({"priorityClassName": "A_"}, "/priorityClassName"),
    ({"podDisruptionBudget.maxUnavailable": "200%"}, "/podDisruptionBudget/maxUnavailable"),
    ({"podDisruptionBudget.maxUnavailable": 2**31}, "/podDisruptionBudget/maxUnavailable"),
    ({"tolerations": [{"key": "a", "operator": "Exists", "effect": "X"}]}, "/tolerations/0/effect"),
    ({"tolerations": [{"key": "a", "operator": "X"}]}, "/tolerations/0/operator"),
    ({"tolerations": [{"key": "a", "foo": "X"}]}, "/tolerations/0': additional properties 'foo' not allowed"),
    ({"tolerations": [{"key": "a b", "operator": "Exists"}]}, "/tolerations/0/key"),
    ({"tolerations": [{"key": "a", "value": "b c"}]}, "/tolerations/0/value"),
    ({"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}, "/tolerations/0/value"),
    ({"tolerations": [{"value": "b"}]}, "/tolerations/0"),
    ({"tolerations": [{"key": "a", "tolerationSeconds": 3}]}, "/tolerations/0"),
    ({"affinity": {"foo": 1}}, "/affinity': additional properties 'foo' not allowed"),
    ({"affinity": {"nodeAffinity": 1}}, "/affinity/nodeAffinity"),
    ({"resources.limits.foo": 1}, "/resources/limits': additional properties 'foo' not allowed"),
    ({"resources.limits.cpu": "-1"}, "/resources/limits/cpu"),
    ({"resources.limits.cpu": -1}, "/resources/limits/cpu"),
    ({"resources.limits.memory": "255Mi"}, "resources.limits.memory: found 255Mi, allowed is 256Mi or more"),
    (
        {"resources.requests.memory": "2.5Gi"},
        "resources.requests.memory: found 2.5Gi, allowed is at most resources.limits.memory, 2Gi",
    ),
    (
        {"resources.requests.memory": "1000000000000"},
        "resources.requests.memory: found 1000000000000, allowed is at most",
    ),
    (
        {"resources.requests.memory": 3000000000},
        "resources.requests.memory: found 3000000000, allowed is at most",
    ),
    (
        {"resources.limits.cpu": ".05"},
        "resources.requests.cpu: found 100m, allowed is at most resources.limits.cpu, .05",
    ),
    ({"extraArgs": ["--nope"]}, "/extraArgs/0"),
    ({"extraArgs": ["--log-levels=debug"]}, "/extraArgs/0"),
    ({"extraArgs": ["--namespace=a"]}, "/extraArgs/0"),
    ({"extraArgs": ["--log-level"]}, "/extraArgs/0"),
    ({"extraArgs": ["--leader-elect=false"]}, "/extraArgs/0"),
    ({"webhooks.certManager": {"enabled": True, "issuerRef": {"nam": "a"}}}, "/webhooks/certManager/issuerRef"),
    ({"webhooks.certManager": {"enabled": True, "issuerRef": {"kind": "Issuer"}}}, "/webhooks/certManager/issuerRef"),
    ({"webhooks.certManager": {"enabled": True, "issuerRef": {"name": "A_"}}}, "/issuerRef/name"),
    (
        {"webhooks.certManager.issuerRef.name": "corporate"},
        "webhooks.certManager.issuerRef: found without webhooks.certManager.enabled",
    ),
    ({"metrics.namespaces": ["a"]}, "metrics.namespaces: found without metrics.enabled"),
    ({"dashboard.namespaces": ["a"]}, "dashboard.namespaces: found without dashboard.enabled"),
    ({"dashboard.namespaces": ["A_"]}, "/dashboard/namespaces/0"),
    ({"extraArgs": ["--dashboard-address=:1"]}, "/extraArgs/0"),
    (
        {"metrics.serviceMonitor.labels": {"release": "a"}},
        "metrics.serviceMonitor.labels: found without metrics.serviceMonitor.enabled",
    ),
    (
        {"metrics.serviceMonitor.interval": "30s"},
        "metrics.serviceMonitor.interval: found without metrics.serviceMonitor.enabled",
    ),
    ({"metrics.serviceMonitor.interval": "30s1m"}, "/metrics/serviceMonitor/interval"),
]

TERM: Tree = {"matchExpressions": [{"key": "example.com/pool", "operator": "In", "values": ["a"]}]}
POD_TERM: Tree = {"topologyKey": "kubernetes.io/hostname", "labelSelector": TERM | {"matchLabels": {"app": "a"}}}
REQUIRED, PREFERRED = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))
AFFINITIES: dict[str, Tree] = {
    "node": {
        "nodeAffinity": {
            REQUIRED: {"nodeSelectorTerms": [TERM]},
            PREFERRED: [
                {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}},
                {"weight": 2, "preference": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["3"]}]}},
                {
                    "weight": 100,
                    "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]},
                },
            ],
        }
    },
    "pods": {
        "podAffinity": {REQUIRED: [POD_TERM | {"namespaces": ["a"], "matchLabelKeys": ["b"]}]},
        "podAntiAffinity": {PREFERRED: [{"weight": 5, "podAffinityTerm": POD_TERM | {"namespaceSelector": {}}}]},
    },
}


@pytest.mark.parametrize("case", AFFINITIES)
def test_each_part_of_an_affinity_is_checked(case: str) -> None:
    """It is refused with another value in any place, or with a further field."""
    assert allows({"affinity": AFFINITIES[case]})
    wrong = list(distorted(AFFINITIES[case]))
    assert len(wrong) > 20
    assert [tree for tree in wrong if allows({"affinity": tree})] == []


def distorted(tree: object) -> Iterator[object]:
    """The tree, wrong in a single place each time."""
    yield None
    yield True
    match tree:
        case dict():
            if not tree.keys() & {"app"}:
                yield tree | {"foo": "a"}
            for key, part in tree.items():
                yield from (tree | {key: wrong} for wrong in distorted(part))
        case list():
            for at, part in enumerate(tree):
                yield from ([*tree[:at], wrong, *tree[at + 1 :]] for wrong in distorted(part))
        case str():
            yield " "
        case _:
            yield 0


@pytest.mark.parametrize(
    "selected",
    [
        {"key": "a", "operator": "In"},
        {"key": "a", "operator": "In", "values": []},
        {"key": "a", "operator": "Exists", "values": ["b"]},
        {"key": "a", "operator": "Gt", "values": ["b"]},
        {"key": "a", "operator": "Lt", "values": ["1", "2"]},
        {"key": "a", "operator": "Gt"},
        {"key": "a"},
        {"operator": "Exists"},
    ],
    ids=str,
)
def test_selectors_have_values_of_their_operator(selected: Tree) -> None:
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [selected]}]}}}
    assert not allows({"affinity": affinity})


def test_an_affinity_without_terms_is_refused() -> None:
    assert not allows({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}})
    assert not allows({"affinity": {"podAffinity": {REQUIRED: [{}]}}})
    assert not allows({"affinity": {"podAffinity": {PREFERRED: [{"weight": 1}]}}})


def test_flags_are_given_by_extra_args_or_by_values() -> None:
    """Each flag of the manager, as it is written on a command line."""
    for option in manager.manager.params:
        for name in (*option.opts, *option.secondary_opts):
            flag = name if option.is_flag else f"{name}=a"  # type: ignore[attr-defined]
            allowed = name.startswith("--") and name not in chart_values.SET_FLAGS
            assert allows({"extraArgs": [flag]}) == allowed, flag


@helm.NEEDED
def test_flags_of_the_chart_are_refused_twice(tmp_path: Path) -> None:
    """The flags that the chart itself gives the manager are those that `extraArgs` lacks."""
    every = {"namespaces": ["a"], "inPlace": "hooks", "metrics.enabled": True, "webhooks.secretName": "a"}
    every |= {"dashboard.enabled": True}
    trees = rendered(tmp_path, every)
    (deployed,) = (tree for (kind, *_), tree in trees.items() if kind == "Deployment")
    arguments = deployed["spec"]["template"]["spec"]["containers"][0]["args"]
    assert {word for word in arguments if word.startswith("--")} == set(chart_values.SET_FLAGS)


RIGHT: list[Tree] = [
    {"resources.requests.memory": "2Gi"},
    {"resources.requests.memory": "2147483648"},
    {"resources.requests.memory": 134217728},
    {"resources.limits.memory": "256Mi"},
    {"resources.limits": {"cpu": "1e2", "memory": "1G", "ephemeral-storage": "1Gi"}},
    {"resources.limits": None, "resources.requests.memory": "9Gi"},
    {"resources.requests": None},
    {"resources": {"limits": {"cpu": 1}, "requests": {"cpu": 1.0}}},
    {"tolerations": []},
    {"tolerations": [{"operator": "Exists"}]},
    {"tolerations": [{"key": "a", "value": "", "effect": "NoExecute", "tolerationSeconds": 3}]},
    {"podDisruptionBudget.maxUnavailable": "100%"},
    {"metrics.enabled": True, "metrics.serviceMonitor": {"enabled": True, "interval": "1m30s500ms"}},
    {"webhooks.certManager": {"enabled": True, "issuerRef": {"name": "a", "kind": "I", "group": "example.com"}}},
    {"affinity": AFFINITIES["pods"]},
    {"resources": None, "tolerations": None},
    {value.path: None for value in chart_values.VALUES if value.default in EMPTY and value.path not in IMAGE},
]


@helm.NEEDED
@pytest.mark.parametrize("values", RIGHT, ids=lambda value: str(value)[:40])
def test_values_that_kubernetes_allows_render(values: Tree, tmp_path: Path) -> None:
    assert rendered(tmp_path, values)


@helm.NEEDED
@pytest.mark.parametrize(("values", "message"), WRONG, ids=lambda value: str(value)[:40])
def test_wrong_values_are_refused(values: Tree, message: str, tmp_path: Path) -> None:
    ended = Helm(tmp_path).template(*sets(IMAGE | values))
    assert ended.code != 0
    assert message in ended.complaint


@helm.NEEDED
def test_another_namespace_of_the_release_is_refused(tmp_path: Path) -> None:
    ended = Helm(tmp_path).template(*sets(IMAGE), namespace="default")
    assert ended.code != 0
    assert "namespace of the release: found default, allowed is eksa-system" in ended.complaint
