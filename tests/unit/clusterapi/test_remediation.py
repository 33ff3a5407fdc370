from __future__ import annotations

import pytest

from espalier.clusterapi.machines.remediation import Remediation, from_annotation, last_remediation


def test_a_status_of_cluster_api_is_read() -> None:
    remediation = last_remediation({"machine": "garden-abcde", "time": "2026-01-01T00:00:00Z", "retryCount": 2})
    assert remediation is not None
    assert (remediation.machine, remediation.at, remediation.retry_count) == ("garden-abcde", "2026-01-01T00:00:00Z", 2)


def test_the_annotation_of_a_machine_is_read() -> None:
    remediation = from_annotation('{"machine":"garden-abcde","timestamp":"2026-01-01T00:00:00Z","retryCount":1}')
    assert remediation is not None
    assert (remediation.at, remediation.retry_count) == ("2026-01-01T00:00:00Z", 1)


@pytest.mark.parametrize("status", [None, {}, {"retryCount": "two"}])
def test_an_invalid_status_is_ignored(status: dict[str, object] | None) -> None:
    assert last_remediation(status) is None


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"retryCount":"x"}'])
def test_an_invalid_annotation_is_ignored(text: str | None) -> None:
    assert from_annotation(text) is None
    assert Remediation().at == ""
