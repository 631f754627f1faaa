"""A scripted cluster over real sockets: one name server, and brokers that store messages in lists.

For what a real broker does not do on demand: refuse, be silent, die between two frames. It is no broker: it has no
disk and no rules.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from gantrymq.message import properties
from gantrymq.protocol.batch import split_batch
from gantrymq.protocol.bodies.heartbeat import ConsumerIdList, HeartbeatData
from gantrymq.protocol.bodies.locks import LockBatch, LockBatchAnswer
from gantrymq.protocol.bodies.route import BrokerData, QueueData, TopicRoute
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import Command, encode_request, encode_response
from gantrymq.protocol.headers.consumer import QueryConsumerOffset, UnregisterClient, UpdateConsumerOffset
from gantrymq.protocol.headers.nameserver import GetRoute
from gantrymq.protocol.headers.pull import (
    GetMaxOffset,
    GetMinOffset,
    OffsetAnswer,
    PullMessage,
    PullMessageAnswer,
    SearchOffset,
)
from gantrymq.protocol.headers.send import SendMessage, SendMessageAnswer
from gantrymq.protocol.headers.transaction import CheckTransactionState, EndTransaction
from gantrymq.protocol.hosts import pack_host
from gantrymq.protocol.message_ids import offset_message_id
from gantrymq.remoting.server import RemotingServer
from gantrymq.remoting.session import Session
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.network import TcpNetwork
from tests.support.records import encode_record

Answer = Callable[[Session, Command], bytes | None]


async def until(condition: Callable[[], Any], seconds: float = 10.0, what: str = "") -> None:
    """Poll until ``condition`` holds; fail after ``seconds``."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not condition():
        assert loop.time() < deadline, f"did not happen within {seconds} s: {what}"
        await asyncio.sleep(0.005)


def run(test: Callable[[], Awaitable[None]], seconds: float = 30.0) -> None:
    """Run an async test with a time limit."""

    async def bounded() -> None:
        async with asyncio.timeout(seconds):
            await test()

    asyncio.run(bounded())


