from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.api.manifests.manifests import Document, check, read_manifests
from espalier.api.text.violations import ManifestError
from espalier.providers.kinds import CATALOG

EXAMPLES = Path(__file__).parents[3] / "examples"
DOCKER = (EXAMPLES / "docker.yaml").read_text()
CLUSTER, CONFIG = DOCKER.split("---\n")


def read(text: str | bytes) -> list[Document]:
    return read_manifests(text, source="garden.yaml")


def refused(text: str | bytes) -> list[str]:
    with pytest.raises(ManifestError) as error:
        check(read(text), CATALOG)
    return str(error.value).splitlines()


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("docker*.yaml")), ids=lambda path: path.name)
def test_examples_are_manifests_of_clusters(example: Path) -> None:
    documents = read_manifests(example.read_bytes(), source=example.name)
    check(documents, CATALOG)
    assert [document.kind for document in documents] == ["Cluster", "DockerDatacenterConfig"]


def test_example_is_what_cli_of_eks_anywhere_generates() -> None:
    cluster, config = read(DOCKER)
    assert cluster.tree["spec"] == {
        "clusterNetwork": {
            "cniConfig": {"kindnetd": {}},
            "pods": {"cidrBlocks": ["192.168.0.0/16"]},
            "services": {"cidrBlocks": ["10.96.0.0/12"]},
        },
        "controlPlaneConfiguration": {"count": 1},
        "datacenterRef": {"kind": "DockerDatacenterConfig", "name": "garden"},
        "kubernetesVersion": "1.35",
        "managementCluster": {"name": "laptop"},
        "workerNodeGroupConfigurations": [{"count": 2, "name": "md-0"}],
    }
    assert config.tree["spec"] == {}


def test_a_document_knows_the_line_of_each_field() -> None:
    cluster, config = read(DOCKER)
    lines = ["", *DOCKER.splitlines()]
    assert lines[cluster.line("spec.workerNodeGroupConfigurations[0].count")] == "  - count: 2"
    assert lines[cluster.line("spec.kubernetesVersion")] == '  kubernetesVersion: "1.35"'
    assert lines[config.line("metadata.name")] == "  name: garden"
    assert (cluster.index, config.index) == (1, 2)


def test_field_that_is_missing_is_where_it_ought_to_be() -> None:
    cluster, _ = read(DOCKER)
    assert cluster.line("spec.controlPlaneConfiguration.endpoint.host") == cluster.line(
        "spec.controlPlaneConfiguration"
    )


@pytest.mark.parametrize("version", ["'1.30'", '"1.30"', "!!str 1.30"])
def test_text_stays_what_was_written(version: str) -> None:
    cluster, _ = read(DOCKER.replace('"1.35"', version))
    assert cluster.tree["spec"]["kubernetesVersion"] == "1.30"


def test_numbers_in_text_fields_stay_numbers() -> None:
    (document,) = read("spec: {size: 1.30, kubernetesVersion: 1.30}")
    assert document.tree["spec"] == {"size": 1.3, "kubernetesVersion": 1.3}


def test_keys_are_text() -> None:
    (document,) = read("on: 1\n2: two\n2.50: half\n")
    assert document.tree == {"true": 1, "2": "two", "2.5": "half"}


def test_anchors_and_merges_give_separate_copies() -> None:
    (document,) = read("base: &b {count: 1, name: a}\nfirst: {<<: *b, name: b}\nsecond: {<<: [*b, {count: 9, x: 1}]}\n")
    assert document.tree["first"] == {"count": 1, "name": "b"}
    assert document.tree["second"] == {"count": 1, "name": "a", "x": 1}
    document.tree["first"]["count"] = 5
    assert document.tree["base"]["count"] == 1


def test_documents_without_content_are_skipped() -> None:
    documents = read(f"---\n# nothing yet\n---\n{CLUSTER}\n---\n---\n{CONFIG}\n---\n")
    assert [(document.index, document.kind) for document in documents] == [
        (1, "Cluster"),
        (2, "DockerDatacenterConfig"),
    ]


