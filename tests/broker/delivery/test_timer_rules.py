"""Timer messages as rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.broker.delivery.timer_rules import (
    TimerRules,
    can_be_of,
    delivery,
    due_ms,
    name_of,
    park_for,
    withdrawn_by,
)  # fmt: skip
from gantrymq.errors import MessageIllegal
from gantrymq.message import properties, system_topics
from gantrymq.message.message import StoredMessage
from gantrymq.message.queues import LogOffset, QueueOffset
from gantrymq.store.timer_log import DEFAULT, DELETE, ROLL, Unit
from tests.support.places import record

NOW = 1_700_000_000_250
HOUR = 3_600_000
RULES = TimerRules(1000, 72 * HOUR, 48 * HOUR)


def text(**values: object) -> str:
    return properties.encode({name: str(value) for name, value in values.items()})


def waiting(**values: object) -> StoredMessage:
    return StoredMessage(
        system_topics.TIMER, 0, QueueOffset(7), LogOffset(4711), 300, 0, 0, 1, "127.0.0.1:1", NOW, "127.0.0.1:2", 0,
        LogOffset(0), 0, b"body", text(**values),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("values", "due"),
    [
        ({"TIMER_DELAY_SEC": 5}, NOW + 5000),
        ({"TIMER_DELAY_MS": 5}, NOW + 5),
        ({"TIMER_DELIVER_MS": 5}, 5),
        ({"TIMER_DELAY_SEC": 1, "TIMER_DELAY_MS": 2, "TIMER_DELIVER_MS": 3}, NOW + 1000),
        ({"TIMER_DELAY_MS": 2, "TIMER_DELIVER_MS": 3}, NOW + 2),
        ({"TIMER_DELAY_SEC": -5}, NOW - 5000),
    ],
)
def test_which_property_counts(values: dict[str, object], due: int) -> None:
    assert due_ms(text(**values), NOW) == due


@pytest.mark.parametrize("value", ["", "soon", "1.5", "1_000", " 5", "9" * 20])
def test_what_is_no_number(value: str) -> None:
    if value:
        with pytest.raises(MessageIllegal, match="TIMER_DELAY_MS"):
            RULES.slot_of(text(TIMER_DELAY_MS=value), NOW)


def test_slots_are_rounded_down_and_a_whole_second_is_the_slot_before() -> None:
    assert RULES.slot_of(text(TIMER_DELIVER_MS=NOW + 1), NOW) == NOW - 250
    assert RULES.slot_of(text(TIMER_DELIVER_MS=NOW + 750), NOW) == NOW - 250
    assert RULES.slot_of(text(TIMER_DELIVER_MS=NOW + 751), NOW) == NOW + 750
    assert RULES.slot_of(text(TIMER_DELIVER_MS=NOW), NOW) is None
    assert RULES.slot_of(text(TIMER_DELAY_SEC=0), NOW) is None


def test_limits() -> None:
    assert RULES.slot_of(text(TIMER_DELAY_MS=72 * HOUR), NOW) is not None
    with pytest.raises(MessageIllegal, match="timerMaxDelaySec"):
        RULES.slot_of(text(TIMER_DELAY_MS=72 * HOUR + 1), NOW)
    with pytest.raises(MessageIllegal, match="withdraw"):
        RULES.slot_of(text(TIMER_DELIVER_MS=NOW, TIMER_DEL_UNIQKEY="T+K"), NOW)


@given(st.integers(1, 72 * HOUR), st.integers(0, 10 * HOUR), st.sampled_from([100, 200, 500, 1000]))
def test_a_message_is_never_early_and_at_most_one_step_late(delay: int, shift: int, step: int) -> None:
    rules = TimerRules(step, 72 * HOUR, 48 * HOUR)
    now = NOW + shift
    slot = rules.slot_of(text(TIMER_DELAY_MS=delay), now)
    assert slot is not None and slot % step == 0
    assert now + delay <= slot + step < now + delay + step


def unit(not_before: int = 0, now: int = NOW, **values: object) -> Unit:
    found = RULES.unit_of(waiting(REAL_TOPIC="StoreDelay", **values), now, not_before)
    assert found is not None
    return found


def test_units_are_apaches() -> None:
    """As in the recorded store 5.5.0."""
    found = unit(TIMER_OUT_MS=NOW - 250 + 2000)
    assert found == Unit(-1, DEFAULT, NOW - 250, 2000, 4711, 300, -1404956350)
    assert unit(TIMER_OUT_MS=NOW + 5750, TIMER_DEL_UNIQKEY="T+K").magic == DEFAULT | DELETE
    assert RULES.unit_of(waiting(REAL_TOPIC="T"), NOW, 0) is None


@pytest.mark.parametrize(
    ("hours", "way"), [(47, None), (48, 24), (63, 24), (64, 48), (100, 48)], ids=lambda value: str(value)
)
def test_long_ways_are_walked_in_stages(hours: int, way: int | None) -> None:
    found = unit(TIMER_OUT_MS=NOW - 250 + hours * HOUR)
    assert found.magic == (DEFAULT if way is None else DEFAULT | ROLL)
    assert found.delay_ms == (hours if way is None else way) * HOUR


def test_what_comes_too_late_joins_the_next_slot_that_is_delivered() -> None:
    late = unit(TIMER_OUT_MS=NOW - 5250, not_before=NOW - 1250)
    assert (late.time_ms, late.delay_ms) == (NOW - 1250, 0)
    assert unit(TIMER_OUT_MS=NOW - 5250, not_before=NOW + 750).time_ms == NOW + 750


@given(seconds=st.integers(-HOUR // 1000, 72 * 3600), lost=st.integers(1, 5), late=st.integers(-3, 3))
def test_a_unit_of_which_a_power_cut_left_a_part_is_told_from_a_whole_one(seconds: int, lost: int, late: int) -> None:
    """An acknowledged message was lost so: its slot seemed to be delivered. Another one came too early."""
    message = waiting(TIMER_OUT_MS=NOW - 250 + seconds * 1000, REAL_TOPIC="T")
    made = RULES.unit_of(message, NOW, NOW - 250 + late * 1000)
    assert made is not None and can_be_of(message, made)
    torn = made._replace(written_ms=made.written_ms >> 8 * lost << 8 * lost)
    if made.magic & ROLL:
        assert not can_be_of(message, torn) or torn.written_ms % 100 == 0
    elif torn.time_ms < NOW - 250 + seconds * 1000:
        assert not can_be_of(message, torn)
    if made.magic & ROLL:
        assert not can_be_of(message, made._replace(magic=DEFAULT)), "it would come when it is to be rolled"


def test_delivery_and_rolling() -> None:
    values = {"TAGS": "A", "REAL_TOPIC": "T", "REAL_QID": 3, "TIMER_OUT_MS": NOW}
    found = delivery(waiting(**values), unit(TIMER_OUT_MS=NOW - 250), NOW)
    assert found is not None and (found.topic, found.queue_id, found.body) == ("T", 3, b"body")
    stamps = {"TIMER_ENQUEUE_MS": str(NOW - 250), "TIMER_DEQUEUE_MS": str(NOW)}
    all_values = {name: str(value) for name, value in values.items()} | stamps
    assert properties.decode(found.properties) == all_values
    rolled = delivery(waiting(**all_values, TIMER_ROLL_TIMES=2), unit(TIMER_OUT_MS=NOW + 50 * HOUR), NOW + 1)
    assert rolled is not None and (rolled.topic, rolled.queue_id) == (system_topics.TIMER, 0)
    assert properties.find(rolled.properties, "TIMER_ROLL_TIMES") == "3"
    assert rolled.properties.count("TIMER_DEQUEUE_MS") == 1


@pytest.mark.parametrize("topic", [*sorted(system_topics.NOT_SENDABLE), None])
def test_a_forged_or_missing_place_gets_nothing(topic: str | None) -> None:
    values = {"REAL_QID": 0, "TIMER_OUT_MS": NOW} | ({"REAL_TOPIC": topic} if topic else {})
    assert delivery(waiting(**values), unit(TIMER_OUT_MS=NOW - 250), NOW) is None


def test_parking() -> None:
    parked = park_for(record("T", 3, properties="TAGS\x01A"), 5000)
    assert (parked.topic, parked.queue_id) == (system_topics.TIMER, 0)
    assert parked.properties == "TAGS\x01A\x02TIMER_OUT_MS\x015000\x02REAL_TOPIC\x01T\x02REAL_QID\x013\x02"


@pytest.mark.parametrize("written", ["K1", "T+K1"], ids=["5.5.0", "later"])
def test_an_order_names_the_message_that_it_withdraws(written: str) -> None:
    message = waiting(REAL_TOPIC="T", UNIQ_KEY="K1")
    assert withdrawn_by(waiting(REAL_TOPIC="T", TIMER_DEL_UNIQKEY=written)) == name_of(message) == ("T", "K1")
    assert withdrawn_by(waiting(REAL_TOPIC="Other", TIMER_DEL_UNIQKEY="K1")) != name_of(message)
