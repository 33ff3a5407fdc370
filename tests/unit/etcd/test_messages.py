"""etcd's messages: generated code is that of the .proto file, and both ends speak through one table of methods."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from pathlib import Path

import grpc
import grpc.aio
import pytest
from grpc_tools import protoc

import espalier.etcd.messages
from espalier.etcd.messages import rpc_pb2 as rpc
from espalier.etcd.messages import services
from espalier.etcd.messages.services import CallContext, Method, generic_handlers

FOLDER = Path(espalier.etcd.messages.__file__).parent
SOURCE = "espalier/etcd/messages/rpc.proto"


@pytest.mark.parametrize("name", ["rpc_pb2.py", "rpc_pb2.pyi"])
def test_generated_code_is_that_of_the_proto_file(name: str, tmp_path: Path) -> None:
    arguments = ["protoc", f"-I{FOLDER.parents[2]}", f"--python_out={tmp_path}", f"--pyi_out={tmp_path}", SOURCE]
    assert protoc.main(arguments) == 0
    generated = (tmp_path / SOURCE).with_name(name).read_text()
    assert (FOLDER / name).read_text() == generated, "run `make messages`"


def test_every_request_and_response_is_of_one_method() -> None:
    methods = [value for value in vars(services).values() if isinstance(value, Method)]
    spoken = {method.request.DESCRIPTOR.name for method in methods} | {
        method.response.DESCRIPTOR.name for method in methods
    }
    of_methods = {name for name in rpc.DESCRIPTOR.message_types_by_name if name.endswith(("Request", "Response"))}
    parts = {"WatchCreateRequest", "WatchCancelRequest", "WatchProgressRequest"}
    assert of_methods - parts == spoken
    assert len({method.path for method in methods}) == len(methods) == 23


async def test_both_ends_speak_through_the_table(tmp_path: Path) -> None:
    async def get(
        request: rpc.RangeRequest, context: CallContext[rpc.RangeRequest, rpc.RangeResponse]
    ) -> rpc.RangeResponse:
        return rpc.RangeResponse(kvs=[rpc.KeyValue(key=request.key, value=b"\xff", version=1)])

    async def snapshot(
        request: rpc.SnapshotRequest, context: CallContext[rpc.SnapshotRequest, rpc.SnapshotResponse]
    ) -> AsyncIterator[rpc.SnapshotResponse]:
        for blob in (b"a", b"b"):
            yield rpc.SnapshotResponse(blob=blob)

    async def watch(
        requests: AsyncIterable[rpc.WatchRequest], context: CallContext[rpc.WatchRequest, rpc.WatchResponse]
    ) -> AsyncIterator[rpc.WatchResponse]:
        async for request in requests:
            yield rpc.WatchResponse(created=True, watch_id=request.create_request.watch_id)

    server = grpc.aio.server()
    answers = (
        services.RANGE.answered_by(get),
        services.SNAPSHOT.answered_by(snapshot),
        services.WATCH.answered_by(watch),
    )
    server.add_generic_rpc_handlers(generic_handlers(answers))
    address = f"unix:{tmp_path}/socket"
    server.add_insecure_port(address)
    await server.start()
    try:
        async with grpc.aio.insecure_channel(address) as channel:
            response = await services.RANGE.of(channel)(rpc.RangeRequest(key=b"k"))
            assert [(pair.key, pair.value) for pair in response.kvs] == [(b"k", b"\xff")]
            assert [part.blob async for part in services.SNAPSHOT.of(channel)(rpc.SnapshotRequest())] == [b"a", b"b"]
            stream = services.WATCH.of(channel)()
            await stream.write(rpc.WatchRequest(create_request=rpc.WatchCreateRequest(watch_id=7)))
            assert (await anext(aiter(stream))).watch_id == 7
            stream.cancel()
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await services.PUT.of(channel)(rpc.PutRequest(key=b"k"))
            assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED
    finally:
        await server.stop(None)
