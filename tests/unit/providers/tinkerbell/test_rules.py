"""Clusters that can't be made of bare metal are refused, with what was found and what to do."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from espalier.api.meta import Tree
from espalier.clusters.admission.admission import Admission
from espalier.clusters.report.validity import missing_objects, problem
from espalier.kube.transports.wire import ADMIN
from espalier.providers.tinkerbell import workflow
from espalier.runtime.servers.admission import AdmissionRequest
from tests.support.objects.observed_clusters import NAMESPACE, NOW, as_object, laptop, observer
from tests.support.objects.rendered_manifests import FORK
from tests.support.providers.examples import stored
from tests.support.providers.tinkerbell import FORGE, MACHINES, everything, manifest, of, seen

PLANE, GROUP, DATACENTER = "controlPlaneConfiguration", "workerNodeGroupConfigurations", "TinkerbellDatacenterConfig"
CP = f"{FORGE}-cp"


def refused(trees: list[Tree], old: Tree | None = None) -> str:
    """The answer of admission for a Cluster beside these; empty if it is accepted."""
    known = observer(*stored(trees)[1:], laptop(), FORK)
    before = as_object(old) if old is not None else None
    new = as_object(trees[0])
    request = AdmissionRequest("UPDATE" if old else "CREATE", "Cluster", NAMESPACE, FORGE, ADMIN, new, before)
    answer = Admission(known, lambda: NOW).validate(request)
    return "" if answer.allowed else answer.message


IN_PLACE = {"upgradeRolloutStrategy": {"type": "InPlace"}}

AT_ONCE: dict[str, tuple[dict[str, Any], str]] = {
    "no endpoint": ({PLANE: {"endpoint": None}}, "set the address of the API server"),
    "a name": ({PLANE: {"endpoint": {"host": "api.example.com"}}}, "kube-vip assigns it"),
    "no machines": ({PLANE: {"machineGroupRef": None}}, "name the config of the machines"),
    "other machines": (
        {GROUP: {"machineGroupRef": {"kind": "VSphereMachineConfig", "name": "a"}}},
        "not a kind of machine config for this datacenter; found VSphereMachineConfig; allowed: Tinkerbell",
    ),
    "etcd of its own": (
        {"externalEtcdConfiguration": {"count": 3, "machineGroupRef": {"kind": MACHINES, "name": FORGE}}},
        "this provider does not support external etcd",
    ),
    "failure domains": ({GROUP: {"failureDomains": ["east"]}}, "bare metal has no failure domains"),
    "two ways": (
        {PLANE: IN_PLACE},
        "control plane and workers must have the same upgrade strategy; found RollingUpdate; allowed: InPlace, as",
    ),
    "two ways the other way round": (
        {GROUP: IN_PLACE},
        "control plane and workers must have the same upgrade strategy; found InPlace; allowed: RollingUpdate, as",
    ),
    "autoscaling in place": (
        {PLANE: IN_PLACE, GROUP: IN_PLACE | {"autoscalingConfiguration": {"minCount": 1, "maxCount": 2}}},
        "autoscal",
    ),
    "taints without workers": (
        {PLANE: {"taints": [{"key": "a", "effect": "NoSchedule"}]}, "without": GROUP},
        "without worker node groups, pods must run on the control plane; found a:NoSchedule; allowed: nothing",
    ),
    "a password of a proxy": (
        {"proxyConfiguration": {"httpProxy": "http://a:b@proxy:3128", "httpsProxy": "http://proxy:3128"}},
        "spec.proxyConfiguration.httpProxy: Tinkerbell workflows would expose the password",
    ),
}


def changed(changes: dict[str, Any]) -> list[Tree]:
    trees = manifest()
    for field, value in changes.items():
        if field == "without":
            del trees[0]["spec"][value]
            continue
        part = trees[0]["spec"].setdefault(field, {})
        (part[0] if isinstance(part, list) else part).update(value)
    return trees


@pytest.mark.demand(U53="on bare metal all groups have one")
@pytest.mark.parametrize("name", AT_ONCE)
def test_errors_in_cluster_itself_are_refused_at_once(name: str) -> None:
    changes, sentence = AT_ONCE[name]
    assert refused(manifest()) == ""
    trees = changed(changes)
    assert sentence in refused(trees)
    stopped = problem(seen(trees))
    assert stopped is not None
    assert sentence in stopped.message


TOGETHER: dict[str, tuple[dict[tuple[str, str], dict[str, Any]], str]] = {
    "Tinkerbell's address": (
        {(DATACENTER, FORGE): {"tinkerbellIP": "192.0.2.13"}},
        "spec.controlPlaneConfiguration.endpoint.host: this is the address of Tinkerbell (TinkerbellDatacenterConfig "
        "forge: spec.tinkerbellIP); found 192.0.2.13",
    ),
    "the same in other letters": (
        {(DATACENTER, FORGE): {"tinkerbellIP": "::ffff:192.0.2.13"}},
        "this is the address of Tinkerbell",
    ),
    "two systems": (
        {(MACHINES, FORGE): {"osFamily": "redhat"}},
        "have the same operating system; found spec.controlPlaneConfiguration: ubuntu, "
        "spec.workerNodeGroupConfigurations[0]: redhat",
    ),
    "bottlerocket": (
        {(MACHINES, name): {"osFamily": "bottlerocket"} for name in (FORGE, CP)},
        "EKS Anywhere supports Bottlerocket on bare metal only up to Kubernetes 1.28",
    ),
    "bottlerocket by default": (
        {(MACHINES, name): {"osFamily": ""} for name in (FORGE, CP)},
        "found bottlerocket; allowed: ubuntu, redhat",
    ),
    "two images": (
        {(MACHINES, FORGE): {"osImageURL": "https://images.example.com/1-35.gz"}},
        "TinkerbellMachineConfig forge: spec.osImageURL: TinkerbellDatacenterConfig forge: spec.osImageURL sets an",
    ),
    "no image": (
        {(DATACENTER, FORGE): {"osImageURL": ""}},
        "TinkerbellMachineConfig forge-cp: spec.osImageURL: set the operating system image, here or for all machines "
        "in TinkerbellDatacenterConfig forge: spec.osImageURL; found nothing; allowed: a URL that contains 1.35",
    ),
    "an image of another version": (
        {(DATACENTER, FORGE): {"osImageURL": "https://images.example.com/ubuntu-1-34.gz"}},
        "TinkerbellDatacenterConfig forge: spec.osImageURL: spec.controlPlaneConfiguration needs Kubernetes 1.35",
    ),
}


@pytest.mark.parametrize("name", TOGETHER)
def test_errors_in_linked_objects_are_reported(name: str) -> None:
    changes, sentence = TOGETHER[name]
    trees = manifest()
    for (kind, of_name), fields in changes.items():
        of(trees, kind, of_name).update(fields)
    assert refused(trees) == ""
    stopped = problem(seen(trees))
    assert stopped is not None
    assert stopped.reason == "ClusterInvalid"
    assert sentence in stopped.message


@pytest.mark.parametrize("url", ["a/1.35", "a/1-35", "a/1_35", "a/135", "https://a/v1.35.4-eks.gz"])
def test_a_version_is_found_however_it_is_written(url: str) -> None:
    trees = manifest()
    of(trees, DATACENTER)["osImageURL"] = url
    assert problem(seen(trees)) is None


def test_groups_of_another_version_have_their_image() -> None:
    """The image of the datacenter is one version's."""
    trees = manifest(kubernetesVersion="1.36")
    trees[0]["spec"][GROUP][0]["kubernetesVersion"] = "1.35"
    stopped = problem(seen(trees))
    assert stopped is not None
    assert "spec.controlPlaneConfiguration needs Kubernetes 1.36, but the URL does not contain it" in stopped.message
    assert problem(seen(everything())) is None


