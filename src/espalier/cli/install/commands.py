"""`espalier manifests`: what `kubectl apply -f -` installs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit

import click

from espalier.api.eksa.upgrades import FrontEnd
from espalier.api.meta import Tree
from espalier.cli.install import chart, chart_values, clusterctl, deployment, garden_manifests, kustomize, written
from espalier.cli.install import manifests as manager
from espalier.cli.kit import distribution, flags
from espalier.cli.kit.commands import Command
from espalier.cli.kit.failures import Usage
from espalier.cli.kit.printing import output
from espalier.releases.contents import reference


class Format(StrEnum):
    """The forms of an installation."""

    YAML = "yaml"
    CHART = "chart"
    KUSTOMIZE = "kustomize"
    CLUSTERCTL = "clusterctl"


class Of(StrEnum):
    """The purpose of manifests."""

    MANAGER = "manager"
    GARDEN = "garden"
    SEED = "seed"


@click.command(cls=Command)
@flags.choice(
    "--of",
    Of.MANAGER,
    help="manager: a management cluster; garden: what `espalier garden` needs; seed: what `espalier gardenlet` needs.",
)
@flags.choice(
    "--format",
    Format.YAML,
    help="yaml: to standard output; the others write files into --output-dir. chart: a Helm chart, whose values stand "
    "for the other flags; kustomize: a base; clusterctl: a provider in a repository of providers.",
)
@click.option("--output-dir", type=flags.FILE, metavar="FOLDER", help="Folder for the files of a --format.")
@click.option(
    "--image",
    default="",
    metavar="IMAGE",
    help="Image of the manager; adds the Deployment. A base has one in any case, by default of image espalier.",
)
@click.option(
    "--webhook-url", default="", metavar="URL", help="https://HOST:PORT of a manager that runs outside the cluster."
)
@flags.watched_namespaces
@flags.choice(
    "--in-place",
    FrontEnd.ANNOTATIONS,
    help="How machines are upgraded in place, as for `espalier manager`; hooks need more permissions.",
)
@click.option(
    "--management-cluster",
    default="",
    metavar="NAMESPACE/NAME",
    help="Cluster that represents the management cluster; adds the ConfigMap that names it.",
)
@flags.webhook_secret
@click.option(
    "--dashboard",
    is_flag=True,
    help="Have the manager serve the dashboard to whoever has a token of the API server.",
)
@click.option(
    "--dashboard-namespace",
    multiple=True,
    metavar="NAMES",
    help="Namespaces of what forwards requests to it, such as an ingress controller; comma-separated, or repeat the "
    "flag. Default: forwarded ports alone reach it.",
)
@click.option(
    "--kubeconfig-copies",
    is_flag=True,
    help="Print only the permission to copy kubeconfigs to these namespaces.",
)
@click.option("--seed", default="", metavar="NAME", help="Seed of the gardenlet that --of seed --image deploys.")
@click.option(
    "--beside-gardener",
    is_flag=True,
    help="With --of garden, beside Gardener: leave out the kinds and roles for projects that it has.",
)
@deployment.options
def manifests(
    *,
    of: Of,
    format: Format,
    output_dir: Path | None,
    image: str,
    webhook_url: str,
    namespace: Sequence[str],
    in_place: FrontEnd,
    management_cluster: str,
    webhook_secret: str,
    dashboard: bool,
    dashboard_namespace: Sequence[str],
    kubeconfig_copies: bool,
    seed: str,
    beside_gardener: bool,
    pods: deployment.Pods,
    pod_flags: Sequence[str],
) -> None:
    """Print CRDs, namespace, RBAC, webhooks and Deployment, as YAML.

    With --namespace, the manager gets its permissions on Clusters from a Role in each of these namespaces, which must
    exist; its ClusterRole covers only cluster-scoped kinds.

    With --kubeconfig-copies, only a Role for each of these namespaces is printed, for their owner to apply: it lets
    the manager create and replace Secrets there, to copy kubeconfigs to, but not read any.

    \b
    Examples:
      espalier manifests --image example.com/espalier:v0.26.0 | kubectl apply -f -
      espalier manifests --format chart --output-dir chart
      espalier manifests --format kustomize --output-dir base
      espalier manifests --format clusterctl --output-dir repo --image e.io/e:v1
      espalier manifests --kubeconfig-copies -n team-a | kubectl apply -f -
      espalier manifests --of garden --webhook-url https://10.0.0.5:9443
      espalier manifests --of garden --beside-gardener --image e.io/e:v1
      espalier manifests --of seed --seed west --image example.com/espalier:v1
    """
    _check_format(format, output_dir, _given())
    if output_dir is not None and format is Format.CHART:
        _write(chart.files(), output_dir)
        return
    namespaces = flags.namespaces(namespace)
    if image and reference(image) is None:
        raise Usage(f"--image: found {image!r}, allowed is an image reference such as example.com/espalier:v0.26.0")
    if kubeconfig_copies and of is Of.MANAGER:
        if not namespaces or image or webhook_url or pod_flags or dashboard or dashboard_namespace:
            raise Usage("--kubeconfig-copies needs --namespace and allows no other flag: it prints a Role for each")
        _output(manager.kubeconfig_copy_rights(namespaces), format, output_dir)
        return
    version = f"v{distribution.version()}"
    if format is Format.KUSTOMIZE and of is Of.MANAGER and not webhook_url:
        image = image or f"{kustomize.IMAGE}:{version}"
    if pod_flags and not image:
        raise Usage(f"{pod_flags[0]}: found without --image, which adds the Deployment whose pods it sets")
    if beside_gardener and of is not Of.GARDEN:
        raise Usage(f"--beside-gardener: found with --of {of}, allowed is --of garden")
    if of is not Of.MANAGER:
        others = {"--namespace": namespace, "--in-place": in_place is not FrontEnd.ANNOTATIONS}
        others |= {"--webhook-secret": webhook_secret, "--dashboard": dashboard}
        others |= {"--dashboard-namespace": dashboard_namespace}
        others |= {"--management-cluster": management_cluster, "--kubeconfig-copies": kubeconfig_copies}
        for flag, is_given in others.items():
            if is_given:
                raise Usage(f"{flag}: found with --of {of}, allowed is --of manager")
        trees = _of_gardener(of, image, webhook_url, seed, pods, beside_gardener=beside_gardener)
        _output(trees, format, output_dir)
        return
    if seed:
        raise Usage("--seed: found with --of manager, allowed is --of seed")
    if bool(image) == bool(webhook_url):
        raise Usage("give either --image (a manager in the cluster) or --webhook-url (one outside of it)")
    _check_url(webhook_url)
    if webhook_secret:
        flags.check_name("--webhook-secret", webhook_secret, flags.SECRET_OF_WEBHOOKS)
        if not image:
            raise Usage("--webhook-secret: found without --image; give it to the manager that --webhook-url leads to")
    if dashboard and not image:
        raise Usage("--dashboard: found without --image; give --dashboard-address to the manager that runs elsewhere")
    if dashboard_namespace and not dashboard:
        raise Usage("--dashboard-namespace: found without --dashboard, which serves it; give both, or neither")
    opened_to = flags.namespaces(dashboard_namespace, "--dashboard-namespace") if dashboard else None
    trees = manager.everything(
        image=image,
        webhook_url=webhook_url,
        namespaces=namespaces,
        in_place=in_place,
        management_cluster=management_cluster,
        webhook_secret=webhook_secret,
        pods=pods,
        dashboard=opened_to,
    )
    _output(trees, format, output_dir)


def _given() -> set[str]:
    """The flags on the command line."""
    context = click.get_current_context()
    default = click.core.ParameterSource.DEFAULT
    sources = ((option.opts[0], context.get_parameter_source(option.name or "")) for option in context.command.params)
    return {flag for flag, source in sources if source not in (default, None)}


def _check_format(format_: Format, folder: Path | None, given: Collection[str]) -> None:
    """Raises `Usage` for flags that a format does not take."""
    if (format_ is Format.YAML) != (folder is None):
        if folder is None:
            raise Usage(f"--format {format_}: needs --output-dir, the folder to write into")
        raise Usage("--output-dir: found without a --format that writes files: chart, kustomize or clusterctl")
    if format_ is Format.CHART:
        for flag in sorted(set(given) - {"--format", "--output-dir"}):
            value = chart_values.OF_FLAGS.get(flag)
            advice = f"set the chart's {value} instead" if value else "a chart is of a manager in the cluster"
            raise Usage(f"{flag}: found with --format chart; {advice}")
    if format_ is Format.CLUSTERCTL:
        for flag in ("--of", "--webhook-url", "--kubeconfig-copies"):
            if flag in given:
                raise Usage(f"{flag}: found with --format clusterctl, whose provider is a manager in the cluster")
        if "--image" not in given:
            raise Usage("--format clusterctl: needs --image, the image that the provider's Deployment runs")


def _output(trees: Sequence[Tree], format_: Format, folder: Path | None) -> None:
    """Print objects, or write them into a folder. Raises `Usage` and `OSError`."""
    if folder is None:
        output.write_data(written.documents(trees))
    elif format_ is Format.KUSTOMIZE:
        _write(kustomize.files(trees), folder)
    else:
        version = f"v{distribution.version()}"
        _write(clusterctl.release(version, trees), folder / clusterctl.LABEL / version)
        configuration = folder / clusterctl.CONFIGURATION
        if configuration.exists() and configuration.read_text(errors="replace") not in clusterctl.configurations(
            folder
        ):
            output.say(
                f"{configuration} has other content than this command writes, and stays as it is: its provider "
                f"{clusterctl.NAME} needs this url: {clusterctl.url(folder, version)}",
                stderr=True,
            )
            return
        written.replace(configuration, clusterctl.configuration(folder, version))
        output.say(
            f"use it by `clusterctl init --config {configuration} --runtime-extension {clusterctl.NAME}`", stderr=True
        )


def _write(files: Mapping[str, str], folder: Path) -> None:
    written.write(folder, files)
    output.say(f"wrote {', '.join(files)} to {folder}", stderr=True)


def _check_url(url: str) -> None:
    """Raises `Usage`."""
    if url and (urlsplit(url).scheme != "https" or not urlsplit(url).hostname):
        raise Usage(f"--webhook-url: found {url!r}, allowed is https://HOST:PORT (API servers call nothing else)")


def _of_gardener(
    of: Of, image: str, webhook_url: str, seed: str, pods: deployment.Pods, *, beside_gardener: bool
) -> list[Tree]:
    """Raises `Usage`."""
    _check_url(webhook_url)
    if of is Of.SEED:
        if webhook_url:
            raise Usage("--webhook-url: found with --of seed, whose gardenlet serves no webhooks")
        if bool(image) != bool(seed):
            missing, given = ("--seed", "--image") if image else ("--image", "--seed")
            raise Usage(f"--of seed: found {given} without {missing}; a gardenlet is deployed by both")
        if seed:
            flags.check_name("--seed", seed, "a Seed, such as west")
        return [*garden_manifests.of_seed(), *(garden_manifests.gardenlet_deployed(image, seed, pods) if image else ())]
    if seed:
        raise Usage("--seed: found with --of garden, allowed is --of seed")
    if image and webhook_url:
        raise Usage("--of garden: give either --image (a garden's controllers in the cluster) or --webhook-url")
    return [
        *garden_manifests.of_garden(webhook_url, beside_gardener=beside_gardener),
        *(garden_manifests.garden_deployed(image, pods) if image else ()),
    ]
