"""Access to API servers: kubeconfigs, credentials, certificates, proxies."""
