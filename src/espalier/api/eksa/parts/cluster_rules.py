"""Rules between parts of a Cluster, for its CRD. Rules about one part are defined with it."""

from espalier.api.eksa.vocabulary import sentences
from espalier.api.eksa.vocabulary.group import EKSA_VERSION
from espalier.api.kinds import HALVES, Rule, distinct
from espalier.api.text import forms, patterns
from espalier.api.text.forms import LETTER, Form

LONGEST_NAME = forms.CLUSTER_NAME.longest or 0
"""Names of clusters become parts of host names, with room for what is appended."""

LONGEST_GROUP_NAME = 63 - len("-worker-unhealthy") - 1
"""Names of a group and of its cluster together."""

NAME = Form("-", is_lower=True, first=LETTER).pattern
"""The form of a cluster's name, but for its length, which has messages of its own."""

_DNS_LABEL = Form("-", is_lower=True).pattern

GIT_OPS_KINDS = ("FluxConfig", "GitOpsConfig")
"""Kinds that `spec.gitOpsRef` may name; the latter is deprecated."""

_NAMED = "(has(self.eksaVersion) && self.eksaVersion != '')"
"""An empty eksaVersion counts as unset."""

_RELEASE = (
    Rule(
        f"!{_NAMED} || !has(self.bundlesRef)",
        sentences.BOTH,
        ".bundlesRef",
        found="self.bundlesRef.name",
        allowed="nothing",
    ),
    Rule(
        f"oldSelf.hasValue() || !has(self.bundlesRef) || {_NAMED}",
        sentences.NEW_WITH_BUNDLES,
        ".bundlesRef",
        found="self.bundlesRef.name",
        allowed="nothing",
        creation=True,
    ),
    Rule(
        "!has(self.bundlesRef) || has(oldSelf.bundlesRef) && self.bundlesRef == oldSelf.bundlesRef"
        f" || !has(oldSelf.bundlesRef) && {_NAMED}",
        sentences.BUNDLES_CHANGED,
        ".bundlesRef",
        found="self.bundlesRef.name",
        allows="has(oldSelf.bundlesRef) ? oldSelf.bundlesRef.name : 'nothing'",
    ),
    Rule(
        f"!has(oldSelf.bundlesRef) || has(self.bundlesRef) || {_NAMED}",
        sentences.BUNDLES_CLEARED_ALONE,
        ".bundlesRef",
        found="'nothing'",
        allows="oldSelf.bundlesRef.name",
    ),
    Rule(
        f"!has(oldSelf.eksaVersion) || oldSelf.eksaVersion == '' || {_NAMED}",
        sentences.VERSION_UNSET,
        ".eksaVersion",
        found="'nothing'",
        allows="oldSelf.eksaVersion",
    ),
    Rule(
        f"!{_NAMED} || self.eksaVersion.matches('{EKSA_VERSION}')",
        sentences.NOT_SEMVER,
        ".eksaVersion",
        found="self.eksaVersion",
        allowed="a version like v0.26.0",
    ),
)

_GROUPS = "self.workerNodeGroupConfigurations"
_OLD_GROUPS = "oldSelf.workerNodeGroupConfigurations"
_NAME_OF = "(has({0}.name) && {0}.name != '' ? {0}.name : 'md-0')"

_MINOR = "int({0}.split('.')[0]) * 1000 + int({0}.split('.')[1])"
_STEP = f"({_MINOR.format('self.kubernetesVersion')}) - ({_MINOR.format('oldSelf.kubernetesVersion')})"
_SKIPPED = (
    f"has({_GROUPS}[i].kubernetesVersion) && {_OLD_GROUPS}.exists(h, has(h.kubernetesVersion)"
    f" && {_NAME_OF.format(f'{_GROUPS}[i]')} == {_NAME_OF.format('h')}"
    f" && ({_MINOR.format(f'{_GROUPS}[i].kubernetesVersion')}) - ({_MINOR.format('h.kubernetesVersion')}) > 1)"
)

