"""The message trace: what clients recorded of a message, as steps in the order of time.

Source: QueryMsgTraceByIdSubCommand.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Final

import msgspec

from gantrymq.admin.browsing import Browsing
from gantrymq.admin.messages import Messages
from gantrymq.errors import RouteNotFound
from gantrymq.message import system_topics
from gantrymq.message.message import MessageView
from gantrymq.protocol.trace_records import TracedMessage, TraceKind, TraceRecord, decode
from gantrymq.runtime.addresses import host_of

FOUND_MAX: Final = 64
"""Trace messages that are read of each broker for one word: brokers give no more (maxMsgsNumBatch)."""


class Happened(enum.StrEnum):
    """What a step was."""

    SENT = "sent"
    SENT_HALF = "half message sent"
    SENT_DELAYED = "sent with a delay"
    CONSUMED = "consumed"
    DECIDED = "decided"
    RECALLED = "recalled"


_SENT: Final = {TracedMessage.HALF: Happened.SENT_HALF, TracedMessage.DELAYED: Happened.SENT_DELAYED}


class TraceStep(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened to a message, as a client told it."""

    message_id: str
    happened: Happened
    at_ms: int
    """When it began, by the clock of the client. 0: not told."""
    group: str
    client: str
    """The address from which the client sent its records."""
    topic: str
    """Empty when a consumer told it: its records do not name the topic."""
    keys: str
    broker: str
    """The address of the broker that has the message; empty when a consumer told it."""
    took_ms: int | None
    """None: the records do not say it. A listener that has not ended, or died, has no time."""
    good: bool | None
    """None: it has not ended, or nobody told its end."""
    detail: str = ""
    """The decision of a transaction, or the delivery by its number."""

    @property
    def outcome(self) -> str:
        """In words."""
        if self.happened is Happened.DECIDED:
            return self.detail
        end = {None: "its end was not recorded", True: "", False: "failed"}[self.good]
        return ", ".join(filter(None, (self.detail, end)))


class TraceSteps(msgspec.Struct, frozen=True, kw_only=True):
    """What was found."""

    steps: list[TraceStep]
    """In the order of time."""
    unreadable: int = 0
    """Records that are none, or of a kind that is not known here."""
    more: bool = False
    """There may be more: as many trace messages were found as are read at most."""
    no_topic: bool = False
    """The cluster has no such trace topic."""


class Traces:
    """Reads the trace topic. Every method raises Unreachable, TimedOut or RequestRejected."""

    def __init__(self, messages: Messages, browsing: Browsing) -> None:
        self._messages = messages
        self._browsing = browsing

    async def of(self, word: str, trace_topic: str = system_topics.TRACE) -> TraceSteps:
        """The steps of the messages with this id, or with this word among their keys."""
        found = await self._messages.by_key(trace_topic, word, count=FOUND_MAX)
        steps, unreadable = steps_of(found)
        wanted = [step for step in steps if word == step.message_id or word in step.keys.split()]
        return TraceSteps(steps=wanted, unreadable=unreadable, more=len(found) >= FOUND_MAX)

    async def newest(self, count: int, trace_topic: str = system_topics.TRACE) -> TraceSteps:
        """The steps in the last ``count`` trace messages."""
        try:
            found = await self._browsing.newest(trace_topic, count)
        except RouteNotFound:
            await self._browsing.check_brokers()
            return TraceSteps(steps=[], no_topic=True)
        steps, unreadable = steps_of(found)
        return TraceSteps(steps=steps, unreadable=unreadable, more=len(found) >= count)


def steps_of(found: Iterable[MessageView]) -> tuple[list[TraceStep], int]:
    """The steps in trace messages, in the order of time, and the number of records that cannot be read.

    The beginning and the end of a listener's call are two records, which may lie in different messages; they become
    one step. A trace message that was stored twice tells its steps once.
    """
    records: dict[TraceRecord, str] = {}
    unreadable = 0
    for view in found:
        read, bad = decode(view.body)
        unreadable += bad
        records.update(dict.fromkeys(read, host_of(view.born_host)))
    ends = {(end.request_id, end.message_id): end for end in records if end.kind is TraceKind.SUB_AFTER}
    steps = []
    for record, client in records.items():
        if record.kind is TraceKind.SUB_BEFORE:
            steps.append(consumed(record, client, ends.pop((record.request_id, record.message_id), None)))
        elif record.kind is not TraceKind.SUB_AFTER:
            steps.append(step_of(record, client))
    # The beginning was lost, or lies in a message that was not read.
    steps += [consumed(end, client, end) for end in ends.values() if (client := records[end])]
    return sorted(steps, key=lambda step: step.at_ms), unreadable


def step_of(record: TraceRecord, client: str) -> TraceStep:
    """The step of a record that is one by itself."""
    if record.kind is TraceKind.PUB:
        happened = _SENT.get(record.message_kind, Happened.SENT)
        return _told(record, happened, client, took_ms=record.cost_ms, good=record.good)
    if record.kind is TraceKind.RECALL:
        return _told(record, Happened.RECALLED, client, good=record.good)
    by = "in answer to a check-back" if record.from_check else "by the producer"
    word = {"COMMIT_MESSAGE": "commit", "ROLLBACK_MESSAGE": "rollback"}.get(record.state, "unknown")
    return _told(record, Happened.DECIDED, client, detail=f"{word}, {by}")


def consumed(record: TraceRecord, client: str, end: TraceRecord | None) -> TraceStep:
    """The call of a listener; ``record``: of its beginning, or that of its end when there is no other."""
    detail = f"delivery {record.deliveries_before + 1}" if record.kind is TraceKind.SUB_BEFORE else ""
    took, good = (None, None) if end is None else (end.cost_ms, end.good)
    return _told(record, Happened.CONSUMED, client, took_ms=took, good=good, detail=detail)


def _told(
    record: TraceRecord,
    happened: Happened,
    client: str,
    *,
    took_ms: int | None = None,
    good: bool | None = None,
    detail: str = "",
) -> TraceStep:
    return TraceStep(
        message_id=record.message_id, happened=happened, at_ms=record.time_ms, group=record.group, client=client,
        topic=record.topic, keys=record.keys, broker=record.broker, took_ms=took_ms, good=good, detail=detail,
    )  # fmt: skip
