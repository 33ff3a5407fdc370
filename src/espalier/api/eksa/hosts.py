"""Hosts that specs may name, as regular expressions of CEL: those of infrastructure, which are elsewhere."""

HOST = "[A-Za-z0-9._-]+|[[][0-9A-Fa-f:]+[]]|[0-9A-Fa-f:]+"
"""A host name, or an address."""

LOCAL_HOSTS = "|".join(
    (
        *("localhost", ".*[.]localhost", "0[.]0[.]0[.]0", "127[.].*", "169[.]254[.].*"),
        *("[[]?::1?[]]?", "[[]?fe[89ab][0-9a-f]:[^]]*[]]?"),
    )
)
"""In small letters: the manager's own hosts, or those of its network (decision 0095)."""
