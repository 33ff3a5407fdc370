"""Manifests of clusters: parsing them, and checking that their objects belong together."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec
import yaml

from espalier.api.eksa import aws, identity_providers
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.parts.cluster_rules import GIT_OPS_KINDS
from espalier.api.eksa.vocabulary.group import GROUP, VERSION
from espalier.api.manifests.catalog import Catalog
from espalier.api.manifests.leniency import Note
from espalier.api.manifests.schema import violations
from espalier.api.meta import Tree
from espalier.api.text import paths
from espalier.api.text.forms import DNS_LABELS
from espalier.api.text.violations import ManifestError, Problem, Violation, nearest_name, shown
from espalier.api.trees import json_trees
from espalier.api.trees.yaml_trees import Builder, child, decoded, error_in, nodes, problem_at

NOT_A_NAMESPACE = "not the name of a namespace"
"""Message for a namespace that there can't be."""


class Document(msgspec.Struct, frozen=True):
    """One object of a manifest: its tree, its file, and its position there (`index` counts from 1)."""

    tree: Tree
    source: str
    index: int
    node: yaml.Node
    notes: tuple[Note, ...] = ()
    """Fields that are read differently from how they are written."""

    @property
    def kind(self) -> str:
        """`kind`; empty if it is missing."""
        return str(self.tree.get("kind") or "")

    @property
    def api_version(self) -> str:
        """`apiVersion`; empty if it is missing."""
        return str(self.tree.get("apiVersion") or "")

    @property
    def metadata(self) -> Tree:
        """`metadata`; empty if it is not a map."""
        metadata = self.tree.get("metadata")
        return metadata if isinstance(metadata, dict) else {}

    @property
    def name(self) -> str:
        """`metadata.name`; empty if it is missing."""
        return str(self.metadata.get("name") or "")

    @property
    def namespace(self) -> str:
        """`metadata.namespace`; empty if it is missing."""
        return str(self.metadata.get("namespace") or "")

    def line(self, field: str) -> int:
        """The line of a field; of the nearest one around it if the field is missing, or too long for a path."""
        node, line = self.node, self.node.start_mark.line
        for step in paths.parsed(field) or ():
            entry = child(node, step)
            if entry is None:
                break
            line, node = entry
        return line + 1

    def problem(self, violation: Violation) -> Problem:
        """A violation of this object, with its position."""
        return Problem(self.source, violation, self.line(violation.field))


def read_manifests(text: str | bytes, *, source: str, expected: str = "the objects of a cluster") -> list[Document]:
    """All objects of a manifest, `List`s taken apart; documents without content are skipped. `expected` is for the
    error about an empty one.

    Raises `ManifestError` with every problem: invalid YAML, duplicate keys, a document that is not an object, a
    manifest without objects.
    """
    if isinstance(text, bytes):
        text = decoded(text, source)
    if not text.strip():
        raise error_in(source, f"the file is empty; expected {expected}, as YAML")
    documents: list[Document] = []
    problems: list[Problem] = []
    try:
        for root in nodes(text, source):
            builder = Builder(source)
            tree = builder.build(root)
            problems += builder.problems
            for item, node in _objects(tree, root):
                if isinstance(item, dict):
                    documents.append(Document(json_trees.without_nulls(item), source, len(documents) + 1, node))
                else:
                    message = f"found {shown(item)}, not an object; an object has apiVersion, kind and metadata"
                    problems.append(problem_at(source, message, node.start_mark))
    except ManifestError as error:
        problems += error.problems
    if problems:
        raise ManifestError(problems)
    if not documents:
        raise error_in(source, f"no object in the file; expected {expected}, as YAML")
    return documents


def _objects(tree: object, node: yaml.Node) -> Iterator[tuple[object, yaml.Node]]:
    """Objects of a document: none, the items of a `List`, or itself."""
    if isinstance(tree, dict) and tree.get("kind") == "List" and isinstance(tree.get("items"), list):
        items = child(node, "items")
        if items:
            yield from zip(tree["items"], items[1].value, strict=True)
    elif tree is not None:
        yield tree, node


def check(documents: Sequence[Document], catalog: Catalog, *, several: bool = False) -> None:
    """Check that the documents belong to one cluster (or to `several`), and that each matches its schema; objects that
    are no part of a cluster (`is_other`) are not checked.

    References are checked within the documents: a manifest without any datacenter config may refer to an existing one.
    Raises `ManifestError` with every problem.
    """
    problems: list[Problem] = []
    everything, documents = documents, [document for document in documents if not is_other(document, catalog)]
    for document in documents:
        problems += [
            document.problem(violation) for violation in _identity(document, catalog) or _content(document, catalog)
        ]
    problems += _twice(documents)
    clusters = [document for document in documents if document.kind == Cluster.resource.kind]
    if not clusters:
        problems.append(_no_cluster(everything))
    others = [cluster for cluster in clusters[1:] if cluster.name != clusters[0].name and not several]
    for cluster in others:
        message = f"a manifest holds one Cluster; the first is in {clusters[0].source}:{clusters[0].line('')}"
        problems.append(cluster.problem(Violation("metadata.name", shown(cluster.name), "one Cluster", message)))
    for cluster in clusters:
        known = [(problem.source, problem.line, problem.violation.field) for problem in problems]
        of_reference = [cluster.problem(violation) for violation in _datacenter(cluster, documents, catalog)]
        problems += [item for item in of_reference if (item.source, item.line, item.violation.field) not in known]
    if problems:
        raise ManifestError(problems)


