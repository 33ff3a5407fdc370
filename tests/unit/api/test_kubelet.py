"""Fields of the kubelet's configuration that people may write into Clusters."""

from __future__ import annotations

import jsonschema_rs
import pytest

from espalier.api.eksa.parts.kubelet import SCHEMA


@pytest.mark.parametrize("field", ["topologyManagerPolicyOptions", "defaultPodSysctls"])
def test_maps_of_kubelets_up_to_1_37_are_taken(field: str) -> None:
    assert field in SCHEMA["properties"]
    validator = jsonschema_rs.validator_for(dict(SCHEMA))
    assert validator.is_valid({field: {"net.ipv4.ip_forward": "1"}})
    assert not validator.is_valid({field: ["net.ipv4.ip_forward=1"]})
