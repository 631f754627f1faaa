"""The explanation of one transaction, as plain values for JSON. It is the same from the broker's HTTP endpoint, from
its private request, and from ``gantry transactions explain --json`` on an Apache broker.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gantrymq.runtime import calendar
from gantrymq.transactions.history.diagnosis import Surroundings, Transaction
from gantrymq.transactions.history.events import EventKind, HistoryEvent
from gantrymq.transactions.history.timeline import checks_in_short, timeline
from gantrymq.transactions.rules.states import State


def explanation(
    transaction: Transaction,
    broker: str,
    address: str,
    around: Surroundings,
    events: Sequence[HistoryEvent] = (),
    *,
    events_since_ms: int | None = None,
    events_lost: bool = False,
) -> dict[str, Any]:
    """One transaction. Times are ISO 8601 in UTC, with the ms since 1970 beside those of events.

    ``events``: of its halves and of the broker, in order. ``events_since_ms``: since when they are complete.
    """
    entries = timeline(transaction, events, around)
    why = transaction.why
    if transaction.state is State.OPEN and (short := checks_in_short(events, around.now_ms, around.interval_ms)):
        why = f"{why} {short}"
    half = transaction.half
    final, next_check_ms = transaction.final, transaction.next_check_ms
    return {
        "id": transaction.transaction_id,
        "state": transaction.state.text,
        "why": why,
        "advice": transaction.advice,
        "group": transaction.group,
        "topic": transaction.topic,
        "queue": transaction.queue_id,
        "keys": half.keys,
        "tags": half.tags,
        "broker": broker,
        "address": address,
        "age_ms": transaction.age_ms,
        "born_at": iso(half.born_ms),
        "born_host": half.born_host,
        "checks": transaction.checks,
        "producers_online": transaction.producers,
        "next_check_at": iso(next_check_ms),
        "next_check_in_ms": None if next_check_ms is None else max(next_check_ms - around.now_ms, 0),
        "half": {
            "queue_offset": half.queue_offset, "log_offset": half.log_offset, "offset_message_id": half.message_id,
        },
        "final": None if final is None else {
            "topic": final.topic, "queue": final.queue_id, "queue_offset": final.queue_offset,
            "offset_message_id": final.message_id,
        },
        "events": [
            {"at": iso(entry.at_ms), "at_ms": entry.at_ms, "event": entry.event, "what": entry.what,
             "cause": entry.cause, "who": entry.who or None}
            for entry in entries
        ],
        "notes": _notes(transaction, around, events, events_since_ms, events_lost),
    }  # fmt: skip


def _notes(
    transaction: Transaction, around: Surroundings, events: Sequence[HistoryEvent], since_ms: int | None, lost: bool
) -> list[str]:
    """What is not known, so that missing events are not mistaken for events that did not happen."""
    if around.rewrites_halves:
        return ["An Apache broker keeps this transaction and records no events: what is shown comes from its messages."]
    notes = []
    first = transaction.halves[0].stored_ms if transaction.halves else transaction.half.stored_ms
    if since_ms is None or first < since_ms:
        since = "so far" if since_ms is None else f"before {iso(since_ms)}"
        notes.append(f"Checks, answers and refusals {since} are not known: the journal of events does not reach back.")
    if lost:
        notes.append("Not all events since the start of the broker could be written: some may be missing.")
    if any(event.kind is EventKind.STARTED and event.detail == 2 and event.time_ms > first for event in events):
        notes.append("The broker died and was started again meanwhile: events of its last second may be missing.")
    return notes


def iso(time_ms: int | None) -> str | None:
    """As ``calendar.iso``; None for None."""
    return None if time_ms is None else calendar.iso(time_ms)
