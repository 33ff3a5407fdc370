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

PORT = "0*([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
"""A port that something can be reached at."""

_NUMBERS = "([.][0-9]+){3}"
_LOCAL_IPV4 = f"0[.]0[.]0[.]0|(127|22[4-9]|23[0-9]){_NUMBERS}|169[.]254([.][0-9]+){{2}}|255([.]255){{3}}"
_LOCAL_WORDS = "7f[0-9a-f]{2}:[0-9a-f]{1,4}|a9fe:[0-9a-f]{1,4}|e[0-9a-f]{3}:[0-9a-f]{1,4}|ffff:ffff"
"""The same in the words of an IPv6 address."""

LOCAL_NAMES = "(.*[.])?localhost|localhost[46]|(.*[.])?localhost[46]?[.]localdomain[46]?|ipv?6-(localhost|loopback)"
"""Of the machine itself: those that /etc/hosts of the usual distributions have."""

LOCAL_HOSTS = "|".join(
    (
        *(LOCAL_NAMES, _LOCAL_IPV4),
        # The addresses of IPv6, then those that stand for one of IPv4: compatible, mapped, of NAT64, of 6to4.
        *("[[]?[0:]+:0{0,3}1?[]]?", "[[]?(fe[89ab]|ff[0-9a-f])[0-9a-f]:[^]]*[]]?"),
        f"[[]?[0:]+:(ffff:)?({_LOCAL_WORDS}|{_LOCAL_IPV4})[]]?",
        "[[]?[0:]+:ffff:0{1,4}:[0-9a-f]+[]]?",
        "[[]?0{0,2}64:ff9b:(0{0,3}1:)?[0:]+[]]?",
        f"[[]?0{{0,2}}64:ff9b:[0-9a-f:]*:({_LOCAL_WORDS}|{_LOCAL_IPV4})[]]?",
        f"[[]?2002:(({_LOCAL_WORDS}|0{{1,4}}:0{{1,4}})(:[^]]*)?|((7f[0-9a-f]{{2}}|a9fe|e[0-9a-f]{{3}}):)?:[^]]*)[]]?",
    )
)
"""In lower case: the manager's own hosts, those of its link, and no single host (decision 0095)."""
