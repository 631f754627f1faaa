"""Requests with anything in their fields: each is answered with a status, and none is a defect of the broker."""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from gantrymq.demo.ports import free_port
from gantrymq.grpc import service_pb2 as service
from gantrymq.grpc.definition_pb2 import Code
from gantrymq.grpc.pool import SERVICE
from gantrymq.message.receipt_handle import ReceiptHandle
from tests.support.brokers import cluster
from tests.support.grpc_client import GrpcClient, message

ROUNDS = 40
"""Requests of each method."""
METHODS = {
    "QueryRoute": service.QueryRouteResponse, "QueryAssignment": service.QueryAssignmentResponse,
    "Heartbeat": service.HeartbeatResponse, "NotifyClientTermination": service.NotifyClientTerminationResponse,
    "SendMessage": service.SendMessageResponse, "EndTransaction": service.EndTransactionResponse,
    "RecallMessage": service.RecallMessageResponse, "AckMessage": service.AckMessageResponse,
    "ChangeInvisibleDuration": service.ChangeInvisibleDurationResponse,
    "ForwardMessageToDeadLetterQueue": service.ForwardMessageToDeadLetterQueueResponse,
}  # fmt: skip
HANDLE = str(ReceiptHandle(0, 1_700_000_000_000, 60_000, 0, "0", "broker-a", 0, 0))
TEXTS = (
    "", " ", "orders", "orders", "orders", "group", "group", "%RETRY%group", "%DLQ%group", "SCHEDULE_TOPIC_XXXX", "a/b",
    "x" * 300, "\x00", "\u00fc\u4e2d\U0001f600", "1", "-1", HANDLE, f"{HANDLE} 0", f"{HANDLE} 9999999999999999999999",
    HANDLE.replace(" 0 0 ", " 1 7 "), "TAGS", "\x01\x02", "a || b", "a > 1", "a >", "*", "null",
)  # fmt: skip
NUMBERS = (0, 1, -1, 7, 32, 60, 2**31 - 1, -(2**31))
LARGE = (*NUMBERS, 2**63 - 1, -(2**63), 253_402_300_799)


def filled(made: Message, chance: random.Random, depth: int = 0) -> Message:
    """With anything in some of its fields."""
    for field in made.DESCRIPTOR.fields:
        if depth > 4 or chance.random() < 0.25:
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            for _ in range(chance.randrange(3)):
                getattr(made, field.name)[chance.choice(TEXTS)] = chance.choice(TEXTS)
        elif field.is_repeated:
            _fill_list(getattr(made, field.name), field, chance, depth)
        elif field.message_type is not None:
            getattr(made, field.name).SetInParent()
            filled(getattr(made, field.name), chance, depth + 1)
        else:
            setattr(made, field.name, _value(field, chance))
    return made


def _fill_list(values: Any, field: FieldDescriptor, chance: random.Random, depth: int) -> None:
    for _ in range(chance.randrange(3)):
        if field.message_type is not None:
            filled(values.add(), chance, depth + 1)
        else:
            values.append(_value(field, chance))


def _value(field: FieldDescriptor, chance: random.Random) -> Any:
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_STRING:
        text = chance.choice(TEXTS)
        return text.encode() if field.type == FieldDescriptor.TYPE_BYTES else text
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return chance.random() < 0.5
    if kind in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return float(chance.choice(NUMBERS))
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        return chance.choice((*field.enum_type.values_by_number, 77))
    return chance.choice(LARGE if kind == FieldDescriptor.CPPTYPE_INT64 else NUMBERS)


def test_any_request_is_answered_with_a_status(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    seed = secrets.randbelow(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)

    async def work() -> None:
        port = free_port()
        async with (
            asyncio.timeout(120),
            cluster(tmp_path, grpc_port=port) as running,
            grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
        ):
            await running.create_topic("orders")
            client = GrpcClient(channel)
            for _ in range(ROUNDS):
                for name, answer in METHODS.items():
                    request = filled(getattr(service, f"{name}Request")(), chance)
                    status = (await client.call(name, request, answer)).status
                    assert status.code not in (Code.CODE_UNSPECIFIED, Code.INTERNAL_SERVER_ERROR), (
                        name,
                        request,
                        status,
                    )
                await received(channel, client, chance)
                await told(client, chance)
            assert (await client.send(message("orders"))).status.code == Code.OK

    with caplog.at_level(logging.ERROR):
        asyncio.run(work())
    assert not [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


async def received(channel: grpc.aio.Channel, client: GrpcClient, chance: random.Random) -> None:
    request = filled(service.ReceiveMessageRequest(), chance)
    request.long_polling_timeout.Clear()
    request.long_polling_timeout.SetInParent()
    method = channel.unary_stream(
        f"/{SERVICE}/ReceiveMessage", service.ReceiveMessageRequest.SerializeToString,
        service.ReceiveMessageResponse.FromString,
    )  # fmt: skip
    parts = [part async for part in method(request, timeout=30, metadata=client.headers)]
    assert parts[0].status.code not in (Code.CODE_UNSPECIFIED, Code.INTERNAL_SERVER_ERROR), (request, parts)


async def told(client: GrpcClient, chance: random.Random) -> None:
    said = filled(service.TelemetryCommand(), chance)
    if not said.HasField("settings"):
        return
    async with client.telemetry(said.settings) as answer:
        assert answer.status.code not in (Code.CODE_UNSPECIFIED, Code.INTERNAL_SERVER_ERROR), (said, answer)