def test_lists_and_json_are_taken_apart() -> None:
    items = [document.tree for document in read(DOCKER)]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent="\t")
    cluster, config = read(text)
    check([cluster, config], CATALOG)
    assert "workerNodeGroupConfigurations" in text.splitlines()[cluster.line("spec.workerNodeGroupConfigurations") - 1]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "garden.yaml: the file is empty"),
        (" \n\n", "garden.yaml: the file is empty"),
        ("# only a comment\n---\n", "garden.yaml: no object in the file"),
        ("kind: Cluster\nspec:\n\tcount: 1\n", "garden.yaml:3:1: this is not YAML: the line is indented with a tab"),
        ("kind: [Cluster\nspec: {}\n", "garden.yaml:2:5: this is not YAML: "),
        ("a: b: c", "garden.yaml:1:5: this is not YAML: mapping values are not allowed in this context"),
        (
            "a: *nowhere",
            "garden.yaml:1:4: no anchor &nowhere before alias *nowhere in this document; define it above, or put",
        ),
        (b"kind: \xff", "garden.yaml:1: this is not text in UTF-8; found 0xff as byte 7; save"),
        ("kind: Cluster".encode("utf-16"), "garden.yaml:1: this is not text in UTF-8; found UTF-16; save the file in"),
        ("kind: x\nname: \x01\n", "garden.yaml:2: this is not YAML: the character U+0001 is not allowed"),
        ("just words", 'garden.yaml:1:1: found "just words", not an object'),
        ("- kind: Cluster", 'garden.yaml:1:1: found [{"kind": "Cluster"}], not an object'),
        ("a: &a [*a]", "garden.yaml:1:4: an anchor must not contain itself"),
        ("a: !vault x", "garden.yaml:1:4: a: the tag !vault is not allowed in manifests; remove it"),
        ("a: .inf", "garden.yaml:1:4: a: .inf is not a value of the Kubernetes API"),
        ("a: " + "[" * 5000 + "]" * 5000, "garden.yaml:1:131: this is nested more than 128 levels deep"),
        ("? [a]\n: 1", "garden.yaml:1:3: a key must be text; found a list"),
        ("~: 1", "garden.yaml:1:1: a key must be text; found nothing"),
        ("a: {{ .b }}", "garden.yaml:1:5: a: a key must be text; found a map; fill in {{ }} of a template first"),
        ("a: {<<: 1}", "garden.yaml:1:9: a: << takes a map, or a list of maps"),
    ],
)
def test_an_invalid_manifest_is_refused_with_its_place(text: str | bytes, sentence: str) -> None:
    with pytest.raises(ManifestError) as error:
        read(text)
    assert str(error.value).startswith(sentence)


def test_a_key_given_twice_is_refused_with_both_lines() -> None:
    text = CLUSTER.replace("  - count: 2\n", "  - count: 2\n    count: 3\n")
    line = text.splitlines().index("  - count: 2") + 1
    (sentence,) = refused(text)
    assert sentence == (
        f"garden.yaml:{line + 1}:5: spec.workerNodeGroupConfigurations[0].count: "
        f"duplicate key, in lines {line} and {line + 1}; remove one of them"
    )


@pytest.mark.soak
def test_aliases_that_multiply_are_stopped() -> None:
    text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    text += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9))
    (sentence,) = refused(text)
    assert sentence == (
        "garden.yaml:6:5: a document has more than 200000 fields, its aliases followed; use fewer, or split it"
    )


def test_too_deep_aliases_are_refused_where_followed() -> None:
    text = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 200))
    (sentence,) = refused(text)
    assert sentence.startswith("garden.yaml:128:7: this is nested more than 128 levels deep, its aliases followed")


def test_problems_of_all_documents_are_said() -> None:
    text = "a: 1\na: 2\n---\n- x\n---\nb: [\n"
    with pytest.raises(ManifestError) as error:
        read(text)
    assert [(problem.line, problem.column) for problem in error.value.problems] == [(2, 1), (4, 1), (7, 1)]


