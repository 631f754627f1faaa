"""Trace records become steps."""

from __future__ import annotations

import itertools

from gantrymq.admin.traces import Happened, steps_of
from gantrymq.message.message import MessageView
from gantrymq.message.queues import LogOffset, MessageQueue, QueueOffset
from gantrymq.protocol.trace_records import TracedMessage, TraceKind, TraceRecord, encode

PUB = TraceRecord(
    kind=TraceKind.PUB, message_id="ID", time_ms=100, group="PG", topic="T", cost_ms=3, message_kind=TracedMessage.HALF
)
END = TraceRecord(kind=TraceKind.END_TRANSACTION, message_id="ID", time_ms=110, group="PG", state="COMMIT_MESSAGE")
BEFORE = TraceRecord(
    kind=TraceKind.SUB_BEFORE, message_id="ID", time_ms=120, group="CG", request_id="R", deliveries_before=1
)
AFTER = TraceRecord(
    kind=TraceKind.SUB_AFTER, message_id="ID", time_ms=127, group="CG", request_id="R", cost_ms=7, good=False
)


def stored(*records: TraceRecord, damaged: bytes = b"") -> MessageView:
    body, queue = "".join(map(encode, records)).encode() + damaged, MessageQueue("T", "broker-a", 0)
    return MessageView(
        "T", body, {}, 0, queue, QueueOffset(0), "", "", 0, "10.0.0.7:4711", 0, "", 0, LogOffset(0)
    )  # fmt: skip


def test_the_life_of_a_message_in_any_order_of_messages() -> None:
    for order in itertools.permutations([stored(PUB), stored(END), stored(BEFORE), stored(AFTER)]):
        steps, unreadable = steps_of(order)
        assert [(step.happened, step.at_ms, step.took_ms, step.outcome) for step in steps] == [
            (Happened.SENT_HALF, 100, 3, ""),
            (Happened.DECIDED, 110, None, "commit, by the producer"),
            (Happened.CONSUMED, 120, 7, "delivery 2, failed"),
        ]
        assert {step.client for step in steps} == {"10.0.0.7"} and not unreadable


def test_one_end_without_the_other() -> None:
    (begun,), _ = steps_of([stored(BEFORE)])
    assert (begun.good, begun.took_ms, begun.outcome) == (None, None, "delivery 2, its end was not recorded")
    (ended,), _ = steps_of([stored(AFTER)])
    assert (ended.good, ended.took_ms, ended.outcome, ended.group) == (False, 7, "failed", "CG")


def test_messages_of_one_call_and_repeats() -> None:
    """A listener that took three messages at once; a trace message that was stored twice."""
    names = ["A", "B", "C"]
    begun = [TraceRecord(kind=TraceKind.SUB_BEFORE, message_id=name, time_ms=1, request_id="R") for name in names]
    ended = [TraceRecord(kind=TraceKind.SUB_AFTER, message_id=name, request_id="R", cost_ms=2) for name in names]
    together = stored(*reversed(begun), *ended)
    steps, _ = steps_of([together, together])
    assert sorted((step.message_id, step.took_ms) for step in steps) == [("A", 2), ("B", 2), ("C", 2)]


def test_what_is_no_record_is_counted() -> None:
    steps, unreadable = steps_of([stored(PUB, damaged=b"Pub\x01what\x02"), stored(damaged=b"\xff")])
    assert len(steps) == 1 and unreadable == 2
