"""GitOps of a new management cluster: what its manifest asks for, and the step that hands it over to Git."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from espalier.api import flux
from espalier.api.eksa.gitops import FluxConfig, GitOpsConfig
from espalier.api.eksa.parts.network import RegistryMirrorConfiguration
from espalier.api.manifests.manifests import Document
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.api.text.violations import ManifestError, Violation
from espalier.api.trees import yaml_trees
from espalier.cli.kit.failures import Failure
from espalier.clusters.design import registry_mirror
from espalier.kube.client import Client
from espalier.management import handed_over, installing
from espalier.management.steps import Progress, Refused

if TYPE_CHECKING:
    from espalier.gitops.hub import Hub
    from espalier.gitops.installation import Installation

_Config = FluxConfig | GitOpsConfig


@dataclass(frozen=True)
class GitOps:
    """A management cluster that is handed over to a repository."""

    config: _Config
    reference: Tree
    """`spec.gitOpsRef`."""
    installation: Installation
    new: Hub | None = None
    """The repository, if it does not exist yet."""

    @property
    def title(self) -> str:
        """The place of its files."""
        target = self.installation.target
        is_new = " (a private repository, which is created)" if self.new is not None else ""
        return f"{target.url}{is_new}, branch {target.branch}: {target.base}/{self.installation.management}"

    async def prepare(self, bootstrap: Client, namespace: str) -> None:
        """Let clusters of a bootstrap name the configuration, as those of a management cluster that has it. Idempotent.
        `namespace` is that of the manifest.

        The cluster is made with it: nobody acts on a change of the record that it becomes by the move.

        Raises `Refused`.
        """
        spec = msgspec.to_builtins(self.config)["spec"]
        await handed_over.let_name(bootstrap, self.reference, self.config.resource, spec, namespace=namespace)

    async def set_up(self, cluster: Client, progress: Progress) -> None:
        """Hand it over. Can be repeated. Raises `Refused`."""
        from espalier.gitops.installation import NotFollowed, install  # noqa: PLC0415  an extra
        from espalier.gitops.layout import Unfit  # noqa: PLC0415
        from espalier.gitops.repository import GitError  # noqa: PLC0415

        async def apply(client: Client, trees: Sequence[Tree]) -> None:
            await installing.apply(client, trees)
            await installing.until_running(client, installing.deployments(trees), progress)

        try:
            if self.new is not None and await self.new.create():
                progress.say(f"repository {self.installation.target.url} is created, private")
            await install(cluster, self.installation, apply, wait=progress.wait)
        except (GitError, Unfit, NotFollowed) as error:
            raise Refused(str(error)) from error


def reference_of(document: Document) -> Tree | None:
    """`spec.gitOpsRef` of a Cluster's document; None without one."""
    spec = document.tree.get("spec")
    reference = spec.get("gitOpsRef") if isinstance(spec, dict) else None
    return reference if isinstance(reference, dict) else None


async def asked(
    cluster: Document,
    reference: Tree | None,
    prepared: Sequence[tuple[Resource, Tree]],
    manifests: Path | None,
    *,
    simulated: Sequence[Tree],
    goes_on: bool = False,
    environment: Mapping[str, str] = os.environ,
) -> GitOps | None:
    """The GitOps that a manifest asks for; None without a reference. The repository is read first.

    `manifests` are Flux's; None for `simulated`. A creation that `goes_on` may have pushed its files before.
    Raises `ManifestError` and `Failure`.
    """
    if reference is None:
        return None
    from espalier.cli.clusters.git import git_credentials  # noqa: PLC0415  with what an extra installs
    from espalier.gitops.components import Unusable, components  # noqa: PLC0415
    from espalier.gitops.installation import Installation  # noqa: PLC0415
    from espalier.gitops.layout import Unfit  # noqa: PLC0415
    from espalier.gitops.repository import GitError, Repository  # noqa: PLC0415
    from espalier.gitops.target import NoRepository, target_of  # noqa: PLC0415

    config = _config(cluster, reference, prepared)
    manifest = [_own(tree, cluster.name) for _, tree in prepared]
    trees = simulated if manifests is None else await asyncio.to_thread(_read, manifests)
    try:
        target = target_of(config, cluster.name, git_credentials.server(environment))
        made = components(trees, target.namespace, mirror_of(cluster.tree))
    except (NoRepository, Unusable) as error:
        raise Failure(str(error)) from None
    credentials = git_credentials.credentials(target, environment)
    author = git_credentials.author()
    installation = Installation(target, credentials, cluster.name, manifest, made, author)

    def look() -> None:
        with credentials.access(target) as access:
            installation.files(Repository(access, target.branch).read(), goes_on=goes_on)

    try:
        hub = git_credentials.hub(config, credentials.password, environment)
        if hub is not None and not await hub.exists():
            installation.files({})
            return GitOps(config, reference, installation, hub)
        await asyncio.to_thread(look)
    except (GitError, Unfit) as error:
        raise Failure(str(error)) from None
    return GitOps(config, reference, installation)


def namespace_of(reference: Tree | None, prepared: Sequence[tuple[Resource, Tree]]) -> str:
    """The namespace of Flux that a manifest asks for."""
    config = _named(reference, prepared) if reference is not None else None
    if isinstance(config, FluxConfig):
        return config.spec.system_namespace or flux.NAMESPACE
    hub = config.spec.flux.github if config is not None and config.spec.flux is not None else None
    return hub.flux_system_namespace or flux.NAMESPACE if hub is not None else flux.NAMESPACE


def _named(reference: Tree, prepared: Sequence[tuple[Resource, Tree]]) -> _Config | None:
    kind, name = reference.get("kind"), reference.get("name")
    for resource, tree in prepared:
        if (kind, name) == (resource.kind, tree["metadata"]["name"]):
            if resource == FluxConfig.resource:
                return msgspec.convert(tree, FluxConfig)
            if resource == GitOpsConfig.resource:
                return msgspec.convert(tree, GitOpsConfig)
    return None


def _config(cluster: Document, reference: Tree, prepared: Sequence[tuple[Resource, Tree]]) -> _Config:
    config = _named(reference, prepared)
    if config is not None:
        return config
    kind, name = reference.get("kind"), reference.get("name")
    message = "a management cluster brings its GitOps configuration; add the object to the manifest"
    violation = Violation("spec.gitOpsRef", f"{kind} {name}", "an object of the manifest", message)
    raise ManifestError([cluster.problem(violation)])


def _own(tree: Tree, name: str) -> Tree:
    """An object as it is in Git: the Cluster as it manages itself."""
    if tree["kind"] != "Cluster":
        return tree
    return {**tree, "spec": {**tree["spec"], "managementCluster": {"name": name}}}


def mirror_of(cluster: Tree) -> dict[str, str]:
    """Prefixes of images that a registry mirror has, and the mirror's."""
    mirror = cluster["spec"].get("registryMirrorConfiguration")
    if not mirror:
        return {}
    typed = msgspec.convert(mirror, RegistryMirrorConfiguration)
    return {f"{host.registry}/": f"{host.images}/" for host in registry_mirror.hosts(typed)}


def _read(path: Path) -> list[Tree]:
    """Flux's manifests from a file, or from all YAML files of a folder. Raises `Failure`."""
    files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    if not files:
        raise Failure(f"{path}: no YAML files in this folder; give the output of `flux install --export`")
    return [tree for file in files for tree in yaml_trees.trees(file.read_bytes(), str(file)) if tree is not None]
