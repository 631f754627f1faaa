"""Events of a transaction in sentences: every kind with its time and its cause, and what is missing said, too."""

from __future__ import annotations

import string
from dataclasses import replace

import pytest

from gantrymq.message.transaction import Resolution
from gantrymq.transactions.history.diagnosis import CheckProgress, Surroundings, Transaction, diagnose
from gantrymq.transactions.history.events import BROKER, EndRefusal, EventKind, HistoryEvent, key_of
from gantrymq.transactions.history.evidence import FinalRecord, HalfRecord, OpRecord
from gantrymq.transactions.history.explanation import explanation
from gantrymq.transactions.history.timeline import (
    CHECKED,
    ENDED,
    ENDINGS,
    REFUSED,
    SENTENCES,
    STARTED,
    TimelineEntry,
    checks_in_short,
    timeline,
)
from gantrymq.transactions.table.decisions import Cause, Decision

AT = 1_700_000_000_000
HALF = HalfRecord(
    identity=("PG", "ID1", AT, 7), queue_offset=3, log_offset=300, message_id="M", stored_ms=AT, born_ms=AT,
    born_host="10.0.0.1:5", real_topic="T", real_queue_id=2, checks=0, put_back=False, immunity_text=None, keys="k",
    tags="a",
)  # fmt: skip
KEY = key_of(3, 300)
PEER = "10.0.0.9:77"
AROUND = Surroundings(now_ms=AT + 60_000, producers={"PG": 1}, progress={3: CheckProgress(1, 0, AT + 70_000)})


def transaction(*ops: tuple[int, OpRecord], around: Surroundings = AROUND, **more: object) -> Transaction:
    values: dict[str, object] = {"halves": [HALF], "parked": [], "finals": []} | more
    (found,) = diagnose(values["halves"], dict(ops), values["parked"], values["finals"], around)  # type: ignore[arg-type]
    return found


def op(decision: Decision, cause: Cause | None, at: int = 20_000, note: str = "") -> tuple[int, OpRecord]:
    return 3, OpRecord(1, AT + at, decision, cause, "" if cause is None else PEER, note)


def event(
    kind: EventKind, at: int = 10_000, detail: int = 0, number: int = 0, key: int = KEY, **more: str
) -> HistoryEvent:
    return HistoryEvent(kind, AT + at, key, detail, number, more.get("peer", PEER), more.get("text", ""))


def lines(transaction: Transaction, *events: HistoryEvent, around: Surroundings = AROUND) -> list[TimelineEntry]:
    return timeline(transaction, events, around)


def names(entries: list[TimelineEntry]) -> list[str]:
    return [entry.event for entry in entries]


def only(entries: list[TimelineEntry], name: str) -> TimelineEntry:
    (found,) = [entry for entry in entries if entry.event == name]
    return found


# Records.


def test_a_plain_transaction_is_two_events() -> None:
    final = FinalRecord(300, "T", 2, 9, AT + 4, "F")
    found = lines(transaction(op(Decision.COMMITTED, Cause.PRODUCER, 5), finals=[final]))
    assert [(one.at_ms - AT, one.event, one.who) for one in found] == [
        (0, "stored", "10.0.0.1:5"), (5, "committed", PEER),
    ]  # fmt: skip
    assert found[1].what == "committed: consumers of T get its message (queue 2, offset 9)"
    assert found[1].cause == f"{PEER}, a producer of PG, ended it after its local transaction"


@pytest.mark.parametrize("cause", [*Cause, None])
@pytest.mark.parametrize("decision", [Decision.COMMITTED, Decision.ROLLED_BACK, Decision.PARKED, Decision.SETTLED])
def test_every_end_has_a_cause(decision: Decision, cause: Cause | None) -> None:
    found = lines(transaction(op(decision, cause, note="ann: ticket 7")))[-1]
    assert found.event == ENDINGS[decision][0] and found.cause and "{" not in found.what + found.cause
    assert ("ann: ticket 7" in found.cause) == (cause is Cause.OPERATOR)
    assert (found.who == PEER) == (cause in (Cause.PRODUCER, Cause.CHECK_ANSWER, Cause.OPERATOR))


