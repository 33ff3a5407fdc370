"""The worker node groups of a Cluster."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from typing import Annotated, ClassVar

from msgspec import Meta

from espalier.api.eksa.parts.fields import (
    NODE_RULES,
    SIZE_OF_GROUP,
    Kubelet,
    Labels,
    Ref,
    Taints,
    Text,
)
from espalier.api.eksa.parts.health_checks import MachineHealthCheck
from espalier.api.eksa.parts.rollouts import WorkerNodesUpgradeRolloutStrategy
from espalier.api.eksa.vocabulary import sentences
from espalier.api.kinds import ATOMIC, MANY, Rule
from espalier.api.meta import Part
from espalier.api.text.patterns import KUBERNETES_VERSION


class AutoScalingConfiguration(Part):
    """Limits within which an autoscaler sets the count."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "(has(self.minCount) ? self.minCount : 0) <= (has(self.maxCount) ? self.maxCount : 0)",
            sentences.NO_RANGE,
            ".minCount",
            found="has(self.minCount) ? self.minCount : 0",
            allows="'at most %d, which is maxCount'.format([has(self.maxCount) ? self.maxCount : 0])",
        ),
    )

    min_count: Annotated[
        int, Meta(ge=0, description="Minimum number of machines.", extra_json_schema=SIZE_OF_GROUP)
    ] = 0
    max_count: Annotated[
        int, Meta(ge=0, description="Maximum number of machines.", extra_json_schema=SIZE_OF_GROUP)
    ] = 0


_LIMIT = "(has(self.autoscalingConfiguration.{0}) ? self.autoscalingConfiguration.{0} : 0)"


class WorkerNodeGroupConfiguration(Part):
    """A group of identical workers."""

    validations: ClassVar[tuple[Rule, ...]] = (
        *NODE_RULES,
        Rule(
            "!has(self.autoscalingConfiguration) || !has(self.count) || self.count >="
            f" {_LIMIT.format('minCount')} && self.count <= {_LIMIT.format('maxCount')}",
            sentences.COUNT_OUTSIDE,
            ".count",
            found="self.count",
            allows=f"'%d to %d'.format([{_LIMIT.format('minCount')}, {_LIMIT.format('maxCount')}])",
        ),
        Rule(
            "!has(self.autoscalingConfiguration) || !has(self.upgradeRolloutStrategy)"
            " || !has(self.upgradeRolloutStrategy.type) || self.upgradeRolloutStrategy.type != 'InPlace'",
            sentences.AUTOSCALED_IN_PLACE,
            ".upgradeRolloutStrategy.type",
            found="'InPlace'",
            allowed="RollingUpdate",
        ),
    )

    name: Annotated[
        str, Meta(extra_json_schema={"maxLength": 63}, description="Name of the group, unique in the cluster.")
    ] = ""
    count: Annotated[
        Annotated[int, Meta(ge=0, extra_json_schema=SIZE_OF_GROUP)] | None, Meta(description="Number of machines.")
    ] = None
    machine_group_ref: Annotated[Ref | None, Meta(description="Machine config of the machines; not for Docker.")] = None
    kubernetes_version: Annotated[
        Annotated[str, Meta(pattern=KUBERNETES_VERSION, extra_json_schema={"maxLength": 10})] | None,
        Meta(description="Kubernetes version of the group, if it lags behind the control plane."),
    ] = None
    autoscaling_configuration: Annotated[
        AutoScalingConfiguration | None, Meta(description="Limits within which an autoscaler sets the count.")
    ] = None
    taints: Taints = []
    labels: Labels = {}
    failure_domains: Annotated[
        list[Text], Meta(description="Failure domains over which machines are spread.", extra_json_schema=ATOMIC | MANY)
    ] = []
    kubelet_configuration: Kubelet = None
    machine_health_check: Annotated[
        MachineHealthCheck | None, Meta(description="When machines of the group count as unhealthy.")
    ] = None
    upgrade_rollout_strategy: Annotated[
        WorkerNodesUpgradeRolloutStrategy | None, Meta(description="How the group is upgraded.")
    ] = None
