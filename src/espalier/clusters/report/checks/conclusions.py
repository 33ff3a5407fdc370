"""Conclusions about an object from the answers of servers; unreachable servers don't block those from others. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, Self, TypeVar

import msgspec

from espalier.api.eksa.checked import Checked
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.resource import Key
from espalier.clusters.report.checks.questions import Query

INVALID = "SpecInvalid"
NOT_PERMITTED = Reason.CREDENTIALS_NOT_PERMITTED

Q = TypeVar("Q", bound=Query)
A = TypeVar("A")


class Evaluation(NamedTuple):
    """The conclusion from answers."""

    status: Checked
    """The status with the findings; the result itself is added elsewhere."""
    wrong: Sequence[str]
    """The violation, for people."""
    is_waited_for: bool = False
    """True if the next check is due soon, although nothing is wrong."""


class Request(NamedTuple, Generic[Q]):
    """The questions to one server with one account."""

    query: Q
    account: Key
    """The Secret with the account."""
    place: str = ""
    """The subject of the questions, for messages, if there are several requests."""


class CheckPlan(NamedTuple, Generic[Q, A]):
    """All requests for an object, and the evaluation of the answers."""

    requests: Sequence[Request[Q]]
    """None if a config is only compared with others."""
    evaluate: Callable[[Sequence[A | None]], Evaluation]
    """Evaluates the answers, in the order of `requests`, with None for missing ones. Called if there is an answer, or
    no request. Violations count whether or not the other servers answered; findings are written into the status."""

    @classmethod
    def of_query(cls, query: Q, account: Key, evaluate: Callable[[A], Evaluation]) -> Self:
        """A check with requests to one server."""
        return cls(
            (Request(query, account),), lambda told: evaluate(next(answer for answer in told if answer is not None))
        )


class NoAnswer(NamedTuple):
    """The reason why a server gave no answers."""

    reason: str
    message: str


class Conclusion(NamedTuple):
    """The result of a check."""

    status: Checked
    away: NoAnswer | None
    """The reason why servers that were asked gave no answers."""
    is_answered: bool
    """True if servers were asked and all answered."""
    is_settled_by_secrets: bool
    """True if no server was asked: waiting does not change that."""
    is_soon: bool
    """True if the next check is due soon."""


def conclude(before: Checked, generation: int, check_plan: CheckPlan[Q, A], told: Sequence[A | NoAnswer]) -> Conclusion:
    """The status after these answers, in the order of requests, for a generation of the spec.

    A valid config stays valid while servers are unreachable and the others find nothing wrong.
    """
    unanswered = [
        (request.place, answer)
        for request, answer in zip(check_plan.requests, told, strict=True)
        if isinstance(answer, NoAnswer)
    ]
    answers = [None if isinstance(answer, NoAnswer) else answer for answer in told]
    away = [(place, answer) for place, answer in unanswered if answer.reason != NOT_PERMITTED]
    evaluation = check_plan.evaluate(answers) if len(unanswered) < len(told) or not told else Evaluation(before, ())
    status = evaluation.status
    was_valid = bool(before.spec_valid) and before.observed_generation == generation
    if evaluation.wrong:
        status = with_result(status, generation, INVALID, "; ".join([*evaluation.wrong, *_sentences(unanswered)]))
    elif len(away) < len(unanswered):
        status = with_result(status, generation, NOT_PERMITTED, "; ".join(_sentences(unanswered)))
    elif away and not was_valid:
        status = with_result(status, generation, away[0][1].reason, "; ".join(_sentences(unanswered)))
    elif not away:
        status = with_result(status, generation)
    return Conclusion(
        status,
        NoAnswer(away[0][1].reason, "; ".join(_sentences(away))) if away else None,
        is_answered=bool(told) and not unanswered,
        is_settled_by_secrets=bool(told) and not away and len(unanswered) == len(told),
        is_soon=bool(unanswered or evaluation.wrong or evaluation.is_waited_for),
    )


def with_result(status: Checked, generation: int, reason: str = "", message: str = "") -> Checked:
    """A status with a result: valid, unless there's a reason why not."""
    return msgspec.structs.replace(
        status, spec_valid=not reason, failure_reason=reason, failure_message=message, observed_generation=generation
    )


def _sentences(unanswered: Iterable[tuple[str, NoAnswer]]) -> list[str]:
    """The reasons why servers gave no answers; places with the same message are named together."""
    places: dict[str, dict[str, None]] = {}
    for place, answer in unanswered:
        places.setdefault(answer.message, {})[place] = None
    return [f"{', '.join(of)}: {message}" if any(of) else message for message, of in places.items()]