@pytest.mark.demand(U72="on bare metal")
@pytest.mark.parametrize("family", ["redhat", "bottlerocket"])
def test_other_systems_than_ubuntu_are_not_in_place(family: str) -> None:
    trees = changed({PLANE: IN_PLACE, GROUP: IN_PLACE})
    assert problem(seen(trees)) is None
    for name in (FORGE, CP):
        of(trees, MACHINES, name)["osFamily"] = family
    stopped = problem(seen(trees))
    assert stopped is not None
    sentence = f"upgrades support only Ubuntu; found InPlace, with {family}; allowed: RollingUpdate, or osFamily ubuntu"
    assert sentence in stopped.message


def test_the_cluster_waits_for_a_missing_workflow() -> None:
    trees = everything()[:-1]
    waits = missing_objects(seen(trees).missing)
    assert waits is not None
    assert waits.message == (
        "TinkerbellMachineConfig forge: spec.templateRef: waiting for TinkerbellTemplateConfig forge in namespace "
        "team-a, which does not exist"
    )


@pytest.mark.parametrize("worker", ["3c:ec:ef:00:01:01", "{{.device_2}}", "{{.device_1}}{{.device_1}}", ""])
def test_a_workflow_runs_on_no_other_machine(worker: str) -> None:
    """Tinkerbell runs a task on whatever machine it names, be it another tenant's."""
    trees = everything()
    of(trees, "TinkerbellTemplateConfig")["template"]["tasks"][0]["worker"] = worker
    stopped = problem(seen(trees))
    assert stopped is not None
    assert "TinkerbellTemplateConfig forge: spec.template.tasks[0].worker: a workflow can run" in stopped.message
    of(trees, "TinkerbellTemplateConfig")["template"]["tasks"][0]["worker"] = "{{ .device_1 }}"
    assert problem(seen(trees)) is None


