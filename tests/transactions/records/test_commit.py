"""A commit made of the stored half is the same as one made by way of values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.errors import MessageIllegal
from gantrymq.message import properties
from gantrymq.message.system_topics import OP
from gantrymq.protocol.stored_message import decode_record, pack_host
from gantrymq.simulation.world.disk import SimDisk
from gantrymq.store.dispatch import tags_code_of
from gantrymq.store.message_store import MessageStore
from gantrymq.store.values import NewRecord
from gantrymq.transactions.records.commit import append_commit, append_commits
from gantrymq.transactions.records.half import final_record, new_record_of, op_record
from gantrymq.transactions.rules.states import State
from gantrymq.transactions.table.decisions import Cause, Decision
from gantrymq.transactions.table.open_halves import OpenHalf
from tests.support.halves import half_record
from tests.support.places import run, small
from tests.support.records import encode_record
from tests.support.sim_clock import SimClock

HOST = pack_host("127.0.0.1:40000")
HOSTS = st.sampled_from([HOST, pack_host("[2001:db8::1]:40000")])
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), max_size=20)


@pytest.mark.slow
@given(
    body=st.binary(min_size=1, max_size=50), names=st.dictionaries(TEXTS.filter(bool), TEXTS, max_size=4),
    tag=st.sampled_from(["", "TagA", "Straße"]), topic=st.sampled_from(["Orders", "o" * 127, "o" * 128]),
    flag=st.integers(-(2**31), 2**31 - 1), sys_flag=st.integers(0, 15), times=st.integers(0, 20), born_host=HOSTS,
    store_host=HOSTS, by=HOSTS, number=st.integers(0, 2**40),
)  # fmt: skip
def test_a_commit_made_of_the_stored_half_has_the_same_bytes(
    body: bytes, names: dict[str, str], tag: str, topic: str, flag: int, sys_flag: int, times: int, born_host: bytes,
    store_host: bytes, by: bytes, number: int,
) -> None:  # fmt: skip
    text = properties.encode({**names, "TAGS": tag, "UNIQ_KEY": "U"})
    sent = NewRecord(topic, 3, body, text, 1234, born_host, flag, sys_flag, times)
    try:
        data = encoded(half_record(sent, topic, 3, "U"), store_host)
    except MessageIllegal:
        return
    tags_code = tags_code_of(text) if flag % 2 else None
    half = OpenHalf(number, 4290, "PG", "U", topic, 3, 0, 0, State.OPEN, tags_code=tags_code)

    async def story(*, short: bool) -> object:
        clock = SimClock()
        store = MessageStore.open(small("/store"), SimDisk(), clock, store_host)
        if short:
            end = append_commit(store.appender, half, data, 3, by, Cause.CHECK_ANSWER)
            if end is None:
                await store.close()
                return None
        else:
            final = final_record(new_record_of(decode_record(data)), topic, 3, 4290)
            op = op_record(number, Decision.COMMITTED, clock.wall_ms(), by, Cause.CHECK_ANSWER)
            end = store.append((final, op))[1].end
        await store.flush_everything()
        found = list(store.scan(0)), store.entry(topic, 3, 0), store.entry(OP, 0, 0), store.query(topic, "U", 2)
        await store.close()
        return end, *found

    committed = run(story(short=True))
    if topic == "o" * 128 or len(born_host + store_host + by) > 24:
        assert committed is None
    else:
        assert committed == run(story(short=False))


@given(
    st.lists(st.tuples(st.binary(min_size=1, max_size=9), TEXTS, st.booleans()), min_size=1, max_size=20),
    st.sampled_from([4096, 1]),
)
def test_commits_in_one_append_are_final_messages_and_op_messages_behind_them(
    kinds: list[tuple[bytes, str, bool]], op_bytes: int
) -> None:
    """One op message, or one for each of them where 4.x brokers shall read the store."""
    halves, records = [], []
    for number, (body, tag, known) in enumerate(kinds):
        text = properties.encode({"TAGS": tag, "KEYS": f"k{number} k", "UNIQ_KEY": f"U{number}"})
        record = half_record(NewRecord("Orders", 3, body, text, 1234, HOST), "Orders", 3, f"U{number}")
        tags_code = tags_code_of(text) if known else None
        halves.append(
            OpenHalf(number, 500 * number, "PG", f"U{number}", "Orders", 3, 0, 0, State.OPEN, tags_code=tags_code)
        )
        records.append(encoded(record, HOST))
    bodies = [b"%d" % number for number in range(len(kinds))]
    if op_bytes > 1 and len(kinds) > 1:
        bodies = [b"".join(body + b"," for body in bodies)]

    async def story(*, together: bool) -> object:
        clock = SimClock()
        store = MessageStore.open(small("/store"), SimDisk(), clock, HOST)
        store.append([NewRecord("Orders", 0, b"first", "", 0, HOST)])
        if together:
            end = append_commits(store.appender, halves, records, 3, HOST, Cause.PRODUCER, op_bytes)
        else:
            stored = zip(halves, records, strict=True)
            finals = [
                final_record(new_record_of(decode_record(data)), "Orders", 3, of.log_offset) for of, data in stored
            ]
            ops = [replace(op_record(0, Decision.COMMITTED, clock.wall_ms(), HOST), body=body) for body in bodies]
            end = store.append([*finals, *ops])[-1].end
        await store.flush_everything()
        entries = [
            store.entry(topic, queue, number) for topic, queue in (("Orders", 3), (OP, 0)) for number in range(21)
        ]
        keys = [store.query("Orders", key, 64) for key in ("U0", "k", "k7")]
        found = list(store.scan(0)), entries, keys
        await store.close()
        return end, *found

    assert run(story(together=True)) == run(story(together=False))


def encoded(record: NewRecord, store_host: bytes) -> bytes:
    """A half as it lies in the log."""
    return encode_record(
        record.topic.encode(), record.body, record.properties.encode(), record.queue_id, 8, 4290,
        record.born_timestamp, record.born_host, 7777, store_host, record.flag, record.sys_flag,
        record.reconsume_times, record.prepared_transaction_offset,
    )  # fmt: skip


def test_only_a_half_that_ends_with_its_real_place_is_moved_as_it_is() -> None:
    async def story(text: str) -> Any:
        store = MessageStore.open(small("/store"), SimDisk(), SimClock(), HOST)
        record = half_record(NewRecord("Orders", 3, b"paid", "", 1234, HOST), "Orders", 3, "C0A8")
        record.properties += text
        half = OpenHalf(8, 4290, "PG", "C0A8", "Orders", 3, 0, 0, State.OPEN)
        placed = append_commit(store.appender, half, encoded(record, HOST), 3, HOST, 0)
        nothing = store.appended
        await store.close()
        return placed, nothing

    assert run(story("TRANSACTION_CHECK_TIMES\x010\x02")) == (None, 0)
    assert run(story(""))[0] is not None
