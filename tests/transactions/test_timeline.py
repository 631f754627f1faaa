"""Events of a transaction in sentences: every kind with its time and its cause, and what is missing said, too."""

from __future__ import annotations

import string
from dataclasses import replace

import pytest

from gantrymq.message.transaction import Resolution
from gantrymq.transactions.decisions import Cause, Decision
from gantrymq.transactions.events import BROKER, Event, Kind, Refusal, key_of
from gantrymq.transactions.explanation import explanation
from gantrymq.transactions.seen import FinalSeen, HalfSeen, OpSeen
from gantrymq.transactions.story import Asked, Story, Surroundings, tell
from gantrymq.transactions.timeline import (
    CHECKED,
    ENDED,
    OUTCOMES,
    REFUSED,
    SENTENCES,
    STARTED,
    Told,
    checks_in_short,
    timeline,
)

AT = 1_700_000_000_000
HALF = HalfSeen(
    identity=("PG", "ID1", AT, 7), queue_offset=3, log_offset=300, message_id="M", stored_ms=AT, born_ms=AT,
    born_host="10.0.0.1:5", real_topic="T", real_queue_id=2, checks=0, put_back=False, immunity_text=None, keys="k",
    tags="a",
)  # fmt: skip
KEY = key_of(3, 300)
PEER = "10.0.0.9:77"
AROUND = Surroundings(now_ms=AT + 60_000, producers={"PG": 1}, asked={3: Asked(1, 0, AT + 70_000)})


def story(*ops: tuple[int, OpSeen], around: Surroundings = AROUND, **more: object) -> Story:
    values: dict[str, object] = {"halves": [HALF], "parked": [], "finals": []} | more
    (told,) = tell(values["halves"], dict(ops), values["parked"], values["finals"], around)  # type: ignore[arg-type]
    return told


def op(decision: Decision, cause: Cause | None, at: int = 20_000, note: str = "") -> tuple[int, OpSeen]:
    return 3, OpSeen(1, AT + at, decision, cause, "" if cause is None else PEER, note)


def event(kind: Kind, at: int = 10_000, detail: int = 0, number: int = 0, key: int = KEY, **more: str) -> Event:
    return Event(kind, AT + at, key, detail, number, more.get("peer", PEER), more.get("text", ""))


def lines(story: Story, *events: Event, around: Surroundings = AROUND) -> list[Told]:
    return timeline(story, events, around)


def names(told: list[Told]) -> list[str]:
    return [one.event for one in told]


def only(told: list[Told], name: str) -> Told:
    (found,) = [one for one in told if one.event == name]
    return found


# Records.


def test_a_plain_transaction_is_two_events() -> None:
    final = FinalSeen(300, "T", 2, 9, AT + 4, "F")
    told = lines(story(op(Decision.COMMITTED, Cause.PRODUCER, 5), finals=[final]))
    assert [(one.at_ms - AT, one.event, one.who) for one in told] == [
        (0, "stored", "10.0.0.1:5"), (5, "committed", PEER),
    ]  # fmt: skip
    assert told[1].what == "committed: consumers of T get its message (queue 2, offset 9)"
    assert told[1].cause == f"{PEER}, a producer of PG, ended it so after its local transaction"


@pytest.mark.parametrize("cause", [*Cause, None])
@pytest.mark.parametrize("decision", [Decision.COMMITTED, Decision.ROLLED_BACK, Decision.PARKED, Decision.SETTLED])
def test_every_end_has_a_cause(decision: Decision, cause: Cause | None) -> None:
    told = lines(story(op(decision, cause, note="ann: ticket 7")))[-1]
    assert told.event == OUTCOMES[decision][0] and told.cause and "{" not in told.what + told.cause
    assert ("ann: ticket 7" in told.cause) == (cause is Cause.OPERATOR)
    assert (told.who == PEER) == (cause in (Cause.PRODUCER, Cause.CHECK_ANSWER, Cause.OPERATOR))


def test_the_end_of_the_immunity_is_told_when_it_mattered() -> None:
    assert names(lines(story())) == ["stored", "immunity_ended"]
    assert names(lines(story(op(Decision.COMMITTED, Cause.PRODUCER, 5_999)))) == ["stored", "committed"]
    slow = replace(HALF, immunity_text="30")
    told = only(lines(story(halves=[slow])), "immunity_ended")
    assert told.at_ms == AT + 30_000 and "CHECK_IMMUNITY_TIME_IN_SECONDS" in told.cause
    assert names(lines(story(halves=[replace(HALF, immunity_text="61")]))) == ["stored"]


