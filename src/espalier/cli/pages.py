"""`python -m espalier.cli.pages docs/reference` writes the reference pages: each from the table that the code uses."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType

from espalier.api import gardener, metadata_rows, version_matrix
from espalier.api.definitions.field_docs import write as write_fields
from espalier.api.definitions.reference import (
    Annotation,
    ConditionProse,
    Finalizer,
    Label,
    MetadataProse,
    Prose,
    Reason,
    Remedy,
    described,
)
from espalier.api.eksa import upgrades
from espalier.api.eksa.releases.release import Bundles
from espalier.api.eksa.vocabulary import condition_types, events, reasons
from espalier.api.gardener import etcd, machines, move_times
from espalier.api.gardener.garden import differences, seed, shoot, shoot_state
from espalier.api.gardener.vocabulary import condition_types as gardener_conditions
from espalier.api.gardener.vocabulary import events as gardener_events
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.gardener.vocabulary import reasons as gardener_reasons
from espalier.api.kinds import KubeObject
from espalier.assets import recipes
from espalier.clusters.design import names as of_clusters
from espalier.clusters.observe.rules.releases import MAXIMUM_SKEW
from espalier.clusters.report import measures as clusters
from espalier.etcdbackup.snapshotter import measures as backups
from espalier.kube import metrics as requests
from espalier.kube.measures import Measure
from espalier.moving import objects as of_moves
from espalier.providers.kinds import CLUSTER_API_KINDS, EKSA_KINDS
from espalier.providers.registry import PROVIDERS
from espalier.releases import Release, Releases
from espalier.releases.contents import NOTICE
from espalier.runtime import metrics as managers
from espalier.shoots.control_plane import accounts as of_accounts
from espalier.shoots.etcd import names as of_etcds
from espalier.shoots.extension import dependents, lease
from espalier.shoots.flow.task import Failure
from espalier.shoots.gardenlet import names as of_gardenlets
from espalier.shoots.gardenlet.tasks import backups as backup_tasks
from espalier.shoots.local_provider import machine_objects
from espalier.upgrades import names as of_upgrades
from espalier.upgrades.node import containers

KINDS: tuple[type[KubeObject], ...] = tuple(
    kind for kind in EKSA_KINDS if kind is not Bundles and kind.resource.group == Bundles.resource.group
)
"""Kinds with a page of fields. Not Bundles: a release brings them, and `kubectl explain` knows their many images."""


GARDENER_KINDS: Mapping[str, tuple[type[KubeObject], ...]] = {
    "garden": gardener.GARDEN_KINDS,
    "seed": gardener.SEED_KINDS,
}
"""Gardener's kinds, by the folder of their pages: two kinds are in both groups."""


_RESUMES = (
    "",
    "It resumes by itself when *time passes*; if it does not, see the log of the manager. *Somebody acts* outside of "
    "the object: the meaning, or the message, says how. *The request changes*: the message has the fields of the "
    "object itself, to be corrected or reverted.",
)

_LASTING = (
    "",
    "## Reasons that last",
    "",
    "A reason that ends by itself can outlast what is usual. Then the message of the condition names the objects that "
    "hold it, each with its own condition and since when (at most three, and how many more), or else since when "
    "nothing has become ready; and what to look at. Times are those of the objects. An upgrade object counts from its "
    "last step.",
    "",
)


def conditions() -> Iterator[str]:
    """Conditions and their reasons, by kind."""
    yield from _head(
        "Conditions and reasons",
        "While something does not match the spec, a condition reports a reason and a message. If somebody has to "
        "act, a Cluster repeats both in `status.failureReason` and `status.failureMessage`, and "
        "`espalier create|upgrade|delete cluster` stop waiting. Programs may rely on types and reasons, not on "
        "messages. Those of Shoots, Seeds, Etcds and the like: [gardener/conditions.md](gardener/conditions.md).",
    )
    yield from _RESUMES
    for kind in (reasons.CLUSTER, reasons.GROUP, reasons.NODE):
        yield from ("", f"## {kind}", "")
        of_kind = sorted((reason for reason in reasons.REASONS if kind in reason.kinds), key=lambda reason: reason.name)
        yield from _conditions(conditions_of(kind))
        yield ""
        yield from _reasons(of_kind)
    yield from _LASTING
    yield from _limits(sorted(reasons.REASONS, key=lambda reason: reason.name))
    yield from _satisfied(condition_types.Satisfied)


