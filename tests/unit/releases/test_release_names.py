from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.releases import release_name

numbers = st.integers(min_value=0, max_value=99)
words = st.from_regex(r"[0-9a-z]+", fullmatch=True)
cores = st.builds("v{}.{}.{}".format, numbers, numbers, numbers)
prereleases = st.just("") | words.filter(lambda word: word != "plus").map("-{}".format)
builds = st.just("") | words.map("+{}".format) | st.builds("+{}.{}".format, words, numbers)

_NAME = re.compile(
    r"eksa-(?P<core>v[0-9]+-[0-9]+-[0-9]+)"
    r"(?:-(?P<pre>(?!plus(?:-|$))[0-9a-z]+))?"
    r"(?:-plus-(?P<build>[0-9a-z]+(?:-[0-9]+)?))?"
)


def eksa_version_of(name: str) -> str:
    """Back again: no two versions of these forms have one name."""
    match = _NAME.fullmatch(name)
    assert match is not None
    version = match["core"].replace("-", ".")
    if match["pre"]:
        version += f"-{match['pre']}"
    if match["build"]:
        version += "+" + match["build"].replace("-", ".")
    return version


@pytest.mark.demand("V24")
@pytest.mark.parametrize(
    ("version", "name"),
    [
        ("v0.26.0", "eksa-v0-26-0"),
        ("v0.19.0-dev+build.1", "eksa-v0-19-0-dev-plus-build-1"),
        ("v0.27.0+build.12", "eksa-v0-27-0-plus-build-12"),
    ],
)
def test_version_and_name_convert_both_ways(version: str, name: str) -> None:
    assert release_name(version) == name
    assert eksa_version_of(name) == version


@given(st.builds("{}{}{}".format, cores, prereleases, builds))
def test_the_two_conversions_are_inverse(version: str) -> None:
    assert eksa_version_of(release_name(version)) == version


@given(st.builds("{}{}{}".format, cores, prereleases, builds))
def test_names_are_names_of_kubernetes_objects(version: str) -> None:
    name = release_name(version)
    assert all(character.islower() or character.isdecimal() or character == "-" for character in name)


@pytest.mark.parametrize("text", ["", "0.26.0", "v0.26", "v0.26.0 ", "latest", "v0.26.0/x"])
def test_an_invalid_version_has_no_release(text: str) -> None:
    with pytest.raises(ValueError, match="expected a version like"):
        release_name(text)
