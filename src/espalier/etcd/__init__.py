"""etcd's protocol: messages and services shared by client and server, and an asynchronous client."""

import os

# Before gRPC is imported: it would also write to stderr what our errors say, bypassing all logging.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