_KUBERNETES_FORM = Rule(
    "!has(self.kubernetesVersion) || self.kubernetesVersion.matches('^[0-9]+[.][0-9]+$')",
    patterns.WRONG_FORM,
    ".kubernetesVersion",
    found="'\"' + self.kubernetesVersion + '\"'",
    allowed=patterns.words(patterns.KUBERNETES_VERSION) or "",
)
"""As the pattern of the field, of which API servers show the regular expression alone."""

_KUBERNETES_STEPS = (
    Rule(
        f"!has(self.kubernetesVersion) || !has(oldSelf.kubernetesVersion) || {_STEP} <= 1",
        sentences.KUBERNETES_STEP,
        ".kubernetesVersion",
        found="self.kubernetesVersion",
        allows="'%s or %s.%d'.format([oldSelf.kubernetesVersion, oldSelf.kubernetesVersion.split('.')[0],"
        " int(oldSelf.kubernetesVersion.split('.')[1]) + 1])",
    ),
    *(
        Rule(
            f"!has({_GROUPS}) || !has({_OLD_GROUPS}) || !{half}.exists(i, i < size({_GROUPS}) && {_SKIPPED})",
            sentences.KUBERNETES_STEP,
            ".workerNodeGroupConfigurations",
            found=f"{half}.filter(i, i < size({_GROUPS}) && {_SKIPPED}).map(i, {_GROUPS}[i].kubernetesVersion)[0]",
        )
        for half in HALVES
    ),
)

_PLANE, _STRATEGY = "controlPlaneConfiguration", "upgradeRolloutStrategy"

_EXTERNAL_ETCD = (
    Rule(
        f"!has(self.externalEtcdConfiguration) || !has(self.{_PLANE}) || !has(self.{_PLANE}.{_STRATEGY})"
        f" || !has(self.{_PLANE}.{_STRATEGY}.type) || self.{_PLANE}.{_STRATEGY}.type != 'InPlace'",
        sentences.EXTERNAL_ETCD_IN_PLACE,
        f".{_PLANE}.{_STRATEGY}.type",
        found="'InPlace'",
        allowed="RollingUpdate",
    ),
    Rule(
        f"!has(self.externalEtcdConfiguration) || !has({_GROUPS}) || !{_GROUPS}.exists(g, has(g.{_STRATEGY})"
        f" && has(g.{_STRATEGY}.type) && g.{_STRATEGY}.type == 'InPlace')",
        sentences.EXTERNAL_ETCD_IN_PLACE,
        ".workerNodeGroupConfigurations",
        found="'InPlace'",
        allowed="RollingUpdate",
    ),
)

_DISTINCT, _TWICE = distinct(_GROUPS, _NAME_OF)
_LAG = f"({_MINOR.format('self.kubernetesVersion')}) - ({_MINOR.format('g.kubernetesVersion')})"
_LAGS = f"has(g.kubernetesVersion) && !({_LAG} >= 0 && {_LAG} <= 2)"

_WORKERS = (
    Rule(
        f"!has({_GROUPS}) || {_DISTINCT}",
        sentences.GROUP_TWICE,
        ".workerNodeGroupConfigurations",
        found=_TWICE,
    ),
    Rule(
        f"!has({_GROUPS}) || size({_GROUPS}) == 0 || {_GROUPS}.exists(g, !has(g.taints)"
        " || !g.taints.exists(t, t.effect in ['NoSchedule', 'NoExecute']))",
        sentences.ALL_TAINTED,
        ".workerNodeGroupConfigurations",
        found="'taints on all groups'",
    ),
    Rule(
        f"!has({_GROUPS}) || !has(self.kubernetesVersion) || !{_GROUPS}.exists(g, {_LAGS})",
        sentences.WORKER_LAG,
        ".workerNodeGroupConfigurations",
        found=f"{_GROUPS}.filter(g, {_LAGS})[0].kubernetesVersion",
        allows="self.kubernetesVersion + ', or up to 2 minor versions before it'",
    ),
)

