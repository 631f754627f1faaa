"""Stories of transactions: from records to a sentence. Every situation by table, every kind of record by example."""

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
    Stage,
    Story,
    Surroundings,
    tell,
)
from gantrymq.transactions.history.evidence import FinalSeen, HalfSeen, OpSeen, seen
from gantrymq.transactions.table.decisions import Decision

BORN = 1_700_000_000_000
NOW = BORN + 60_000
HALF_SEEN = HalfSeen(
    identity=("PG", "ID1", BORN, 7), queue_offset=3, log_offset=300, message_id="M", stored_ms=BORN + 5, born_ms=BORN,
    born_host="10.0.0.1:5", real_topic="T", real_queue_id=2, checks=0, put_back=False, immunity_text=None, keys="k",
    tags="a",
)  # fmt: skip
AROUND = Surroundings(now_ms=NOW, producers={"PG": 2}, rewrites_halves=True)


def op(half: int, decision: Decision = Decision.SETTLED) -> dict[int, OpSeen]:
    return {half: OpSeen(1, BORN + 10, decision)}


def final(log_offset: int) -> FinalSeen:
    return FinalSeen(log_offset, "T", 2, 9, BORN + 10, "F")


def one(
    halves: list[HalfSeen], ops: dict[int, OpSeen] | None = None, parked: list[HalfSeen] | None = None,
    finals: list[FinalSeen] | None = None, around: Surroundings = AROUND, all_finals: bool = False,
) -> Story:  # fmt: skip
    (story,) = tell(halves, ops or {}, parked or [], finals or [], around, all_finals=all_finals)
    return story


# What a record says.


def stored(properties: str, topic: str = HALF) -> StoredMessage:
    return StoredMessage(
        topic, 0, QueueOffset(3), LogOffset(300), 100, 0, 0, BORN, "10.0.0.1:5", BORN + 5, "10.0.0.2:10911", 0,
        LogOffset(0), 7, b"x", properties,
    )  # fmt: skip


def test_a_half_is_read() -> None:
    text = "PGROUP\x01PG\x02UNIQ_KEY\x01ID1\x02REAL_TOPIC\x01T\x02REAL_QID\x012\x02KEYS\x01k\x02TAGS\x01a\x02"
    assert seen(stored(text)) == replace(HALF_SEEN, message_id="0A00000200002A9F000000000000012C")


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
    half = seen(stored("PGROUP\x01PG\x02REAL_TOPIC\x01T\x02REAL_QID\x012\x02" + more))
    assert half is not None
    assert (half.checks, half.put_back) == (checks, put_back)


@pytest.mark.parametrize("text", ["", "PGROUP\x01PG\x02", "PGROUP\x01PG\x02REAL_TOPIC\x01T\x02REAL_QID\x01x\x02"])
def test_what_is_no_half(text: str) -> None:
    assert seen(stored(text)) is None


# Where it stands.


@pytest.mark.parametrize(
    ("ops", "finals", "all_finals", "stage"),
    [
        ({}, [], False, Stage.OPEN),
        ({}, [], True, Stage.OPEN),
        (op(3, Decision.COMMITTED), [], False, Stage.COMMITTED),
        (op(3, Decision.ROLLED_BACK), [], False, Stage.ROLLED_BACK),
        (op(3, Decision.PARKED), [], False, Stage.PARKED),
        (op(3), [], False, Stage.SETTLED),
        (op(3), [], True, Stage.ROLLED_BACK),
        (op(3), [final(300)], True, Stage.COMMITTED),
        ({}, [final(300)], True, Stage.COMMITTED),
        (op(4), [final(301)], True, Stage.OPEN),
    ],
)
def test_the_records_say_how_it_ended(
    ops: dict[int, OpSeen], finals: list[FinalSeen], all_finals: bool, stage: Stage
) -> None:
    story = one([HALF_SEEN], ops, [], finals, all_finals=all_finals)
    assert story.stage is stage
    assert story.final == next((at for at in finals if at.half_log_offset == 300), None)
    assert story.op == ops.get(3)


def test_a_parked_copy_behind_the_half_is_where_it_stands() -> None:
    parked = replace(HALF_SEEN, log_offset=500, checks=15, message_id="P")
    story = one([HALF_SEEN], op(3, Decision.PARKED), [parked])
    assert (story.stage, story.half, story.checks, story.copies) == (Stage.PARKED, parked, 15, 1)
    assert one([], {}, [parked]).stage is Stage.PARKED, "its half may be gone"
    assert one([HALF_SEEN], {}, [parked]).stage is Stage.PARKED, "an Apache broker parks without an op"