def test_parked_and_resumed_by_somebody() -> None:
    again = replace(HALF, queue_offset=8, log_offset=800, stored_ms=AT + 30_000)
    told = lines(
        story(op(Decision.PARKED, Cause.UNKNOWN_ANSWERS), halves=[HALF, again], parked=[replace(HALF, log_offset=500)]),
        event(Kind.CHECKED, 7_000, 0, 1),
        event(Kind.ANSWERED_UNKNOWN, 8_000, 1),
        event(Kind.RESUMED, 30_000, key=key_of(8, 800), text="ann@desk: ticket 7"),
        event(Kind.CHECKED, 36_001, 0, 1, key=key_of(8, 800)),
    )
    assert names(told) == [
        "stored", "immunity_ended", "check_sent", "check_answered", "parked", "resumed", "immunity_ended", "check_sent",
    ]  # fmt: skip
    resumed = only(told, "resumed")
    assert (resumed.cause, resumed.who) == ("an operator resumed it: ann@desk: ticket 7", PEER)
    assert told[-1].cause == CHECKED[0], "the first check of the half that was opened again"


def test_what_an_apache_broker_left() -> None:
    around = replace(AROUND, rewrites_halves=True, asked={})
    copy = replace(HALF, queue_offset=4, log_offset=400, stored_ms=AT + 7_000, put_back=True, checks=1)
    settled = (4, OpSeen(1, AT + 9_000, Decision.SETTLED))
    told = lines(story(settled, halves=[HALF, copy], around=around), around=around)
    assert names(told) == ["stored", "put_back", "settled"]
    final = FinalSeen(300, "T", 2, 9, AT + 4, "F")
    assert names(lines(story(finals=[final], around=around), around=around)) == ["stored", "committed"]
    parked = replace(HALF, log_offset=900, stored_ms=AT + 9_000, checks=15)
    told = lines(story(parked=[parked], around=around), around=around)
    assert told[-1].event == "parked" and "15" in told[-1].cause


# Journal.


@pytest.mark.parametrize("kind", sorted(SENTENCES))
def test_every_kind_of_event_says_what_and_why(kind: Kind) -> None:
    told = lines(story(), event(kind, detail=Resolution.COMMIT, number=1))[-1]
    assert told.at_ms == AT + 10_000 and told.event == SENTENCES[kind][0]
    assert told.what and told.cause and "{" not in told.what + told.cause
    assert told.who == PEER


def test_sentences_name_only_what_is_told() -> None:
    words = {"peer", "number", "group", "why", "wanted", "decided"}
    for _, what, cause in SENTENCES.values():
        for text in (what, cause):
            assert {name for _, name, _, _ in string.Formatter().parse(text) if name} <= words, text
    assert set(Kind) == set(SENTENCES) | {Kind.STARTED, Kind.RESUMED}
    assert set(REFUSED) == set(Refusal) and set(STARTED) == {0, 1, 2} and set(ENDED) == {*Cause, None}


def test_a_check_says_why_it_was_sent() -> None:
    told = lines(
        story(),
        event(Kind.CHECKED, 6_000, 1, 1),
        event(Kind.CHECKED, 12_000, 0, 2),
        event(Kind.ANSWERED_UNKNOWN, 13_000, 1),
        event(Kind.CHECKED, 18_000, 0, 3),
        event(Kind.STARTED, 20_000, 2, key=BROKER),
        event(Kind.CHECKED, 24_000, 0, 1),
    )
    checks = [one.cause for one in told if one.event == "check_sent"]
    assert checks == [CHECKED[1], CHECKED[3], CHECKED[2], CHECKED[4]]
    assert lines(story(), event(Kind.CHECKED, 6_000, 0, 1))[-1].cause == CHECKED[0]


def test_a_check_after_a_time_without_producers_says_that_one_came() -> None:
    told = lines(story(), event(Kind.NOBODY_ONLINE, 6_000, peer=""), event(Kind.CHECKED, 9_000, 0, 1))
    assert told[-1].cause == CHECKED[5].format(group="PG")


