"""``python -m benchmarks.forks``: how many microseconds each fast path in the code saves per message.

A fast path is a second implementation for the sake of speed. It stays in the code only if it saves 5 % of the processor
time that the compiled broker (or client, for a fast path of the client) needs for a message. Both implementations are
timed in turns in one process. ``gantry --version`` tells whether the core is compiled, and ``GANTRY_PURE=1`` chooses
pure Python. ``--message-us`` and ``--transaction-us`` are the results of ``benchmarks.broker_cost`` for the same core
on this machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from gantrymq.broker.config import BrokerConfig
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.remoting.send_answers import SendAnswers
from gantrymq.broker.submission import Stored
from gantrymq.build_info import build_info
from gantrymq.client.sending.end_frame import EndFrames
from gantrymq.client.sending.send_frame import SendFrames
from gantrymq.message.queues import MessageQueue
from gantrymq.message.system_topics import HALF
from gantrymq.message.tags import _hash_each, hash_on
from gantrymq.protocol.binary_end import BinaryEnds
from gantrymq.protocol.binary_send import BinarySends
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command, SerializeType, decode_command, encode_request, encode_response
from gantrymq.protocol.headers.send import SendMessage, SendMessageAnswer
from gantrymq.protocol.headers.transaction import EndTransaction
from gantrymq.protocol.message_ids import offset_message_id
from gantrymq.protocol.stored_message import decode_record, pack_host
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk
from gantrymq.store.config import FlushDiskType, StoreConfig
from gantrymq.store.message_store import MessageStore
from gantrymq.store.values import NewRecord, Placement
from gantrymq.transactions.records.commit import append_commit
from gantrymq.transactions.records.half import final_record, new_record_of, op_record, with_real_place
from gantrymq.transactions.rules.states import State
from gantrymq.transactions.table.decisions import Cause, Decision
from gantrymq.transactions.table.open_halves import OpenHalf

ROUNDS = 9
CALLS = 2000
HOST = pack_host("127.0.0.1:10911")
TEXT = "KEYS\x01k1\x02UNIQ_KEY\x017F0000016D98E784C4C96794C4000001\x02WAIT\x01true\x02TAGS\x01TagA\x02"
HALF_TEXT = "TRAN_MSG\x01true\x02PGROUP\x01PG\x02" + TEXT
BODY = b"x" * 128

Call = Callable[[int], object]
"""Handles one message, given its number."""


@dataclass(frozen=True, slots=True)
class Fork:
    """Two implementations of the same work for one message."""

    name: str
    of: str
    """What the saving is compared with: ``message`` or ``transaction``."""
    short: Call
    long: Call
    after: Callable[[], None] = lambda: None
    """Work that must be done from time to time and is not timed."""


def best_us(call: Call, after: Callable[[], None]) -> float:
    """Microseconds per call, in the best round."""
    best = float("inf")
    for round_number in range(ROUNDS):
        started = time.perf_counter()
        for number in range(CALLS):
            call(round_number * CALLS + number)
        best = min(best, time.perf_counter() - started)
        after()
    return best / CALLS * 1e6


def _header(number: int, text: str = TEXT) -> SendMessage:
    return SendMessage(
        producer_group="PG", topic="T", default_topic="TBW102", default_topic_queue_nums=4, queue_id=number % 4,
        sys_flag=0, born_timestamp=1_763_700_000_000 + number, flag=0, properties=text, reconsume_times=0,
        unit_mode=False, batch=False, bname="broker-a",
    )  # fmt: skip


def _end(number: int) -> EndTransaction:
    return EndTransaction(
        producer_group="PG", tran_state_table_offset=number, commit_log_offset=1000 + number * 400,
        commit_or_rollback=8, from_transaction_check=False, msg_id=f"7F0000016D98E784C4C96794C4{number % 10**6:06d}",
        transaction_id=f"7F0000016D98E784C4C96794C4{number % 10**6:06d}", topic="T", bname="broker-a",
    )  # fmt: skip


def _frames(code: RequestCode, headers: list[SendMessage] | list[EndTransaction], form: SerializeType) -> list[bytes]:
    """The headers of requests as the frame splitter returns them."""
    frames = []
    for number, header in enumerate(headers):
        frame = encode_request(code, number, header, b"", serialize=form)
        length = int.from_bytes(frame[4:8], "big") & 0xFFFFFF
        frames.append(frame[8 : 8 + length])
    return frames


def decoding() -> list[Fork]:
    sends = _frames(RequestCode.SEND_MESSAGE_V2, [_header(n) for n in range(64)], SerializeType.ROCKETMQ)
    ends = _frames(RequestCode.END_TRANSACTION, [_end(n) for n in range(64)], SerializeType.ROCKETMQ)
    sends_json = _frames(RequestCode.SEND_MESSAGE_V2, [_header(n) for n in range(64)], SerializeType.JSON)
    binary_sends, binary_ends = BinarySends(), BinaryEnds()
    return [
        Fork(
            "decode a binary send (protocol/binary_send)", "message",
            lambda n: binary_sends.decode(sends[n % 64], BODY).header(SendMessage),
            lambda n: decode_command(1, sends[n % 64], BODY).header(SendMessage),
        ),
        Fork(
            "decode a binary end (protocol/binary_end)", "transaction",
            lambda n: binary_ends.decode(ends[n % 64], b"").header(EndTransaction),
            lambda n: decode_command(1, ends[n % 64], b"").header(EndTransaction),
        ),
        Fork(
            "decode a send: binary, and as JSON (no fork)", "message",
            lambda n: binary_sends.decode(sends[n % 64], BODY).header(SendMessage),
            lambda n: decode_command(0, sends_json[n % 64], BODY).header(SendMessage),
        ),
    ]  # fmt: skip


def answering() -> list[Fork]:
    answers = SendAnswers(LiveConfig(BrokerConfig()), HOST)

    def encoded(command: Command, stored: Stored) -> bytes:
        answer = SendMessageAnswer(
            msg_id=offset_message_id(HOST, stored.log_offset), queue_id=stored.queue_id,
            queue_offset=stored.queue_offset, transaction_id=stored.unique_key, region="DefaultRegion",
            trace_on="true",
        )  # fmt: skip
        return encode_response(command, ResponseCode.SUCCESS, answer)

    found = []
    for form in (SerializeType.ROCKETMQ, SerializeType.JSON):
        command = Command(code=310, opaque=7, serialize=form)
        stored = Stored(123456, 99, 3, "7F0000016D98E784C4C96794C4000001")
        found.append(
            Fork(
                f"answer a send, {form.name} (remoting/send_answers)",
                "message",
                lambda n, command=command, stored=stored: answers.stored(command, stored),  # type: ignore[misc]
                lambda n, command=command, stored=stored: encoded(command, stored),  # type: ignore[misc]
            )
        )
    return found


def client_frames() -> list[Fork]:
    sends = SendFrames("PG", MessageQueue("T", "broker-a", 3), 4)
    ends = EndFrames("PG", "T", "broker-a")
    text = json.dumps(TEXT).encode()
    key = "7F0000016D98E784C4C96794C4000001"
    return [
        Fork(
            "client: frame of a send (client/sending/send_frame)", "client message",
            lambda n: sends.frame(n, 0, 1_763_700_000_000, 0, text, BODY, False),
            lambda n: encode_request(RequestCode.SEND_MESSAGE_V2, n, _header(n), BODY),
        ),
        Fork(
            "client: frame of an end (client/sending/end_frame)", "client transaction",
            lambda n: ends.frame(n, n, 1000 + n, 8, key, key),
            lambda n: encode_request(RequestCode.END_TRANSACTION, n, _end(n), b""),
        ),
    ]  # fmt: skip


def hashing() -> list[Fork]:
    return [
        Fork(
            "hash a key for the index (message/tags), pure only", "message",
            lambda n: hash_on(n, "7F0000016D98E784C4C96794C4000001"),
            lambda n: _hash_each(n, "7F0000016D98E784C4C96794C4000001"),
        )
    ]  # fmt: skip


def storing(store: MessageStore) -> list[Fork]:
    half_text = with_real_place(HALF_TEXT, "T", 3, "7F0000016D98E784C4C96794C4000001")
    plain = NewRecord("T", 3, BODY, TEXT, 1_763_700_000_000, HOST)
    (place,) = store.append((replace(plain, topic=HALF, queue_id=0, properties=half_text),))
    key = "7F0000016D98E784C4C96794C4000001"
    birth = (1_763_700_000_000, HOST, 0, 0, 0)
    open_half = OpenHalf(1, place.log_offset, "PG", key, "T", 3, 0, 0, State.OPEN, tags_code=2598919)

    def write() -> None:
        store.safety.when_synced(lambda error: None)

    def fields(number: int) -> Placement:
        return store.appender.append_plain("T", 3, BODY, TEXT, birth, key, 2598919)

    def pair(number: int) -> object:
        return append_commit(store.appender, open_half, place.data, 3, HOST, Cause.PRODUCER)

    def records(number: int) -> object:
        half = new_record_of(decode_record(place.data))
        return store.append(
            [final_record(half, "T", 3, place.log_offset), op_record(number, Decision.COMMITTED, 0, HOST)]
        )

    return [
        Fork("append a message (append_plain)", "message", fields,
             lambda n: store.append((NewRecord("T", 3, BODY, TEXT, 1_763_700_000_000, HOST),)), write),
        Fork("append a commit (transactions/records/commit)", "transaction", pair, records, write),
    ]  # fmt: skip


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--message-us", type=float, help="what a plain message costs the broker here")
    parser.add_argument("--transaction-us", type=float, help="what a transaction costs the broker here")
    chosen = parser.parse_args()
    costs = {"message": chosen.message_us, "transaction": chosen.transaction_us}
    print(build_info())
    scratch = Path(tempfile.mkdtemp(prefix="gantry-forks-"))
    store = MessageStore.open(
        StoreConfig(root=str(scratch), flush_disk_type=FlushDiskType.ASYNC_FLUSH, disk_space_warning_ratio=1.0,
                    mapped_file_size_commit_log=64 << 20, message_index_enable=False),
        OsDisk(), SystemClock(), HOST,
    )  # fmt: skip
    try:
        print(f"{'us a message':52} {'short':>7} {'long':>7} {'saves':>7}  of it")
        for fork in [*decoding(), *answering(), *storing(store), *hashing(), *client_frames()]:
            short, long = best_us(fork.short, fork.after), best_us(fork.long, fork.after)
            short, long = min(short, best_us(fork.short, fork.after)), min(long, best_us(fork.long, fork.after))
            cost = costs.get(fork.of)
            share = f"{(long - short) / cost:6.1%}" if cost else "     -"
            print(f"{fork.name:52} {short:7.2f} {long:7.2f} {long - short:7.2f} {share} of a {fork.of}")
            await asyncio.sleep(0)
    finally:
        await store.close()
        shutil.rmtree(scratch)


if __name__ == "__main__":
    asyncio.run(main())
