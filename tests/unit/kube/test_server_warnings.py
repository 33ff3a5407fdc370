"""The server's warnings are said once."""

from __future__ import annotations

from structlog.testing import capture_logs

from espalier.kube.transports.server_warnings import WarningLog, warnings_of


def test_headers_without_a_warning_give_none() -> None:
    assert list(warnings_of({})) == []
    assert list(warnings_of({"warning": '199 proxy "stale"'})) == []


def test_a_text_is_logged_once() -> None:
    log = WarningLog()
    with capture_logs() as lines:
        log("v1alpha1 is deprecated")
        log("v1alpha1 is deprecated")
        log("another")
    assert [line["text"] for line in lines] == ["v1alpha1 is deprecated", "another"]