def conditions_of_gardener() -> Iterator[str]:
    """Conditions of Gardener's kinds and their reasons, by kind."""
    yield from _head(
        "Conditions and reasons of Gardener's kinds",
        "What `espalier garden`, `espalier gardenlet`, the controller of Etcds and our extensions report. Programs may "
        "rely on types and reasons, not on messages. Logs have failures at level warning, and what is only waited for "
        "at level debug (`--log-level debug`).",
    )
    yield from _RESUMES
    yield from (
        "",
        "Some reasons come from elsewhere and are not in these tables: that with which an API server refused a request "
        "(`Forbidden`, `Invalid`), the name of an error (`Unreachable`, `TooManyWrites`: another client keeps "
        "reverting an object, its managedFields show which), or a refusal of the provider (`QuotaExceeded`). "
        "Extensions by others report what their documentation says; see [error codes](#error-codes).",
    )
    for kind, where in gardener_reasons.WHERE.items():
        yield from ("", f"## {kind}", "", where, "")
        if of_kind := conditions_of_gardeners(kind):
            yield from (*_conditions(of_kind), "")
        yield from _reasons(gardener_reasons.of_section(kind))
    yield from _satisfied(gardener_conditions.Satisfied)
    yield from ("", "## Error codes", "")
    yield (
        "Extensions give them in `status.lastError.codes`, and gardenlets pass them on, with their own, in "
        "`status.lastErrors` of the Shoot. If a code is not retried, the operation of the Shoot is `Failed` at once."
    )
    yield ""
    yield from _table(
        ("code", "retried", "means"),
        (
            (f"`{code}`", "yes" if Failure("", (code,)).retryable else "no", meaning)
            for code, meaning in gardener_reasons.ERROR_CODES.items()
        ),
    )


def conditions_of(kind: str) -> Mapping[str, str]:
    """The conditions of a kind of ours and what they mean, in the order in which they are evaluated."""
    modules = (of_clusters, of_moves, of_upgrades, upgrades, containers)
    steps = (
        {step.condition: f"True: {step.meaning}." for step in (*containers.STEPS, *containers.ONLY_CERTIFICATES)}
        if kind == reasons.NODE
        else {}
    )
    return _conditions_in(modules, kind) | steps


def conditions_of_gardeners(kind: str) -> Mapping[str, str]:
    """The conditions of a kind of Gardener's."""
    return _conditions_in((shoot, seed, etcd, lease, dependents), kind)


def _conditions_in(modules: Sequence[ModuleType], kind: str) -> dict[str, str]:
    return {name: prose.meaning for name, prose in described(ConditionProse, *modules) if kind in prose.kinds}


def _conditions(types: Mapping[str, str]) -> Iterator[str]:
    return _table(("condition", "means"), ((f"`{name}`", meaning) for name, meaning in types.items()))


def _reasons(proses: Iterable[Prose]) -> Iterator[str]:
    return _table(
        ("reason", "resumes when", "means"),
        (
            (f"`{prose.name}`", "time passes" if prose.remedy is Remedy.TIME else prose.remedy.value, prose.meaning)
            for prose in proses
        ),
    )


