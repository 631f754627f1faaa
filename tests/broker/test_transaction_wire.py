"""Transactions as recorded clients of Apache speak them: their own frames, sent to our broker over a real socket."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gantrymq.message import flags, properties
from gantrymq.message.message import StoredMessage
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command, decode_command, encode_command
from gantrymq.protocol.frame import FrameSplitter
from gantrymq.protocol.headers.transaction import CheckTransactionState
from gantrymq.protocol.stored_message import decode_record, scan
from tests.golden.recorded import Recorded, scenario
from tests.support.brokers import Cluster, on_broker, until

SCENARIOS = [
    "v4-transaction", "v5-transaction", "v5-transaction-ipv6-ids",
    "v4-binary-client", "v4-binary-both", "v5-binary-client", "v5-binary-both",
]  # fmt: skip
"""4.9.8 and 5.5.0, JSON and binary headers; ends with and without topic, bname and transactionId."""
QUEUES = 8
IMMUNITY = properties.CHECK_IMMUNITY_SECONDS
SEND_CODES = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2)
FAST = {"transaction_time_out": 300, "transaction_check_interval": 300}
"""ms"""


class Replay:
    """One connection that sends what a recorded producer sent, with the places of our halves put in."""

    def __init__(self, name: str, running: Cluster) -> None:
        self.frames = scenario(name)
        self._running = running
        self._splitter = FrameSplitter()
        self.received: list[Command] = []
        self.placed: dict[str, dict[str, str]] = {}
        """UNIQ_KEY to our places."""

    async def connect(self) -> None:
        host, port = self._running.broker.address.split(":")
        reader, self._writer = await asyncio.open_connection(host, int(port))
        self._reading = asyncio.create_task(self._read(reader))

    async def close(self) -> None:
        self._writer.close()
        await self._reading

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(65536):
            self.received.extend(decode_command(*parts) for parts in self._splitter.feed(data))

    async def ask(self, frame: Recorded) -> Command:
        before = len(self.received)
        self._writer.write(frame.bytes)
        found: list[Command] = []

        def answered() -> bool:
            found[:] = [got for got in self.received[before:] if got.is_response and got.opaque == frame.opaque]
            return bool(found)

        await until(answered)
        return found[0]

    def sends(self) -> list[Recorded]:
        """Halves in the order they were sent."""
        return [
            frame
            for frame in self.frames
            if frame.asked in SEND_CODES and not frame.is_response and "TRAN_MSG\x01true" in text_of(frame)
        ]

    def ends(self, *, from_check: bool) -> dict[str, list[Command]]:
        """UNIQ_KEY to the recorded ends."""
        found: dict[str, list[Command]] = {}
        for frame in self.frames:
            if frame.asked == RequestCode.END_TRANSACTION:
                command = frame.command()
                fields = command.ext_fields()
                if (fields.get("fromTransactionCheck") == "true") is from_check:
                    found.setdefault(fields["msgId"], []).append(command)
        return found

    def end(self, recorded: Command, places: dict[str, str]) -> None:
        """Send a recorded end that names our half."""
        fields = {**recorded.ext_fields(), **places}
        self._writer.write(
            encode_command(
                Command(
                    code=recorded.code, opaque=recorded.opaque, flag=recorded.flag, version=recorded.version,
                    language=recorded.language, remark=recorded.remark, ext=fields, serialize=recorded.serialize,
                )
            )
        )  # fmt: skip

    def checks(self) -> list[Command]:
        return [got for got in self.received if got.code == RequestCode.CHECK_TRANSACTION_STATE]


def text_of(frame: Recorded) -> str:
    fields = frame.command().ext_fields()
    return fields.get("i") or fields.get("properties") or ""


def topic_of(frame: Recorded) -> str:
    fields = frame.command().ext_fields()
    return fields.get("b") or fields["topic"]


def key_of(frame: Recorded) -> str:
    return properties.find(text_of(frame), properties.UNIQ_KEY) or ""


async def delivered(running: Cluster, topic: str) -> dict[str, StoredMessage]:
    """Committed messages by key, read as a consumer does."""
    found: dict[str, StoredMessage] = {}
    for queue_id in range(QUEUES):
        answer = await running.pull(topic, queue_id)
        if answer.code == ResponseCode.SUCCESS:
            for message in scan(answer.body):
                key = properties.find(message.properties_text, properties.UNIQ_KEY) or ""
                assert key not in found, "delivered once"
                found[key] = message
    return found


@pytest.mark.parametrize("name", SCENARIOS)
def test_g49_recorded_producers_commit_roll_back_and_answer_checks(name: str, tmp_path: Path) -> None:
    """G49: what they committed, at once or when asked, is delivered; nothing else is."""

    async def work(running: Cluster) -> None:
        replay = Replay(name, running)
        await replay.connect()
        sends = replay.sends()
        topic = topic_of(sends[0])
        await running.create_topic(topic, queues=QUEUES)
        at_once, when_asked = replay.ends(from_check=False), replay.ends(from_check=True)
        for frame in sends:
            answer = await replay.ask(frame)
            assert answer.code == ResponseCode.SUCCESS, answer.remark
            fields = answer.ext_fields()
            places = {
                "tranStateTableOffset": fields["queueOffset"],
                "commitLogOffset": str(int(fields["msgId"][-16:], 16)),
            }
            replay.placed[key_of(frame)] = places
            for end in at_once.get(key_of(frame), []):
                replay.end(end, places)
        # A heartbeat comes only now, as with clients 4.9: ends were accepted from the session that sent the halves.
        heartbeat = next(
            frame for frame in replay.frames if frame.asked == RequestCode.HEART_BEAT and "PG_" in str(frame.body)
        )
        await replay.ask(heartbeat)
        answered: set[int] = set()

        async def answer_checks() -> bool:
            for number, check in enumerate(replay.checks()):
                header = check.header(CheckTransactionState)
                if number not in answered:
                    answered.add(number)
                    assert header.topic == topic
                    assert decode_record(check.body).topic == topic
                    ends = when_asked.get(header.msg_id or "", [])
                    if ends:
                        places = {
                            "tranStateTableOffset": str(header.tran_state_table_offset),
                            "commitLogOffset": str(header.commit_log_offset),
                        }
                        replay.end(ends.pop(0) if len(ends) > 1 else ends[0], places)
            return wanted <= (await delivered(running, topic)).keys()

        # One of them asks for an immunity of 12 s and gets it: nobody is asked about it while this test runs.
        immune = {key_of(frame) for frame in sends if properties.find(text_of(frame), IMMUNITY)}
        wanted = {key for key in replay.placed if commits(at_once.get(key)) or commits(when_asked.get(key))} - immune
        await until(answer_checks)
        found = await delivered(running, topic)
        assert found.keys() == wanted
        assert not immune & {check.header(CheckTransactionState).msg_id for check in replay.checks()}
        for frame in sends:
            if key_of(frame) in wanted:
                same_as_sent(frame, found[key_of(frame)])
        await replay.close()

    on_broker(work, tmp_path, **FAST)


def commits(ends: list[Command] | None) -> bool:
    return any(end.ext_fields()["commitOrRollback"] == "8" for end in ends or [])


def same_as_sent(frame: Recorded, message: StoredMessage) -> None:
    """G50: body, flag, times and every property of the sender."""
    fields = frame.command().ext_fields()
    compact = frame.asked == RequestCode.SEND_MESSAGE_V2
    assert message.body == frame.body
    assert message.flag == int(fields["h" if compact else "flag"])
    assert message.born_timestamp == int(fields["g" if compact else "bornTimestamp"])
    sys_flag = int(fields["f" if compact else "sysFlag"])
    assert message.sys_flag & ~flags.BORN_HOST_V6 == flags.with_transaction_type(sys_flag, flags.COMMITTED)
    wanted = properties.decode(text_of(frame))
    assert wanted.items() <= properties.decode(message.properties_text).items()
