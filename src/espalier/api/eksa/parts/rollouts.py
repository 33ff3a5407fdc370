"""Rollout strategies: rolling updates and in-place upgrades."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from espalier.api.eksa.parts.fields import SIZE_OF_GROUP
from espalier.api.eksa.vocabulary import sentences
from espalier.api.kinds import Rule
from espalier.api.meta import Part

StrategyType = Annotated[
    Literal["RollingUpdate", "InPlace"] | None,
    Meta(description="RollingUpdate replaces machines, InPlace upgrades them in place."),
]
Fallback = Annotated[
    Literal["Fail", "RollingUpdate"] | None,
    Meta(description="What happens to changes that can't be made in place: Fail (the default) or RollingUpdate."),
]

_IN_PLACE = "has(self.type) && self.type == 'InPlace'"
_FALLBACK_IN_PLACE = Rule(
    f"!has(self.fallback) || {_IN_PLACE}", sentences.NO_FALLBACK, ".fallback", found="self.fallback", allowed="nothing"
)


class ControlPlaneRollingUpdate(Part):
    """Limits of a rolling update of the control plane."""

    max_surge: Annotated[int, Meta(ge=0, le=1, description="How many machines may exist beyond the count.")]


class ControlPlaneUpgradeRolloutStrategy(Part):
    """Rollout strategy of the control plane."""

    validations: ClassVar[tuple[Rule, ...]] = (
        _FALLBACK_IN_PLACE,
        Rule(
            f"!({_IN_PLACE}) || !has(self.rollingUpdate)",
            sentences.SECOND_ROLLOUT,
            ".rollingUpdate",
            found="'limits'",
            allowed="nothing",
        ),
    )

    type: StrategyType = None
    rolling_update: Annotated[ControlPlaneRollingUpdate | None, Meta(description="Limits of a rolling update.")] = None
    fallback: Fallback = None


class WorkerRollingUpdate(Part):
    """Limits of a rolling update of workers."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule("self.maxSurge > 0 || self.maxUnavailable > 0", sentences.NO_ROLLOUT, found="'0 and 0'"),
    )

    max_surge: Annotated[
        int, Meta(ge=0, description="How many machines may exist beyond the count.", extra_json_schema=SIZE_OF_GROUP)
    ]
    max_unavailable: Annotated[
        int, Meta(ge=0, description="How many machines may be missing from the count.", extra_json_schema=SIZE_OF_GROUP)
    ]


class WorkerNodesUpgradeRolloutStrategy(Part):
    """Rollout strategy of a worker node group."""

    validations: ClassVar[tuple[Rule, ...]] = (_FALLBACK_IN_PLACE,)

    type: StrategyType = None
    rolling_update: Annotated[WorkerRollingUpdate | None, Meta(description="Limits of a rolling update.")] = None
    fallback: Fallback = None
