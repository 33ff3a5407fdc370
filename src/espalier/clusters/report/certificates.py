"""The certificates of control plane machines that end soon. Pure.

kubeadm issues them for a year, and Cluster API reports when the first of a machine ends. etcdadm does the same on
machines of an external etcd; there, nobody reports it, and they end a year after the machine was made, or a little
later. They are renewed with the machine: by an upgrade, or by `espalier renew certificates`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from espalier.api import conditions as condition_list
from espalier.api.capi.machine import Machine
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.meta import Condition
from espalier.api.text.listing import first
from espalier.clusterapi import external_etcd
from espalier.clusters.design import names
from espalier.clusters.observe.scope import Scope
from espalier.kube.objects import Object

SOON = timedelta(days=90)
"""A condition says so for so long: a quarter, in which most clusters are upgraded anyway."""

VALID = timedelta(days=365)
"""Time for which etcdadm issues certificates."""
_MOST = 5


def expiries(machines: Iterable[Object]) -> dict[str, datetime]:
    """The time when the first certificate of a machine ends, by machine, soonest first; of those that report it, and of
    machines of an external etcd."""
    dates = {}
    for machine in machines:
        if is_of_etcd(machine):
            moment = condition_list.parse_timestamp(machine.metadata.creation_timestamp or "")
            moment = moment + VALID if moment is not None else None
        else:
            moment = condition_list.parse_timestamp(machine.decode(Machine).status.certificates_expiry_date or "")
        if moment is not None:
            dates[machine.name] = moment
    return dict(sorted(dates.items(), key=lambda entry: (entry[1], entry[0])))


def is_of_etcd(machine: Object) -> bool:
    """True for a machine of an external etcd."""
    return external_etcd.MACHINE_LABEL in machine.metadata.labels


def condition(scope: Scope, now: datetime) -> Condition | None:
    """Condition CertificatesValid, if certificates have ended or end soon. The message changes only with the machines.

    A machine that is being deleted does not count.
    """
    members = [machine for machine in scope.capi_objects.other_machines if is_of_etcd(machine)]
    machines = [*scope.capi_objects.machines, *members]
    staying = [machine for machine in machines if machine.metadata.deletion_timestamp is None]
    ending = {name: moment for name, moment in expiries(staying).items() if moment - now < SOON}
    if not ending:
        return None
    first_name, earliest = next(iter(ending.items()))
    key, of_etcd = scope.key, {machine.name for machine in members}
    machines_of = {"control plane": ending.keys() - of_etcd, "etcd": ending.keys() & of_etcd}
    parts = [part for part, ending_there in machines_of.items() if ending_there]
    which = f"of {' and '.join(parts)} {'machine' if len(ending) == 1 else 'machines'} {first(list(ending), _MOST)}"
    if earliest <= now:
        reason, verb = Reason.CERTIFICATES_EXPIRED, "ended"
        advice = "run `kubeadm certs renew all` on each of these machines, then restart its control plane pods"
        if first_name in of_etcd:
            verb = "end or have ended"
            advice = "renew those of etcd on its machines, as docs/second-day.md says under Certificates"
    else:
        reason, verb = Reason.CERTIFICATES_EXPIRE_SOON, "end"
        advice = f"renew them before, by `espalier renew certificates {key.name} -n {key.namespace}` or by an upgrade"
    message = f"certificates {which} {verb}, the first on {condition_list.timestamp(earliest)}: {advice}"
    return Condition(type=names.CERTIFICATES_VALID, status="False", reason=reason, message=message)
