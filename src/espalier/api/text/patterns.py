"""The regular expressions of our schemas, each with its words: people read these, and no regular expression."""

from typing import Final

from espalier.api.text.forms import LABEL_VALUE as _VALUE

WRONG_FORM: Final = "wrong form"
"""Message for text that its pattern does not allow."""

_NUMBER = "([0-9]+([.][0-9]*)?|[.][0-9]+)"
_AMOUNT = f"{_NUMBER}([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?"
_TIME = f"(0|{_NUMBER}(ns|us|µs|ms|s|m|h))+"

KUBERNETES_VERSION: Final = r"^[0-9]+\.[0-9]+$"
DISTRIBUTED_VERSION: Final = r"^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$"
"""A version of Kubernetes, as a distribution has it."""
RELEASE_VERSION: Final = r"^v[0-9]+\.[0-9]+\.[0-9]+"
RELEASE_CHANNEL: Final = r"^[0-9]+-[0-9]+$"
IMAGE_TAG: Final = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$"
BASE64: Final = r"^[A-Za-z0-9+/]*={0,2}$"
ONE_LINE: Final = "^[^\\x00-\\x1f\\x7f]*$"
"""Text without line breaks and other control characters, which flags and settings do not survive."""
FILLED_LINE: Final = "^[^\\x00-\\x1f\\x7f]+$"
PATH: Final = "^[^\\x00-\\x20\\x7f]*$"
PERCENTAGE: Final = "^[0-9]{1,9}%$"
SIZE: Final = "^[0-9]{1,20}([.][0-9]{0,9})?([kMGTPE]|[KMGTPE]i|[eE][0-9]{1,2})?$"
DURATION: Final = f"^[+]?{_TIME}$"
SIGNED_DURATION: Final = f"^[+-]?{_TIME}$"
QUANTITY: Final = f"^[+]?{_AMOUNT}$"
THRESHOLD: Final = f"{QUANTITY}|^[+]?0*(100([.]0*)?|[0-9]{{1,2}}([.][0-9]*)?|[.][0-9]+)%$"
OPTIONAL_DURATION: Final = f"^$|{DURATION}"
OPTIONAL_SIZE: Final = f"^$|{QUANTITY}"
SYSCTL: Final = "^[A-Za-z0-9._/*-]+$"
LABEL_NAME: Final = f"^([a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*/)?{_VALUE.part}$"
"""Names of labels and taints."""
LABEL_VALUE: Final = f"^({_VALUE.part})?$"

LABEL_NAMES: Final = f"{_VALUE.words}; a domain and a slash may precede"
LABEL_VALUES: Final = f"{_VALUE.words}, or nothing"

_WORDS: Final = {
    KUBERNETES_VERSION: "a minor version such as 1.35",
    DISTRIBUTED_VERSION: "a version such as v1.36.3-eks-1-36-1",
    RELEASE_VERSION: "a version such as v0.26.0",
    RELEASE_CHANNEL: "a release channel such as 1-35",
    IMAGE_TAG: "the tag of an image such as v3.6.6",
    BASE64: "text in base64, in one line, such as e30=",
    ONE_LINE: "one line of text without control characters",
    FILLED_LINE: "one line of text without control characters, not empty",
    PATH: "a path without spaces and control characters, such as /etc/resolv.conf",
    PERCENTAGE: "a whole number or a percentage, such as 40%",
    SIZE: "a size such as 10Gi",
    DURATION: "a duration such as 90s or 1h30m",
    SIGNED_DURATION: "a duration such as 1m or -1m",
    QUANTITY: "a quantity such as 500m or 10Gi",
    THRESHOLD: "a size or a percentage, such as 100Mi or 10%",
    OPTIONAL_DURATION: "nothing, or a duration such as 90s or 1h30m",
    OPTIONAL_SIZE: "nothing, or a size such as 10Mi",
    SYSCTL: "the name of a kernel setting such as kernel.msg* or net.core.somaxconn",
    LABEL_NAME: LABEL_NAMES,
    LABEL_VALUE: LABEL_VALUES,
}


def words(pattern: str) -> str | None:
    """The words of a pattern of our schemas; None for one of others' schemas."""
    return _WORDS.get(pattern)
