"""What follows from what servers said of an object: where one is away, others count. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, Self, TypeVar

import msgspec

from espalier.api.eksa.checked import Checked
from espalier.api.resource import Key
from espalier.clusters.checks.questions import Asked

INVALID = "SpecInvalid"
NOT_PERMITTED = "CredentialsNotPermitted"

Q = TypeVar("Q", bound=Asked)
A = TypeVar("A")


class Judgement(NamedTuple):
    """The conclusion from answers."""

    status: Checked
    """The status with what was found out; the result itself is written into it elsewhere."""
    wrong: Sequence[str]
    """What is wrong, for people."""
    is_waited_for: bool = False
    """True if the next check is due soon, though nothing is wrong."""


class Request(NamedTuple, Generic[Q]):
    """What is asked of one server by one account."""

    asked: Q
    account: Key
    """The Secret with the account."""
    place: str = ""
    """What the server is asked about, for messages, where there are several."""


class Inquiry(NamedTuple, Generic[Q, A]):
    """All that is asked for an object, and what follows from the answers."""

    requests: Sequence[Request[Q]]
    """None where a config is compared with others alone."""
    judge: Callable[[Sequence[A | None]], Judgement]
    """From the answers, in the order of `requests`; None where there were none. Asked if there is an answer at all, or
    nothing was asked. What it finds wrong counts, whether or not the others answered; what it finds to be there is
    written into the status.
    """

    @classmethod
    def of_one(cls, asked: Q, account: Key, judge: Callable[[A], Judgement]) -> Self:
        """Of one server."""
        return cls((Request(asked, account),), lambda told: judge(next(one for one in told if one is not None)))


class Silent(NamedTuple):
    """Why a server gave no answers."""

    reason: str
    message: str


class Conclusion(NamedTuple):
    """The result of a check."""

    status: Checked
    away: Silent | None
    """What servers gave no answers, although they were asked."""
    is_answered: bool
    """True if servers were asked, and all answered."""
    is_settled_by_secrets: bool
    """True if none was asked: no time changes that."""
    is_soon: bool
    """True if the next check is due soon."""


def conclude(before: Checked, generation: int, inquiry: Inquiry[Q, A], told: Sequence[A | Silent]) -> Conclusion:
    """The status after what was told, in the order of requests, for a generation of the spec.

    What was found valid stays so while servers are away, and the others find nothing wrong.
    """
    silent = [
        (request.place, one) for request, one in zip(inquiry.requests, told, strict=True) if isinstance(one, Silent)
    ]
    answers = [None if isinstance(one, Silent) else one for one in told]
    away = [(place, one) for place, one in silent if one.reason != NOT_PERMITTED]
    judgement = inquiry.judge(answers) if len(silent) < len(told) or not told else Judgement(before, ())
    status = judgement.status
    was_valid = bool(before.spec_valid) and before.observed_generation == generation
    if judgement.wrong:
        status = with_result(status, generation, INVALID, "; ".join([*judgement.wrong, *_sentences(silent)]))
    elif len(away) < len(silent):
        status = with_result(status, generation, NOT_PERMITTED, "; ".join(_sentences(silent)))
    elif away and not was_valid:
        status = with_result(status, generation, away[0][1].reason, "; ".join(_sentences(silent)))
    elif not away:
        status = with_result(status, generation)
    return Conclusion(
        status,
        Silent(away[0][1].reason, "; ".join(_sentences(away))) if away else None,
        is_answered=bool(told) and not silent,
        is_settled_by_secrets=bool(told) and not away and len(silent) == len(told),
        is_soon=bool(silent or judgement.wrong or judgement.is_waited_for),
    )


def with_result(status: Checked, generation: int, reason: str = "", message: str = "") -> Checked:
    """A status with a result: valid, unless there's a reason why not."""
    return msgspec.structs.replace(
        status, spec_valid=not reason, failure_reason=reason, failure_message=message, observed_generation=generation
    )


def _sentences(silent: Iterable[tuple[str, Silent]]) -> list[str]:
    """Why servers gave no answers; places with the same message are named together."""
    places: dict[str, list[str]] = {}
    for place, one in silent:
        places.setdefault(one.message, []).append(place)
    return [f"{', '.join(of)}: {message}" if any(of) else message for message, of in places.items()]