class ScriptedBroker:
    def __init__(self, name: str) -> None:
        self.name = name
        self.queues: dict[tuple[str, int], list[bytes]] = {}
        self.halves: list[tuple[SendMessage, bytes]] = []
        self.ended: list[EndTransaction] = []
        self.ended_one_way: list[EndTransaction] = []
        self.beats: list[HeartbeatData] = []
        self.offsets: dict[tuple[str, str, int], int] = {}
        self.requests: list[Command] = []
        self.sessions: list[Session] = []
        self.consumers: list[Session] = []
        """Of those, the ones that a consumer sent a heartbeat on, for each heartbeat."""
        self.script: dict[int, list[Answer]] = {}
        self.members: dict[str, None] = {}
        self.position = 0
        own: dict[int, Answer] = {
            RequestCode.HEART_BEAT: self.heartbeat,
            RequestCode.UNREGISTER_CLIENT: self.unregister,
            RequestCode.SEND_MESSAGE_V2: self.send,
            RequestCode.SEND_BATCH_MESSAGE: self.send_batch,
            RequestCode.PULL_MESSAGE: self.pull,
            RequestCode.GET_MAX_OFFSET: self.max_offset,
            RequestCode.GET_MIN_OFFSET: self.min_offset,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self.search,
            RequestCode.QUERY_CONSUMER_OFFSET: self.query_offset,
            RequestCode.UPDATE_CONSUMER_OFFSET: self.update_offset,
            RequestCode.END_TRANSACTION: self.end,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self.list_members,
            RequestCode.CONSUMER_SEND_MSG_BACK: lambda session, command: encode_response(command, 0),
            RequestCode.LOCK_BATCH_MQ: self.lock,
            RequestCode.UNLOCK_BATCH_MQ: lambda session, command: encode_response(command, 0),
        }
        self.server = RemotingServer(
            TcpNetwork(),
            SystemClock(),
            {code: self._scripted(code, answer) for code, answer in own.items()},
            responses=lambda session, command: None,
        )
        self.address = ""

    def _scripted(self, code: int, ordinary: Answer) -> Answer:
        def answer(session: Session, command: Command) -> bytes | None:
            self.requests.append(command)
            if session not in self.sessions:
                self.sessions.append(session)
            steps = self.script.get(code)
            return steps.pop(0)(session, command) if steps else ordinary(session, command)

        return answer

    def next(self, code: int, *answers: Answer) -> None:
        """Answer the next requests of this code like this, once each."""
        self.script.setdefault(code, []).extend(answers)

    def codes(self) -> list[int]:
        return [command.code for command in self.requests]

    # The usual answers.

    def heartbeat(self, session: Session, command: Command) -> bytes:
        beat = HeartbeatData.decode(command.body)
        self.beats.append(beat)
        if beat.consumer_data_set:
            self.members[beat.client_id] = None
            self.consumers.append(session)
        return encode_response(command, 0)

    def unregister(self, session: Session, command: Command) -> bytes:
        self.members.pop(command.header(UnregisterClient).client_id, None)
        return encode_response(command, 0)

    def _store(self, topic: str, queue_id: int, body: bytes, text: str, sys_flag: int, flag: int) -> tuple[str, int]:
        queue = self.queues.setdefault((topic, queue_id), [])
        host = pack_host(self.address)
        record = encode_record(
            topic.encode(), body, text.encode(), queue_id, len(queue), self.position, 1, host, 2, host, flag, sys_flag
        )
        place = offset_message_id(host, self.position)
        self.position += len(record)
        queue.append(record)
        return place, len(queue) - 1

    def send(self, session: Session, command: Command) -> bytes:
        header = command.header(SendMessage)
        text = header.properties or ""
        if properties.find(text, properties.TRANSACTION_PREPARED) == "true":
            self.halves.append((header, command.body))
            place, offset = offset_message_id(pack_host(self.address), self.position), len(self.halves) - 1
            self.position += 1000
        else:
            place, offset = self._store(header.topic, header.queue_id, command.body, text, header.sys_flag, header.flag)
        key = properties.find(text, properties.UNIQ_KEY)
        answer = SendMessageAnswer(
            msg_id=place, queue_id=header.queue_id, queue_offset=offset, transaction_id=key, region="DefaultRegion"
        )
        return encode_response(command, 0, answer)

    def send_batch(self, session: Session, command: Command) -> bytes:
        header = command.header(SendMessage)
        places = [
            self._store(header.topic, header.queue_id, item.body, item.properties_text, 0, item.flag)
            for item in split_batch(command.body)
        ]
        answer = SendMessageAnswer(
            msg_id=",".join(place for place, _ in places), queue_id=header.queue_id, queue_offset=places[0][1]
        )
        return encode_response(command, 0, answer)

    def pull(self, session: Session, command: Command) -> bytes | None:
        header = command.header(PullMessage)
        queue = self.queues.get((header.topic, header.queue_id), [])
        records = queue[header.queue_offset : header.queue_offset + min(header.max_msg_nums, 32)]
        if not records and header.sys_flag & 2:
            loop = asyncio.get_running_loop()
            loop.call_later(0.02, lambda: session.send(self.answer_pull(command, header)))
            return None
        return self.answer_pull(command, header)

    def answer_pull(self, command: Command, header: PullMessage) -> bytes:
        queue = self.queues.get((header.topic, header.queue_id), [])
        offset = header.queue_offset
        records = queue[offset : offset + min(header.max_msg_nums, 32)]
        code = 0 if records else 19 if offset == len(queue) else 21
        following = offset + len(records) if offset <= len(queue) else len(queue)
        answer = PullMessageAnswer(
            suggest_which_broker_id=0, next_begin_offset=following, min_offset=0, max_offset=len(queue)
        )
        return encode_response(command, code, answer, b"".join(records))

    def max_offset(self, session: Session, command: Command) -> bytes:
        header = command.header(GetMaxOffset)
        return encode_response(
            command, 0, OffsetAnswer(offset=len(self.queues.get((header.topic, header.queue_id), [])))
        )

    def min_offset(self, session: Session, command: Command) -> bytes:
        command.header(GetMinOffset)
        return encode_response(command, 0, OffsetAnswer(offset=0))

    def search(self, session: Session, command: Command) -> bytes:
        header = command.header(SearchOffset)
        return encode_response(command, 0, OffsetAnswer(offset=7 if header.timestamp == 12345 else 0))

    def query_offset(self, session: Session, command: Command) -> bytes:
        header = command.header(QueryConsumerOffset)
        offset = self.offsets.get((header.consumer_group, header.topic, header.queue_id))
        if offset is None:
            return encode_response(
                command, 22, remark="Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
            )
        return encode_response(command, 0, OffsetAnswer(offset=offset))

    def update_offset(self, session: Session, command: Command) -> bytes:
        header = command.header(UpdateConsumerOffset)
        self.offsets[header.consumer_group, header.topic, header.queue_id] = header.commit_offset
        return encode_response(command, 0)

    def end(self, session: Session, command: Command) -> bytes:
        (self.ended_one_way if command.is_one_way else self.ended).append(command.header(EndTransaction))
        return encode_response(command, 0)

    def list_members(self, session: Session, command: Command) -> bytes:
        return encode_response(command, 0, body=ConsumerIdList(consumer_id_list=list(self.members)).encode())

    def lock(self, session: Session, command: Command) -> bytes:
        """Everybody may have every queue."""
        wanted = LockBatch.decode(command.body).mq_set
        return encode_response(command, 0, body=LockBatchAnswer(lock_ok_mq_set=wanted).encode())

    def check(self, number: int, commit_log_offset: int | None = None, *, more: str = "") -> None:
        """Ask the newest connection about half ``number``, as if from the log offset given; ``more``: properties that
        a broker adds."""
        header, body = self.halves[number]
        key = properties.find(header.properties or "", properties.UNIQ_KEY)
        host = pack_host(self.address)
        offset = number * 1000 if commit_log_offset is None else commit_log_offset
        record = encode_record(
            header.topic.encode(), body, ((header.properties or "") + more).encode(), header.queue_id, number, offset,
            header.born_timestamp, host, 2, host, header.flag, 0,
        )  # fmt: skip
        question = CheckTransactionState(
            tran_state_table_offset=number,
            commit_log_offset=offset,
            msg_id=key,
            transaction_id=key,
            offset_msg_id=offset_message_id(host, offset),
            bname=self.name,
        )
        session = [session for session in self.sessions if session.alive][-1]
        frame = encode_request(
            RequestCode.CHECK_TRANSACTION_STATE, session.next_opaque(), question, record, one_way=True
        )
        session.send(frame)


