"""Hosts of infrastructure in specs, as regular expressions for CEL. Local hosts are not allowed."""

HOST = "[A-Za-z0-9._-]+|[[][0-9A-Fa-f:]+[]]|[0-9A-Fa-f:]+"
"""A host name, or an address."""

LOCAL_HOSTS = "|".join(
    (
        *("localhost", ".*[.]localhost", "0[.]0[.]0[.]0", "127[.].*", "169[.]254[.].*"),
        *("[[]?::1?[]]?", "[[]?fe[89ab][0-9a-f]:[^]]*[]]?"),
    )
)
"""In lower case: the manager's own hosts, or link-local ones (decision 0095)."""