def test_a_check_whose_receiver_died_is_sent_to_another() -> None:
    told = lines(story(), event(Kind.CHECKED, 6_000, 0, 1), event(Kind.LEFT, 7_000), event(Kind.CHECKED, 7_001, 0, 2))
    assert names(told)[-3:] == ["check_sent", "asked_one_left", "check_sent"]
    assert told[-1].cause == CHECKED[6]


def test_an_answer_that_nobody_asked_for_is_marked() -> None:
    assert "not counted" in lines(story(), event(Kind.ANSWERED_UNKNOWN))[-1].cause
    assert "not counted" not in lines(story(), event(Kind.ANSWERED_UNKNOWN, detail=1))[-1].cause


@pytest.mark.parametrize(
    ("decision", "wanted", "said"),
    [
        (Decision.ROLLED_BACK, Resolution.COMMIT, "it was rolled back already"),
        (Decision.COMMITTED, Resolution.ROLLBACK, "it was committed already"),
        (Decision.PARKED, Resolution.COMMIT, "it was parked already"),
    ],
)
def test_a_late_decision_says_what_had_been_decided(decision: Decision, wanted: Resolution, said: str) -> None:
    told = lines(story(op(decision, Cause.PRODUCER)), event(Kind.CONFLICT, 30_000, wanted))
    assert told[-1].event == "conflicting_end" and said in told[-1].cause
    assert told[-1].what == f"{PEER} ended it with {wanted.name}, and was refused"


def test_starts_of_the_broker_matter_while_the_transaction_lives() -> None:
    started = [event(Kind.STARTED, at, 2, key=BROKER, peer="") for at in (-5_000, 10_000, 50_000)]
    assert names(lines(story(), *started)).count("broker_started") == 2
    assert names(lines(story(op(Decision.COMMITTED, Cause.PRODUCER)), *started)).count("broker_started") == 1


def test_checks_in_short() -> None:
    now, interval = AT + 100_000, 30_000
    assert checks_in_short([], now, interval) == ""
    events = [event(Kind.CHECKED, 10_000), event(Kind.ANSWERED_UNKNOWN, 11_000, 1), event(Kind.CHECKED, 40_000)]
    assert checks_in_short(events, now, interval) == "Checks: 2 sent, 1 answered with UNKNOWN, 1 not answered."
    gone = [event(Kind.CHECKED, 99_000), event(Kind.LEFT, 99_500)]
    assert checks_in_short(gone, now, interval) == "Checks: 1 sent, 1 not answered."
    assert checks_in_short([event(Kind.CHECKED, 99_000)], now, interval) == "Checks: 1 sent, 1 waits for its answer."


# All of it.


def explained(
    *events: Event, around: Surroundings = AROUND, since: int | None = AT - 1, **more: bool
) -> dict[str, object]:
    return explanation(
        story(around=around), "broker-a", "10.0.0.2:10911", around, events, events_since_ms=since,
        events_lost=more.get("lost", False),
    )  # fmt: skip


@pytest.mark.slow
def test_an_explanation_is_plain_values() -> None:
    told = explained(event(Kind.CHECKED, 40_000, 0, 1))
    assert (told["id"], told["state"], told["checks"], told["next_check_in_ms"]) == ("ID1", "open", 1, 10_000)
    assert told["events"][-1] == {  # type: ignore[index]
        "at": "2023-11-14T22:14:00.000+00:00", "at_ms": AT + 40_000, "event": "check_sent",
        "what": f"check 1 was sent to {PEER}", "cause": CHECKED[0], "who": PEER,
    }  # fmt: skip
    assert "1 waits for its answer" in str(told["why"])
    assert told["notes"] == []


@pytest.mark.slow
def test_what_is_missing_is_said() -> None:
    assert "2023-11-14T22:13:25.000+00:00" in str(explained(since=AT + 5_000)["notes"])
    assert "does not reach back" in str(explained(since=None)["notes"])
    assert "did not take all" in str(explained(lost=True)["notes"])
    assert "last second" in str(explained(event(Kind.STARTED, 10_000, 2, key=BROKER))["notes"])
    apache = replace(AROUND, rewrites_halves=True, asked={})
    assert "Apache broker" in str(explained(around=apache, since=None)["notes"])
