"""etcd's database as a file: what lies in it, and its hashes."""
