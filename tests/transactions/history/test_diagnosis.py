"""Diagnoses of transactions: from records to a sentence. Every situation by table, every kind of record by example."""

from __future__ import annotations

import string
from dataclasses import replace

import pytest

from gantrymq.message.message import StoredMessage
from gantrymq.message.queues import LogOffset, QueueOffset
from gantrymq.message.system_topics import HALF
from gantrymq.transactions.history.diagnosis import (
    SENTENCES,
    SITUATIONS,
    Producers,
    Situation,
    Surroundings,
    Transaction,
    diagnose,
)
from gantrymq.transactions.history.evidence import FinalRecord, HalfRecord, OpRecord
from gantrymq.transactions.rules.states import State
from gantrymq.transactions.table.decisions import Decision

BORN = 1_700_000_000_000
NOW = BORN + 60_000
HALF_RECORD = HalfRecord(
    identity=("PG", "ID1", BORN, 7), queue_offset=3, log_offset=300, message_id="M", stored_ms=BORN + 5, born_ms=BORN,
    born_host="10.0.0.1:5", real_topic="T", real_queue_id=2, checks=0, put_back=False, immunity_text=None, keys="k",
    tags="a",
)  # fmt: skip
AROUND = Surroundings(now_ms=NOW, producers={"PG": 2}, rewrites_halves=True)


def op(half: int, decision: Decision = Decision.SETTLED) -> dict[int, OpRecord]:
    return {half: OpRecord(1, BORN + 10, decision)}


def final(log_offset: int) -> FinalRecord:
    return FinalRecord(log_offset, "T", 2, 9, BORN + 10, "F")


def one(
    halves: list[HalfRecord], ops: dict[int, OpRecord] | None = None, parked: list[HalfRecord] | None = None,
    finals: list[FinalRecord] | None = None, around: Surroundings = AROUND, all_finals: bool = False,
) -> Transaction:  # fmt: skip
    (transaction,) = diagnose(halves, ops or {}, parked or [], finals or [], around, all_finals=all_finals)
    return transaction


# What a record says.


def stored(properties: str, topic: str = HALF) -> StoredMessage:
    return StoredMessage(
        topic, 0, QueueOffset(3), LogOffset(300), 100, 0, 0, BORN, "10.0.0.1:5", BORN + 5, "10.0.0.2:10911", 0,
        LogOffset(0), 7, b"x", properties,
    )  # fmt: skip


def test_a_half_is_read() -> None:
    text = "PGROUP\x01PG\x02UNIQ_KEY\x01ID1\x02REAL_TOPIC\x01T\x02REAL_QID\x012\x02KEYS\x01k\x02TAGS\x01a\x02"
    assert HalfRecord.of(stored(text)) == replace(HALF_RECORD, message_id="0A00000200002A9F000000000000012C")


@pytest.mark.parametrize(
    ("more", "checks", "put_back"),
    [
        ("TRANSACTION_CHECK_TIMES\x013\x02", 3, True),
        ("TRANSACTION_CHECK_TIMES\x010\x02", 0, False),
        ("TRAN_PREPARED_QUEUE_OFFSET\x011\x02", 0, True),
        ("TRANSACTION_CHECK_TIMES\x01many\x02", 0, True),
    ],
)
def test_copies_of_an_apache_broker_are_known(more: str, checks: int, put_back: bool) -> None:
    half = HalfRecord.of(stored("PGROUP\x01PG\x02REAL_TOPIC\x01T\x02REAL_QID\x012\x02" + more))
    assert half is not None
    assert (half.checks, half.put_back) == (checks, put_back)


@pytest.mark.parametrize("text", ["", "PGROUP\x01PG\x02", "PGROUP\x01PG\x02REAL_TOPIC\x01T\x02REAL_QID\x01x\x02"])
def test_what_is_no_half(text: str) -> None:
    assert HalfRecord.of(stored(text)) is None


# Where it stands.


@pytest.mark.parametrize(
    ("ops", "finals", "all_finals", "state"),
    [
        ({}, [], False, State.OPEN),
        ({}, [], True, State.OPEN),
        (op(3, Decision.COMMITTED), [], False, State.COMMITTED),
        (op(3, Decision.ROLLED_BACK), [], False, State.ROLLED_BACK),
        (op(3, Decision.PARKED), [], False, State.PARKED),
        (op(3), [], False, State.SETTLED),
        (op(3), [], True, State.ROLLED_BACK),
        (op(3), [final(300)], True, State.COMMITTED),
        ({}, [final(300)], True, State.COMMITTED),
        (op(4), [final(301)], True, State.OPEN),
    ],
)
def test_the_records_say_how_it_ended(
    ops: dict[int, OpRecord], finals: list[FinalRecord], all_finals: bool, state: State
) -> None:
    transaction = one([HALF_RECORD], ops, [], finals, all_finals=all_finals)
    assert transaction.state is state
    assert transaction.final == next((at for at in finals if at.half_log_offset == 300), None)
    assert transaction.op == ops.get(3)