def _limits(proses: Iterable[Prose]) -> Iterator[str]:
    """The limits of reasons, and the advice after them."""
    return _table(
        ("reason", "usually ends within", "then"),
        (
            (f"`{prose.name}`", f"{prose.limit.seconds // 60} minutes", prose.limit.advice)
            if prose.limit is not None
            else (f"`{prose.name}`", "", f"no limit: {prose.unlimited}")
            for prose in proses
            if prose.remedy is Remedy.TIME and reasons.LOG not in prose.kinds
        ),
    )


def _satisfied(satisfied: Iterable[Reason]) -> Iterator[str]:
    yield from ("", "## Reasons of conditions that are True", "")
    yield from _table(("reason", "means"), ((f"`{reason.value}`", reason.prose.meaning) for reason in satisfied))


def metadata() -> Iterator[str]:
    """Annotations, labels and finalizers."""
    yield from _head(
        "Annotations, labels and finalizers",
        "Those of Espalier and EKS Anywhere, and those of Cluster API that Espalier sets or obeys. What the manager "
        "writes is its state: do not edit it, unless the last column says so. Those of Gardener's kinds: "
        "[gardener/metadata.md](gardener/metadata.md).",
    )
    yield from _keys(*metadata_of_clusters())


def metadata_of_gardener() -> Iterator[str]:
    """Annotations, labels and finalizers of Gardener's kinds."""
    yield from _head(
        "Annotations, labels and finalizers of Gardener's kinds",
        "Those that Espalier sets or obeys. What is not written by users is state: do not edit it, unless the last "
        f"column says so. On Shoots, admission refuses changes of `{metadata_keys.DOMAIN}…` by users.",
    )
    yield from _keys(*metadata_of_shoots())


Rows = Sequence[tuple[str, MetadataProse]]
"""Keys with their prose."""


def _keys(annotations: Rows, labels: Rows, finalizers: Rows) -> Iterator[str]:
    for field, rows in (("annotation", annotations), ("label", labels), ("finalizer", finalizers)):
        yield from ("", f"## {field.capitalize()}s", "")
        yield from _table(
            (field, "on", "written by", "means", "what to do"),
            (
                (f"`{key}`", prose.on, prose.writer.value, prose.meaning, prose.to_do)
                for key, prose in sorted(rows, key=lambda row: row[0])
            ),
        )


def metadata_of_clusters() -> tuple[Rows, Rows, Rows]:
    """Annotations, labels and finalizers, including those of providers."""
    of_providers = [row for provider in PROVIDERS.values() for row in provider.annotations]
    return [*metadata_rows.ANNOTATIONS, *of_providers], metadata_rows.LABELS, metadata_rows.FINALIZERS


def metadata_of_shoots() -> tuple[Rows, Rows, Rows]:
    """Annotations, labels and finalizers of Gardener's kinds."""
    modules = (
        metadata_keys,
        machines,
        move_times,
        shoot_state,
        of_etcds,
        of_gardenlets,
        backup_tasks,
        of_accounts,
        machine_objects,
    )
    return described(Annotation, *modules), described(Label, *modules), described(Finalizer, *modules)


def recorded_events() -> Iterator[str]:
    """Events."""
    yield from _head(
        "Events",
        "`kubectl describe` shows them below an object; `kubectl get events -n NAMESPACE` lists them. They are kept "
        "for an hour; conditions keep the current state.",
    )
    yield ""
    yield from _table(
        ("reason", "type", "on", "means", "what to do"),
        (
            (f"`{event.name}`", event.type, event.on, event.meaning, event.to_do)
            for event in (*events.EVENTS, *gardener_events.EVENTS)
        ),
    )
    yield ""
    yield (
        "A Cluster also gets a Warning with each reason of [conditions.md](conditions.md) that becomes its "
        "`status.failureReason`, and with each new reason of conditions `KubeconfigCopied` and `CertificatesValid`. "
        "An in-place upgrade gets one Event for each new reason of its condition `Ready`: a Warning if somebody has "
        "to act (`Progressing` is `False`), else Normal. NodeUpgrades that only wait get none."
    )


