"""Sizes of state, in bytes of JSON as it is stored.

By default, etcd accepts requests of 1.5 MiB; kube-apiserver accepts 3 MiB from a client, and sends at most 2 MiB to
etcd. So a ShootState stays below 1 MiB, and larger states are in Secrets, which Kubernetes limits to 1 MiB each.
"""

KIB = 1024
MIB = 1024 * KIB

LARGEST_INLINE = 256 * KIB
"""A larger state is in Secrets: otherwise each change of another state would send it again."""

LARGEST_SHOOT_STATE = MIB
"""While a ShootState is larger, its largest state moves to Secrets."""

LARGEST_STATE = 16 * MIB
"""A larger state is not carried. An API server would have refused it in `status.state` long before."""

PIECE = 512 * KIB
"""Bytes in one Secret, before base64."""
