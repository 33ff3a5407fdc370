"""A real API server with the CRDs of Cluster API and of its providers, and what it says of rendered objects."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION
from espalier.api.meta import Tree
from espalier.assets.cache import assets_folder
from espalier.assets.recipes import PROVIDER_CRDS
from espalier.cli.local.environment import programs
from espalier.realnodes.management.cluster_api import MANAGERS, documents_of
from tests.support.environments.control_plane import ControlPlane

CRDS = Path(__file__).parents[4] / "shared" / "crds"
"""A folder beside the repository, with the CRDs as EKS Anywhere ships them. What it lacks is taken from the assets."""

FILES = {
    "docker": "capd.yaml",
    "vsphere": "capv.yaml",
    "cloudstack": "capc.yaml",
    "nutanix": "capx.yaml",
    "snow": "capas.yaml",
    "tinkerbell": "capt.yaml",
    "tinkerbell-stack": "capt.yaml",
    "etcdadm": "etcdadm.yaml",
}
FORK = "cluster-api-fork"
"""By provider; both of Tinkerbell are in one file."""
STRICTLY = ("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-")


def provider_crds(provider: str) -> list[Tree]:
    """The CRDs of a provider, converted by nobody; none where they can't be had."""
    shipped = CRDS / FILES.get(provider, "")
    built = PROVIDER_CRDS.home(assets_folder())
    files = [shipped] if shipped.is_file() else sorted((built / provider).glob("*.yaml"))
    trees = [tree for file in files for tree in yaml.load_all(file.read_text(), Loader=yaml.CSafeLoader) if tree]
    for tree in trees:  # no controller runs that could convert
        tree["spec"].pop("conversion", None)
    return trees


def lacks(provider: str) -> str:
    """Why there are no CRDs of a provider; empty if there are."""
    if provider_crds(provider):
        return ""
    if provider in PROVIDER_CRDS.contents:
        return f"the CRDs of {provider} are not built: run make real-assets"
    return f"the CRDs of {provider} are in no Go module that can be had, nor at {CRDS}"


@asynccontextmanager
async def with_crds(
    control_plane: ControlPlane, *providers: str, change: Callable[[list[Tree]], list[Tree]] = lambda crds: crds
) -> AsyncIterator[ControlPlane]:
    """The control plane with the CRDs of Cluster API and of these providers, as far as there are any."""
    assets = programs.find_cluster_api()
    if assets is None:
        pytest.skip("Cluster API is not built: run make real-assets")
    trees = [tree for manager in MANAGERS for tree in documents_of(assets, manager)]
    crds = [tree for tree in trees if tree["kind"] == CUSTOM_RESOURCE_DEFINITION.kind]
    for tree in crds:
        tree["spec"].pop("conversion", None)
    crds = [*change(crds), *(tree for provider in providers for tree in provider_crds(provider))]
    text = "\n---\n".join(dict.fromkeys(map(json.dumps, crds)))
    await must(control_plane, "apply", "--server-side", "-f", "-", text=text)
    await must(control_plane, "wait", "--for=condition=Established", "--all", "crd")
    await kubectl(control_plane, "create", "namespace", "eksa-system")
    yield control_plane


async def accepted_strictly(
    control_plane: ControlPlane, trees: list[Tree], *, is_stock: bool = True, warning: str | None = None
) -> None:
    """Each object is, without a warning but for those that match `warning`."""
    for tree in trees:
        if is_stock and tree["kind"] == "Cluster":  # a field of EKS Anywhere's build
            tree["spec"].pop("managedExternalEtcdRef", None)
    text = "\n---\n".join(map(json.dumps, trees))
    printed = await asyncio.wait_for(must(control_plane, *STRICTLY, text=text), 120)
    warnings = [line for line in printed.splitlines() if "Warning" in line]
    assert [line for line in warnings if warning is None or not re.fullmatch(warning, line)] == []
    assert printed.count("serverside-applied") == len(trees)


async def refusal(control_plane: ControlPlane, tree: Tree) -> str:
    """Why an object is refused."""
    succeeded, printed = await kubectl(control_plane, *STRICTLY, text=json.dumps(tree))
    assert not succeeded
    return printed


async def kubectl(control_plane: ControlPlane, *arguments: str, text: str = "") -> tuple[bool, str]:
    """Success of kubectl, and all that it printed."""
    process = await asyncio.create_subprocess_exec(
        control_plane.kubectl,
        f"--kubeconfig={control_plane.kubeconfig}",
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate(text.encode())
    return process.returncode == 0, output.decode()


async def must(control_plane: ControlPlane, *arguments: str, text: str = "") -> str:
    succeeded, output = await kubectl(control_plane, *arguments, text=text)
    assert succeeded, output
    return output