def metrics() -> Iterator[str]:
    """Metrics."""
    columns = ("metric", "type", "labels", "means", "what to do")
    yield from _head(
        "Metrics",
        "`espalier manager`, `espalier garden` and `espalier gardenlet` serve them at `--metrics-address` (default "
        "`127.0.0.1:8080`, path `/metrics`). The names are those of controller-runtime and client-go, so dashboards "
        "for them fit. Our own begin with `espalier_`.",
    )
    yield ""
    yield from _table(columns, map(_measure, (*managers.MEASURES, *requests.MEASURES, *clusters.MEASURES)))
    yield from (
        "",
        "## Of the etcd agent",
        "",
        "`espalier etcd-agent run` serves them where it listens, path `/metrics`. The names are those of "
        "etcd-backup-restore.",
        "",
    )
    yield from _table(columns, map(_measure, backups.MEASURES))


def versions() -> Iterator[str]:
    """Supported versions."""
    releases = Releases.load()
    supported = [releases.release(version) for version in releases.versions]
    newest = supported[0]
    yield from _head(
        "Supported versions", f"For Espalier {newest.version}; `espalier releases list|show` shows the same."
    )
    yield from ("", "## EKS Anywhere releases", "")
    yield (
        f"A cluster's `spec.eksaVersion` is at most {MAXIMUM_SKEW} minor versions behind that of the management "
        "cluster, and never ahead of it. `espalier releases import` adds releases."
    )
    yield ""
    yield from _table(
        ("eksaVersion", "released", "Bundles", "Kubernetes"),
        (
            (
                f"`{release.version}`",
                release.eksa_release.spec.date[:10],
                release.bundles.metadata.name,
                ", ".join(release.kubernetes_versions),
            )
            for release in supported
        ),
    )
    yield from ("", "## Kubernetes of workload clusters", "")
    yield (
        f"The end of support is that of the Bundles; a warning is given from {NOTICE.days} days before. "
        "`make test-real` runs machines of these versions with real kubeadm, kubelet and containerd, built from the "
        "sources of Kubernetes in the same version, not with EKS Distro's images."
    )
    yield ""
    yield from _table(("version", "EKS Distro", "patch version", "standard support ends"), _kubernetes(supported))
    yield from ("", "## Kubernetes of the management cluster", "")
    yield (
        f"Tested with {_of_rows('kubernetes')} (`make real-matrix`); earlier ones "
        "are not tested. The ValidatingAdmissionPolicy of `espalier manifests` needs 1.30."
    )
    yield from ("", "## Cluster API", "")
    contracts = ", ".join(f"`{name}`" for name in sorted({kind.resource.api_version for kind in CLUSTER_API_KINDS}))
    yield (
        f"Contract and API version v1beta2 ({contracts}): Cluster API {' and '.join(version_matrix.CLUSTER_API)}. "
        "`espalier create`, `upgrade` and `plan` refuse another one, told by the image of its manager, and warn of "
        "an image that does not tell it, of versions of Kubernetes that it does not support, and of what later ones do "
        "not have. The manager begins no new cluster with another one "
        f"(`{reasons.Reason.CLUSTER_API_VERSION_NOT_SUPPORTED}`) until Cluster API is changed; existing clusters go "
        f"on. Tested with {_of_rows('cluster_api')}: core, kubeadm "
        "bootstrap and kubeadm control plane, with simulated machines (`make test`) and real ones (`make test-real`)."
    )
    yield from ("", "## Providers", "")
    yield from _table(
        ("`datacenterRef.kind`", "infrastructure of Cluster API", "tested with"),
        (
            (
                f"`{kind}`",
                f"`{provider.infrastructure.cluster.kind}`, `{provider.infrastructure.machine.kind}`",
                provider.tested_with,
            )
            for kind, provider in PROVIDERS.items()
        ),
    )
    yield ""
    yield (
        f"The simulator of a vCenter is govmomi {_version('vcenter')}, with CAPV {_version('capv')} as Cluster API's "
        "provider (`make test` with `make real-assets`). No test runs the Cluster API providers of the other "
        "infrastructures. To add a provider: [providers.md](../providers.md)."
    )
    yield from ("", "## CNI", "")
    kinds = ", ".join(f"`{kind}`" for kind, provider in PROVIDERS.items() if provider.has_kindnetd)
    yield (
        f"Cilium, and kindnetd for new clusters with {kinds} alone, in the versions of the Bundles. Tests apply "
        "their manifests and do not run their images."
    )
    yield from _matrix()
    yield from ("", "## Real programs in tests", "")
    parts: dict[str, list[str]] = {}
    for component in recipes.of_all_rows():
        parts.setdefault(component.name, []).append(component.version)
    yield from _table(
        ("program", "versions"),
        ((name, ", ".join(sorted(set(listed)))) for name, listed in parts.items() if name not in ("pause", "probe")),
    )


