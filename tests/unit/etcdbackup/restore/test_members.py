"""IDs of members and clusters are those that etcd computes."""

from __future__ import annotations

import pytest

from espalier.etcdbackup.restore.members import membership


def test_ids_are_those_of_etcd_with_default_flags() -> None:
    """Every etcd that is started without flags logs these two."""
    default = membership()
    assert (f"{default.own.id:x}", f"{default.cluster_id:x}") == ("8e9e05c52164694d", "cdf818194e3a8c32")


def test_a_member_is_stored_as_etcd_stores_it() -> None:
    own = membership().own
    assert own.key == b"8e9e05c52164694d"
    assert own.encode() == b'{"id":10276657743932975437,"peerURLs":["http://localhost:2380"],"name":"default"}'


def test_members_are_those_of_the_initial_cluster() -> None:
    flag = "a=https://10.0.0.1:2380,b=https://10.0.0.2:2380,a=https://[fd00::1]:2380"
    urls = "https://[fd00::1]:2380,https://10.0.0.1:2380"
    of_a = membership("a", flag, "token", urls)
    of_b = membership("b", flag, "token", "https://10.0.0.2:2380")
    assert (of_a.members, of_a.cluster_id) == (of_b.members, of_b.cluster_id)
    assert of_a.own.peer_urls == ("https://10.0.0.1:2380", "https://[fd00::1]:2380")
    assert membership("a", flag, "another", urls).cluster_id != of_a.cluster_id


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"initial_cluster": "a"}, "--initial-cluster: found 'a', allowed is NAME=URL"),
        ({"initial_cluster": "a=http://a:1"}, "found members a, but not --name default"),
        ({"initial_cluster": "default=http://a:1"}, "--initial-advertise-peer-urls: found http://localhost:2380, but"),
        ({"advertise_peer_urls": "localhost:2380"}, "--initial-advertise-peer-urls: found 'localhost:2380', allowed"),
        ({"advertise_peer_urls": "http://localhost:2380/x"}, "--initial-advertise-peer-urls: found 'http://localhost"),
        (
            {"initial_cluster": "default=http://localhost:2380,b=http://localhost:2380"},
            "--initial-cluster: found the same URLs for two members",
        ),
    ],
)
def test_a_flag_that_etcd_would_not_take_is_named(flags: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("[", r"\[")):
        membership(**flags)
