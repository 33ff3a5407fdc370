"""Permission to send credentials: annotations of a Secret in the system's namespace list the servers that may get it,
and the namespaces whose Clusters may use it.

Servers and references are input of tenants. Without this, a tenant could have the manager send others' credentials to a
server of his own (DESIGN §6.11).
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable, Mapping, Sequence

from espalier.api.core import SECRET
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.text.listing import first
from espalier.api.text.printable import quoted

SERVERS = metadata_keys.CREDENTIALS_SERVERS
NAMESPACES = metadata_keys.CREDENTIALS_NAMESPACES
IN_WORKLOAD_CLUSTERS, ALLOWED = metadata_keys.CREDENTIALS_IN_WORKLOAD_CLUSTERS, "allowed"

ANY = "*"


def permits(annotations: Mapping[str, str], *, server: str, namespace: str) -> bool:
    """True if a Secret with these annotations may be sent to `server` for a Cluster in `namespace`."""
    namespaces = _listed(annotations.get(NAMESPACES, ""))
    return server.lower() in _listed(annotations.get(SERVERS, "").lower()) and bool(namespaces & {namespace, ANY})


def advice(name: str, *, servers: Iterable[str], namespace: str, fields: Sequence[str] = ()) -> str:
    """The message for a Secret that is absent or not permitted for `servers`; the same for both, because tenants must
    not learn names of others' Secrets. So `fields`, which it must have, are named whether or not it has them.
    """
    needed = f", with {_fields(fields)}," if fields else ""
    return (
        f"Secret {name}, which must exist{needed} and permit this use: annotation {SERVERS} with {', '.join(servers)}, "
        f"and {NAMESPACES} with {namespace} or {ANY}"
    )


def lacking(secret: str, data: Mapping[str, bytes], fields: Sequence[str], what: str) -> str:
    """The fields that a Secret lacks, for a message that begins with `waiting for`: which Secret, what was found, what
    is needed, and what to do; empty if it has all of them. Never a value.
    """
    empty = [field for field in fields if field in data and not data[field].strip()]
    missing = [field for field in fields if field not in data]
    if not empty and not missing:
        return ""
    others = sorted(set(data) - set(fields))
    present = [f"{', '.join(empty)} without content"] if empty else []
    present += [first([quoted(field, _LONGEST_NAME) for field in others], _MOST_NAMED)] if others else []
    there = ", ".join(present) or "none of them"
    remedy = f"add {' and '.join([*missing, *empty])} to the Secret"
    return f"{_fields(fields)} of Secret {secret}, {what}; found {there}: {remedy}"


_MOST_NAMED, _LONGEST_NAME = 10, 60


def _fields(names: Sequence[str]) -> str:
    return f"fields {', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else f"field {names[0]}"


def variables(names: Sequence[str]) -> str:
    """The end of a message about a Secret of an existing cluster, which a command writes from environment variables."""
    *others, last = names
    listed = f"variables {', '.join(others)} and {last}" if others else f"variable {last}"
    return f"; `espalier upgrade cluster` writes it from the {listed}"


def secret(name: str, data: Mapping[str, str], *, servers: Iterable[str], namespaces: Iterable[str]) -> Tree:
    """A Secret with credentials for these servers and namespaces."""
    return {
        "apiVersion": SECRET.api_version,
        "kind": SECRET.kind,
        "metadata": {
            "name": name,
            "namespace": SYSTEM_NAMESPACE,
            "annotations": {SERVERS: ",".join(sorted(set(servers))), NAMESPACES: ",".join(sorted(set(namespaces)))},
        },
        "type": "Opaque",
        "data": {field: base64.b64encode(value.encode()).decode() for field, value in data.items()},
    }


def widened(annotations: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """These annotations with more servers and namespaces; existing permissions stay."""
    return {name: ",".join(sorted(_listed(annotations.get(name, "")) | _listed(value))) for name, value in more.items()}


def listed(annotations: Mapping[str, str]) -> tuple[frozenset[str], frozenset[str]]:
    """The servers and the namespaces in annotations."""
    return _listed(annotations.get(SERVERS, "")), _listed(annotations.get(NAMESPACES, ""))


def narrowed(
    annotations: Mapping[str, str], *, servers: Collection[str], namespaces: Collection[str]
) -> dict[str, str]:
    """These annotations with only those of their servers and namespaces; `*` stays."""
    return {
        SERVERS: ",".join(
            sorted(server for server in _listed(annotations.get(SERVERS, "")) if server.lower() in servers)
        ),
        NAMESPACES: ",".join(sorted(_listed(annotations.get(NAMESPACES, "")) & {*namespaces, ANY})),
    }


def left_out(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """The servers and namespaces that only the first of two annotations permits, for a message."""
    servers = _listed(before.get(SERVERS, "")) - _listed(after.get(SERVERS, ""))
    namespaces = _listed(before.get(NAMESPACES, "")) - _listed(after.get(NAMESPACES, ""))
    return [*sorted(servers), *(f"namespace {namespace}" for namespace in sorted(namespaces))]


def host(server: str) -> str:
    """The server without its mark: `insecure:HOST` is the same server as `HOST`."""
    return server.lower().rpartition("insecure:")[2]


def servers_beside(annotations: Mapping[str, str], asked: Mapping[str, str]) -> list[str]:
    """The servers in these annotations other than the given ones."""
    known = {host(server) for server in _listed(asked.get(SERVERS, ""))}
    there = {host(server) for server in _listed(annotations.get(SERVERS, ""))}
    return sorted(there - known)


def _listed(value: str) -> frozenset[str]:
    return frozenset(filter(None, (entry.strip() for entry in value.split(","))))