def test_the_end_of_the_immunity_is_shown_when_it_mattered() -> None:
    assert names(lines(transaction())) == ["stored", "immunity_ended"]
    assert names(lines(transaction(op(Decision.COMMITTED, Cause.PRODUCER, 5_999)))) == ["stored", "committed"]
    slow = replace(HALF, immunity_text="30")
    found = only(lines(transaction(halves=[slow])), "immunity_ended")
    assert found.at_ms == AT + 30_000 and "CHECK_IMMUNITY_TIME_IN_SECONDS" in found.cause
    assert names(lines(transaction(halves=[replace(HALF, immunity_text="61")]))) == ["stored"]


def test_parked_and_resumed_by_somebody() -> None:
    again = replace(HALF, queue_offset=8, log_offset=800, stored_ms=AT + 30_000)
    found = lines(
        transaction(
            op(Decision.PARKED, Cause.UNKNOWN_ANSWERS), halves=[HALF, again], parked=[replace(HALF, log_offset=500)]
        ),
        event(EventKind.CHECKED, 7_000, 0, 1),
        event(EventKind.ANSWERED_UNKNOWN, 8_000, 1),
        event(EventKind.RESUMED, 30_000, key=key_of(8, 800), text="ann@coordinator: ticket 7"),
        event(EventKind.CHECKED, 36_001, 0, 1, key=key_of(8, 800)),
    )
    assert names(found) == [
        "stored", "immunity_ended", "check_sent", "check_answered", "parked", "resumed", "immunity_ended", "check_sent",
    ]  # fmt: skip
    resumed = only(found, "resumed")
    assert (resumed.cause, resumed.who) == ("an operator resumed it: ann@coordinator: ticket 7", PEER)
    assert found[-1].cause == CHECKED[0], "the first check of the half that was opened again"


def test_what_an_apache_broker_left() -> None:
    around = replace(AROUND, rewrites_halves=True, progress={})
    copy = replace(HALF, queue_offset=4, log_offset=400, stored_ms=AT + 7_000, put_back=True, checks=1)
    settled = (4, OpRecord(1, AT + 9_000, Decision.SETTLED))
    found = lines(transaction(settled, halves=[HALF, copy], around=around), around=around)
    assert names(found) == ["stored", "put_back", "settled"]
    final = FinalRecord(300, "T", 2, 9, AT + 4, "F")
    assert names(lines(transaction(finals=[final], around=around), around=around)) == ["stored", "committed"]
    parked = replace(HALF, log_offset=900, stored_ms=AT + 9_000, checks=15)
    found = lines(transaction(parked=[parked], around=around), around=around)
    assert found[-1].event == "parked" and "15" in found[-1].cause


# Journal.


@pytest.mark.parametrize("kind", sorted(SENTENCES))
def test_every_kind_of_event_says_what_and_why(kind: EventKind) -> None:
    found = lines(transaction(), event(kind, detail=Resolution.COMMIT, number=1))[-1]
    assert found.at_ms == AT + 10_000 and found.event == SENTENCES[kind][0]
    assert found.what and found.cause and "{" not in found.what + found.cause
    assert found.who == PEER


def test_sentences_name_only_known_words() -> None:
    words = {"peer", "number", "group", "why", "wanted", "decided"}
    for _, what, cause in SENTENCES.values():
        for text in (what, cause):
            assert {name for _, name, _, _ in string.Formatter().parse(text) if name} <= words, text
    assert set(EventKind) == set(SENTENCES) | {EventKind.STARTED, EventKind.RESUMED}
    assert set(REFUSED) == set(EndRefusal) and set(STARTED) == {0, 1, 2} and set(ENDED) == {*Cause, None}


def test_a_check_says_why_it_was_sent() -> None:
    found = lines(
        transaction(),
        event(EventKind.CHECKED, 6_000, 1, 1),
        event(EventKind.CHECKED, 12_000, 0, 2),
        event(EventKind.ANSWERED_UNKNOWN, 13_000, 1),
        event(EventKind.CHECKED, 18_000, 0, 3),
        event(EventKind.STARTED, 20_000, 2, key=BROKER),
        event(EventKind.CHECKED, 24_000, 0, 1),
    )
    checks = [one.cause for one in found if one.event == "check_sent"]
    assert checks == [CHECKED[1], CHECKED[3], CHECKED[2], CHECKED[4]]
    assert lines(transaction(), event(EventKind.CHECKED, 6_000, 0, 1))[-1].cause == CHECKED[0]


def test_a_check_after_a_time_without_producers_says_that_one_came() -> None:
    found = lines(transaction(), event(EventKind.NOBODY_ONLINE, 6_000, peer=""), event(EventKind.CHECKED, 9_000, 0, 1))
    assert found[-1].cause == CHECKED[5].format(group="PG")


