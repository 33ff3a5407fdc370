"""cloud-init's configuration of the operating system: users, time servers, and names."""

from __future__ import annotations

from collections.abc import Sequence

from espalier.api.capi.kubeadm import BootstrapUser, Ntp
from espalier.api.eksa.parts.host_os import HostOSConfiguration, UserConfiguration

NODE_NAME = "{{ ds.meta_data.hostname }}"
"""The name of a machine, which cloud-init gets from the infrastructure."""

HOSTS_COMMANDS = (
    'echo "::1         ipv6-localhost ipv6-loopback" >/etc/hosts',
    'echo "127.0.0.1   localhost" >>/etc/hosts',
    f'echo "127.0.0.1   {NODE_NAME}" >>/etc/hosts',
)
"""Commands before kubeadm: the machine resolves its own name."""

NAMED = (f'hostname "{NODE_NAME}"', *HOSTS_COMMANDS, f'echo "{NODE_NAME}" >/etc/hostname')
"""The same, after setting the name; the same commands as in templates of Cluster API's providers."""


def users(asked: Sequence[UserConfiguration], default: str) -> list[BootstrapUser]:
    """The first user, with the first SSH key, as in EKS Anywhere. Comments of keys are dropped, because they would
    be content. `default` is the name of a user without one.
    """
    return [
        BootstrapUser(
            name=user.name or default,
            sudo="ALL=(ALL) NOPASSWD:ALL",
            ssh_authorized_keys=[" ".join(key.split()[:2]) for key in user.ssh_authorized_keys[:1] if key.strip()],
        )
        for user in asked[:1]
    ]


def ntp(asked: HostOSConfiguration | None) -> Ntp | None:
    """The time servers of machines, if requested."""
    servers = asked.ntp_configuration if asked is not None else None
    return Ntp(enabled=True, servers=servers.servers) if servers is not None else None
