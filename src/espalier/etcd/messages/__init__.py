"""Messages of etcd's API v3 as protobuf, and the table of its services.

`rpc.proto` has the numbers, `rpc_pb2.py` and `rpc_pb2.pyi` are made from it (`make messages`), `services.py` has the
methods that a client calls and a server answers.
"""