def test_an_apache_broker_may_park_what_it_has_settled() -> None:
    parked = replace(HALF_SEEN, log_offset=500, checks=5, put_back=True)
    copy = replace(HALF_SEEN, log_offset=400, queue_offset=5, checks=4, put_back=True)
    assert one([HALF_SEEN, copy], op(3), [parked], [final(300)], all_finals=True).stage is Stage.COMMITTED
    assert one([HALF_SEEN, copy], op(3), [parked], all_finals=True).stage is Stage.ROLLED_BACK


def test_a_half_behind_the_parked_copy_was_resumed() -> None:
    parked = replace(HALF_SEEN, log_offset=500, checks=15)
    fresh = replace(HALF_SEEN, log_offset=600, queue_offset=9)
    story = one([HALF_SEEN, fresh], op(3, Decision.PARKED), [parked])
    assert (story.stage, story.half, story.op) == (Stage.OPEN, fresh, None)
    assert one([HALF_SEEN, fresh], op(9, Decision.COMMITTED), [parked]).stage is Stage.COMMITTED


def test_copies_are_one_transaction_and_an_op_for_any_of_them_settles_it() -> None:
    copy = replace(HALF_SEEN, log_offset=400, queue_offset=5, checks=2, put_back=True)
    story = one([copy, HALF_SEEN])
    assert (story.stage, story.half, story.copies, story.checks) == (Stage.OPEN, copy, 2, 2)
    assert one([HALF_SEEN, copy], op(5)).stage is Stage.SETTLED
    assert one([HALF_SEEN, copy], op(3)).stage is Stage.SETTLED


def test_the_same_id_again_is_another_transaction_and_the_oldest_comes_first() -> None:
    again = replace(HALF_SEEN, identity=("PG", "ID1", BORN - 5, 7), born_ms=BORN - 5, log_offset=100, queue_offset=1)
    assert [story.half for story in tell([HALF_SEEN, again], {}, [], [], AROUND)] == [again, HALF_SEEN]


# Why.


def test_every_combination_of_facts_has_one_sentence() -> None:
    for facts in SITUATIONS.combinations():
        assert SITUATIONS[facts] in SENTENCES, facts
    assert set(SENTENCES) == set(Situation) == set(SITUATIONS.results.values())


def test_sentences_name_only_what_is_told() -> None:
    known = {"group", "topic", "checks", "times", "until", "interval", "max", "online", "final", "id"}
    for why, advice in SENTENCES.values():
        used = {name for _, name, _, _ in string.Formatter().parse(why + advice) if name}
        assert used <= known
        assert why.endswith(".")


@pytest.mark.parametrize(
    ("around", "half", "said"),
    [
        (replace(AROUND, now_ms=BORN + 1_000), HALF_SEEN, "not asked before 5 s from now"),
        (AROUND, replace(HALF_SEEN, immunity_text="120"), "not asked before 60 s from now"),
        (replace(AROUND, producers={}), HALF_SEEN, "No producer of group PG is connected"),
        (replace(AROUND, producers=None), HALF_SEEN, "could not be found out"),
        (AROUND, HALF_SEEN, "2 producer(s) of group PG are connected"),
        (AROUND, replace(HALF_SEEN, checks=4), "checked 4 times"),
        (AROUND, replace(HALF_SEEN, checks=15), "will be parked in the next round"),
        (replace(AROUND, rewrites_halves=False), replace(HALF_SEEN, checks=15), "number of checks unknown"),
    ],
)
def test_why_an_open_one_is_open(around: Surroundings, half: HalfSeen, said: str) -> None:
    story = one([half], around=around)
    assert story.stage is Stage.OPEN
    assert said in story.why
    assert story.advice and story.next_check_ms is not None


def test_what_is_over_needs_nothing() -> None:
    story = one([HALF_SEEN], op(3, Decision.COMMITTED), [], [final(300)])
    assert (story.advice, story.next_check_ms) == ("", None)
    assert "queue 2, offset 9" in story.why
    assert story.age_ms == NOW - BORN


def test_producers_are_known_unknown_or_none() -> None:
    assert {facts[3] for facts in SITUATIONS.combinations()} == set(Producers)
