"""Data directories, and etcd-wrapper's requests about them before it starts etcd."""
