"""Checks: they are sent exactly on time, only to live producers, and not for ever."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from gantrymq.broker.refusal import Refusal
from gantrymq.broker.transactions.check_schedule import LOOKS_PER_TURN, OUTSTANDING_PER_PRODUCER
from gantrymq.broker.transactions.checks import AGE_LIMIT_GRACE_S
from gantrymq.message import properties
from gantrymq.message.system_topics import PARKED
from gantrymq.message.transaction import Resolution
from tests.broker.transaction_lab import GROUP, TOPIC, Half, Lab, LabClient


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path / "store", timeout_ms=6_000, check_interval_ms=30_000, check_max=3)


def answer_unknown(lab: Lab, session: LabClient, half: Half) -> None:
    lab.end(session, half, Resolution.UNKNOWN, check=True, one_way=True)


def parked(lab: Lab) -> list[bytes]:
    return [record.body for record in lab.records(PARKED, 0)]


def test_g15_a_half_is_checked_exactly_when_its_immunity_ends(lab: Lab) -> None:
    session = lab.online()
    half = lab.half()
    lab.clock.advance(5.999)
    assert session.checks() == []
    lab.clock.advance(0.001)
    ((check, message),) = session.checks()
    assert (check.queue_offset, check.log_offset) == half.place
    assert check.unique_key == check.unique_key == half.key
    assert check.broker_name == "broker-a"
    assert (message.topic, message.queue_id, message.body) == (TOPIC, 1, b"paid")
    assert (message.queue_offset, message.log_offset) == half.place


def test_hole22_a_check_names_the_real_topic(lab: Lab) -> None:
    session = lab.online()
    lab.half()
    lab.clock.advance(6)
    ((check, _),) = session.checks()
    assert check.topic == TOPIC


@pytest.mark.parametrize(("text", "seconds"), [("2", 2.0), ("60", 60.0), ("-1", 6.0), ("soon", 6.0)])
def test_a_message_may_have_its_own_immunity(lab: Lab, text: str, seconds: float) -> None:
    session = lab.online()
    lab.half(CHECK_IMMUNITY_TIME_IN_SECONDS=text)
    lab.clock.advance(seconds - 0.001)
    assert session.checks() == []
    lab.clock.advance(0.001)
    assert len(session.checks()) == 1


def test_checks_repeat_at_the_interval_and_tell_their_number(lab: Lab) -> None:
    session = lab.online()
    lab.half()
    lab.clock.advance(6 + 30 + 30)
    numbers = [properties.find(message.properties_text, "TRANSACTION_CHECK_TIMES") for _, message in session.checks()]
    assert numbers == ["1", "2", "3"]


@pytest.mark.parametrize("resolution", [Resolution.COMMIT, Resolution.ROLLBACK])
def test_the_answer_to_a_check_decides(lab: Lab, resolution: Resolution) -> None:
    lab.half()
    session = lab.online()
    lab.clock.advance(6)
    ((check, _),) = session.checks()
    place = (check.queue_offset, check.log_offset)
    lab.end(session, lab.half(), resolution, check=True, place=place, one_way=True, named=check.unique_key)
    assert len(lab.delivered()) == (1 if resolution is Resolution.COMMIT else 0)
    assert lab.coordinator.counts.decided_by_check == 1


def test_g36_hole1_a_commit_of_the_producer_itself_ends_the_checks(lab: Lab) -> None:
    session = lab.online()
    half = lab.half()
    lab.clock.advance(6)
    lab.commit(session, half)
    lab.commit(session, half, check=True)
    lab.clock.advance(1_000)
    assert len(session.checks()) == 1
    assert len(lab.delivered()) == 1


def test_g14_a_half_is_parked_after_the_last_unknown_and_never_before(lab: Lab) -> None:
    session = lab.online()
    half = lab.half()
    lab.clock.advance(6)
    for number in (1, 2, 3):
        assert len(session.checks()) == number
        assert parked(lab) == [] and PARKED not in lab.topics
        answer_unknown(lab, session, half)
        lab.clock.advance(30)
    assert parked(lab) == [b"paid"]
    assert PARKED in lab.topics, "tools read it by its topic"
    assert len(session.checks()) == 3
    assert len(lab.coordinator.table) == 0
    assert lab.delivered() == []
    assert lab.coordinator.counts.parked == 1


def test_x3_a_parked_half_cannot_be_committed(lab: Lab) -> None:
    session = lab.online()
    half = lab.half()
    lab.clock.advance(6)
    for _ in range(3):
        answer_unknown(lab, session, half)
        lab.clock.advance(30)
    assert lab.commit(session, half).result is Refusal.CONFLICT
    assert lab.roll_back(session, half).result is Refusal.CONFLICT
    assert lab.delivered() == []


def test_checks_that_nobody_answers_do_not_park(lab: Lab) -> None:
    session = lab.online()
    lab.half()
    lab.clock.advance(6 + 30 * 40)
    assert len(session.checks()) == 41
    assert parked(lab) == []


def test_an_unknown_that_answers_no_check_does_not_count(lab: Lab) -> None:
    session = lab.online()
    half = lab.half()
    for _ in range(10):
        lab.end(session, half, Resolution.UNKNOWN, one_way=True)
        answer_unknown(lab, session, half)
    lab.clock.advance(6)
    for _ in range(10):
        answer_unknown(lab, session, half)
    assert half.stored is not None
    assert half.stored.unknown_answers == 1


def test_g41_hole10_a_group_that_is_offline_loses_nothing(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    """G41: hours offline consume no attempt; the group is asked at once when it is back."""
    lab.half()
    with caplog.at_level(logging.WARNING):
        lab.clock.advance(10 * 3600)
    assert "no producer of the group is online" in caplog.text
    assert lab.coordinator.counts.nobody_online < 700
    assert parked(lab) == []
    session = lab.online()
    ((_, message),) = session.checks()
    assert properties.find(message.properties_text, "TRANSACTION_CHECK_TIMES") == "1"


def test_the_warning_about_an_offline_group_is_not_repeated_for_each_half(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(50):
        lab.half()
    with caplog.at_level(logging.WARNING):
        lab.clock.advance(60)
    assert caplog.text.count("no producer of the group is online") == 1


def test_a_producer_that_joins_gets_no_check_before_the_immunity_ends(lab: Lab) -> None:
    lab.half()
    lab.clock.advance(3)
    session = lab.online()
    assert session.checks() == []
    lab.clock.advance(3)
    assert len(session.checks()) == 1


def test_g40_hole7_a_long_immunity_costs_no_check(lab: Lab) -> None:
    session = lab.online()
    lab.half(CHECK_IMMUNITY_TIME_IN_SECONDS="3600")
    lab.clock.advance(3599)
    assert session.checks() == []
    lab.clock.advance(1)
    assert len(session.checks()) == 1


def test_g40_a_commit_before_the_immunity_ends_is_never_checked(lab: Lab) -> None:
    session = lab.online()
    half = lab.half(CHECK_IMMUNITY_TIME_IN_SECONDS="600")
    lab.clock.advance(100)
    lab.commit(session, half)
    lab.clock.advance(10_000)
    assert session.checks() == []


@pytest.mark.slow
def test_a_half_over_the_age_limit_is_parked_when_nobody_could_be_asked(lab: Lab) -> None:
    lab.half()
    lab.clock.advance(72 * 3600)
    assert parked(lab) == []
    lab.clock.advance(120)
    assert parked(lab) == [b"paid"]


@pytest.mark.slow
def test_the_age_limit_spares_a_half_that_was_never_asked_while_somebody_is_online(lab: Lab) -> None:
    session = lab.online()
    half = lab.half(CHECK_IMMUNITY_TIME_IN_SECONDS=str(100 * 3600))
    lab.clock.advance(100 * 3600)
    assert len(session.checks()) == 1
    lab.commit(session, half, check=True)
    assert len(lab.delivered()) == 1


def test_after_days_of_standstill_producers_get_time_to_come_back(lab: Lab) -> None:
    lab.half()
    lab.coordinator.close()
    lab.crash()
    lab.clock.wall += 100 * 3_600_000
    lab.clock.now += 5
    lab.open()
    lab.clock.advance(AGE_LIMIT_GRACE_S / 2)
    assert parked(lab) == []
    session = lab.online()
    assert len(session.checks()) == 1


def test_hole32_a_half_that_cannot_be_parked_stays_open(lab: Lab) -> None:
    session = lab.online()
    half = lab.half()
    lab.clock.advance(6)
    for _ in range(2):
        answer_unknown(lab, session, half)
        lab.clock.advance(30)
    answer_unknown(lab, session, half)
    lab.disk.full = True
    lab.clock.advance(300)
    assert len(lab.coordinator.table) == 1
    assert 1 <= lab.coordinator.counts.failed <= 20  # hole 11: with backoff, not at once and for ever
    lab.disk.full = False
    lab.clock.advance(120)
    assert parked(lab) == [b"paid"]
    assert len(lab.coordinator.table) == 0


@pytest.mark.parametrize("days", [-1, 1, 80 / 24])
def test_g42_hole13_the_clock_of_the_producer_does_not_matter(lab: Lab, days: float) -> None:
    session = lab.online()
    record = lab.message("K")
    record.born_timestamp += round(days * 86_400_000)
    lab.coordinator.put_half(record, GROUP, "K", lambda half, error: None)
    lab.clock.advance(5.999)
    assert session.checks() == []
    lab.clock.advance(0.001)
    assert len(session.checks()) == 1
    assert parked(lab) == []


@pytest.mark.parametrize("hours", [-24, 24])
def test_a_jump_of_the_broker_clock_does_not_move_the_check(lab: Lab, hours: int) -> None:
    session = lab.online()
    lab.half()
    lab.clock.wall += hours * 3_600_000
    lab.clock.advance(5.999)
    assert session.checks() == []
    lab.clock.advance(0.001)
    assert len(session.checks()) == 1


def test_checks_go_round_the_sessions_of_the_group(lab: Lab) -> None:
    sessions = [lab.online(), lab.online()]
    for _ in range(4):
        lab.half()
    lab.clock.advance(6)
    assert [len(session.checks()) for session in sessions] == [2, 2]


def test_x6_a_producer_that_does_not_read_gets_no_check_and_loses_none(lab: Lab) -> None:
    session = lab.online()
    session.writable = False
    lab.half()
    lab.clock.advance(20)
    assert session.checks() == []
    session.writable = True
    lab.clock.advance(1)
    assert len(session.checks()) == 1


def test_a_burst_is_spread_over_turns_of_the_loop(lab: Lab) -> None:
    session = lab.online()
    halves = 3 * LOOKS_PER_TURN + 1
    for _ in range(halves):
        lab.half()
    lab.clock.advance(6)
    assert len({check.queue_offset for check, _ in session.checks()}) == halves


@pytest.mark.slow
def test_x6_no_more_checks_are_outstanding_than_a_producer_can_keep_in_mind(lab: Lab) -> None:
    """A client that is given more drops them or answers UNKNOWN, and its halves would be parked unasked."""
    halves = {half.place[0]: half for half in (lab.half() for _ in range(2 * OUTSTANDING_PER_PRODUCER + 100))}
    lab.clock.advance(3600)
    session = lab.online()
    lab.clock.advance(0.01)
    assert len(session.checks()) == OUTSTANDING_PER_PRODUCER
    for number, (check, _) in enumerate(session.checks()[:100]):
        half = halves[check.queue_offset]
        lab.end(session, half, [8, 12, 0][number % 3], check=True, one_way=True)
    lab.clock.advance(0.01)
    assert len(session.checks()) == OUTSTANDING_PER_PRODUCER + 100
    lab.clock.advance(30.1)  # the deadline of the others has passed
    assert len({check.queue_offset for check, _ in session.checks()}) > OUTSTANDING_PER_PRODUCER + 100
    asked = 0
    while session.checks()[asked:]:
        for check, _ in session.checks()[asked:]:
            asked += 1
            lab.end(session, halves[check.queue_offset], 12, check=True, one_way=True)
        lab.clock.advance(0.01)
    lab.clock.advance(100)
    assert len(lab.coordinator.table) == 0


def test_g47_a_half_that_cannot_be_read_does_not_stop_the_others(lab: Lab) -> None:
    """G47 and hole 16."""
    session = lab.online()
    first, second = lab.half(body=b"first"), lab.half(body=b"second")
    lab.coordinator.close()
    lab.crash()
    log = next((lab.root / "commitlog").iterdir())
    data = bytearray(log.read_bytes())
    at = data.index(b"PG_lab", first.place[1])
    data[at - 7 : at - 1] = b"XGROUP"[:6]
    log.write_bytes(bytes(data))
    (lab.root / "gantry" / "open-halves").unlink()  # with the notes it is found when it is checked
    lab.open()
    assert [half.queue_offset for half in lab.coordinator.table] == [second.place[0]]
    assert lab.coordinator.counts.quarantined == 1
    lab.clock.advance(6)
    assert [message.body for _, message in session.checks()][-1] == b"second"
    assert lab.commit(session, first).result is Refusal.FAILED


def test_a_half_that_the_disk_lost_is_not_asked_about_and_stops_nobody(lab: Lab) -> None:
    session = lab.online()
    half, other = lab.half(), lab.half()
    assert half.stored is not None
    half.stored.log_offset = 1 << 40  # type: ignore[misc]
    lab.clock.advance(6)
    assert [check.queue_offset for check, _ in session.checks()] == [other.place[0]]


def test_a_decision_under_way_is_not_asked_about(lab: Lab) -> None:
    session = lab.online()
    half = lab.half()
    lab.disk.hold()
    lab.commit(session, half)
    lab.clock.advance(6)
    assert session.checks() == []
    lab.disk.release()
    lab.clock.advance(100)
    assert session.checks() == []


def test_a_check_that_waits_for_its_answer_is_not_repeated_for_a_new_producer(lab: Lab) -> None:
    lab.half()
    first = lab.online()
    lab.clock.advance(6)
    assert len(first.checks()) == 1
    second = lab.online()
    lab.clock.advance(20)
    assert second.checks() == []


def test_a_half_waits_for_one_turn_only(lab: Lab) -> None:
    """Or a million halves, looked at every interval, would fill the memory while nobody answers."""
    lab.coordinator.checks._turns._per_producer = 2
    lab.online()
    for _ in range(10):
        lab.half()
    lab.clock.advance(6 + 5 * 30)
    assert 0 < sum(len(line) for line in lab.coordinator.checks._turns._waiting.values()) <= 2 * 10


def test_a_producer_that_comes_does_not_make_everybody_wait(lab: Lab) -> None:
    lab.coordinator.checks._schedule._wakes_per_turn = 3
    for _ in range(10):
        lab.half()
    lab.clock.advance(7)
    session = lab.online()
    lab.clock.advance(0.1)
    assert sorted(check.queue_offset for check, _ in session.checks()) == list(range(10))


def test_checks_without_an_answer_are_counted(lab: Lab) -> None:
    session = lab.online()
    half = lab.half()
    lab.clock.advance(6 + 30 + 30)
    assert (lab.coordinator.counts.checks_sent, lab.coordinator.counts.checks_unanswered) == (3, 2)
    answer_unknown(lab, session, half)
    lab.clock.advance(30)
    assert (lab.coordinator.counts.checks_sent, lab.coordinator.counts.checks_unanswered) == (4, 2)


@pytest.mark.parametrize("step_ms", [-3_600_000, 3_600_000])
def test_a_clock_that_is_set_while_a_half_is_on_its_way_to_the_disk_leaves_it_its_immunity(
    lab: Lab, step_ms: int
) -> None:
    """Its store time is from before the step; a step forward used to end its immunity at once."""
    session = lab.online()
    lab.disk.hold()
    lab.half()
    lab.clock.wall += step_ms
    lab.disk.release()
    lab.clock.advance(5.999)
    assert session.checks() == []
    lab.clock.advance(0.001)
    assert len(session.checks()) == 1


@pytest.mark.parametrize("step_ms", [-30 * 86_400_000, 30 * 86_400_000])
def test_the_age_limit_follows_no_clock_that_is_set(tmp_path: Path, step_ms: int) -> None:
    lab = Lab(tmp_path / "store", timeout_ms=6_000, check_interval_ms=30_000, check_max=10_000, reserved_hours=1)
    lab.half()
    lab.clock.advance(10)
    lab.clock.wall += step_ms
    lab.clock.advance(3_580)
    assert parked(lab) == []
    lab.clock.advance(120)
    assert parked(lab) == [b"paid"]
