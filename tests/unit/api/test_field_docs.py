from __future__ import annotations

from pathlib import Path

import pytest

from espalier.api import eksa
from espalier.api.definitions.field_docs import page, write
from espalier.api.kinds import KubeObject
from espalier.cli.pages import KINDS

PAGES = Path(__file__).parents[3] / "docs" / "reference" / "fields"


@pytest.mark.demand("I16")
@pytest.mark.parametrize("cls", KINDS)
def test_the_pages_are_those_of_the_kinds(cls: type[KubeObject]) -> None:
    """When this fails: make pages."""
    assert (PAGES / f"{cls.declaration.singular}.md").read_text() == page(cls)


def test_there_is_a_page_for_each_kind_and_no_other(tmp_path: Path) -> None:
    write(tmp_path, KINDS)
    assert {path.name for path in PAGES.iterdir()} == {path.name for path in tmp_path.iterdir()}


def test_page_tells_purpose_and_values_of_a_field() -> None:
    lines = page(eksa.cluster.Cluster).splitlines()
    assert "| `spec.controlPlaneConfiguration.count` | integer | **required**; Number of machines; odd when etcd" in (
        "\n".join(lines)
    )
    rule = "a cluster has exactly one CNI, like kindnetd: {}; allowed: cilium or kindnetd"
    assert f"| `spec.clusterNetwork` | rule | {rule} |" in lines
    assert any(line.startswith("| `spec.workerNodeGroupConfigurations[].taints[].effect` | string |") for line in lines)
