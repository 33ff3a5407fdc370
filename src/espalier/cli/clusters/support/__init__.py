"""Support bundles: what is read, which fields of it leave the cluster, and how texts are masked."""
