"""Connections of commands: kubeconfigs, this machine's state, and credentials of registries."""
