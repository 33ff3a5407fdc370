from __future__ import annotations

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.cli.kit.failures import Usage
from espalier.cli.kit.flags import Number, seconds
from espalier.cli.main import run


@pytest.mark.parametrize(("text", "expected"), [("90s", 90), ("5m", 300), ("1h30m", 5400), ("250ms", 0.25), ("15", 15)])
def test_durations_are_read_as_kubectl_writes_them(text: str, expected: float) -> None:
    assert seconds(text) == expected


@given(st.integers(0, 99), st.integers(0, 59), st.integers(0, 59))
def test_parts_add_up(hours: int, minutes: int, rest: int) -> None:
    assert seconds(f"{hours}h{minutes}m{rest}s") == hours * 3600 + minutes * 60 + rest


@pytest.mark.parametrize("text", ["", "soon", "5 m", "5m later", "-5m", "5d"])
def test_anything_else_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(Usage, match="allowed is a duration such as 90s"):
        seconds(text)


def test_the_flag_is_named() -> None:
    with pytest.raises(Usage, match="--sync-period: found 'often'"):
        seconds("often", "--sync-period")


@pytest.mark.parametrize(
    ("number", "allowed"),
    [
        (Number(1, 2**53), "a whole number from 1 to 9007199254740992"),
        (Number(0.0, 86400.0), "a number from 0 to 86400"),
    ],
)
def test_limits_of_numbers_can_be_typed_as_shown(number: Number, allowed: str) -> None:
    with pytest.raises(click.BadParameter, match=f"found '-1', allowed is {allowed}$"):
        number.convert("-1", None, None)


@pytest.mark.parametrize(
    ("ttl", "sentence"),
    [
        ("8x", "--ttl: found '8x', allowed is a duration such as 90s, 5m or 1h30m"),
        ("8h", "--ttl: found 8h without --user NAME or --shoot NAME; add one of them, or omit --ttl"),
    ],
)
def test_a_lifetime_for_nobody_names_what_is_missing(
    ttl: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["kubeconfig", "garden", "--ttl", ttl]) == 2
    assert capsys.readouterr().err == f"error: {sentence}\n"


@pytest.mark.parametrize("command", ["get clusters", "top", "adopt plan", "move --to-folder a", "validate -f a.yaml"])
def test_a_namespace_that_there_cannot_be_is_refused(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An API server answers that it has no objects there."""
    assert run([*command.split(), "-n", "Team_A"]) == 2
    allowed = "allowed is the name of a namespace (lower case, digits and dashes)"
    assert capsys.readouterr().err == f"error: --namespace: found 'Team_A', {allowed}\n"
