"""`espalier generate`: starter manifests and the objects that the manager would create, without any cluster; support
bundles."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from espalier.api.eksa.cluster import Cluster
from espalier.api.manifests.manifests import Document
from espalier.api.meta import Tree
from espalier.api.text.violations import ManifestError
from espalier.api.trees import yaml_text
from espalier.cli.clusters.manifests import documents, other_kinds, placeholders
from espalier.cli.kit import flags
from espalier.cli.kit.commands import Group
from espalier.cli.kit.connecting.home import private
from espalier.cli.kit.failures import Failure, Usage
from espalier.cli.kit.printing import formats, output
from espalier.cli.kit.printing.layout import Table
from espalier.clusters.design.starting_manifest import Choices, UnsupportedChoiceError
from espalier.providers.kinds import MANIFESTS, hardware_manifest

_FORMATS = ("yaml", "json")
ROLES = Table(("Role", "Objects", "Privileges"), lists=(1, 2))


@click.group(cls=Group)
def generate() -> None:
    """Print a starter manifest, or the objects that the manager would create; collect a support bundle."""


@generate.command()
@click.argument("name", help="Name of the cluster.")
@click.option(
    "--provider",
    "-p",
    type=flags.OneOf(tuple(MANIFESTS)),
    required=True,
    metavar="PROVIDER",
    help=f"Where the machines run: {', '.join(MANIFESTS)}.",
)
@click.option(
    "--management-cluster",
    default="",
    metavar="NAME",
    help="Cluster that manages the new one; without it, the manifest is that of a management cluster.",
)
@click.option(
    "--external-etcd",
    is_flag=True,
    help="Add etcd on its own machines, which needs EKS Anywhere's build of Cluster API.",
)
@flags.releases
def clusterconfig(
    *, name: str, provider: str, management_cluster: str, external_etcd: bool, releases: Path | None
) -> None:
    """Print a starter manifest of a cluster, as the CLI of EKS Anywhere does.

    \b
    Example:
      espalier generate clusterconfig garden -p docker --management-cluster laptop
    """
    from espalier.clusters.observe.rules import content  # noqa: PLC0415  other commands need neither
    from espalier.releases import Releases  # noqa: PLC0415

    violations = list(content.name_violations(name))
    if management_cluster:
        manager = content.name_violations(management_cluster)
        violations += [msgspec.structs.replace(violation, field="--management-cluster") for violation in manager]
    if violations:
        raise Usage("; ".join(map(str, violations)))
    newest = Releases.load(releases).newest().kubernetes_versions[-1]
    choices = Choices(newest, management_cluster or name, external_etcd)
    try:
        manifest = MANIFESTS[provider](name, choices)
    except UnsupportedChoiceError as error:
        raise Usage(f"--external-etcd: {error}; leave it out") from None
    if not management_cluster:
        manifest = _SELF_MANAGED + manifest
        output.say_wrapped(
            "This is the manifest of a management cluster, which `espalier create cluster -f FILE` creates from "
            "nothing (docs/management-cluster.md); add --management-cluster NAME for a cluster that NAME manages.",
            stderr=True,
        )
    output.write_data(manifest)


_SELF_MANAGED = """\
# This is the manifest of a management cluster, which `espalier create cluster -f FILE` creates from nothing. For one
# that another cluster manages, set spec.managementCluster.name to the cluster that manages this one: `laptop` after
# `espalier up`.
"""


@generate.command()
@flags.filename(
    required=True, help="Manifest of one or several clusters, or a folder; - for standard input. Repeatable."
)
@flags.releases
@flags.default_namespace
@click.option("--workload", is_flag=True, help="Print the objects for the workload cluster (the CNI) instead.")
@flags.output(
    names=True, refused={formats.TABLE: formats.MANIFESTS, formats.WIDE: formats.MANIFESTS}, default=formats.YAML
)
def objects(
    *, filename: Sequence[str], releases: Path | None, namespace: str, workload: bool, output_format: str
) -> None:
    """Print all Cluster API objects that the manager would create for the clusters of a manifest.

    Needs no management cluster: it assumes one of the newest release. Refuses what an API server would refuse.

    \b
    Example:
      espalier generate objects -f examples/docker.yaml > objects.yaml
    """
    # Other commands need not load the code for rendering.
    from espalier.cli.clusters.manifests.offline import OfflineManager  # noqa: PLC0415
    from espalier.providers.registry import PROVIDERS  # noqa: PLC0415

    documents_ = _valid(filename, releases, namespace)
    offline_manager = OfflineManager(PROVIDERS, documents_, releases, namespace)
    clusters = [document for document in documents_ if document.kind == Cluster.resource.kind]
    made = [tree for cluster in clusters for tree in offline_manager.objects(cluster, workload=workload)]
    given = placeholders.variables_in(made, offline_manager.variables)
    if names := [placeholders.placeholder(variable) for variable in offline_manager.variables if variable in given]:
        output.say(
            f"Warning: {', '.join(names)}: found as placeholders in these objects, some base64-encoded; the manager "
            "writes the credentials of the Secrets in the management cluster instead",
            stderr=True,
        )
    _write(made, output_format)


@generate.command()
@click.option(
    "--hardware-csv",
    "-z",
    "csv",
    type=click.Path(allow_dash=True, readable=False),
    required=True,
    metavar="FILE",
    help="CSV file with a line for each machine; - for standard input.",
)
@click.option(
    "--output",
    "-o",
    "output_to",
    default="yaml",
    metavar="FORMAT|FILE",
    show_default=True,
    help="yaml, json, or a file for the YAML, readable only by its owner.",
)
def hardware(*, csv: str, output_to: str) -> None:
    """Print the bare metal objects for a CSV file: Hardware, BMC Machines, and Secrets with their passwords.

    \b
    Columns: hostname, mac, ip_address, netmask, gateway, nameservers, labels,
    disk; where there is a BMC: bmc_ip, bmc_username, bmc_password; vlan_id.
    Reports all invalid cells at once, with line and column.

    \b
    Example:
      espalier generate hardware -z hardware.csv | kubectl apply -f -
    """
    name = "standard input" if csv == "-" else csv
    made, warnings = hardware_manifest(sys.stdin.buffer.read() if csv == "-" else Path(csv).read_bytes(), name)
    for sentence in warnings:
        output.say_wrapped(f"{name}: {sentence}", stderr=True)
    if output_to in _FORMATS:
        _write(made, output_to)
    elif "." in output_to or "/" in output_to:
        with open(output_to, "w", encoding="utf-8", opener=private) as file:
            file.write(_yaml(made))
    else:
        raise Usage(f"-o: found {output_to!r}, allowed are yaml, json, or a file like hardware.yaml")


@generate.command()
@flags.filename(
    required=True, help="Manifest of one or several clusters, or a folder; - for standard input. Repeatable."
)
@flags.releases
@flags.default_namespace
@flags.output(
    names=True, refused={formats.TABLE: formats.MANIFESTS, formats.WIDE: formats.MANIFESTS}, default=formats.YAML
)
def tinkerbelltemplateconfig(
    *, filename: Sequence[str], releases: Path | None, namespace: str, output_format: str
) -> None:
    """Print the workflows that the machines of bare metal clusters get, to change them.

    One TinkerbellTemplateConfig for each TinkerbellMachineConfig of the manifest, with its name. A machine config uses
    it once its spec.templateRef names it.

    \b
    Example:
      espalier generate tinkerbelltemplateconfig -f examples/tinkerbell.yaml
    """
    # Other commands need not load the code for rendering.
    from espalier.cli.clusters.manifests.offline import OfflineManager  # noqa: PLC0415
    from espalier.providers.registry import PROVIDERS, TEMPLATE_CONFIGS  # noqa: PLC0415

    documents_ = _valid(filename, releases, namespace)
    offline_manager = OfflineManager(PROVIDERS, documents_, releases, namespace)
    clusters = [document for document in documents_ if document.kind == Cluster.resource.kind]
    made = [tree for cluster in clusters for tree in TEMPLATE_CONFIGS(offline_manager.render_input(cluster))]
    if not made:
        raise Failure(
            f"{', '.join(filename)}: found no TinkerbellMachineConfig that a Cluster names; only bare metal "
            "has workflows"
        )
    made = [tree for at, tree in enumerate(made) if tree not in made[:at]]
    if output_format == formats.YAML:  # to be edited: files in it are readable
        output.write_data("---\n".join(yaml_text.dump(tree, blocks=True, allow_unicode=True) for tree in made))
    else:
        _write(made, output_format)


@generate.command(name="vsphere-privileges")
@flags.filename(
    required=True, help="Manifest of one or several clusters, or a folder; - for standard input. Repeatable."
)
@flags.releases
@flags.default_namespace
@flags.output()
def vsphere_privileges(*, filename: Sequence[str], releases: Path | None, namespace: str, output_format: str) -> None:
    """Print the roles that the account of a manifest needs in its vCenter, with the objects on which it has them.

    \b
    Example:
      espalier generate vsphere-privileges -f examples/vsphere.yaml -o yaml
    """
    from espalier.providers.registry import VSPHERE_GRANTS  # noqa: PLC0415  other commands need not load it

    made = VSPHERE_GRANTS(
        [tree for _, tree in documents.in_namespace(_valid(filename, releases, namespace), namespace)]
    )
    if not made:
        raise Failure(f"{', '.join(filename)}: found no VSphereDatacenterConfig; only vSphere has such privileges")
    if output_format:
        output.write_facts({"roles": made}, output_format, rows="roles")
    else:
        rows = [(role["name"], ", ".join(role["objects"]), ", ".join(role["privileges"])) for role in made]
        output.write_table(ROLES, rows)


@generate.command(name="support-bundle")
@click.argument("name", required=False, help="Name of the cluster, unless -f or --all is given.")
@flags.filename(help="Manifest of the cluster; - for standard input.")
@flags.connection
@click.option("--all", "all_clusters", is_flag=True, help="All clusters of all namespaces.")
@click.option("--output", "-o", "output_to", type=flags.FILE, metavar="FILE", help="File. Default: one with the time.")
@click.option(
    "--max-size", default="100Mi", metavar="SIZE", show_default=True, help="Content at most; logs are shortened first."
)
@click.option(
    "--without-secret-values",
    "without_values",
    is_flag=True,
    help="Include logs and messages although values of Secrets can't be read, masked by patterns alone.",
)
async def support_bundle(
    *,
    name: str | None,
    filename: Sequence[str],
    connect: flags.Connection,
    all_clusters: bool,
    output_to: Path | None,
    max_size: str,
    without_values: bool,
) -> None:
    """Collect what explains the state of a cluster, or of all, into an archive to send to somebody.

    Versions, listed fields of objects, conditions, events, and logs of the manager, of Cluster API and of providers.
    Of Secrets, only names. Annotations, files, commands, environments and user data stay out; private values and
    what looks like a credential are masked in messages and logs. What can't be read is listed with its error.
    If values of Secrets can't be read, logs and messages that may quote them are left out, and the exit code is 1.

    \b
    Examples:
      espalier generate support-bundle garden
      espalier generate support-bundle --all --max-size 20Mi -o bundle.tar.gz
    """
    from espalier.cli.clusters.support import bundle  # noqa: PLC0415  other commands need not load it

    given = [word for word, is_given in ((name, name), ("-f", filename), ("--all", all_clusters)) if is_given]
    if len(given) != 1:
        words = " and ".join(map(str, given)) or "nothing"
        raise Usage(f"NAME: found {words}; allowed is the name of a cluster, -f FILE or --all; give one of them")
    if filename:
        name, connect = documents.named_in(filename, connect)
    await bundle.generate(name, connect, output_to, bundle.size_limit(max_size), without_values=without_values)


@generate.command(name="prometheus-rules")
@click.option("--docs", default="", metavar="URL", help="Where the documentation is served, for links in alerts.")
@click.option("--label", "labels", multiple=True, metavar="NAME=VALUE", help="Of the object, for your Prometheus.")
def prometheus_rules(*, docs: str, labels: Sequence[str]) -> None:
    """Print a PrometheusRule with alerts about clusters, certificates, backups and the manager.

    \b
    Example:
      espalier generate prometheus-rules | kubectl apply -f -
    """
    from espalier.cli.clusters import monitoring  # noqa: PLC0415  other commands need not load it

    pairs = [label.partition("=") for label in labels]
    for label, (name, equals, value) in zip(labels, pairs, strict=True):
        if not (name and equals and value):
            raise Usage(f"--label: found {label!r}, allowed is NAME=VALUE, such as release=prometheus")
    if docs and not docs.startswith(("https://", "http://")):
        raise Usage(f"--docs: found {docs!r}, allowed is an address that begins with https:// or http://")
    rule = monitoring.prometheus_rule(docs, {name: value for name, _, value in pairs})
    output.write_data(output.to_yaml(rule))


@generate.command(name="grafana-dashboard")
def grafana_dashboard() -> None:
    """Print a dashboard of clusters for Grafana, as its import reads it.

    \b
    Example:
      espalier generate grafana-dashboard > espalier.json
    """
    from espalier.cli.clusters import monitoring  # noqa: PLC0415

    output.write_data(json.dumps(monitoring.dashboard(), indent=2) + "\n")


def _valid(filename: Sequence[str], releases: Path | None, namespace: str) -> list[Document]:
    """The objects of a manifest. Raises `ManifestError` with all that an API server would refuse."""
    from espalier.cli.clusters.manifests import examination  # noqa: PLC0415  other commands need not load it

    documents_, problems, others = documents.examined(filename, several=True)
    if problems or examination.against_crds(documents_, problems):
        raise ManifestError(examination.alone(documents_, problems, releases, namespace).problems)
    other_kinds.say(others)
    return list(documents_)


def _write(trees: Sequence[Tree], output_format: str) -> None:
    if output_format == formats.YAML:
        output.write_data(_yaml(trees))
    else:
        output.write_objects(trees, output_format, single=False)


def _yaml(trees: Sequence[Tree]) -> str:
    return "---\n".join(map(output.to_yaml, trees))