SPEC: tuple[Rule, ...] = (
    Rule(
        "has(self.externalEtcdConfiguration) || !has(self.controlPlaneConfiguration)"
        " || self.controlPlaneConfiguration.count % 2 == 1",
        sentences.EVEN,
        ".controlPlaneConfiguration.count",
        found="self.controlPlaneConfiguration.count",
        allowed="1, 3, 5, …",
    ),
    *_RELEASE,
    _KUBERNETES_FORM,
    *_KUBERNETES_STEPS,
    *_EXTERNAL_ETCD,
    Rule(
        f"!has(self.gitOpsRef) || self.gitOpsRef.kind in {list(GIT_OPS_KINDS)}",
        sentences.GIT_OPS_KIND,
        ".gitOpsRef.kind",
        found="self.gitOpsRef.kind",
        allowed=" or ".join(GIT_OPS_KINDS),
    ),
    *_WORKERS,
)
"""Those of a `ClusterSpec`."""

_MANAGER = "self.spec.managementCluster.name"
_IS_MANAGED = (
    f"has(self.spec) && has(self.spec.managementCluster) && has({_MANAGER}) && {_MANAGER} != ''"
    f" && {_MANAGER} != self.metadata.name"
)
_FITS = (
    f"(!has(g.name) || g.name == '' || g.name.matches('{_DNS_LABEL}')"
    f" && g.name.size() + (self.metadata.name.size() <= {LONGEST_NAME} ? self.metadata.name.size() : 2)"
    f" <= {LONGEST_GROUP_NAME})"
)


def _managed_has(field: str, message: str) -> Rule:
    """A field that a managed cluster requires; the record of a self-managed one may omit it."""
    return Rule(f"!({_IS_MANAGED}) || has(self.spec.{field})", message, f".spec.{field}", found="'nothing'")


CLUSTER: tuple[Rule, ...] = (
    Rule(
        f"self.metadata.name.matches('{NAME}')",
        sentences.NAME_FORM,
        ".metadata.name",
        found="self.metadata.name",
        allowed=forms.CLUSTER_NAME.words,
    ),
    Rule(
        "!self.metadata.name.matches('^[a-z]$')",
        sentences.NAME_SHORT,
        ".metadata.name",
        found="self.metadata.name",
        allowed="at least 2 characters",
    ),
    Rule(
        f"self.metadata.name.size() <= {LONGEST_NAME}",
        sentences.NAME_LENGTH,
        ".metadata.name",
        found="'%d characters'.format([self.metadata.name.size()])",
        allowed=f"at most {LONGEST_NAME}",
    ),
    _managed_has("kubernetesVersion", sentences.NO_KUBERNETES_VERSION),
    _managed_has("datacenterRef", sentences.NO_DATACENTER),
    _managed_has("controlPlaneConfiguration", sentences.NO_CONTROL_PLANE),
    _managed_has("clusterNetwork", sentences.NO_NETWORK),
    *(
        Rule(
            f"!({_IS_MANAGED}) || !has(self.spec.packages) || !has(self.spec.packages.{name})",
            sentences.PACKAGES,
            f".spec.packages.{name}",
            found="'settings'",
            allowed="nothing",
        )
        for name in ("controller", "cronjob")
    ),
    Rule(
        f"!has(self.spec) || !has(self.spec{_GROUPS[4:]}) || self.spec{_GROUPS[4:]}.all(g, {_FITS})",
        sentences.GROUP_NAME,
        ".spec.workerNodeGroupConfigurations",
        found=f"self.spec{_GROUPS[4:]}.filter(g, !{_FITS})[0].name",
        allowed=f"a DNS label, with the name of the cluster at most {LONGEST_GROUP_NAME} characters",
    ),
)
"""Those that also need its name, or apply only to clusters that another one manages."""
