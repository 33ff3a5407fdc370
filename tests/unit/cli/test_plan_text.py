"""The output of `espalier plan` where effects can't be known yet."""

from __future__ import annotations

import json

import pytest

from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.resource import Key
from espalier.cli.clusters.plans.plan_text import Planned, facts, write
from espalier.clusters.preview.previews import Preview

UNRESOLVED = f"{Reason.VALUES_NOT_RESOLVED}: VSphereMachineConfig vines: spec.resourcePool: waiting for the provider"
UNKNOWN = Planned(Preview(Key("default", "vines"), stops=UNRESOLVED))
HELD = Planned(Preview(Key("default", "orchard"), stops="ClusterInvalid: spec.x: wrong"))


@pytest.mark.parametrize(
    ("planned", "text"),
    [
        ([UNKNOWN], "machines: unknown"),
        ([HELD], "machines: none"),
        ([UNKNOWN, HELD], "machines: unknown for 1 of 2 clusters"),
    ],
)
def test_machines_known_to_providers_are_not_none(
    planned: list[Planned], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(planned)
    assert capsys.readouterr().out.rstrip().endswith(text)


def test_for_programs_they_are_null() -> None:
    result = json.dumps(facts([UNKNOWN, HELD]))
    assert result.count('"machines": null') == 1
    assert result.count('"machines": []') == 1
