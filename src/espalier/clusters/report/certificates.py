"""The certificates of control plane machines that end soon. Pure.

kubeadm issues them for a year, and Cluster API reports when the first of a machine ends. They are renewed with the
machine: by an upgrade, or by `espalier renew certificates`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from espalier.api import conditions as condition_list
from espalier.api.capi.machine import Machine
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.meta import Condition
from espalier.api.text.listing import first
from espalier.clusters.design import names
from espalier.clusters.observe.scope import Scope
from espalier.kube.objects import Object

SOON = timedelta(days=90)
"""A condition says so for so long: a quarter, in which most clusters are upgraded anyway."""

_MOST = 5


def expiries(machines: Iterable[Object]) -> dict[str, datetime]:
    """The time when the first certificate of a machine ends, by machine, soonest first; of those that report it."""
    dates = {}
    for machine in machines:
        date = machine.decode(Machine).status.certificates_expiry_date
        if date and (moment := condition_list.parse_timestamp(date)) is not None:
            dates[machine.name] = moment
    return dict(sorted(dates.items(), key=lambda entry: (entry[1], entry[0])))


def condition(scope: Scope, now: datetime) -> Condition | None:
    """Condition CertificatesValid, if certificates have ended or end soon. The message changes only with the machines.

    A machine that is being deleted does not count.
    """
    staying = [machine for machine in scope.capi_objects.machines if machine.metadata.deletion_timestamp is None]
    ending = {name: moment for name, moment in expiries(staying).items() if moment - now < SOON}
    if not ending:
        return None
    earliest = next(iter(ending.values()))
    key = scope.key
    which = f"of control plane {'machine' if len(ending) == 1 else 'machines'} {first(list(ending), _MOST)}"
    if earliest <= now:
        reason, verb = Reason.CERTIFICATES_EXPIRED, "ended"
        advice = "run `kubeadm certs renew all` on each of these machines, then restart its control plane pods"
    else:
        reason, verb = Reason.CERTIFICATES_EXPIRE_SOON, "end"
        advice = f"renew them before, by `espalier renew certificates {key.name} -n {key.namespace}` or by an upgrade"
    message = f"certificates {which} {verb}, the first on {condition_list.timestamp(earliest)}: {advice}"
    return Condition(type=names.CERTIFICATES_VALID, status="False", reason=reason, message=message)
