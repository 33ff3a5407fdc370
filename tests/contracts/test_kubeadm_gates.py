"""An upgrade in place leaves a kubeadm-config that the next kubeadm takes, for keys of the same kind."""

from __future__ import annotations

import re
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from espalier.api.meta import Tree
from espalier.api.version_matrix import KUBERNETES
from espalier.assets.cache import assets_folder, is_finished
from espalier.assets.recipes import node_programs
from espalier.upgrades.node.cluster_configuration import API_VERSION, WantedConfiguration, wanted

ECDSA = "PublicKeysECDSA"


def kubeadm(minor: str) -> Path:
    """kubeadm of a minor version; the test is skipped if it was not built."""
    home = node_programs(KUBERNETES[minor].patch).home(assets_folder())
    if not is_finished(home):
        pytest.skip(f"there is no kubeadm: espalier assets build node-base-{KUBERNETES[minor].patch}")
    return home / "kubeadm"


def run(program: Path, *arguments: str | Path) -> str:
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def gates(program: Path) -> set[str]:
    """The gates that a kubeadm knows."""
    shown = run(program, "init", "--help").partition("--feature-gates")[2].partition("\n  -")[0]
    return set(re.findall(r"(\w+)=true\|false", shown))


def configuration(minor: str, **fields: object) -> Tree:
    version = f"v{KUBERNETES[minor].patch}"
    return {"apiVersion": API_VERSION, "kind": "ClusterConfiguration", "kubernetesVersion": version, **fields}


def written(tree: Tree, minor: str, folder: Path) -> Path:
    """The configuration as kubeadm of a minor version gets it: it sets the version itself."""
    file = folder / f"{minor}.yaml"
    file.write_text(yaml.safe_dump({**tree, "kubernetesVersion": f"v{KUBERNETES[minor].patch}"}))
    return file


@pytest.mark.parametrize(("before", "after"), list(pairwise(KUBERNETES)))
def test_next_kubeadm_takes_each_gate_that_is_left(before: str, after: str, tmp_path: Path) -> None:
    older, newer = kubeadm(before), kubeadm(after)
    tree = configuration(before, featureGates=dict.fromkeys(gates(older), True))
    run(older, "config", "validate", "--config", written(tree, before, tmp_path))
    upgraded = wanted(tree, WantedConfiguration(f"v{KUBERNETES[after].patch}"))
    run(newer, "config", "validate", "--config", written(upgraded, after, tmp_path))
    assert set(upgraded.get("featureGates", {})) == gates(older) & gates(newer)


@pytest.mark.parametrize(("before", "after"), list(pairwise(KUBERNETES)))
def test_next_kubeadm_makes_ecdsa_keys_as_before(before: str, after: str, tmp_path: Path) -> None:
    older, newer = kubeadm(before), kubeadm(after)
    if ECDSA not in gates(older):
        pytest.skip(f"kubeadm {before} has no gate {ECDSA}")
    tree = configuration(before, featureGates={ECDSA: True})
    for minor, program in ((before, older), (after, newer)):
        certificates = tmp_path / minor
        upgraded = wanted(tree, WantedConfiguration(f"v{KUBERNETES[minor].patch}"))
        file = written({**upgraded, "certificatesDir": str(certificates)}, minor, tmp_path)
        run(program, "init", "phase", "certs", "ca", "--config", file)
        key = load_pem_private_key((certificates / "ca.key").read_bytes(), password=None)
        assert isinstance(key, EllipticCurvePrivateKey)