def test_a_check_whose_receiver_died_is_sent_to_another() -> None:
    found = lines(
        transaction(),
        event(EventKind.CHECKED, 6_000, 0, 1),
        event(EventKind.LEFT, 7_000),
        event(EventKind.CHECKED, 7_001, 0, 2),
    )
    assert names(found)[-3:] == ["check_sent", "asked_one_left", "check_sent"]
    assert found[-1].cause == CHECKED[6]


def test_an_answer_that_nobody_asked_for_is_marked() -> None:
    assert "not counted" in lines(transaction(), event(EventKind.ANSWERED_UNKNOWN))[-1].cause
    assert "not counted" not in lines(transaction(), event(EventKind.ANSWERED_UNKNOWN, detail=1))[-1].cause


@pytest.mark.parametrize(
    ("decision", "wanted", "said"),
    [
        (Decision.ROLLED_BACK, Resolution.COMMIT, "it was rolled back already"),
        (Decision.COMMITTED, Resolution.ROLLBACK, "it was committed already"),
        (Decision.PARKED, Resolution.COMMIT, "it was parked already"),
    ],
)
def test_a_late_decision_says_what_had_been_decided(decision: Decision, wanted: Resolution, said: str) -> None:
    found = lines(transaction(op(decision, Cause.PRODUCER)), event(EventKind.CONFLICT, 30_000, wanted))
    assert found[-1].event == "conflicting_end" and said in found[-1].cause
    assert found[-1].what == f"{PEER} ended it with {wanted.name}, and was refused"


def test_starts_of_the_broker_matter_while_the_transaction_lives() -> None:
    started = [event(EventKind.STARTED, at, 2, key=BROKER, peer="") for at in (-5_000, 10_000, 50_000)]
    assert names(lines(transaction(), *started)).count("broker_started") == 2
    assert names(lines(transaction(op(Decision.COMMITTED, Cause.PRODUCER)), *started)).count("broker_started") == 1


def test_checks_in_short() -> None:
    now, interval = AT + 100_000, 30_000
    assert checks_in_short([], now, interval) == ""
    events = [
        event(EventKind.CHECKED, 10_000),
        event(EventKind.ANSWERED_UNKNOWN, 11_000, 1),
        event(EventKind.CHECKED, 40_000),
    ]
    assert checks_in_short(events, now, interval) == "Checks: 2 sent, 1 answered with UNKNOWN, 1 not answered."
    gone = [event(EventKind.CHECKED, 99_000), event(EventKind.LEFT, 99_500)]
    assert checks_in_short(gone, now, interval) == "Checks: 1 sent, 1 not answered."
    assert (
        checks_in_short([event(EventKind.CHECKED, 99_000)], now, interval) == "Checks: 1 sent, 1 waits for its answer."
    )


# All of it.


def explained(
    *events: HistoryEvent, around: Surroundings = AROUND, since: int | None = AT - 1, **more: bool
) -> dict[str, object]:
    return explanation(
        transaction(around=around), "broker-a", "10.0.0.2:10911", around, events, events_since_ms=since,
        events_lost=more.get("lost", False),
    )  # fmt: skip


def test_an_explanation_is_plain_values() -> None:
    found = explained(event(EventKind.CHECKED, 40_000, 0, 1))
    assert (found["id"], found["state"], found["checks"], found["next_check_in_ms"]) == ("ID1", "open", 1, 10_000)
    assert found["events"][-1] == {  # type: ignore[index]
        "at": "2023-11-14T22:14:00.000+00:00", "at_ms": AT + 40_000, "event": "check_sent",
        "what": f"check 1 was sent to {PEER}", "cause": CHECKED[0], "who": PEER,
    }  # fmt: skip
    assert "1 waits for its answer" in str(found["why"])
    assert found["notes"] == []


def test_what_is_missing_is_said() -> None:
    assert "2023-11-14T22:13:25.000+00:00" in str(explained(since=AT + 5_000)["notes"])
    assert "does not reach back" in str(explained(since=None)["notes"])
    assert "could be written" in str(explained(lost=True)["notes"])
    assert "last second" in str(explained(event(EventKind.STARTED, 10_000, 2, key=BROKER))["notes"])
    apache = replace(AROUND, rewrites_halves=True, progress={})
    assert "Apache broker" in str(explained(around=apache, since=None)["notes"])