def test_a_parked_copy_behind_the_half_is_where_it_stands() -> None:
    parked = replace(HALF_RECORD, log_offset=500, checks=15, message_id="P")
    transaction = one([HALF_RECORD], op(3, Decision.PARKED), [parked])
    assert (transaction.state, transaction.half, transaction.checks, transaction.copies) == (
        State.PARKED,
        parked,
        15,
        1,
    )
    assert one([], {}, [parked]).state is State.PARKED, "its half may be gone"
    assert one([HALF_RECORD], {}, [parked]).state is State.PARKED, "an Apache broker parks without an op"


def test_an_apache_broker_may_park_what_it_has_settled() -> None:
    parked = replace(HALF_RECORD, log_offset=500, checks=5, put_back=True)
    copy = replace(HALF_RECORD, log_offset=400, queue_offset=5, checks=4, put_back=True)
    assert one([HALF_RECORD, copy], op(3), [parked], [final(300)], all_finals=True).state is State.COMMITTED
    assert one([HALF_RECORD, copy], op(3), [parked], all_finals=True).state is State.ROLLED_BACK


def test_a_half_behind_the_parked_copy_was_resumed() -> None:
    parked = replace(HALF_RECORD, log_offset=500, checks=15)
    fresh = replace(HALF_RECORD, log_offset=600, queue_offset=9)
    transaction = one([HALF_RECORD, fresh], op(3, Decision.PARKED), [parked])
    assert (transaction.state, transaction.half, transaction.op) == (State.OPEN, fresh, None)
    assert one([HALF_RECORD, fresh], op(9, Decision.COMMITTED), [parked]).state is State.COMMITTED


def test_copies_are_one_transaction_and_an_op_for_any_of_them_settles_it() -> None:
    copy = replace(HALF_RECORD, log_offset=400, queue_offset=5, checks=2, put_back=True)
    transaction = one([copy, HALF_RECORD])
    assert (transaction.state, transaction.half, transaction.copies, transaction.checks) == (State.OPEN, copy, 2, 2)
    assert one([HALF_RECORD, copy], op(5)).state is State.SETTLED
    assert one([HALF_RECORD, copy], op(3)).state is State.SETTLED


def test_the_same_id_again_is_another_transaction_and_the_oldest_comes_first() -> None:
    again = replace(HALF_RECORD, identity=("PG", "ID1", BORN - 5, 7), born_ms=BORN - 5, log_offset=100, queue_offset=1)
    assert [transaction.half for transaction in diagnose([HALF_RECORD, again], {}, [], [], AROUND)] == [
        again,
        HALF_RECORD,
    ]


# Why.


def test_every_combination_of_facts_has_one_sentence() -> None:
    for facts in SITUATIONS.combinations():
        assert SITUATIONS[facts] in SENTENCES, facts
    assert set(SENTENCES) == set(Situation) == set(SITUATIONS.results.values())


def test_sentences_name_only_known_words() -> None:
    known = {"group", "topic", "checks", "times", "until", "interval", "max", "online", "final", "id"}
    for why, advice in SENTENCES.values():
        used = {name for _, name, _, _ in string.Formatter().parse(why + advice) if name}
        assert used <= known
        assert why.endswith(".")


@pytest.mark.parametrize(
    ("around", "half", "said"),
    [
        (replace(AROUND, now_ms=BORN + 1_000), HALF_RECORD, "not asked before 5 s from now"),
        (AROUND, replace(HALF_RECORD, immunity_text="120"), "not asked before 60 s from now"),
        (replace(AROUND, producers={}), HALF_RECORD, "No producer of group PG is connected"),
        (replace(AROUND, producers=None), HALF_RECORD, "could not be found out"),
        (AROUND, HALF_RECORD, "2 producer(s) of group PG are connected"),
        (AROUND, replace(HALF_RECORD, checks=4), "checked 4 times"),
        (AROUND, replace(HALF_RECORD, checks=15), "will be parked in the next round"),
        (replace(AROUND, rewrites_halves=False), replace(HALF_RECORD, checks=15), "number of checks unknown"),
    ],
)
def test_why_an_open_one_is_open(around: Surroundings, half: HalfRecord, said: str) -> None:
    transaction = one([half], around=around)
    assert transaction.state is State.OPEN
    assert said in transaction.why
    assert transaction.advice and transaction.next_check_ms is not None


def test_what_is_over_needs_nothing() -> None:
    transaction = one([HALF_RECORD], op(3, Decision.COMMITTED), [], [final(300)])
    assert (transaction.advice, transaction.next_check_ms) == ("", None)
    assert "queue 2, offset 9" in transaction.why
    assert transaction.age_ms == NOW - BORN


def test_producers_are_known_unknown_or_none() -> None:
    assert {facts[3] for facts in SITUATIONS.combinations()} == set(Producers)