def _matrix() -> Iterator[str]:
    yield from ("", "## Versions that go together", "")
    yield (
        "Each row is built (`espalier assets build --row ROW`) and tested (`make real ROW=ROW`) together; "
        f"`ESPALIER_ROW` selects the programs of one, by default those of {version_matrix.DEFAULT_ROW}. How long that "
        "takes: [figures](../figures.md#rows-of-versions)."
    )
    yield ""
    yield from _table(
        ("row", "Kubernetes", "etcd", "upgraded from etcd", "Cluster API", "containerd", "CNI plugins", "cert-manager"),
        (
            (
                row.name,
                row.kubernetes,
                row.etcd,
                row.etcd_before,
                row.cluster_api,
                row.containerd,
                row.cni_plugins,
                row.cert_manager,
            )
            for row in version_matrix.ROWS.values()
        ),
    )
    yield ""
    yield from _table(
        ("Kubernetes", "kubeadm starts etcd", "allowed etcd", "CoreDNS", "pause", "oldest containerd", "ends upstream"),
        (
            (
                minor,
                row.etcd_image,
                f"{row.etcd_oldest} to {row.etcd_newest}",
                row.coredns,
                row.pause,
                row.containerd_oldest,
                row.ends,
            )
            for minor, row in version_matrix.KUBERNETES.items()
        ),
    )
    for minor, kubernetes in version_matrix.KUBERNETES.items():
        if kubernetes.lost_gates:
            gates = ", ".join(f"`{gate}`" for gate in sorted(kubernetes.lost_gates))
            yield from (
                "",
                f"Kubernetes {minor} has lost feature gates, and a Cluster that sets one is refused: {gates}.",
            )
    yield ""
    yield from _table(
        ("Cluster API", "Kubernetes of management clusters", "of workload clusters", "cert-manager", "support ends"),
        (
            (
                minor,
                _supported(row.management, row.first_patches),
                _supported(row.workload, row.first_patches),
                row.cert_manager,
                row.ends,
            )
            for minor, row in version_matrix.CLUSTER_API.items()
        ),
    )
    yield ""
    yield from _table(
        ("cert-manager", "Kubernetes", "support ends"),
        (
            (minor, f"{oldest} to {newest}", ends)
            for minor, (oldest, newest, ends) in version_matrix.CERT_MANAGER.items()
        ),
    )
    for name in sorted(version_matrix.BEYOND_CERT_MANAGER, key=version_matrix.numbers):
        row = version_matrix.ROWS[name]
        yield ""
        yield (
            f"Exception: the Kubernetes of row {name} is newer than what its cert-manager {row.cert_manager} states. "
            f"It is the one that clusterctl of Cluster API {row.cluster_api} installs."
        )
    yield ""
    yield from _table(
        ("what ends in Cluster API", "in", "announced for", "use instead"),
        (
            (ending.subject, ending.release or "deprecated", ending.date, ending.instead)
            for ending in version_matrix.ENDINGS
        ),
    )


