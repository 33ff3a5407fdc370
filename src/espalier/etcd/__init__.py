"""etcd's protocol: messages and services shared by client and server, and an asynchronous client."""

import os

# Before gRPC is loaded: it would write to stderr, past all logging, what our errors say as well.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
