"""Where the real programs lie: in folders that `make real-assets` filled, or that the environment names."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

CONTROL_PLANE_PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
CLUSTER_API_PROGRAMS = ("cluster-api-core", "cluster-api-kubeadm-bootstrap", "cluster-api-kubeadm-control-plane")


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder that builds go to: `$ESPALIER_CACHE`, else `espalier` in the user's cache folder."""
    if named := environment.get("ESPALIER_CACHE"):
        return Path(named).absolute()
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "espalier"


def find_control_plane(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The folder that holds all of `CONTROL_PLANE_PROGRAMS`: `KUBEBUILDER_ASSETS`, PATH, or the newest that was built.

    When `KUBEBUILDER_ASSETS` is set, nothing else is looked at: nobody runs other programs than those named.
    """
    if named := environment.get("KUBEBUILDER_ASSETS"):
        candidates = [Path(named)]
    else:
        on_path = shutil.which("kube-apiserver", path=environment.get("PATH"))
        candidates = [Path(on_path).parent] if on_path else []
        candidates += _built("envtest-*", environment)
    return _first(candidates, CONTROL_PLANE_PROGRAMS)


def find_cluster_api(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The folder that holds all of `CLUSTER_API_PROGRAMS` and the definitions that belong to them."""
    return _first(_built("cluster-api-*", environment), CLUSTER_API_PROGRAMS)


def lacking(folder: Path, programs: tuple[str, ...]) -> list[str]:
    """The programs that a folder does not hold."""
    return [program for program in programs if not os.access(folder / program, os.X_OK)]


def _built(pattern: str, environment: Mapping[str, str]) -> list[Path]:
    found = (cache_folder(environment) / "assets").glob(pattern)
    return sorted(found, key=lambda folder: (_version(folder), folder.stat().st_mtime), reverse=True)


def _version(folder: Path) -> tuple[int, ...]:
    found = re.search(r"\d+(?:\.\d+)+", folder.name)
    return tuple(map(int, found[0].split("."))) if found else ()


def _first(candidates: list[Path], programs: tuple[str, ...]) -> Path | None:
    return next((folder.absolute() for folder in candidates if not lacking(folder, programs)), None)
