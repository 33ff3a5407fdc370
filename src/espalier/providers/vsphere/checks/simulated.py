"""A vCenter for simulated machines: it has whatever specs name, once."""

from __future__ import annotations

from espalier.clusters.checks.questions import Credentials
from espalier.providers.vsphere.checks.questions import Answers, Asked, Question


async def everything_is_there(asked: Asked, _credentials: Credentials, /) -> Answers:
    """Answers by which every spec is valid. A pattern stands for one object, whose name has `0` in place of `*`.

    Nothing is told of templates: simulated machines are not cloned.
    """
    return Answers(paths={question: (_path(question),) for question in asked.questions})


def _path(question: Question) -> str:
    pattern = question.path or f"/{question.datacenter.strip('/')}/{question.sort.section}/{question.name}"
    return pattern.replace("*", "0")