@pytest.mark.parametrize(
    "text",
    [
        '{{ "\\n  - worker: 3c:ec:ef:00:01:01" }}',
        "{{ `\n  - worker: 3c:ec:ef:00:01:01` }}",
        '{{ "}}\\n" }}',
        '{{/* " */}}{{ "\\n" }}"}}',
        '{{ printf "%c" 10 }}',
        '{{ printf "%-3c" 10 }}',
        '{{ "',
        "{{ println }}",
        '{{ printf (print "%" (print "c")) 10 }}',
        '{{ "a" | nindent 2 }}',
        '{{/* " */}}{{ println }}{{/* " */}}',
        '{{- /* " */}}{{ println }}{{/* " */}}',
        '{{ printf "%.1s" \'"\' }}',
        '{{ "\r" }}',
        '{{ "\x85" }}',
        '{{ "\u2028" }}',
        '{{ "\u2029" }}',
        "{{ .Hardware.UserData }}",
        '{{ index .hardware "spec" "userData" }}',
        '{{ define "a" }}{{ end }}',
        '{{ if "" }}',
        "{{ end }}{{ if .A }}",
    ],
)
def test_templates_that_could_add_lines_are_refused(text: str) -> None:
    """They would be read as YAML, and could be tasks for other machines."""
    trees = everything()
    of(trees, "TinkerbellTemplateConfig")["template"]["tasks"][0]["actions"][1]["environment"]["TEXT"] = text
    stopped = problem(seen(trees))
    assert stopped is not None
    where = "TinkerbellTemplateConfig forge: spec.template.tasks[0].actions[1].environment.TEXT"
    assert f"{where}: a template that adds lines could add tasks" in stopped.message
    of(trees, "TinkerbellTemplateConfig")["template"]["tasks"][0]["actions"][1]["environment"] = {text: "name"}
    stopped = problem(seen(trees))
    assert stopped is not None
    assert "a template that adds lines could add tasks" in stopped.message


