"""An endpoint in the ranges of pods or Services: EKS Anywhere refuses it on Snow alone, so do we; others warn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from espalier.cli.main import program

EXAMPLES = Path(__file__).parents[3] / "examples"
OVERLAPS = {
    "pods": ("192.168.10.42", "an address outside of 192.168.0.0/16"),
    "services": ("10.96.0.5", "an address outside of 10.96.0.0/12"),
}


@pytest.mark.parametrize("network", OVERLAPS)
@pytest.mark.parametrize("provider", ["vsphere", "tinkerbell", "nutanix", "cloudstack", "snow"])
def test_an_endpoint_in_a_range_of_the_cluster(provider: str, network: str) -> None:
    address, allowed = OVERLAPS[network]
    block = allowed.split()[-1]
    trees = list(yaml.safe_load_all((EXAMPLES / f"{provider}.yaml").read_text()))
    spec = next(tree["spec"] for tree in trees if tree["kind"] == "Cluster")
    spec["controlPlaneConfiguration"]["endpoint"]["host"] = address
    done = CliRunner().invoke(program, ["validate", "-f", "-", "-o", "json"], input=yaml.safe_dump_all(trees))
    document = json.loads(done.stdout)
    field = "spec.controlPlaneConfiguration.endpoint.host"
    told = [
        warning
        for warning in document["warnings"]
        if warning.startswith(f"{field}: spec.clusterNetwork.{network} contains")
    ]
    refused = [problem["violation"]["field"] for problem in document["problems"]]
    assert (refused, len(told)) == (([field], 0) if provider == "snow" else ([], 1))
    assert all(item.endswith(f"; found {address} in {block}") and "can't be reached" in item for item in told)
    assert all("allowed" not in item for item in told), "it is accepted"
    assert all(problem["violation"]["allowed"] == allowed for problem in document["problems"])
