"""Hosts of infrastructure in specs, as regular expressions for CEL. Local hosts are not allowed."""

_LAST_LABEL = "[A-Za-z_-][A-Za-z0-9_-]*|[0-9]+[A-WYZa-wyz_-][A-Za-z0-9_-]*|[1-9][0-9]*[Xx][A-Za-z0-9_-]*"
"""Of a name, which is no number: resolvers take those for addresses, `0x7f000001` and `2130706433` for 127.0.0.1."""
_OCTET = "25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9]"

HOST = "|".join(
    (
        *(f"([A-Za-z0-9_-]+[.])*({_LAST_LABEL})[.]?", f"(({_OCTET})[.]){{3}}({_OCTET})[.]?"),
        *("[[][0-9A-Fa-f:]+[]]", "[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f:]*"),
    )
)
"""A host name, or an address in its usual spelling."""

LOCAL_HOSTS = "|".join(
    (
        *("localhost", ".*[.]localhost", "0[.]0[.]0[.]0", "127[.].*", "169[.]254[.].*"),
        *("[[]?[0:]+:0{0,3}1?[]]?", "[[]?[0:]+:ffff:(7f[0-9a-f][0-9a-f]|a9fe|0{1,4}):[0-9a-f]+[]]?"),
        "[[]?fe[89ab][0-9a-f]:[^]]*[]]?",
    )
)
"""In lower case: the manager's own hosts, or link-local ones (decision 0095)."""
