"""The default audit policy of API servers: who changed what, without secret content and without noise."""

from __future__ import annotations

AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages:
- RequestReceived
rules:
# What nodes and controllers do all the time.
- level: None
  nonResourceURLs: ["/healthz*", "/livez*", "/readyz*", "/version", "/openapi*", "/metrics"]
- level: None
  userGroups: ["system:nodes"]
  verbs: ["get", "list", "watch"]
- level: None
  users: ["system:kube-proxy", "system:kube-scheduler", "system:kube-controller-manager", "system:apiserver"]
  verbs: ["get", "list", "watch"]
- level: None
  resources:
  - group: coordination.k8s.io
    resources: ["leases"]
  - group: ""
    resources: ["events"]
  - group: events.k8s.io
    resources: ["events"]
# Never the content of what is secret.
- level: Metadata
  resources:
  - group: ""
    resources: ["secrets", "configmaps", "serviceaccounts/token"]
  - group: authentication.k8s.io
    resources: ["tokenreviews"]
# Who gets which rights, in full.
- level: RequestResponse
  verbs: ["create", "update", "patch", "delete", "deletecollection"]
  resources:
  - group: rbac.authorization.k8s.io
  - group: admissionregistration.k8s.io
# Of every other change, what was asked for.
- level: Request
  verbs: ["create", "update", "patch", "delete", "deletecollection"]
- level: Metadata
"""
