"""Components of Cluster API's providers, read from files: which provider each file is of, and its version. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated, Any

import msgspec

from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.api.text.listing import first
from espalier.api.text.violations import ManifestError
from espalier.api.trees import yaml_trees
from espalier.api.version_matrix import numbers
from espalier.clusterapi.installed import CORE, PROVIDER_LABEL
from espalier.management.providers.variables import Substitution, Unset

BOOTSTRAP, CONTROL_PLANE = "bootstrap-kubeadm", "control-plane-kubeadm"
CERT_MANAGER = "cert-manager"
CERTIFICATES = "cert-manager.io"
"""The group of the kinds by which providers get certificates for their webhooks."""
INFRASTRUCTURE = "infrastructure-"
"""The start of the labels of infrastructure providers."""

_ADMISSION = "admissionregistration.k8s.io"
_ALLOWED: Mapping[str, frozenset[str]] = {
    "": frozenset({"Namespace", "ConfigMap", "Secret", "Service", "ServiceAccount"}),
    "apps": frozenset({"Deployment"}),
    "apiextensions.k8s.io": frozenset({"CustomResourceDefinition"}),
    "rbac.authorization.k8s.io": frozenset({"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}),
    _ADMISSION: frozenset(
        {
            "MutatingWebhookConfiguration",
            "ValidatingWebhookConfiguration",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
        }
    ),
    "networking.k8s.io": frozenset({"NetworkPolicy"}),
    "policy": frozenset({"PodDisruptionBudget"}),
    CERTIFICATES: frozenset({"Issuer", "Certificate"}),
}
"""Kinds of which components consist."""
_OF_CLUSTER = frozenset(
    {
        "Namespace",
        "CustomResourceDefinition",
        "ClusterRole",
        "ClusterRoleBinding",
        *_ALLOWED[_ADMISSION],
    }
)
_LEADERS = frozenset({"Role", "RoleBinding"})
"""Kinds that cert-manager has in `kube-system`, for the election of its leaders."""
_OTHERS = re.compile(r"(metadata|overrides|clusterctl.*|cluster-template.*|clusterclass.*)\.ya?ml")
"""Files that a release or a repository of clusterctl has beside components."""
_VERSION = re.compile(r"v\d+\.\d+\.\d+.*")
_GROUP = "cluster.x-k8s.io"
_MOST_PROBLEMS = 10


_Name = Annotated[str, msgspec.Meta(min_length=1)]


class _Metadata(msgspec.Struct):
    name: _Name
    namespace: str | None = None
    labels: dict[str, str] | None = None


class _Object(msgspec.Struct, rename="camel"):
    api_version: _Name
    kind: _Name
    metadata: _Metadata


class _Container(msgspec.Struct):
    name: str
    image: str


class _PodSpec(msgspec.Struct, rename="camel"):
    containers: Annotated[list[_Container], msgspec.Meta(min_length=1)]
    init_containers: list[_Container] = []


class _Template(msgspec.Struct):
    spec: _PodSpec


class _DeploymentSpec(msgspec.Struct):
    template: _Template


class _Deployment(_Object):
    spec: _DeploymentSpec


class _Version(msgspec.Struct):
    name: str
    served: bool = False


class _DefinitionSpec(msgspec.Struct):
    group: str
    versions: list[_Version]


class _Definition(_Object):
    spec: _DefinitionSpec


_SHAPES = {"Deployment": _Deployment, "CustomResourceDefinition": _Definition}
"""The parts of objects that are read here."""


class Unusable(ValueError):
    """Components that can't be installed; the message has a line for each reason."""


@dataclass(frozen=True)
class ProviderComponents:
    """The components of a provider, or of cert-manager."""

    label: str
    """Value of `cluster.x-k8s.io/provider`; `cert-manager` for that."""
    version: str
    """As its files say: `v1.13.5`; empty if they don't."""
    trees: Sequence[Tree]
    file: str

    @property
    def definitions(self) -> list[Tree]:
        """Its CustomResourceDefinitions."""
        return [tree for tree in self.trees if tree["kind"] == "CustomResourceDefinition"]

    @property
    def needs_certificates(self) -> bool:
        """True if it gets certificates from cert-manager."""
        return self.label != CERT_MANAGER and any(_group(tree) == CERTIFICATES for tree in self.trees)

    def definition(self, resource: Resource) -> Tree | None:
        """The definition of a kind."""
        named = (tree for tree in self.definitions if tree["metadata"]["name"] == resource.group_resource)
        return next(named, None)


def read(files: Mapping[str, bytes], variables: Mapping[str, str]) -> list[ProviderComponents]:
    """The providers in files, which are named by their paths in the folder; cert-manager is the first of them.

    A folder is a local repository of clusterctl (`PROVIDER/VERSION/FILE.yaml`), or has a file for each provider. Raises
    `Unusable`, with all problems of all files.
    """
    problems: list[str] = []
    providers: dict[str, ProviderComponents] = {}
    for path, content in sorted(files.items()):
        place = PurePosixPath(path)
        if place.suffix not in (".yaml", ".yml") or _OTHERS.fullmatch(place.name):
            continue
        try:
            provider = _provider(path, _trees(path, content, variables))
        except (ManifestError, Unusable) as error:
            problems += str(error).splitlines()
            continue
        if (twin := providers.get(provider.label)) is not None:
            problems.append(f"{path}: provider {provider.label} is in {twin.file}, too: leave one of the files there")
        providers.setdefault(provider.label, provider)
    if problems:
        raise Unusable("\n".join([*problems[:_MOST_PROBLEMS], *_more(len(problems))]))
    return sorted(providers.values(), key=lambda provider: _order(provider.label))


