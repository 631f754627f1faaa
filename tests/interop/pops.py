"""The requests of POP as frames, on connections of their own."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Sequence

from gantrymq.message import properties
from gantrymq.message.receipt_handle import ReceiptHandle, parse
from gantrymq.protocol.bodies.route import TopicRoute
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command, Header
from gantrymq.protocol.headers.nameserver import GetRoute
from gantrymq.protocol.headers.pop import (
    AckMessage,
    ChangeInvisibleTime,
    PopMessage,
    PopMessageAnswer,
)
from gantrymq.protocol.headers.pull import GetMaxOffset, OffsetAnswer
from gantrymq.protocol.headers.send import SendMessage, SendMessageAnswer
from gantrymq.protocol.headers.topics import CreateTopic
from gantrymq.protocol.stored_message import scan
from tests.interop.apache import ApacheCluster
from tests.interop.ours import GantryCluster
from tests.interop.places import ask
from tests.interop.process import poll

LONG_MS = 60_000


class PopBroker:
    """The broker of a cluster."""

    def __init__(self, cluster: GantryCluster | ApacheCluster) -> None:
        route = ask(cluster.name_servers, RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRoute(topic="broker-a"))
        self.address = TopicRoute.decode(route.body).broker_datas[0].master or ""
        self.ours = isinstance(cluster, GantryCluster)

    def ask(self, code: RequestCode, header: Header | None = None, body: bytes = b"") -> Command:
        return ask(self.address, code, header, body)

    def prepare(self, topic: str, group: str, queues: int = 1, **settings: object) -> None:
        header = CreateTopic(
            topic=topic, default_topic="TBW102", read_queue_nums=queues, write_queue_nums=queues, perm=6,
            topic_filter_type="SINGLE_TAG", order=False,
        )  # fmt: skip
        assert self.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, header).code == ResponseCode.SUCCESS
        body = json.dumps({"groupName": group, **settings}).encode()
        done = self.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body)
        assert done.code == ResponseCode.SUCCESS

    def send(self, topic: str, body: str, queue_id: int = 0) -> None:
        """Returns when the message can be popped: Apache's brokers put it into its queue behind the answer."""
        header = SendMessage(
            producer_group="PG", topic=topic, default_topic="TBW102", default_topic_queue_nums=1, queue_id=queue_id,
            sys_flag=0, born_timestamp=1_700_000_000_000, flag=0, properties="TAGS\x01A\x02", reconsume_times=0,
            unit_mode=False, batch=False,
        )  # fmt: skip
        answer = self.ask(RequestCode.SEND_MESSAGE_V2, header, body.encode())
        assert answer.code == ResponseCode.SUCCESS
        offset = answer.header(SendMessageAnswer).queue_offset
        poll(lambda: self.end(topic, queue_id) > offset, "message in its queue")

    def end(self, topic: str, queue_id: int = 0) -> int:
        answer = self.ask(RequestCode.GET_MAX_OFFSET, GetMaxOffset(topic=topic, queue_id=queue_id))
        return answer.header(OffsetAnswer).offset if answer.code == ResponseCode.SUCCESS else 0

    def pop(self, topic: str, group: str, **fields: object) -> tuple[Command, list[tuple[str, int, ReceiptHandle]]]:
        """The answer, and (body, times, handle) of each message."""
        values: dict[str, object] = {
            "consumer_group": group, "topic": topic, "queue_id": -1, "max_msg_nums": 32, "invisible_time": LONG_MS,
            "poll_time": 0, "born_time": round(time.time() * 1000), "init_mode": 1, "exp_type": "TAG", "exp": "*",
            "order": False,
        }  # fmt: skip
        answer = self.ask(RequestCode.POP_MESSAGE, PopMessage(**{**values, **fields}))  # type: ignore[arg-type]
        if answer.code != ResponseCode.SUCCESS:
            return answer, []
        header = answer.header(PopMessageAnswer)
        starts = {
            tuple(item.split(" ")[:2]): item.split(" ")[2] for item in (header.start_offset_info or "").split(";")
        }
        found = []
        for message in scan(answer.body):
            handle = properties.find(message.properties_text, properties.POP_CHECK_POINT) or (
                f"{starts['0', str(message.queue_id)]} {header.pop_time} {header.invisible_time} {header.revive_qid} 0 "
                f"broker-a {message.queue_id} {message.queue_offset}"
            )
            found.append((message.body.decode(), message.reconsume_times, parse(handle)))
        return answer, found

    def ack(self, topic: str, group: str, handle: ReceiptHandle) -> Command:
        real = f"%RETRY%{group}_{topic}" if handle.kind == "1" else topic
        header = AckMessage(
            consumer_group=group, topic=real, queue_id=handle.queue_id, extra_info=str(handle), offset=handle.offset
        )
        return self.ask(RequestCode.ACK_MESSAGE, header)

    def change(self, topic: str, group: str, handle: ReceiptHandle, invisible_ms: int) -> Command:
        header = ChangeInvisibleTime(
            consumer_group=group, topic=topic, queue_id=handle.queue_id, extra_info=str(handle), offset=handle.offset,
            invisible_time=invisible_ms,
        )  # fmt: skip
        return self.ask(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header)

    def batch_ack(self, topic: str, group: str, handles: Sequence[ReceiptHandle]) -> None:
        """All of one check point."""
        first = handles[0]
        bits = sum(1 << (handle.offset - first.start_offset) for handle in handles)
        batch = {
            "c": group, "t": topic, "r": first.kind, "so": first.start_offset, "q": first.queue_id,
            "rq": first.revive_queue, "pt": first.pop_time, "it": first.invisible_time,
            "b": base64.b64encode(bits.to_bytes(8, "little")).decode(),
        }  # fmt: skip
        body = json.dumps({"brokerName": "broker-a", "acks": [batch]}).encode()
        assert self.ask(RequestCode.BATCH_ACK_MESSAGE, None, body).code == ResponseCode.SUCCESS
