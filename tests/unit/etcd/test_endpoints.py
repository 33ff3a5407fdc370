"""Addresses of members."""

from __future__ import annotations

import pytest

from espalier.etcd.client import connect
from espalier.etcd.endpoints import endpoint


@pytest.mark.parametrize(
    ("url", "target", "tls"),
    [
        ("http://127.0.0.1:2379", "dns:///127.0.0.1:2379", False),
        ("https://etcd.example.org:2379/", "dns:///etcd.example.org:2379", True),
        ("https://[fd00::1]:2379", "dns:///[fd00::1]:2379", True),
        ("127.0.0.1:2379", "dns:///127.0.0.1:2379", False),
        ("unix:///run/etcd.sock", "unix:/run/etcd.sock", False),
        ("unixs:///run/etcd.sock:0", "unix:/run/etcd.sock:0", True),
    ],
)
def test_endpoints_are_written_as_for_etcd(url: str, target: str, tls: bool) -> None:
    made = endpoint(url)
    assert (made.target, made.tls) == (target, tls)
    assert endpoint(made.url) == made


def test_endpoint_without_scheme_is_as_settings_are() -> None:
    assert endpoint("etcd:2379", tls=True).url == "https://etcd:2379"
    assert endpoint("http://etcd:2379", tls=True).url == "http://etcd:2379"


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("ftp://etcd:2379", "unknown scheme 'ftp'; use one of http, https, unix, unixs"),
        ("https://etcd", "write it as https://HOST:PORT"),
        ("https://:2379", "write it as https://HOST:PORT"),
        ("https://etcd:23790000", "Port out of range"),
        ("https://etcd:2379/v3", "write it as https://HOST:PORT"),
        ("https://user:secret@etcd:2379", "write it as https://HOST:PORT"),
        ("unix://etcd.sock", "begins with a slash"),
        ("unix:///" + "x" * 107, "at most 107 bytes"),
        ("", "write it as http://HOST:PORT"),
    ],
)
def test_wrong_endpoint_is_refused_with_what_is_right(url: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        endpoint(url)


def test_at_least_one_endpoint_is_needed() -> None:
    with pytest.raises(ValueError, match="at least one endpoint"):
        connect()
