"""Proxies are chosen as Go programs choose them."""

from __future__ import annotations

import pytest

from espalier.kube.connection.proxies import proxy_for

PROXY = "http://proxy.test:3128"


@pytest.mark.parametrize(
    ("url", "no_proxy", "direct"),
    [
        ("https://kube.test:6443", "", False),
        ("https://localhost:6443", "", True),
        ("https://127.0.0.1:6443", "", True),
        ("https://[::1]:6443", "", True),
        ("https://kube.test:6443", "*", True),
        ("https://kube.test:6443", "other.test", False),
        ("https://kube.test:6443", "kube.test", True),
        ("https://kube.test:6443", "other.test, KUBE.test", True),
        ("https://api.kube.test", "kube.test", True),
        ("https://api.kube.test", ".kube.test", True),
        ("https://api.kube.test", "*.kube.test", True),
        ("https://kube.test", ".kube.test", False),
        ("https://notkube.test", "kube.test", False),
        ("https://kube.test:6443", "kube.test:6443", True),
        ("https://kube.test:6443", "kube.test:443", False),
        ("https://kube.test", "kube.test:443", True),
        ("https://10.1.2.3:6443", "10.0.0.0/8", True),
        ("https://11.1.2.3:6443", "10.0.0.0/8", False),
        ("https://10.1.2.3:6443", "10.1.2.3", True),
        ("https://10.1.2.3:6443", "10.1.2.3:443", False),
        ("https://10.1.2.3:6443", "10.1.2.3:6443", True),
        ("https://[fd00::1]:6443", "fd00::/8", True),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", True),
    ],
)
def test_no_proxy(url: str, no_proxy: str, direct: bool) -> None:
    environment = {"HTTPS_PROXY": PROXY, "NO_PROXY": no_proxy}
    assert proxy_for(url, environment) == (None if direct else PROXY)


def test_each_scheme_has_its_variable_in_either_case() -> None:
    assert proxy_for("http://kube.test", {"HTTPS_PROXY": PROXY}) is None
    assert proxy_for("http://kube.test", {"http_proxy": "proxy.test:3128"}) == PROXY
    assert proxy_for("https://kube.test", {"https_proxy": PROXY, "no_proxy": "kube.test"}) is None