def _supported(minors: tuple[str, str], first_patches: Mapping[str, str]) -> str:
    oldest, newest = minors
    later = [f"{kubernetes} from {patch} on" for kubernetes, patch in first_patches.items()]
    return ", ".join([f"{oldest} to {newest}", *later])


def _of_rows(attribute: str) -> str:
    return " and ".join(getattr(row, attribute) for row in version_matrix.ROWS.values())


def _kubernetes(supported: list[Release]) -> Iterator[tuple[str, ...]]:
    bundles = {
        bundle.kube_version: bundle
        for release in reversed(supported)
        for bundle in release.bundles.spec.versions_bundles
    }
    for version, bundle in sorted(bundles.items(), key=lambda item: [int(part) for part in item[0].split(".")]):
        ends = bundle.end_of_standard_support or "not known yet"
        yield version, bundle.eks_d.name, bundle.eks_d.kube_version, ends


def _version(component: str) -> str:
    [version] = {part.version for part in recipes.chosen([component])}
    return version


def _measure(measure: Measure) -> tuple[str, ...]:
    name = f"{measure.name}_total" if measure.type == "counter" else measure.name
    labels = ", ".join(f"`{label}`" for label in measure.labels)
    return (f"`{name}`", measure.type, labels, measure.help, measure.to_do)


def _head(title: str, text: str) -> Iterator[str]:
    yield from (f"# {title}", "", text)


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    head = tuple(head)
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |"


def differences_from_gardener() -> Iterator[str]:
    """`gardener/differences.md`."""
    yield from (
        "# Differences from Gardener's API server",
        "",
        f"gardener-apiserver {differences.VERSION} and a garden of ours judge the same objects: what both accept needs "
        "no row. Each row of this page is a change to an object that both accept, and is tested on both. What the "
        "objects of our demonstrations are like, both accept. Why a garden of ours accepts more: "
        "[decision 0227](../../decisions/0227-gardens-of-gardener.md).",
    )
    for title, here, there in (
        ("Accepted here, refused by Gardener", True, False),
        ("Refused here, accepted by Gardener", False, True),
    ):
        yield from ("", f"## {title}", "", "| kind | what | why |", "|---|---|---|")
        for case in differences.CASES:
            if (case.here, case.gardener) == (here, there):
                yield f"| {case.kind} | {case.what} | {case.why} |"
    yield from ("", "## Refused by both", "", "| kind | what |", "|---|---|")
    for case in differences.CASES:
        if not case.here and not case.gardener:
            yield f"| {case.kind} | {case.what} |"
    yield from (
        "",
        "## Kept, and read by nothing here",
        "",
        "Fields that Gardener has, and our kinds do not declare. They are stored as they are; a Shoot or a Seed with "
        "one gets a warning.",
        "",
        "| kind | fields |",
        "|---|---|",
    )
    for kind, fields in differences.UNREAD_FIELDS.items():
        yield f"| {kind} | {', '.join(f'`{field}`' for field in fields)} |"


PAGES: Mapping[str, Callable[[], Iterable[str]]] = {
    "conditions.md": conditions,
    "events.md": recorded_events,
    "metadata.md": metadata,
    "metrics.md": metrics,
    "versions.md": versions,
    "gardener/conditions.md": conditions_of_gardener,
    "gardener/differences.md": differences_from_gardener,
    "gardener/metadata.md": metadata_of_gardener,
}


def page(name: str) -> str:
    """A page, as Markdown."""
    return "\n".join(PAGES[name]()) + "\n"


def write(folder: Path) -> None:
    """Write all pages, and those of fields below `fields` and `gardener`."""
    (folder / "gardener").mkdir(parents=True, exist_ok=True)
    for name in PAGES:
        (folder / name).write_text(page(name), encoding="utf-8")
    write_fields(folder / "fields", KINDS)
    for place, kinds in GARDENER_KINDS.items():
        write_fields(folder / "gardener" / place, kinds)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
