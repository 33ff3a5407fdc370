"""Location of real programs: folders that `espalier assets build` filled, or that environment variables name."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from espalier.api.version_matrix import ROW_VARIABLE
from espalier.assets.cache import assets_folder, is_finished
from espalier.assets.recipes import CLUSTER_API, ROW, envtest_folder

CONTROL_PLANE_PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")


def find_control_plane() -> Path | None:
    """The folder that holds all of `CONTROL_PLANE_PROGRAMS`: `KUBEBUILDER_ASSETS`, PATH, or those that were built for
    the row of versions, else the newest that were built.

    When `KUBEBUILDER_ASSETS` or `ESPALIER_ROW` is set, no other folder is searched: nobody runs other programs than
    those named.
    """
    if named := os.environ.get("KUBEBUILDER_ASSETS"):
        candidates = [Path(named)]
    elif os.environ.get(ROW_VARIABLE):
        candidates = [assets_folder() / envtest_folder(ROW)]
    else:
        on_path = shutil.which("kube-apiserver")
        candidates = [Path(on_path).parent] if on_path else []
        candidates.append(assets_folder() / envtest_folder(ROW))
        candidates += sorted(assets_folder().glob("envtest-*"), key=_version, reverse=True)
    return next((folder.absolute() for folder in candidates if not lacking(folder)), None)


def find_cluster_api() -> Path | None:
    """The folder with Cluster API's managers and the definitions that belong to them, if this version was built."""
    home = CLUSTER_API.home(assets_folder())
    return home if is_finished(home) else None


def lacking(folder: Path, programs: Sequence[str] = CONTROL_PLANE_PROGRAMS) -> list[str]:
    """The programs that a folder lacks."""
    return [program for program in programs if not os.access(folder / program, os.X_OK)]


def _version(folder: Path) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", folder.name))