def is_other(document: Document, catalog: Catalog) -> bool:
    """True for an object that is no part of a cluster: of another group, or of a kind of our group that no cluster
    has. A misspelt kind or group is an error instead.
    """
    group, _, version = document.api_version.rpartition("/")
    if not document.kind or not version:
        return False
    kinds = kinds_of(catalog)
    if group == GROUP:
        return document.kind not in kinds and catalog.kind_of(document.api_version, document.kind) is not None
    return document.kind not in kinds or ("." in group and nearest_name(group, [GROUP]) is None)


def kinds_of(catalog: Catalog) -> tuple[str, ...]:
    """Kinds that the manifest of a cluster may contain."""
    providers = (*catalog.datacenters, *catalog.machine_configs, *catalog.further)
    others = (*identity_providers.KINDS, *aws.KINDS)
    return ("Cluster", *providers, *GIT_OPS_KINDS, *(kind.resource.kind for kind in others))


def _identity(document: Document, catalog: Catalog) -> list[Violation]:
    """Problems with which the kind of an object is unknown."""
    missing = [
        Violation(field, "nothing", "", "required field is missing; set it")
        for field, value in (("apiVersion", document.api_version), ("kind", document.kind))
        if not value
    ]
    if missing:
        return missing
    kinds = kinds_of(catalog)
    if document.kind not in kinds:
        nearest = nearest_name(document.kind, kinds)
        advice = f'did you mean "{nearest}"?' if nearest else "remove the object, or apply it with kubectl"
        message = f"unexpected kind in a cluster's manifest; {advice}"
        return [Violation("kind", shown(document.kind), ", ".join(kinds), message)]
    expected = f"{GROUP}/{VERSION}"
    if document.api_version != expected:
        return [Violation("apiVersion", shown(document.api_version), expected, "unknown version of the kind")]
    return []


def _content(document: Document, catalog: Catalog) -> list[Violation]:
    cls = catalog.kind_of(document.api_version, document.kind)
    problems = violations(cls, document.tree) if cls else []
    if not document.name:
        problems.append(Violation("metadata.name", "nothing", "", "required field is missing; set it"))
    namespace = document.metadata.get("namespace")
    if isinstance(namespace, str) and namespace and not re.fullmatch(DNS_LABELS.part, namespace):
        problems.append(Violation("metadata.namespace", shown(namespace), DNS_LABELS.words, NOT_A_NAMESPACE))
    return problems


def first_of_each(documents: Sequence[Document]) -> list[Document]:
    """The documents without those of an object that an earlier one is about."""
    first: dict[tuple[str, str, str], Document] = {}
    return [
        document
        for document in documents
        if first.setdefault(_object(document), document) is document or not document.name
    ]


def _object(document: Document) -> tuple[str, str, str]:
    return document.kind, document.namespace, document.name


def _twice(documents: Sequence[Document]) -> Iterator[Problem]:
    first: dict[tuple[str, str, str], Document] = {}
    for document in documents:
        other = first.setdefault(_object(document), document)
        if other is not document and document.name:
            message = f"duplicate object, first in {other.source}:{other.line('')}; remove one of them"
            yield document.problem(Violation("metadata.name", f"{document.kind} {shown(document.name)}", "", message))


def _no_cluster(documents: Sequence[Document]) -> Problem:
    sources = ", ".join(dict.fromkeys(document.source for document in documents)) or "the manifest"
    kinds = ", ".join(dict.fromkeys(document.kind for document in documents if document.kind)) or "nothing"
    return Problem(sources, Violation("", kinds, "one Cluster", f"the document with the Cluster ({GROUP}) is missing"))


def _datacenter(cluster: Document, documents: Sequence[Document], catalog: Catalog) -> list[Violation]:
    """Problems of a Cluster's reference to a datacenter: those that need no default namespace."""
    spec = cluster.tree.get("spec")
    reference = spec.get("datacenterRef") if isinstance(spec, dict) else None
    if not isinstance(reference, dict):
        return []
    kind, name = reference.get("kind"), reference.get("name")
    if not isinstance(kind, str) or not isinstance(name, str):
        return []  # reported by the schema
    if kind not in catalog.datacenters:
        allowed = ", ".join(catalog.datacenters)
        message = "unsupported kind of datacenter"
        return [Violation("spec.datacenterRef.kind", shown(kind), allowed, message)] if kind else []
    beside = [document for document in documents if document.kind == kind]
    if not beside or any(d.name == name and _is_same_namespace(d, cluster) for d in beside):
        return []
    allowed = ", ".join(f"{d.namespace}/{d.name}" if d.namespace else d.name for d in beside)
    message = f"no {kind} beside the Cluster has that name and namespace"
    return [Violation("spec.datacenterRef.name", shown(name), allowed, message)]


def _is_same_namespace(document: Document, other: Document) -> bool:
    """True if the namespaces may be equal. Where one is left out, it is the command's: what knows that judges."""
    return not document.namespace or not other.namespace or document.namespace == other.namespace
