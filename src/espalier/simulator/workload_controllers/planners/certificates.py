"""kube-controller-manager's signer of client certificates: approved requests are signed by the cluster's authority."""

from __future__ import annotations

import base64
from collections.abc import Iterator

from espalier.api import conditions as condition_list
from espalier.api.core import CERTIFICATE_SIGNING_REQUEST, CLIENT_SIGNER
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.kube.connection.pki import Authority
from espalier.simulator.workload_controllers.snapshot import Snapshot
from espalier.simulator.workload_controllers.views import CertificateRequest
from espalier.simulator.workload_controllers.writes import Change, Write

LONGEST = 365 * 86400
"""Seconds: the default of kube-controller-manager's `--cluster-signing-duration`."""
_ALLOWED_USAGES = frozenset({"client auth", "digital signature", "key encipherment"})


def plan(snapshot: Snapshot) -> Iterator[Write]:
    """The missing writes for CertificateSigningRequests of clients of the API server."""
    for request in snapshot.certificate_requests:
        if snapshot.authority is not None and request.spec.signer_name == CLIENT_SIGNER and request.awaits_signature:
            key = Key("", request.metadata.name)
            # With the version: a cache that is behind shows a request that was signed meanwhile.
            version = {"resourceVersion": request.metadata.resource_version}
            patch = {"metadata": version, "status": _status(request, snapshot.authority, snapshot)}
            yield Change(CERTIFICATE_SIGNING_REQUEST, key, patch, "status")


def _status(request: CertificateRequest, authority: Authority, snapshot: Snapshot) -> Tree:
    spec = request.spec
    try:
        if "client auth" not in spec.usages or not _ALLOWED_USAGES.issuperset(spec.usages):
            raise ValueError(f"usages {', '.join(spec.usages)} are not those of a client")
        seconds = min(spec.expiration_seconds or LONGEST, LONGEST)
        signed = authority.sign_client(base64.b64decode(spec.request), now=snapshot.now, seconds=seconds)
    except ValueError as error:
        failure = {"type": "Failed", "status": "True", "reason": "SignerValidationFailure", "message": str(error)}
        times = dict.fromkeys(("lastUpdateTime", "lastTransitionTime"), condition_list.timestamp(snapshot.now))
        # A merge patch replaces the list; what was decided stays, whatever is written here.
        return {"conditions": [{**failure, **times}]}
    return {"certificate": base64.b64encode(signed).decode()}