def test_violations_have_file_line_and_field() -> None:
    text = DOCKER.replace("  - count: 2", "  - cuont: 2")
    line = text.splitlines().index("  - cuont: 2") + 1
    (sentence,) = refused(text)
    assert sentence.startswith(
        f"garden.yaml:{line}: spec.workerNodeGroupConfigurations[0].cuont: unknown field; did you mean "
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (CONFIG, "garden.yaml: the document with the Cluster (anywhere.eks.amazonaws.com) is missing; "),
        (
            f"{DOCKER}---\n{CONFIG}",
            "garden.yaml:38: metadata.name: duplicate object, first in garden.yaml:29; remove one of them; ",
        ),
        (
            f"{DOCKER}---\n{CLUSTER}",
            "garden.yaml:39: metadata.name: duplicate object, first in garden.yaml:2; remove one of them; ",
        ),
        (
            DOCKER + "---\n" + DOCKER.replace("garden", "orchard"),
            "garden.yaml:39: metadata.name: a manifest holds one Cluster; the first is in garden.yaml:2; ",
        ),
        (
            CLUSTER + "---\n" + CONFIG.replace("garden", "orchard"),
            "garden.yaml:20: spec.datacenterRef.name: no DockerDatacenterConfig beside the Cluster has that name",
        ),
        (
            CLUSTER.replace("    kind: DockerDatacenterConfig", "    kind: FogDatacenterConfig"),
            "garden.yaml:19: spec.datacenterRef.kind: unsupported kind of datacenter; "
            'found "FogDatacenterConfig"; allowed: DockerDatacenterConfig, VSphereDatacenterConfig',
        ),
        (
            CLUSTER.replace("v1alpha1", "v1beta1"),
            'garden.yaml:2: apiVersion: unknown version of the kind; found "anywhere.eks.amazonaws.com/v1beta1"; ',
        ),
        (
            CLUSTER.replace("anywhere.eks", "anywere.eks"),
            'garden.yaml:2: apiVersion: unknown version of the kind; found "anywere.eks.amazonaws.com/v1alpha1"; ',
        ),
        (
            DOCKER.replace(
                "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Docker", "apiVersion: v1\nkind: Docker"
            ),
            'garden.yaml:29: apiVersion: unknown version of the kind; found "v1"; ',
        ),
        (
            CLUSTER.replace("anywhere.eks.amazonaws.com/v1alpha1", "cluster.x-k8s.io/v1beta2"),
            "garden.yaml: the document with the Cluster (anywhere.eks.amazonaws.com) is missing",
        ),
        (
            DOCKER + "---\napiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Custer\n",
            'garden.yaml:36: kind: unexpected kind in a cluster\'s manifest; did you mean "Cluster"?; ',
        ),
        (DOCKER + "---\nmetadata: {}\n", "garden.yaml:35: apiVersion: required field is missing; set it; "),
        (
            CLUSTER.replace("  name: garden\nspec:", "  labels: {}\nspec:"),
            "garden.yaml:4: metadata.name: required field is missing; set it; found nothing",
        ),
    ],
)
def test_a_manifest_without_a_cluster_is_refused(text: str, sentence: str) -> None:
    assert refused(text)[0].startswith(sentence)


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("v1", "Secret"),
        ("apps/v1", "Deployment"),
        ("packages.eks.amazonaws.com/v1alpha1", "Package"),
        ("kustomize.config.k8s.io/v1beta1", "Kustomization"),
        ("cluster.x-k8s.io/v1beta2", "Cluster"),
        ("anywhere.eks.amazonaws.com/v1alpha1", "Bundles"),
    ],
)
def test_objects_that_no_cluster_has_are_not_looked_at(api_version: str, kind: str) -> None:
    """Not even their names: a Kustomization has none."""
    check(read(f"{DOCKER}---\napiVersion: {api_version}\nkind: {kind}\n"), CATALOG)


def test_cluster_may_name_an_existing_datacenter() -> None:
    check(read(CLUSTER), CATALOG)


def test_aws_datacenter_is_read_but_makes_no_cluster() -> None:
    aws = CONFIG.replace("DockerDatacenterConfig", "AWSDatacenterConfig")
    old = aws.replace("spec: {}", "spec: {region: us-west-2, amiID: ami-1}")
    assert old != aws
    check(read(f"{DOCKER}---\n{old}"), CATALOG)
    assert "spec.amiID: required field is missing" in refused(f"{DOCKER}---\n{aws}")[0]
    cluster = CLUSTER.replace("DockerDatacenterConfig", "AWSDatacenterConfig")
    (problem,) = refused(f"{cluster}---\n{old}")
    assert 'unsupported kind of datacenter; found "AWSDatacenterConfig"; allowed: DockerDatacenterConfig, ' in problem
    assert "AWSDatacenterConfig" not in CATALOG.datacenters


def test_missing_namespace_is_that_of_the_command() -> None:
    elsewhere = CONFIG.replace("  name: garden", "  name: garden\n  namespace: team-a")
    check(read(f"{CLUSTER}---\n{elsewhere}"), CATALOG)
    with_namespace = CLUSTER.replace("  name: garden\nspec", "  name: garden\n  namespace: team-b\nspec")
    assert (
        "no DockerDatacenterConfig beside the Cluster has that name and namespace"
        in (refused(f"{with_namespace}---\n{elsewhere}")[0])
    )


SCRAPS = [
    "a",
    "b",
    ": ",
    "- ",
    "[",
    "]",
    "{",
    "}",
    ",",
    "&x ",
    "*x",
    "<<",
    "? ",
    "> ",
    "!!int ",
    "!!map ",
    "'",
    '"',
    "#",
    "%YAML 1.1",
    "kind",
    "List",
    "items",
    "1",
    "é",
]
SCRAPS += ["\n", "  ", "\t", "| ", "\n---\n", "...\n", "\x00", "\ufeff", CLUSTER]


@pytest.mark.soak
@given(st.lists(st.sampled_from(SCRAPS), max_size=40).map("".join) | st.text(max_size=60) | st.binary(max_size=60))
def test_whatever_the_text_it_is_read_or_refused(text: str | bytes) -> None:
    with suppress(ManifestError):
        documents = read(text)
        assert documents
        check(documents, CATALOG)


def test_a_namespace_that_there_cannot_be_is_refused() -> None:
    text = DOCKER.replace("  name: garden\n", "  name: garden\n  namespace: Team_A\n", 1)
    (problem,) = refused(text)
    assert 'metadata.namespace: not the name of a namespace; found "Team_A"; allowed: at most 63' in problem
