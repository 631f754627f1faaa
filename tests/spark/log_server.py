"""The FakeBroker with a real socket: name server and broker at one address, on a thread of the test process.

Spark's workers are other processes, which connect with the real client. The server can stop and start again with the
same address and the same logs, like a broker that was killed and restarted.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from gantrymq.demo.ports import free_port
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.bodies.route import BrokerData, QueueData, TopicRoute
from gantrymq.protocol.bodies.topics import TopicList
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.headers.nameserver import GetRoute
from gantrymq.protocol.headers.pull import (
    GetMaxOffset,
    GetMinOffset,
    OffsetAnswer,
    PullMessage,
    PullMessageAnswer,
    SearchOffset,
)
from gantrymq.remoting.server import Handler, RemotingServer
from gantrymq.remoting.session import Session
from gantrymq.runtime.addresses import split_address
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.network import TcpNetwork
from tests.spark.fakes import FakeBroker, Status

CODES = {
    Status.FOUND: ResponseCode.SUCCESS,
    Status.NO_NEW_MSG: ResponseCode.PULL_NOT_FOUND,
    Status.NO_MATCHED_MSG: ResponseCode.PULL_RETRY_IMMEDIATELY,
    Status.OFFSET_ILLEGAL: ResponseCode.PULL_OFFSET_MOVED,
}


class LogServer:
    """Serves ``broker`` at ``address`` while it is used as a context manager."""

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self.address = f"127.0.0.1:{free_port()}"
        self.served = 0
        """Pulls answered."""
        self.before_pull: Callable[[LogServer], None] = lambda server: None
        """Called for every pull, on the server's thread."""
        self._loop = asyncio.new_event_loop()
        self._server: RemotingServer | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self.come_back()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.go_away()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def come_back(self) -> None:
        async def start() -> None:
            self._server = RemotingServer(TcpNetwork(), SystemClock(), self._handlers())
            self.address = await self._server.start(*split_address(self.address))

        asyncio.run_coroutine_threadsafe(start(), self._loop).result(10)

    def go_away(self) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)

    def crash_for(self, seconds: float) -> None:
        """From the server's own thread: drop everybody now, come back later."""

        async def crash() -> None:
            await self._stop()
            await asyncio.sleep(seconds)
            self._server = RemotingServer(TcpNetwork(), SystemClock(), self._handlers())
            await self._server.start(*split_address(self.address))

        self._crashing = self._loop.create_task(crash())

    async def _stop(self) -> None:
        if self._server is not None:
            await self._server.close()
            self._server = None

    def _handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self._route,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self._topics,
            RequestCode.PULL_MESSAGE: self._pull,
            RequestCode.GET_MAX_OFFSET: self._max,
            RequestCode.GET_MIN_OFFSET: self._min,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self._search,
        }

    def _route(self, session: Session, command: Command) -> bytes:
        topic = command.header(GetRoute).topic
        queues = [queue for queue in self.broker.logs if queue.topic == topic]
        if not queues:
            return encode_response(command, ResponseCode.TOPIC_NOT_EXIST, remark="no such topic")
        counts = {name: sum(queue.broker_name == name for queue in queues) for name in {q.broker_name for q in queues}}
        route = TopicRoute(
            queue_datas=[
                QueueData(broker_name=name, read_queue_nums=count, write_queue_nums=count, perm=6, topic_sys_flag=0)
                for name, count in counts.items()
            ],
            broker_datas=[BrokerData(broker_name=name, broker_addrs={0: self.address}, cluster="c") for name in counts],
        )
        return encode_response(command, ResponseCode.SUCCESS, body=route.encode())

    def _topics(self, session: Session, command: Command) -> bytes:
        return encode_response(
            command, ResponseCode.SUCCESS, body=TopicList(topic_list=list(self.broker.topics())).encode()
        )

    def _pull(self, session: Session, command: Command) -> bytes:
        self.before_pull(self)
        self.served += 1
        asked = command.header(PullMessage)
        answer = self.broker.pull_raw(
            self._queue(asked.topic, asked.queue_id), asked.queue_offset, asked.max_msg_nums, 0
        )
        header = PullMessageAnswer(
            suggest_which_broker_id=0,
            next_begin_offset=answer.next_offset,
            min_offset=answer.min_offset,
            max_offset=answer.max_offset,
        )
        return encode_response(command, CODES[answer.status], header, answer.data)

    def _queue(self, topic: str, number: int) -> MessageQueue:
        return next(queue for queue in self.broker.logs if queue.topic == topic and queue.queue_id == number)

    def _max(self, session: Session, command: Command) -> bytes:
        asked = command.header(GetMaxOffset)
        return self._offset(command, self.broker.max_offset(self._queue(asked.topic, asked.queue_id)))

    def _min(self, session: Session, command: Command) -> bytes:
        asked = command.header(GetMinOffset)
        return self._offset(command, self.broker.min_offset(self._queue(asked.topic, asked.queue_id)))

    def _search(self, session: Session, command: Command) -> bytes:
        asked = command.header(SearchOffset)
        queue = self._queue(asked.topic, asked.queue_id)
        return self._offset(command, self.broker.offset_by_time(queue, asked.timestamp))

    def _offset(self, command: Command, offset: int) -> bytes:
        return encode_response(command, ResponseCode.SUCCESS, OffsetAnswer(offset=offset))
