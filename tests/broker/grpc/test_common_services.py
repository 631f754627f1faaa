"""Health for load balancers, and reflection for tools such as grpcurl."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

import grpc
from gantrymq.demo.ports import free_port
from gantrymq.grpc.common_messages import HEALTH, REFLECTION, SERVING, common_message
from gantrymq.grpc.definition_pb2 import Code
from gantrymq.grpc.pool import SERVICE
from tests.support.brokers import Cluster, cluster

SECONDS = 30
CHECK, ANSWER = common_message(f"{HEALTH}.HealthCheckRequest"), common_message(f"{HEALTH}.HealthCheckResponse")


def story(work: Callable[[Cluster, grpc.aio.Channel], Awaitable[None]], root: Path) -> None:
    async def play() -> None:
        port = free_port()
        async with (
            asyncio.timeout(60),
            cluster(root, grpc_port=port) as running,
            grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
        ):
            await work(running, channel)

    asyncio.run(play())


def test_a_load_balancer_is_told_whether_the_broker_serves(tmp_path: Path) -> None:
    async def work(running: Cluster, channel: grpc.aio.Channel) -> None:
        check = channel.unary_unary(f"/{HEALTH}.Health/Check", CHECK.SerializeToString, ANSWER.FromString)
        for service in ("", SERVICE):
            assert (await check(CHECK(service=service), timeout=SECONDS)).status == SERVING
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await check(CHECK(service="other"), timeout=SECONDS)
        assert failed.value.code() == grpc.StatusCode.NOT_FOUND
        watch = channel.unary_stream(f"/{HEALTH}.Health/Watch", CHECK.SerializeToString, ANSWER.FromString)
        watching = watch(CHECK(), timeout=SECONDS)
        assert (await watching.read()).status == SERVING
        watching.cancel()

    story(work, tmp_path)


@pytest.mark.parametrize("package", REFLECTION)
def test_a_tool_finds_out_how_to_call_a_method(package: str, tmp_path: Path) -> None:
    request, answer = (common_message(f"{package}.ServerReflection{kind}") for kind in ("Request", "Response"))

    async def work(running: Cluster, channel: grpc.aio.Channel) -> None:
        method = channel.stream_stream(
            f"/{package}.ServerReflection/ServerReflectionInfo", request.SerializeToString, answer.FromString
        )
        talk = method(timeout=SECONDS)

        async def ask(**asked: str) -> Any:
            await talk.write(request(**asked))
            return await talk.read()

        listed = (await ask(list_services="*")).list_services_response.service
        assert {SERVICE, f"{HEALTH}.Health"} < {one.name for one in listed}
        pool = descriptor_pool.DescriptorPool()
        files = [
            descriptor_pb2.FileDescriptorProto.FromString(data)
            for data in (await ask(file_containing_symbol=SERVICE)).file_descriptor_response.file_descriptor_proto
        ]
        while files:  # each behind those that it needs
            ready = next(file for file in files if not {one.name for one in files} & set(file.dependency))
            pool.Add(ready)
            files.remove(ready)
        found = pool.FindServiceByName(SERVICE).methods_by_name["Heartbeat"]
        sent, got = (message_factory.GetMessageClass(one) for one in (found.input_type, found.output_type))
        call = channel.unary_unary(f"/{SERVICE}/Heartbeat", sent.SerializeToString, got.FromString)
        assert (await call(sent(), timeout=SECONDS)).status.code == Code.CLIENT_ID_REQUIRED
        by_name = await ask(file_by_filename="apache/rocketmq/v2/definition.proto")
        assert by_name.file_descriptor_response.file_descriptor_proto
        assert (await ask(file_containing_symbol="no.such.Thing")).error_response.error_code == 5
        assert (await ask()).error_response.error_code == 12
        await talk.done_writing()
        assert await talk.read() is grpc.aio.EOF

    story(work, tmp_path)
