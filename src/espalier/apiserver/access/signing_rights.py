"""Who may decide about CertificateSigningRequests, and which are never signed.

As kube-apiserver's admission plugins CertificateApproval, CertificateSigning and CertificateSubjectRestriction: beside
the right to write, one is needed for the signer (verbs `approve` and `sign` on `signers`, by name or `DOMAIN/*`), and
nobody becomes an administrator by a certificate of the API server's own authority.
"""

from __future__ import annotations

from espalier.api import core as builtin
from espalier.api.meta import Tree
from espalier.apiserver.access.authorization import MASTERS
from espalier.apiserver.builtin import certificate_requests
from espalier.apiserver.requests.requests import Attributes, Authorizer, RequestInfo
from espalier.apiserver.wire import failures


def check(info: RequestInfo, new: Tree, old: Tree | None, authorizer: Authorizer) -> None:
    """Raise `Forbidden` for a decision or certificate by somebody who may not, and for a request that is never signed.

    `old` is None for a new object.
    """
    if info.kind.resource != builtin.CERTIFICATE_SIGNING_REQUEST:
        return
    signer = str((new.get("spec") or {}).get("signerName") or "")
    if old is None:
        _check_subject(info, new.get("spec") or {}, signer)
    elif info.subresource == "approval":
        _check_signer(info, "approve", signer, authorizer)
    elif info.subresource == "status" and _certificate(new) != _certificate(old):
        _check_signer(info, "sign", signer, authorizer)


def _check_signer(info: RequestInfo, verb: str, signer: str, authorizer: Authorizer) -> None:
    group = info.kind.resource.group
    for name in (signer, f"{signer.partition('/')[0]}/*"):
        if authorizer(Attributes(verb, group, "signers", name=name), info.user):
            return
    sentence = f'user not permitted to {verb} requests with signerName "{signer}"'
    raise failures.refused(info.kind.resource, info.name, sentence)


def _check_subject(info: RequestInfo, spec: Tree, signer: str) -> None:
    if signer != builtin.CLIENT_SIGNER:
        return
    try:
        groups = certificate_requests.organizations(certificate_requests.parsed(spec))
    except ValueError:
        return  # validation says what is wrong
    if MASTERS in groups:
        sentence = f"use of {signer} signer with {MASTERS} group is not allowed"
        raise failures.refused(info.kind.resource, info.name, sentence)


def _certificate(tree: Tree) -> object:
    return (tree.get("status") or {}).get("certificate")