@pytest.mark.parametrize(
    "text",
    [
        '{{ if eq .A "b" }}c{{ end }}',
        "first\nsecond {{ .A }}",
        "a \\ b {{ .A }} \\n",
        "it's",
        '{{ printf "%s" .A }}',
        '{{ if eq .A "println" }}a{{ else if not .println }}b{{ else }}c{{- end -}}',
        "{{ range $place, $disk := .Hardware.Disks }}{{ $disk }}{{ end }}",
        "{{ formatPartition ( index .Hardware.Disks 0 ) 2 }}",
        "{{ (index .Hardware.Interfaces 0).DHCP.MAC }}",
        '{{ with .A }}{{ . | printf "it\'s %q" }}{{ end }}',
    ],
)
def test_other_templates_in_workflows_are_accepted(text: str) -> None:
    trees = everything()
    of(trees, "TinkerbellTemplateConfig")["template"]["tasks"][0]["actions"][1]["environment"]["TEXT"] = text
    assert problem(seen(trees)) is None


def test_refused_template_names_what_is_allowed() -> None:
    trees = everything()
    of(trees, "TinkerbellTemplateConfig")["template"]["name"] = "a{{ println }}"
    stopped = problem(seen(trees))
    assert stopped is not None
    assert stopped.message == (
        "TinkerbellTemplateConfig forge: spec.template.name: a template that adds lines could add tasks for other "
        "machines; write the text outside of {{ }}; found println; allowed: fields of Hardware without userData, "
        "and, contains, else, end, eq, false, formatPartition, ge, gt, hasPrefix, hasSuffix, if, index, le, len, lt, "
        "ne, nil, not, or, print, printf with its format, range, true, with"
    )


def test_default_workflows_use_only_allowed_templates() -> None:
    for os in ("ubuntu", "redhat"):
        trees = everything()
        usual = msgspec.to_builtins(workflow.usual("forge", os, "https://images.example.com/a.gz", "192.0.2.9", {}))
        of(trees, "TinkerbellTemplateConfig")["template"] = usual
        assert problem(seen(trees)) is None


def test_workflow_of_several_configs_is_linked_once() -> None:
    trees = everything()
    of(trees, MACHINES, CP)["templateRef"] = of(trees, MACHINES)["templateRef"]
    linked = [(child.kind, child.name) for _, child in seen(trees).children]
    assert len(set(linked)) == len(linked) == 4


def test_an_earlier_release_is_refused() -> None:
    trees = manifest(eksaVersion="v0.25.1")
    assert "has no images for clusters with TinkerbellDatacenterConfig" in refused(trees)
    wait = problem(seen(trees))
    assert wait is not None
    assert wait.reason == "EksaVersionInvalid"
    assert "tinkerbell.kubeVip" in wait.message


UPGRADED = {"kubernetesVersion": "1.36"}
MORE: dict[str, tuple[dict[str, Any], str]] = {
    "a larger control plane": ({PLANE: {"count": 3}}, "spec.controlPlaneConfiguration.count"),
    "more workers": ({GROUP: {"count": 2}}, "spec.workerNodeGroupConfigurations[0].count"),
    "a group less": ({"without": GROUP}, "spec.workerNodeGroupConfigurations"),
    "another group": ({GROUP: {"name": "md-1"}}, "spec.workerNodeGroupConfigurations[0].name"),
}


@pytest.mark.parametrize("name", MORE)
def test_counts_and_kubernetes_version_change_apart(name: str) -> None:
    changes, field = MORE[name]
    old = stored(manifest())[0]
    trees = changed(changes)
    assert refused(trees, copy.deepcopy(old)) == ""
    trees = changed(changes)
    trees[0]["spec"] |= UPGRADED
    of(trees, DATACENTER)["osImageURL"] = "https://images.example.com/1-36.gz"
    assert f"{field}: it can't be changed together with the Kubernetes version" in refused(trees, copy.deepcopy(old))
    alone = manifest(**UPGRADED)
    assert refused(alone, copy.deepcopy(old)) == ""