def _more(count: int) -> list[str]:
    return [f"and {count - _MOST_PROBLEMS} more"] if count > _MOST_PROBLEMS else []


def _order(label: str) -> tuple[int, str]:
    places = (CERT_MANAGER, CORE, BOOTSTRAP, CONTROL_PLANE)
    return (places.index(label) if label in places else len(places), label)


def _trees(path: str, content: bytes, variables: Mapping[str, str]) -> list[Any]:
    substitution = Substitution(variables)
    try:
        text = substitution.text(yaml_trees.decoded(content, path))
    except Unset as error:
        raise Unusable("\n".join(f"{path}: {line}" for line in str(error).splitlines())) from None
    return [substitution.tree(tree) for tree in yaml_trees.trees(text, path) if tree is not None]


def _provider(path: str, trees: Sequence[Any]) -> ProviderComponents:
    if not trees:
        raise Unusable(f"{path}: it has no objects: give the components of a provider")
    for number, tree in enumerate(trees, 1):
        try:
            kind = msgspec.convert(tree, _Object).kind
            msgspec.convert(tree, _SHAPES.get(kind, _Object))
        except msgspec.ValidationError as error:
            raise Unusable(f"{path}: document {number}: {error}: give components as a provider releases them") from None
    labels = sorted({str(label) for tree in trees if (label := _labels(tree).get(PROVIDER_LABEL))})
    names = {tree["metadata"]["name"] for tree in trees if tree["kind"] == "CustomResourceDefinition"}
    if not labels and f"certificates.{CERTIFICATES}" in names:
        labels = [CERT_MANAGER]
    if not labels:
        raise Unusable(
            f"{path}: its objects have no label {PROVIDER_LABEL}: give components as a provider releases them"
        )
    if len(labels) > 1:
        raise Unusable(f"{path}: found objects of {first(labels, 5)}: allowed is one provider in a file")
    (label,) = labels
    if problems := list(_forbidden(path, label, trees)):
        raise Unusable("\n".join(problems))
    return ProviderComponents(label, _version(path, trees), trees, path)


def _labels(tree: Tree) -> Tree:
    return tree["metadata"].get("labels") or {}


def _group(tree: Tree) -> str:
    return str(tree["apiVersion"]).rpartition("/")[0]


def _forbidden(path: str, label: str, trees: Sequence[Tree]) -> Iterator[str]:
    """Objects that are not for a provider to install."""
    made = {tree["metadata"]["name"] for tree in trees if tree["kind"] == "Namespace"}
    groups = CERTIFICATES if label == CERT_MANAGER else _GROUP
    elsewhere: dict[str, list[str]] = {}
    for tree in trees:
        kind, name, namespace = tree["kind"], tree["metadata"]["name"], tree["metadata"].get("namespace")
        at = f"{path}: {kind} {name}"
        if kind not in _ALLOWED.get(_group(tree), ()):
            yield f"{at}: {tree['apiVersion']} {kind} is not among the kinds that a provider may install"
        elif kind == "Namespace" and _is_of_others(name):
            yield f"{at}: a provider may not install this namespace: allowed is one of its own"
        elif kind == "CustomResourceDefinition":
            group = tree["spec"]["group"]
            if group != groups and not group.endswith(f".{groups}"):
                yield f"{at}: found group {group}, allowed are {groups} and groups that end with it"
        elif kind not in _OF_CLUSTER and namespace not in made:
            is_election = label == CERT_MANAGER and namespace == "kube-system" and kind in _LEADERS
            if not is_election:
                elsewhere.setdefault(namespace or "", []).append(f"{kind} {name}")
    for namespace, objects in elsewhere.items():
        # Charts lack it, which the files of a release have.
        advice = f": add Namespace {namespace} to it" if namespace and not _is_of_others(namespace) else ""
        yield (
            f"{path}: {first(objects, 2)}: found namespace {namespace or 'none'}, allowed are those of the file: "
            f"{_of(made)}{advice}"
        )


def _is_of_others(namespace: str) -> bool:
    return namespace in (SYSTEM_NAMESPACE, "default") or namespace.startswith("kube-")


def _of(names: set[str]) -> str:
    return first(sorted(names), 3) or "none"


def _version(path: str, trees: Sequence[Tree]) -> str:
    """The version in the tags of its images, or of the folder in a repository. Raises `Unusable` if both differ."""
    folder = PurePosixPath(path).parent.name
    of_folder = folder if _VERSION.fullmatch(folder) else ""
    tags = [_tag(tree) for tree in trees if tree["kind"] == "Deployment"]
    of_images = next((tag for tag in tags if _VERSION.fullmatch(tag)), "")
    if of_folder and of_images and numbers(of_folder)[:3] != numbers(of_images)[:3]:
        raise Unusable(
            f"{path}: its folder says {of_folder}, its image {of_images}: put it into the folder of its version"
        )
    return of_images or of_folder


def _tag(deployment: Tree) -> str:
    """The tag of the image of a Deployment's manager: no sidecar tells the version of a provider."""
    containers = deployment["spec"]["template"]["spec"]["containers"]
    named = next((container for container in containers if container["name"] == "manager"), containers[0])
    return str(named["image"]).partition("@")[0].rpartition("/")[2].partition(":")[2]
