"""Members of a new cluster, with the IDs that etcd computes (its server/etcdserver/api/membership/{member,cluster}.go).

A member's ID is the SHA-1 of its peer URLs and the token; the cluster's ID is that of all members' IDs. An etcd that
starts with the same flags computes the same IDs and compares them.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Self

import msgspec

DEFAULT_NAME, DEFAULT_TOKEN, DEFAULT_PEER_URL = "default", "etcd-cluster", "http://localhost:2380"
"""etcd's default, if its flags do not set another."""
_URL = re.compile(r"https?://(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):\d{1,5}|unixs?://[A-Za-z0-9._/:-]+", re.ASCII)
_MAX_MEMBERS = 100


@dataclass(frozen=True, slots=True)
class Member:
    """A member from etcd's flag `--initial-cluster`."""

    name: str
    peer_urls: tuple[str, ...]
    """Sorted."""
    id: int

    @classmethod
    def of(cls, name: str, peer_urls: tuple[str, ...], token: str) -> Self:
        """A member with its ID."""
        urls = tuple(sorted(peer_urls))
        return cls(name, urls, _number("".join(urls).encode() + token.encode()))

    def encode(self) -> bytes:
        """The member as the bucket `members` and a raft configuration change store it."""
        return msgspec.json.encode({"id": self.id, "peerURLs": self.peer_urls, "name": self.name})

    @property
    def key(self) -> bytes:
        """The member's key in the bucket `members`."""
        return f"{self.id:x}".encode()


@dataclass(frozen=True, slots=True)
class Membership:
    """A cluster as one of its members starts it."""

    members: tuple[Member, ...]
    """Sorted by ID."""
    own: Member

    @property
    def cluster_id(self) -> int:
        """The ID of the cluster, by which members recognize each other."""
        return _number(b"".join(member.id.to_bytes(8, "big") for member in self.members))


def membership(
    name: str = DEFAULT_NAME,
    initial_cluster: str = "",
    token: str = DEFAULT_TOKEN,
    advertise_peer_urls: str = DEFAULT_PEER_URL,
) -> Membership:
    """The cluster that these flags of etcd describe. Raises `ValueError` that names the flag."""
    advertised = _urls(advertise_peer_urls, "--initial-advertise-peer-urls")
    urls: dict[str, list[str]] = {}
    for entry in (initial_cluster or ",".join(f"{name}={url}" for url in advertised)).split(","):
        member, equals, url = entry.strip().partition("=")
        if not (member and equals):
            raise ValueError(f"--initial-cluster: found {entry!r}, allowed is NAME=URL, separated by commas")
        urls.setdefault(member, []).extend(_urls(url, "--initial-cluster"))
    if len(urls) > _MAX_MEMBERS:
        raise ValueError(f"--initial-cluster: found {len(urls)} members, allowed are {_MAX_MEMBERS}")
    if name not in urls:
        raise ValueError(f"--initial-cluster: found members {', '.join(urls)}, but not --name {name}")
    if sorted(urls[name]) != sorted(advertised):
        mismatch = f"found {', '.join(advertised)}, but --initial-cluster has {', '.join(urls[name])} for {name}"
        raise ValueError(f"--initial-advertise-peer-urls: {mismatch}; they must match")
    members = {member: Member.of(member, tuple(urls_of_member), token) for member, urls_of_member in urls.items()}
    if len({member.id for member in members.values()}) < len(members):
        raise ValueError("--initial-cluster: found the same URLs for two members")
    return Membership(tuple(sorted(members.values(), key=lambda member: member.id)), members[name])


def _urls(text: str, flag: str) -> list[str]:
    urls = [url.strip() for url in text.split(",")]
    for url in urls:
        if not _URL.fullmatch(url):
            raise ValueError(f"{flag}: found {url!r}, allowed is http://HOST:PORT, https://HOST:PORT or unix://PATH")
    return urls


def _number(content: bytes) -> int:
    return int.from_bytes(hashlib.sha1(content, usedforsecurity=False).digest()[:8], "big")
