"""Versions of Kubernetes, etcd, Cluster API, containerd and cert-manager are declared in `api/version_matrix.py` alone.

Other code that names one says since when something holds in the field; these places are listed here with the reason.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import espalier

SOURCES = Path(espalier.__path__[0])
_VERSION = re.compile(r"v?(1\.(2[89]|3\d|4\d)|3\.[4-9]|1\.1[1-9]|2\.[234])(\.\d+)*(-\S*)?")

FACTS = {
    "api/gardener/garden/differences.py": "the versions in cases that Gardener's API server judges",
    "apiserver/builtin/builtin.py": "the minor version whose definitions are complete, and what later ones added",
    "assets/recipes.py": "programs that belong to no row, and the newest etcd whose databases etcdbrctl reads",
    "cli/install/chart.py": "API servers have ValidatingAdmissionPolicies since 1.30",
    "clusters/design/layers/cgroup_v1.py": "kubelets refuse cgroup v1 since 1.35",
    "clusters/design/render/api_server/etcd_encryption.py": "no KMS v1 since 1.29, unless a gate is set",
    "clusters/design/render/nodes/kube_vip.py": "kubeadm writes super-admin.conf since 1.29",
    "clusters/design/render/kubeadm.py": "flags and feature gates that kubeadm knows since, or until, a version",
    "etcd/database/backend.py": "the format of the database that is written",
    "providers/docker/render.py": "kubelets know failCgroupV1 since 1.31",
    "simulator/etcd/state/core.py": "the protocol and the format of data that the simulated etcd has",
    "upgrades/node/cluster_configuration.py": "versions in which kubeadm lost feature gates",
}
"""Files with versions of their own, below `src/espalier`."""


def literals() -> Iterator[tuple[str, str]]:
    for path in sorted(SOURCES.rglob("*.py")):
        name = str(path.relative_to(SOURCES))
        if name == "api/version_matrix.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and _VERSION.fullmatch(node.value):
                yield name, node.value


def test_versions_are_declared_in_the_matrix_alone() -> None:
    copied = dict(literals())
    assert copied.keys() - FACTS.keys() == set(), "take it from api/version_matrix.py, or say here which fact it is"
    assert FACTS.keys() - copied.keys() == set(), "no version is there any more"


NEW = """
from dataclasses import replace
from espalier.api import version_matrix as matrix

matrix.KUBERNETES["1.38"] = replace(
    matrix.KUBERNETES["1.37"], patch="1.38.1", etcd_image="3.8.0-0", etcd_newest="3.8", ends="2028-02-28"
)
matrix.ETCD["3.8"] = replace(matrix.ETCD["3.7"], patch="3.8.2", before="3.7", removed_flags=("gone-",))
matrix.CLUSTER_API["1.15"] = replace(
    matrix.CLUSTER_API["1.14"], patch="1.15.1", management=("1.34", "1.38"), workload=("1.32", "1.38"), first_patches={}
)
matrix.ROWS["1.38"] = matrix.Row(
    "1.38", "1.38.1", etcd="3.8.2", etcd_before="3.7.3", cluster_api="1.15.1", cni_plugins="1.9.1"
)
"""


def with_new_row(code: str) -> str:
    """The output of code in a process whose matrix has one more row before anything reads it."""
    program = NEW + textwrap.dedent(code)
    completed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120
    )
    assert completed.returncode == 0, completed.stderr
    return completed.stdout


def test_a_new_row_is_built_and_selected() -> None:
    printed = with_new_row(
        """
        import os
        os.environ["ESPALIER_ROW"] = "1.38"
        from espalier.assets.recipes import ROW, node_bases, programs_of
        print(ROW.kubernetes, ROW.cert_manager, ROW.containerd)
        print(sorted(f"{program.name}/{getattr(program, 'modfile', '')}" for program in programs_of(ROW)))
        print([base.kubernetes.modfile for base in node_bases(row=ROW)])
        """
    )
    for pinned in ("cluster-api/v1.15.1", "etcd/v3.7.3", "etcd/v3.8.2", "etcdutl/v3.8.2", "kubernetes/v1.38.1"):
        assert pinned in printed
    assert "['v1.36.3.mod', 'v1.37.2.mod', 'v1.38.1.mod']" in printed


def test_rules_know_a_new_row() -> None:
    printed = with_new_row(
        """
        from espalier.clusters.observe.rules.control_planes.etcd_settings import *
        from espalier.clusters.observe.rules.control_planes import etcd_settings
        print(matrix.etcd_range("1.38", "3.9.0"), "|", matrix.etcd_range("1.38", "3.8.2"), "|")
        print(matrix.etcd_minors_for("3.7.3"))
        from espalier.apiserver.builtin import builtin
        print(builtin.schemas_of("v1.38.1"), builtin.LATER)
        """
    )
    assert printed.splitlines() == ["3.5.24 to 3.8 |  |", "('3.7', '3.8')", "1.37 ('1.37',)"]


def test_commands_and_pages_offer_a_new_row() -> None:
    printed = with_new_row(
        """
        from espalier.cli.local.up import up
        from espalier.cli.local.assets import assets
        from espalier.cli.pages import _matrix
        print([parameter.type.choices for parameter in up.params if parameter.name == "kubernetes"])
        build = assets.commands["build"]
        print([parameter.type.choices for parameter in build.params if parameter.name == "row"])
        print("\\n".join(line for line in _matrix() if "1.38" in line or "1.15" in line))
        """
    )
    assert printed.count("'1.38'") == 2
    assert "| 1.38 | 1.38.1 | 3.8.2 | 3.7.3 | 1.15.1 |" in printed
    assert "| 1.15 | 1.34 to 1.38 | 1.32 to 1.38 |" in printed
