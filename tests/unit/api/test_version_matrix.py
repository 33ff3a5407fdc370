"""The matrix of versions: rows that belong together, and what is refused because it does not."""

from __future__ import annotations

import subprocess
import sys

import pytest

from espalier.api.version_matrix import (
    BEYOND_CERT_MANAGER,
    CERT_MANAGER,
    CLUSTER_API,
    DEFAULT_ROW,
    ETCD,
    KUBERNETES,
    ROWS,
    Row,
    UnknownRow,
    etcd_range,
    minor_of,
    numbers,
    selected_row,
)
from espalier.cli.kit.failures import Exit, explain
from espalier.releases.catalog import Releases

EVERY_ROW = pytest.mark.parametrize("row", ROWS.values(), ids=str)


@EVERY_ROW
def test_parts_of_a_row_support_each_other(row: Row) -> None:
    assert row.name == minor_of(row.kubernetes)
    assert not etcd_range(row.kubernetes, row.etcd)
    assert not etcd_range(row.kubernetes, KUBERNETES[row.name].etcd_image)
    assert numbers(row.containerd)[:2] >= numbers(KUBERNETES[row.name].containerd_oldest)
    cluster_api = CLUSTER_API[minor_of(row.cluster_api)]
    for minors, (oldest, newest) in (((row.name,), cluster_api.management), (row.nodes, cluster_api.workload)):
        for minor in minors:
            first = cluster_api.first_patches.get(minor)
            is_added = first is not None and numbers(row.cluster_api) >= numbers(first)
            assert is_added or numbers(oldest) <= numbers(minor) <= numbers(newest)
    oldest, newest, _ = CERT_MANAGER[minor_of(row.cert_manager)]
    assert numbers(row.name) >= numbers(oldest)
    assert (numbers(row.name) > numbers(newest)) == (row.name in BEYOND_CERT_MANAGER)


def test_minors_follow_each_other_in_each_table() -> None:
    for table in (KUBERNETES, ETCD, CLUSTER_API):
        results = [numbers(minor) for minor in table]
        assert results == [(results[0][0], results[0][1] + step) for step in range(len(results))]
    for minor, etcd in ETCD.items():
        assert numbers(etcd.before) == (numbers(minor)[0], numbers(minor)[1] - 1)
    for cluster_api in CLUSTER_API.values():
        assert minor_of(cluster_api.cert_manager) in CERT_MANAGER


def test_bundles_name_versions_of_the_matrix() -> None:
    newest = Releases.load().newest()
    named = {bundle.kube_version for bundle in newest.bundles.spec.versions_bundles}
    assert named <= set(KUBERNETES)
    assert max(named, key=numbers) == DEFAULT_ROW


def test_a_row_is_selected_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ESPALIER_ROW", raising=False)
    assert selected_row() is ROWS[DEFAULT_ROW]
    monkeypatch.setenv("ESPALIER_ROW", "1.37")
    assert selected_row() is ROWS["1.37"]


def test_an_unknown_row_is_refused_with_the_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESPALIER_ROW", "1.38")
    with pytest.raises(UnknownRow) as refused:
        selected_row()
    assert str(refused.value) == "ESPALIER_ROW: found '1.38', allowed is a row of versions: 1.36, 1.37"
    assert explain(refused.value) == (Exit.USAGE, str(refused.value))


@pytest.mark.parametrize("etcd", ["3.4.23", "3.5.23", "3.8.0", "v3.8.0-0"])
def test_etcd_outside_of_the_range_is_refused(etcd: str) -> None:
    assert etcd_range("v1.37.2", etcd) == "3.5.24 to 3.7"


@pytest.mark.parametrize("etcd", ["3.5.24", "3.6.8-0", "3.7.3", "3.7", "", "latest"])
def test_etcd_within_the_range_is_taken(etcd: str) -> None:
    assert not etcd_range("1.37", etcd)
    assert not etcd_range("1.99", "3.4.0")  # nothing is known of it


def test_matrix_is_read_before_anything_is_installed() -> None:
    code = "import sys, espalier.api.version_matrix; print(sorted({name.split('.')[0] for name in sys.modules}))"
    command = [sys.executable, "-S", "-c", f"import sys; sys.path.insert(0, 'src'); {code}"]
    completed = subprocess.run(command, check=True, capture_output=True, text=True)
    for package in ("msgspec", "semver", "yaml"):
        assert package not in completed.stdout
