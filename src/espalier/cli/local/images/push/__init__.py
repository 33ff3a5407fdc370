"""Images into registries: references, credentials, archives, and the protocol of OCI's registries."""
