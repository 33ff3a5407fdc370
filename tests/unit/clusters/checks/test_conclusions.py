"""One object may ask several servers: what one says counts, whatever becomes of the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pytest

from espalier.api.eksa.checked import Checked
from espalier.api.resource import Key
from espalier.clusters.report.checks.conclusions import CheckPlan, Conclusion, Evaluation, NoAnswer, Request, conclude
from espalier.clusters.report.checks.questions import Server

GENERATION = 2
NOTHING = Checked()
VALID = Checked(spec_valid=True, observed_generation=GENERATION)
AWAY, REFUSED = NoAnswer("Unreachable", "it can't be reached"), NoAnswer("LoginRefused", "ann can't log in")
FORBIDDEN = NoAnswer("CredentialsNotPermitted", "waiting for a Secret")


class Query(NamedTuple):
    server: Server


def told(*answers: str | NoAnswer, before: Checked = NOTHING) -> Conclusion:
    """The conclusion from answers of places a, b, ...: each says what is wrong there."""

    def evaluate(of: Sequence[str | None]) -> Evaluation:
        assert any(item is not None for item in of)
        return Evaluation(before, [item for item in of if item])

    requests = [Request(Query(Server(item)), Key("", item), f"place {item}") for item in "abc"[: len(answers)]]
    return conclude(before, GENERATION, CheckPlan(requests, evaluate), answers)


CONCLUSIONS: dict[str, tuple[tuple[str | NoAnswer, ...], str, str]] = {
    "all is there": (("", ""), "", ""),
    "one lacks something": (("", "no disk"), "SpecInvalid", "no disk"),
    "one is away": (("", AWAY), "Unreachable", "place b: it can't be reached"),
    "one refuses, another is away": (
        (REFUSED, AWAY, ""),
        "LoginRefused",
        "place a: ann can't log in; place b: it can't be reached",
    ),
    "one lacks something, another is away": (
        (AWAY, "no disk"),
        "SpecInvalid",
        "no disk; place a: it can't be reached",
    ),
    "one may not be asked, another is away": (
        (AWAY, FORBIDDEN),
        "CredentialsNotPermitted",
        "place a: it can't be reached; place b: waiting for a Secret",
    ),
    "two of one server": ((AWAY, "", AWAY), "Unreachable", "place a, place c: it can't be reached"),
}


@pytest.mark.parametrize("name", CONCLUSIONS)
def test_no_server_hides_what_others_said(name: str) -> None:
    answers, reason, message = CONCLUSIONS[name]
    status = told(*answers).status
    assert (status.spec_valid, status.failure_reason, status.failure_message) == (not reason, reason, message)
    assert status.observed_generation == GENERATION


def test_valid_object_stays_valid_while_place_is_away() -> None:
    result = told(AWAY, "", before=VALID)
    assert result.status == VALID
    assert result.away == NoAnswer("Unreachable", "place a: it can't be reached")
    assert result.is_soon


@pytest.mark.parametrize(
    ("answers", "before"),
    [
        ((AWAY, "no disk"), VALID),
        ((AWAY, FORBIDDEN), VALID),
        ((AWAY, ""), Checked(spec_valid=True, observed_generation=GENERATION - 1)),
    ],
)
def test_object_becomes_invalid_by_a_finding_or_change(answers: tuple[str | NoAnswer, ...], before: Checked) -> None:
    assert told(*answers, before=before).status.spec_valid is False


def test_unchecked_config_is_judged_without_a_server() -> None:
    status = Checked(failure_message="another spec")
    judged = CheckPlan[Query, str]((), lambda told: Evaluation(status, [f"{len(told)} answers are too few"]))
    result = conclude(Checked(), GENERATION, judged, ())
    assert (result.status.spec_valid, result.status.failure_message) == (False, "0 answers are too few")
    assert (result.is_answered, result.is_settled_by_secrets, result.is_soon) == (False, False, True)
    result = conclude(Checked(), GENERATION, CheckPlan[Query, str]((), lambda _told: Evaluation(status, ())), ())
    assert (result.status.spec_valid, result.is_answered, result.is_settled_by_secrets) == (True, False, False)


def test_time_helps_unless_no_server_may_be_asked() -> None:
    assert told(FORBIDDEN, FORBIDDEN).is_settled_by_secrets
    assert not told(FORBIDDEN, AWAY).is_settled_by_secrets
    assert not told(FORBIDDEN, "").is_settled_by_secrets
    assert not told("").is_soon
