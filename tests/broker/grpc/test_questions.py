"""Questions of tools to clients of gRPC, over real sockets: a tool asks by remoting, and the broker hands on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import grpc.aio
import pytest

from gantrymq.broker.grpc import questions
from gantrymq.broker.pushes import ConsumerAnswer
from gantrymq.demo.ports import free_port
from gantrymq.grpc import service_pb2 as service
from gantrymq.grpc.definition_pb2 import ClientType, Code, Settings, Status
from gantrymq.protocol.bodies.progress import ConsumedDirectly, ConsumerRunning
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command
from gantrymq.protocol.headers.tools import ClientOfGroup, ConsumeDirectly
from tests.broker.transaction_lab import LabClock
from tests.support.brokers import Cluster, cluster
from tests.support.grpc_client import GrpcClient, consumer, message

Said = service.TelemetryCommand


@asynccontextmanager
async def member(root: Path, settings: Settings | None = None) -> AsyncIterator[tuple[Cluster, GrpcClient]]:
    """A broker, and a push consumer of the group ``readers``."""
    settings = settings or consumer("readers", "orders")
    port = free_port()
    async with (
        asyncio.timeout(40),
        cluster(root, grpc_port=port) as running,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        await running.create_topic("orders")
        client = GrpcClient(channel)
        settings.client_type = ClientType.PUSH_CONSUMER
        settings.user_agent.version = "5.0.8"
        async with client.telemetry(settings):
            yield running, client


async def stacks(running: Cluster, *, wanted: bool = True) -> Command:
    return await running.ask(
        RequestCode.GET_CONSUMER_RUNNING_INFO,
        ClientOfGroup(consumer_group="readers", client_id="client-1", jstack_enable=wanted),
    )


async def consumed(running: Cluster, message_id: str | None) -> Command:
    return await running.ask(
        RequestCode.CONSUME_MESSAGE_DIRECTLY,
        ConsumeDirectly(consumer_group="readers", client_id="client-1", msg_id=message_id, broker_name="broker-a"),
    )


async def answered(
    running: Cluster, client: GrpcClient, ask: Awaitable[Command], answer: Callable[[Said], Said]
) -> Command:
    """What the tool gets, when the client answers so."""
    asking = asyncio.ensure_future(ask)
    command = await client.commands.get()
    await client.say(answer(command))
    return await asking


def verified(code: int, text: str = "") -> Callable[[Said], Said]:
    return lambda command: Said(
        status=Status(code=code, message=text),  # type: ignore[arg-type]
        verify_message_result=service.VerifyMessageResult(nonce=command.verify_message_command.nonce),
    )


def test_the_stack_traces_of_a_client_come_with_what_the_door_knows_of_it(tmp_path: Path) -> None:
    async def work() -> None:
        async with member(tmp_path, consumer("readers", "orders", "a || b")) as (running, client):
            answer = await answered(
                running, client, stacks(running),
                lambda command: Said(
                    status=Status(code=Code.OK),
                    thread_stack_trace=service.ThreadStackTrace(
                        nonce=command.print_thread_stack_trace_command.nonce, thread_stack_trace="main: at work"
                    ),
                ),
            )  # fmt: skip
            assert answer.code == ResponseCode.SUCCESS, answer.remark
            with_stack = ConsumerRunning.decode(answer.body)
            assert with_stack.jstack == "main: at work"
            # Without stack traces the door answers by itself.
            without = ConsumerRunning.decode((await stacks(running, wanted=False)).body)
            assert client.commands.empty()
            assert without.jstack is None and without.properties == with_stack.properties
            assert without.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
            assert without.properties["PROP_CLIENT_VERSION"] == "5.0.8"
            ((topic, words),) = [(one.topic, one.sub_string) for one in without.subscription_set]
            assert (topic, words) == ("orders", "a || b")

    asyncio.run(work())


@pytest.mark.parametrize(
    ("code", "result"),
    [
        (Code.OK, "CR_SUCCESS"),
        (Code.FAILED_TO_CONSUME_MESSAGE, "CR_LATER"),
        (Code.MESSAGE_CORRUPTED, "CR_RETURN_NULL"),
    ],
)
def test_a_client_consumes_one_message_and_the_tool_gets_the_result(tmp_path: Path, code: int, result: str) -> None:
    async def work() -> None:
        async with member(tmp_path) as (running, client):
            await client.send(message("orders", b"by grpc"))
            stored = await running.sent("orders", b"by remoting", "TAGS\x01t\x02colour\x01red\x02")
            seen: list[Said] = []

            def answer(command: Said) -> Said:
                seen.append(command)
                return verified(code, "as it was")(command)

            got = await answered(running, client, consumed(running, stored.msg_id), answer)
            assert got.code == ResponseCode.SUCCESS, got.remark
            made = ConsumedDirectly.decode(got.body)
            assert (made.consume_result, made.remark) == (result, "as it was")
            given = seen[0].verify_message_command.message
            assert (given.topic.name, given.body) == ("orders", b"by remoting")
            assert given.system_properties.tag == "t" and dict(given.user_properties) == {"colour": "red"}
            # It is no delivery: the group gets the message as if nothing had been.
            _, received = await client.receive("orders", "readers")
            assert b"by remoting" in {one.body for one in received}

    asyncio.run(work())


@pytest.mark.parametrize("kind", ["refuses", "another member", "another kind", "unknown code"])
def test_what_a_client_does_not_do_is_said_to_the_tool(tmp_path: Path, kind: str) -> None:
    """Node.js repeats the command in place of a result; others answer with a code, or with nothing."""

    def answer(command: Said) -> Said:
        nonce = command.verify_message_command.nonce
        if kind == "refuses":
            return verified(Code.VERIFY_FIFO_MESSAGE_UNSUPPORTED, "in order")(command)
        if kind == "unknown code":
            return verified(12_345)(command)
        if kind == "another kind":
            trace = service.ThreadStackTrace(nonce=nonce)
            return Said(status=Status(code=Code.OK), thread_stack_trace=trace)
        return Said(
            status=Status(code=Code.NOT_IMPLEMENTED), verify_message_command=service.VerifyMessageCommand(nonce=nonce)
        )

    async def work() -> None:
        async with member(tmp_path) as (running, client):
            stored = await running.sent("orders", b"one")
            got = await answered(running, client, consumed(running, stored.msg_id), answer)
            assert got.code == ResponseCode.SYSTEM_ERROR
            assert "client-1 did not do it" in (got.remark or "")
            if kind == "refuses":
                assert "VERIFY_FIFO_MESSAGE_UNSUPPORTED" in (got.remark or "") and "in order" in (got.remark or "")

    asyncio.run(work())


def test_a_client_that_says_nothing_is_waited_for_and_a_late_answer_harms_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "ANSWER_SECONDS", 0.2)

    async def work() -> None:
        async with member(tmp_path) as (running, client):
            got = await stacks(running)
            assert got.code == ResponseCode.SYSTEM_ERROR and "did not answer within 0.2 s" in (got.remark or "")
            asked = await client.commands.get()
            late = service.ThreadStackTrace(nonce=asked.print_thread_stack_trace_command.nonce)
            await client.say(Said(status=Status(code=Code.OK), thread_stack_trace=late))
            await client.say(Said())
            assert (await stacks(running, wanted=False)).code == ResponseCode.SUCCESS

    asyncio.run(work())


def test_another_client_cannot_answer_a_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "ANSWER_SECONDS", 0.5)

    async def work() -> None:
        async with member(tmp_path) as (running, client):
            stored = await running.sent("orders", b"one")
            other = GrpcClient(client.channel, "client-2")
            async with other.telemetry(consumer("others", "orders")):
                asking = asyncio.ensure_future(consumed(running, stored.msg_id))
                await other.say(verified(Code.OK)(await client.commands.get()))
                assert (await asking).code == ResponseCode.SYSTEM_ERROR

    asyncio.run(work())


def test_a_client_that_leaves_has_no_answer_any_more(tmp_path: Path) -> None:
    async def work() -> None:
        async with member(tmp_path) as (running, client):
            asking = asyncio.ensure_future(stacks(running))
            await client.commands.get()
            await client.call(
                "NotifyClientTermination", service.NotifyClientTerminationRequest(),
                service.NotifyClientTerminationResponse,
            )  # fmt: skip
            assert (await asking).code != ResponseCode.SUCCESS

    asyncio.run(work())


def test_a_client_without_a_stream_and_a_tool_without_a_message_are_told_so(tmp_path: Path) -> None:
    async def work() -> None:
        async with member(tmp_path) as (running, client):
            assert "which message" in ((await consumed(running, None)).remark or "")
            async with GrpcClient(client.channel, "client-1").telemetry(consumer("readers", "orders")):
                pass
            async with asyncio.timeout(10):
                while "no open Telemetry stream" not in ((await stacks(running)).remark or ""):
                    await asyncio.sleep(0.05)

    asyncio.run(work())


def test_a_door_that_stops_tells_its_clients_to_connect_again(tmp_path: Path) -> None:
    async def work() -> None:
        async with member(tmp_path) as (running, client):
            await running.broker.close()
            command = await client.commands.get()
            assert command.HasField("reconnect_endpoints_command")

    asyncio.run(work())


def test_a_client_that_answers_nothing_is_not_asked_for_ever() -> None:
    clock, answers = LabClock(), list[ConsumerAnswer | None]()
    asked = questions.Questions(clock, "client-1")
    nonces = [asked.stack(str.encode, 10, answers.append) for _ in range(questions.OPEN_MAX)]
    assert len(set(nonces)) == questions.OPEN_MAX and not answers
    assert asked.verify(10, answers.append) is None
    assert [one.code for one in answers if one is not None] == [ResponseCode.SYSTEM_ERROR]
    asked.close()
    assert answers[1:] == [None] * questions.OPEN_MAX
    assert asked.verify(10, answers.append) is not None
