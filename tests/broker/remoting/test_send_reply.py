"""Request and reply over real sockets: what the requester gets, what the replier hears, what is stored."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gantrymq.message import flags, properties
from gantrymq.message.heartbeat import ProducerData
from gantrymq.protocol.bodies.heartbeat import HeartbeatData
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command, Header, encode_response
from gantrymq.protocol.headers.send import PushReply, SendMessageAnswer, SendMessageLong
from gantrymq.protocol.stored_message import scan
from gantrymq.remoting.channel import ClientChannel
from tests.support.brokers import TIMEOUT_MS, Cluster, new_client, on_broker, send_header

REPLIES = "DefaultCluster_REPLY_TOPIC"


class Requester:
    """A producer that answers what is pushed to it with ``code``; None: not at all."""

    def __init__(self, c: Cluster, code: int | None = ResponseCode.SUCCESS) -> None:
        self._cluster = c
        self._code = code
        self.pushed: list[Command] = []
        self.client = new_client(self._hear)

    def _hear(self, channel: ClientChannel, command: Command) -> None:
        self.pushed.append(command)
        if self._code is not None:
            channel.send(encode_response(command, self._code))

    async def join(self, client_id: str = "asker") -> None:
        body = HeartbeatData(client_id=client_id, producer_data_set=[ProducerData(group_name="PG")]).encode()
        answer = await self.client.call(
            self._cluster.broker.address, RequestCode.HEART_BEAT, body=body, timeout_ms=TIMEOUT_MS
        )
        assert answer.code == ResponseCode.SUCCESS


def text(client_id: str | None = "asker") -> str:
    to = {properties.REPLY_TO_CLIENT: client_id} if client_id else {}
    return properties.encode({"MSG_TYPE": "reply", "CORRELATION_ID": "c-1", "TTL": "3000", "UNIQ_KEY": "K1", **to})


async def reply(c: Cluster, code: RequestCode = RequestCode.SEND_REPLY_MESSAGE_V2, **fields: object) -> Command:
    header: Header = send_header(REPLIES, **{"properties": text(), **fields})  # type: ignore[arg-type]
    if code == RequestCode.SEND_REPLY_MESSAGE:
        header = SendMessageLong(**{name: getattr(header, name) for name in header.__struct_fields__})
    return await c.ask(code, header, b"42")


@pytest.mark.parametrize("code", [RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2])
def test_a_reply_reaches_who_asked_and_is_stored(tmp_path: Path, code: RequestCode) -> None:
    async def work(c: Cluster) -> None:
        requester = Requester(c)
        await requester.join()
        sys_flag = flags.COMPRESSED | flags.COMPRESSION_ZSTD
        answer = await reply(c, code, sys_flag=sys_flag)
        assert answer.code == ResponseCode.SUCCESS
        placed = answer.header(SendMessageAnswer)
        assert (placed.queue_id, placed.queue_offset, len(placed.msg_id)) == (0, 0, 32)
        (push,) = requester.pushed
        header = push.header(PushReply)
        assert (push.code, push.body) == (RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, b"42")
        assert (header.topic, header.sys_flag, header.store_host) == (REPLIES, sys_flag, c.broker.address)
        sent = properties.decode(header.properties or "")
        assert sent.pop(properties.PUSH_REPLY_TIME).isdigit()
        assert sent == properties.decode(text())
        (stored,) = scan((await c.pull(REPLIES)).body)
        assert (stored.body, stored.sys_flag, stored.properties_text) == (b"42", sys_flag, text())
        await requester.client.close()

    on_broker(work, tmp_path)


def test_without_storing_the_answer_still_has_its_fields(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        requester = Requester(c)
        await requester.join()
        answer = await reply(c)
        assert answer.code == ResponseCode.SUCCESS
        assert answer.header(SendMessageAnswer).msg_id == "0"
        assert (await c.pull(REPLIES)).code == ResponseCode.PULL_NOT_FOUND
        await requester.client.close()

    on_broker(work, tmp_path, store_reply_message_enable=False)


def test_the_replier_hears_when_nobody_gets_it(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        nobody = await reply(c)
        assert (nobody.code, nobody.remark) == (
            ResponseCode.SYSTEM_ERROR, "push reply message fail, channel of <asker> not found.",
        )  # fmt: skip
        anonymous = await reply(c, properties=text(None))
        assert anonymous.remark == "reply message properties[REPLY_TO_CLIENT] is null"
        unwilling = Requester(c, ResponseCode.SYSTEM_ERROR)
        await unwilling.join("no")
        refused = await reply(c, properties=text("no"))
        assert (refused.code, refused.remark) == (ResponseCode.SYSTEM_ERROR, "push reply message to nofail.")
        await unwilling.client.close()
        assert len(list(scan((await c.pull(REPLIES)).body))) == 3, "stored all the same"

    on_broker(work, tmp_path)


def test_a_requester_that_hangs_up_before_it_answers(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        silent = Requester(c, None)
        await silent.join()
        waiting = asyncio.ensure_future(reply(c))
        while not silent.pushed:
            await asyncio.sleep(0.01)
        await silent.client.close()
        assert (await waiting).code == ResponseCode.SYSTEM_ERROR
        assert c.broker.producers.session_of("asker") is None

    on_broker(work, tmp_path)
