"""The judge of consumer groups: each broken promise is found, and nothing else."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gantrymq.simulation.judging.checker import check
from gantrymq.simulation.judging.group_rules import AT_LEAST_ONCE, IN_ORDER, RULES, TRUE_PROGRESS
from gantrymq.simulation.judging.history import Event, decode, encode

QUIET: Event = {"event": "quiet"}
QUEUES = 2


def group(name: str, *, orderly: bool = False, topic: str = "T", retries: bool = False) -> Event:
    return {"event": "group", "group": name, "topic": topic, "orderly": orderly, "retries": retries}


def place(number: int) -> Event:
    """Message ``number`` is number // QUEUES in its queue."""
    return {"broker": "b", "topic": "T", "queue": number % QUEUES, "offset": number // QUEUES}


def sent(number: int, *, confirmed: bool = True) -> Event:
    return {"event": "sent", "message": f"m{number}", "confirmed": confirmed, **place(number)}


def progress(name: str, behind: int) -> Event:
    """Message ``behind`` and those before it in its queue are consumed."""
    return {"event": "progress", "group": name, **place(behind), "offset": behind // QUEUES + 1}


def done(number: int, name: str, **other: Any) -> Event:
    return {
        "event": "processed", "message": f"m{number}", "group": name, "member": "a", **place(number), **other,
    }  # fmt: skip


def rules(history: list[Event]) -> list[tuple[str, str]]:
    return [(violation.rule, violation.transaction) for violation in check(history)]


def test_every_group_must_have_processed_what_was_acknowledged() -> None:
    history = [group("g"), group("h"), sent(0), sent(1), sent(2, confirmed=False), done(0, "g"), done(0, "h")]
    history += [done(1, "h"), {"event": "received", "message": "m1", "group": "g", "member": "a"}]
    assert rules(history) == []
    (violation,) = check([*history, QUIET])
    assert str(violation) == "m1: its send was acknowledged, and the group g never processed it [at least once]"
    assert [event["event"] for event in violation.evidence] == ["sent", "received"]


def test_a_group_of_another_topic_need_not() -> None:
    assert rules([group("g", topic="U"), sent(0), QUIET]) == []


def test_more_than_once_is_allowed_from_any_place() -> None:
    retried = done(0, "g", broker="other", topic="%RETRY%g", offset=9)
    assert rules([group("g"), sent(0), done(0, "g"), done(0, "g"), retried, QUIET]) == []


def test_in_order_the_first_time_counts() -> None:
    first = [group("g", orderly=True), *(sent(number) for number in range(6))]
    good = [done(0, "g"), done(2, "g"), done(1, "g"), done(0, "g"), done(2, "g"), done(4, "g"), done(3, "g")]
    assert rules(first + good) == []
    assert rules([*first, done(0, "g"), done(4, "g"), done(2, "g")]) == [(IN_ORDER, "m2")]
    assert rules([group("g"), done(4, "g"), done(2, "g")]) == []


def test_progress_that_is_told_must_be_true() -> None:
    history = [group("g"), group("loose", retries=True), sent(0), sent(1), sent(2), sent(4, confirmed=False)]
    history += [done(0, "g"), progress("g", 0), progress("loose", 2), progress("g", 1), done(1, "g")]
    (violation,) = check(history)
    assert violation.rule == TRUE_PROGRESS and violation.transaction == "m1"
    assert str(violation).startswith("m1: the progress of the group g was stored behind it, and it was not processed")
    assert violation.evidence[-1] == progress("g", 1)
    assert rules([*history, progress("g", 4)]) == [(TRUE_PROGRESS, "m1"), (TRUE_PROGRESS, "m2")]
    assert rules([*history, progress("g", 0), progress("other", 4)]) == [(TRUE_PROGRESS, "m1")]


def test_without_places_progress_is_not_judged() -> None:
    """An acknowledged send need not say where its message lies."""
    plain = {key: value for key, value in sent(0).items() if key not in ("broker", "queue", "offset")}
    assert rules([group("g"), plain, progress("g", 0)]) == []


def scenario(seed: int, count: int, *, reported: bool = True) -> list[Event]:
    """Two groups, one in order, that process everything, now and then several times. ``told``: so is the broker."""
    rng = random.Random(seed)
    history: list[Event] = [group("loose"), group("ordered", orderly=True)]
    history += [sent(number) for number in range(count)]
    for name in ("loose", "ordered"):
        turn = list(range(count))
        if name == "loose":
            rng.shuffle(turn)
        for number in turn:
            history.append(done(number, name))
            if name == "ordered" and reported:
                history.append(progress(name, number))
            if rng.random() < 0.3:
                history.append(done(rng.choice(turn[: turn.index(number) + 1]), name))
    return [*history, QUIET]


SEEDS = st.integers(0, 1 << 32)


@settings(deadline=None)
@given(SEEDS, st.integers(1, 12))
def test_good_histories_pass(seed: int, count: int) -> None:
    assert check(decode(encode(scenario(seed, count)))) == []


@settings(deadline=None)
@given(SEEDS, st.integers(4, 12), st.data())
def test_a_planted_violation_is_caught_and_nobody_else_is_blamed(seed: int, count: int, data: st.DataObject) -> None:
    rule = data.draw(st.sampled_from(RULES))
    if rule == TRUE_PROGRESS:
        history = scenario(seed, count)
        victim = data.draw(st.integers(0, count - 1))
        history.insert(history.index(done(victim, "ordered")), progress("ordered", victim))
        assert rules(history) == [(rule, f"m{victim}")]
        return
    name = data.draw(st.sampled_from(("loose", "ordered"))) if rule == AT_LEAST_ONCE else "ordered"
    victim = data.draw(st.integers(0, count - 1 - (QUEUES if rule == IN_ORDER else 0)))
    history = [
        event
        for event in scenario(seed, count, reported=False)
        if not (event["event"] == "processed" and event["group"] == name and event["message"] == f"m{victim}")
    ]
    if rule == IN_ORDER:
        history.insert(-1, done(victim, name))
    assert rules(history) == [(rule, f"m{victim}")]
