"""The clients of the workload: each request is recorded in the ledger when it is sent, and again when it is
answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gantrymq.errors import InvariantViolated
from gantrymq.message import properties, system_topics
from gantrymq.message.heartbeat import ProducerData
from gantrymq.message.message import Message
from gantrymq.message.transaction import Resolution
from gantrymq.protocol.batch import encode_batch
from gantrymq.protocol.bodies.heartbeat import HeartbeatData
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command
from gantrymq.protocol.headers.consumer import UpdateConsumerOffset
from gantrymq.protocol.headers.pop import PopMessage
from gantrymq.protocol.headers.send import SendMessage, SendMessageAnswer
from gantrymq.protocol.headers.tools import ResumeCheck
from gantrymq.protocol.headers.topics import CreateTopic
from gantrymq.protocol.headers.transaction import CheckTransactionState, EndTransaction
from gantrymq.protocol.message_ids import parse_offset_message_id
from gantrymq.protocol.stored_message import scan
from gantrymq.simulation.crash.ledger import COMMIT, ROLLBACK, HalfPlace
from gantrymq.simulation.crash.station import Station

GROUP = "order-service"
READERS = "readers"
POPPERS = "poppers"
RESOLUTIONS = {COMMIT: Resolution.COMMIT, ROLLBACK: Resolution.ROLLBACK}
OK = ResponseCode.SUCCESS
Note = Callable[..., None]
"""``note(kind, name, place, value)``"""


def body_of(name: str, size: int) -> bytes:
    """A body of ``size`` bytes without zeros, that says whose it is."""
    return f"{name}|".encode().ljust(size, b"abcdefghij"[len(name) % 10 : len(name) % 10 + 1])


def name_in(body: bytes) -> str:
    """Whose body it is."""
    return body.partition(b"|")[0].decode(errors="replace")


class Caller:
    """A producer, a consumer and an operator on one connection."""

    def __init__(
        self, station: Station, note: Note, places: dict[str, HalfPlace], answers: list[Command] | None = None
    ) -> None:
        """``places``: of the newest half of each transaction, as told by earlier answers. ``answers``: takes every
        answer, and then none is wrong; without it the workload is fixed, and so are its answers."""
        self._answers = answers
        self._station = station
        self._note = note
        self.places = places
        self.checked: dict[str, list[HalfPlace]] = {}
        self._client = station.client(self._heard)

    def _heard(self, command: Command) -> None:
        if command.code == RequestCode.CHECK_TRANSACTION_STATE:
            header = command.header(CheckTransactionState)
            name = header.msg_id or ""
            place = (header.tran_state_table_offset, header.commit_log_offset)
            self.checked.setdefault(name, []).append(place)
            if self.places.get(name) != place:
                self.places[name] = place
                self._note("half_stored", name, place)

    def heartbeat(self) -> asyncio.Future[Command]:
        data = HeartbeatData(client_id="10.0.1.1@crash", producer_data_set=[ProducerData(group_name=GROUP)])
        return self._client.ask(RequestCode.HEART_BEAT, None, self._want(OK), data.encode())

    def create_topic(self, topic: str, queues: int) -> asyncio.Future[Command]:
        header = CreateTopic(
            topic=topic, default_topic=system_topics.AUTO_CREATE, read_queue_nums=queues, write_queue_nums=queues,
            perm=6, topic_filter_type="SINGLE_TAG", order=False,
        )  # fmt: skip
        return self._client.ask(
            RequestCode.UPDATE_AND_CREATE_TOPIC, header, self._want(OK, lambda _answer: self._note("topic", topic))
        )

    def _header(self, topic: str, queue_id: int, text: str, sys_flag: int = 0, batch: bool = False) -> SendMessage:
        return SendMessage(
            producer_group=GROUP, topic=topic, default_topic=system_topics.AUTO_CREATE, default_topic_queue_nums=4,
            queue_id=queue_id, sys_flag=sys_flag, born_timestamp=self._station.now_ms, flag=0, properties=text,
            batch=batch,
        )  # fmt: skip

    def send(
        self, name: str, topic: str, queue_id: int = 0, size: int = 60, level: int = 0, timer_ms: int = 0,
        code: int = OK,
    ) -> asyncio.Future[Command]:  # fmt: skip
        """An ordinary message, with ``level`` a delayed one, with ``timer_ms`` a timer message.

        ``code``: how it must be answered.
        """
        values = {properties.UNIQ_KEY: name, properties.KEYS: f"k-{name}", properties.TAGS: "TagA"}
        if level:
            values[properties.DELAY] = str(level)
        if timer_ms:
            values[properties.TIMER_DELAY_MS] = str(timer_ms)
        self._note("send", name, (), topic)

        def stored(command: Command) -> None:
            answer = command.header(SendMessageAnswer)
            place = (system_topics.SCHEDULE, level - 1) if level else (topic, queue_id)
            if timer_ms:
                place = (system_topics.TIMER, 0)
            self._note("stored", name, (*place, answer.queue_offset, parse_offset_message_id(answer.msg_id)[1]))

        header = self._header(topic, queue_id, properties.encode(values))
        return self._client.ask(
            RequestCode.SEND_MESSAGE_V2, header, self._want(code, stored), body_of(name, size)
        )  # fmt: skip

    def send_batch(self, names: list[str], topic: str, queue_id: int = 0, size: int = 60) -> asyncio.Future[Command]:
        for name in names:
            self._note("send", name, (), topic)

        def stored(command: Command) -> None:
            answer = command.header(SendMessageAnswer)
            for number, (name, message_id) in enumerate(zip(names, answer.msg_id.split(","), strict=True)):
                log_offset = parse_offset_message_id(message_id)[1]
                self._note("stored", name, (topic, queue_id, answer.queue_offset + number, log_offset))

        messages = [Message(topic, body_of(name, size)) for name in names]
        header = self._header(topic, queue_id, "", batch=True)
        return self._client.ask(
            RequestCode.SEND_BATCH_MESSAGE, header, self._want(OK, stored), encode_batch(messages)
        )  # fmt: skip

    def half(self, name: str, topic: str, queue_id: int = 0, size: int = 60, code: int = OK) -> asyncio.Future[Command]:
        """A half message; with a name that is open already, the retry of one. ``code``: how it must be answered."""
        text = properties.encode({
            properties.UNIQ_KEY: name, properties.KEYS: f"k-{name}", properties.TRANSACTION_PREPARED: "true",
            properties.PRODUCER_GROUP: GROUP,
        })  # fmt: skip
        self._note("half", name)

        def stored(command: Command) -> None:
            answer = command.header(SendMessageAnswer)
            self.places[name] = (answer.queue_offset, parse_offset_message_id(answer.msg_id)[1])
            self._note("half_stored", name, self.places[name])

        header = self._header(topic, queue_id, text, sys_flag=4)
        return self._client.ask(
            RequestCode.SEND_MESSAGE_V2, header, self._want(code, stored), body_of(name, size)
        )  # fmt: skip

    def end(
        self, name: str, decision: str, code: int = OK, *, place: HalfPlace | None = None, check: bool = False
    ) -> asyncio.Future[Command]:
        """Commit or roll back; ``code``: how it must be answered. ``decision`` "" is UNKNOWN."""
        place = place or self.places[name]

        def ended(_answer: Command) -> None:
            if decision:
                self._note("ended", name, place, decision)

        header = self._end_header(name, decision, place, check)
        return self._client.ask(RequestCode.END_TRANSACTION, header, self._want(code, ended))

    def end_one_way(self, name: str, decision: str) -> None:
        """The same without an answer, as Java's client does it."""
        header = self._end_header(name, decision, self.places[name], False)
        self._client.tell(RequestCode.END_TRANSACTION, header)

    def _end_header(self, name: str, decision: str, place: HalfPlace, check: bool) -> EndTransaction:
        if decision:
            self._note("end", name, place, decision)
        return EndTransaction(
            producer_group=GROUP, tran_state_table_offset=place[0], commit_log_offset=place[1],
            commit_or_rollback=RESOLUTIONS.get(decision, Resolution.UNKNOWN), from_transaction_check=check,
            msg_id=name,
        )  # fmt: skip

    def resume(self, name: str, message_id: str) -> asyncio.Future[Command]:
        self._note("resume", name)
        return self._client.ask(
            RequestCode.RESUME_CHECK_HALF_MESSAGE, ResumeCheck(msg_id=message_id),
            self._want(OK, lambda _answer: self._note("resumed", name)),
        )  # fmt: skip

    def pop(self, topic: str, count: int, invisible_ms: int) -> asyncio.Future[Command]:
        """Take messages, and never acknowledge them."""

        def popped(command: Command) -> None:
            for message in scan(command.body):
                self._note("popped", name_in(message.body), (message.log_offset,))

        header = PopMessage(
            consumer_group=POPPERS, topic=topic, queue_id=-1, max_msg_nums=count, invisible_time=invisible_ms,
            poll_time=0, born_time=0, init_mode=1, exp_type="TAG", exp="*",
        )  # fmt: skip
        return self._client.ask(RequestCode.POP_MESSAGE, header, self._want(OK, popped))

    def commit_offset(self, topic: str, queue_id: int, offset: int) -> asyncio.Future[Command]:
        self._note("offset", "", (READERS, topic, queue_id), str(offset))
        header = UpdateConsumerOffset(
            consumer_group=READERS, topic=topic, queue_id=queue_id, commit_offset=offset
        )  # fmt: skip
        return self._client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header, self._want(OK))

    def _want(self, code: int, then: Callable[[Command], None] | None = None) -> Callable[[Command], None]:
        def check(answer: Command) -> None:
            if self._answers is not None:
                self._answers.append(answer)
            elif answer.code != code:
                raise InvariantViolated(f"{code} is expected, and the broker answers {answer.code}: {answer.remark}")
            if then is not None and answer.code == OK:
                then(answer)

        return check
