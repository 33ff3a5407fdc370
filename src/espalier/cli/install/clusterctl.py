"""A provider for clusterctl: the objects of `espalier manifests` as a release in a repository of providers.

clusterctl knows seven types of providers. A manager beside Cluster API, which is neither part of a machine's life nor
of a cluster's add-ons, is a runtime extension: that type has no contract on kinds, and with `--in-place hooks` the
manager is one to the letter (decision 0168).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from espalier.api.meta import Tree
from espalier.cli.install import written
from espalier.cli.kit.printing import output

NAME = "espalier"
LABEL = f"runtime-extension-{NAME}"
"""The provider in labels, and its folder in a repository."""
COMPONENTS = "runtime-extension-components.yaml"
CONFIGURATION = "clusterctl.yaml"
CONTRACT = "v1beta2"


def release(version: str, trees: Iterable[Tree]) -> dict[str, str]:
    """The files of a release of this version (`v0.26.0`), by their names."""
    return {COMPONENTS: written.documents(trees), "metadata.yaml": _metadata(version)}


def configuration(folder: Path, version: str) -> str:
    """The file for `--config` of clusterctl, for a repository in a folder."""
    provider = {"name": NAME, "url": url(folder, version), "type": "RuntimeExtensionProvider"}
    return output.to_yaml({"providers": [provider]})


def configurations(folder: Path) -> set[str]:
    """That file as it is for each release in a folder."""
    return {configuration(folder, release.name) for release in (folder / LABEL).iterdir()}


def url(folder: Path, version: str) -> str:
    """The address of a release in a folder."""
    return (folder.resolve() / LABEL / version / COMPONENTS).as_uri()


def _metadata(version: str) -> str:
    """All release series up to this one: clusterctl looks for that of an installed version in the newest metadata."""
    major, minor, _ = version.removeprefix("v").split(".", 2)
    return output.to_yaml(
        {
            "apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3",
            "kind": "Metadata",
            "releaseSeries": [
                {"major": int(major), "minor": number, "contract": CONTRACT} for number in range(int(minor), -1, -1)
            ],
        }
    )