class ScriptedCluster:
    def __init__(self, brokers: int, topics: dict[str, int]) -> None:
        self.brokers = [ScriptedBroker(f"broker-{'abcdef'[number]}") for number in range(brokers)]
        self.topics = dict(topics)
        self.asked: list[str] = []
        self.broker_id = 0
        """Under which the name server knows each broker; 0: as master."""
        self.server = RemotingServer(TcpNetwork(), SystemClock(), {RequestCode.GET_ROUTEINFO_BY_TOPIC: self.route})
        self.address = ""
        self.ask: Callable[[Callable[[], None]], object] = lambda work: work()
        """Runs something on the cluster's loop; set where that is in another thread."""

    @property
    def broker(self) -> ScriptedBroker:
        return self.brokers[0]

    def route(self, session: Session, command: Command) -> bytes:
        topic = command.header(GetRoute).topic
        self.asked.append(topic)
        count = self.topics.get(topic)
        if count is None:
            return encode_response(command, 17, remark=f"No topic route info in name server for the topic: {topic}")
        route = TopicRoute(
            queue_datas=[
                QueueData(broker_name=broker.name, read_queue_nums=count, write_queue_nums=count, perm=6)
                for broker in self.brokers
            ],
            broker_datas=[
                BrokerData(
                    broker_name=broker.name, broker_addrs={self.broker_id: broker.address}, cluster="DefaultCluster"
                )
                for broker in self.brokers
            ],
        )
        return encode_response(command, 0, body=route.encode())


@contextlib.asynccontextmanager
async def cluster(brokers: int = 1, topics: dict[str, int] | None = None) -> AsyncIterator[ScriptedCluster]:
    """A running cluster; ``topics``: name to queues per broker (default: topic T with 4)."""
    running = ScriptedCluster(brokers, topics or {"T": 4})
    running.address = await running.server.start("127.0.0.1", 0)
    for broker in running.brokers:
        broker.address = await broker.server.start("127.0.0.1", 0)
    try:
        yield running
    finally:
        for broker in running.brokers:
            await broker.server.close()
        await running.server.close()
