"""A vCenter for simulated machines, with exactly one object for each name in specs."""

from __future__ import annotations

from espalier.clusters.report.checks.questions import Credentials
from espalier.providers.vsphere.checks.questions import Answers, Query, Question


async def simulated_answers(query: Query, _credentials: Credentials, /) -> Answers:
    """Answers that make every spec valid. A pattern matches one object, with `0` in place of `*`.

    Templates are unknown, because simulated machines are not cloned.
    """
    return Answers(paths={question: (_path(question),) for question in query.questions})


def _path(question: Question) -> str:
    pattern = question.path or f"/{question.datacenter.strip('/')}/{question.object_type.section}/{question.name}"
    return pattern.replace("*", "0")
