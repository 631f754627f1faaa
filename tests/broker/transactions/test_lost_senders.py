"""Half messages with decisive checkers are checked when their sender is lost. Nothing else ends an immunity early."""

from __future__ import annotations

from pathlib import Path

import pytest

from gantrymq.broker.transactions.checks import ASKED_AGAIN_AT_ONCE
from gantrymq.broker.transactions.lost_senders import CLEAN_AT_LEAST, GRACE_STEPS
from gantrymq.message import properties
from gantrymq.message.system_topics import PARKED
from gantrymq.message.transaction import Resolution
from tests.broker.transaction_lab import GROUP, Half, Lab, LabClient

GRACE_S = 0.501
"""A little longer than ``sender_grace_ms``, whose steps add up with rounding errors."""
IMMUNITY_S = 6.0


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path / "store", timeout_ms=6_000, check_interval_ms=30_000, check_max=3)


def decisive(lab: Lab, sender: LabClient, **more: str) -> Half:
    return lab.half(sender, **{properties.IMMUNE_WHILE_CONNECTED: GROUP}, **more)


def asked_early(session: LabClient) -> list[bool]:
    return [properties.EARLY_CHECK in message.properties_text for _, message in session.checks()]


def answer(lab: Lab, session: LabClient, half: Half, resolution: Resolution) -> None:
    lab.end(session, half, resolution, check=True, one_way=True)


def test_a_sibling_is_asked_when_the_grace_of_a_killed_sender_is_over(lab: Lab) -> None:
    sender, sibling = lab.online(), lab.online()
    half = decisive(lab, sender)
    lab.clock.advance(1)
    lab.offline(sender)
    lab.clock.advance(GRACE_S - 0.002)
    assert sibling.checks() == []
    lab.clock.advance(0.002)
    assert asked_early(sibling) == [True]
    answer(lab, sibling, half, Resolution.COMMIT)
    assert len(lab.delivered()) == 1
    assert lab.coordinator.counts.early_checks == 1
    lab.clock.advance(1_000)
    assert len(sibling.checks()) == 1


@pytest.mark.parametrize("step_ms", [-86_400_000, -700, 700, 86_400_000])
def test_the_grace_follows_no_clock_that_steps(lab: Lab, step_ms: int) -> None:
    sender, sibling = lab.online(), lab.online()
    decisive(lab, sender)
    lab.clock.advance(1)
    lab.offline(sender)
    lab.clock.wall += step_ms
    lab.clock.advance(GRACE_S - 0.002)
    assert sibling.checks() == []
    lab.clock.advance(0.002)
    assert asked_early(sibling) == [True]


def test_a_plain_half_keeps_its_immunity_whatever_becomes_of_its_sender(lab: Lab) -> None:
    sender, sibling = lab.online(), lab.online()
    lab.half(sender)
    lab.offline(sender)
    lab.clock.advance(IMMUNITY_S - 0.001)
    assert sibling.checks() == []
    lab.clock.advance(0.001)
    assert asked_early(sibling) == [False]


def test_a_half_that_copied_the_mark_of_another_group_keeps_its_immunity(lab: Lab) -> None:
    sender, sibling = lab.online(), lab.online()
    lab.half(sender, **{properties.IMMUNE_WHILE_CONNECTED: "PG_other"})
    lab.offline(sender)
    lab.clock.advance(IMMUNITY_S - 0.001)
    assert sibling.checks() == []


def test_while_its_sender_is_connected_a_half_with_decisive_checkers_is_immune(lab: Lab) -> None:
    sender, sibling = lab.online(), lab.online()
    decisive(lab, sender)
    lab.offline(lab.online())  # another member comes and goes
    lab.clock.advance(IMMUNITY_S - 0.001)
    assert sender.checks() == sibling.checks() == []
    lab.clock.advance(0.001)
    assert asked_early(sender) + asked_early(sibling) == [False]


@pytest.mark.parametrize("away_s", [0.0, 0.1, 0.499])
def test_a_sender_that_is_back_within_the_grace_is_left_alone(lab: Lab, away_s: float) -> None:
    sender, sibling = lab.online(client_id="sender"), lab.online()
    decisive(lab, sender)
    lab.offline(sender)
    lab.clock.advance(away_s)
    back = lab.online(client_id="sender")
    lab.clock.advance(IMMUNITY_S - away_s - 0.001)
    assert back.checks() == sibling.checks() == []


def test_a_sender_that_came_back_and_died_then_is_asked_about(lab: Lab) -> None:
    sender, sibling = lab.online(client_id="sender"), lab.online()
    decisive(lab, sender)
    lab.offline(sender)
    lab.clock.advance(0.1)
    back = lab.online(client_id="sender")
    lab.clock.advance(1)
    lab.offline(back)
    lab.clock.advance(GRACE_S)
    assert asked_early(sibling) == [True]


def test_a_client_with_another_connection_is_there(lab: Lab) -> None:
    sender, sibling = lab.online(client_id="sender"), lab.online()
    decisive(lab, sender)
    second = lab.online(client_id="sender")
    lab.offline(sender)
    lab.clock.advance(2)
    assert second.checks() == sibling.checks() == []
    lab.offline(second)
    lab.clock.advance(GRACE_S)
    assert asked_early(sibling) == [True]


def test_a_connection_that_never_said_whose_it_is_changes_nothing(lab: Lab) -> None:
    """The fast port of a Java client's VIP channel: its heartbeats go to the other port."""
    sibling, fast = lab.online(), LabClient()
    decisive(lab, fast)
    fast.alive = False
    lab.coordinator.client_gone(fast)
    lab.clock.advance(IMMUNITY_S - 0.001)
    assert sibling.checks() == []
    lab.clock.advance(0.001)
    assert asked_early(sibling) == [False]


def test_a_connection_of_several_clients_changes_nothing(lab: Lab) -> None:
    sender, sibling = lab.online(), lab.online()
    sender.client_ids.add("somebody else")
    decisive(lab, sender)
    lab.offline(sender)
    lab.clock.advance(IMMUNITY_S - 0.001)
    assert sibling.checks() == []


def test_without_a_sibling_the_first_one_that_joins_is_asked(lab: Lab) -> None:
    sender = lab.online()
    decisive(lab, sender)
    lab.offline(sender)
    lab.clock.advance(2)
    sibling = lab.online()
    lab.clock.advance(0)
    assert asked_early(sibling) == [True]


def test_a_sender_that_is_late_and_the_first_to_join_is_not_asked(lab: Lab) -> None:
    """It is alive and its local transaction may be running: its half has its immunity again."""
    sender = lab.online(client_id="sender")
    decisive(lab, sender)
    lab.offline(sender)
    lab.clock.advance(2)
    back = lab.online(client_id="sender")
    lab.clock.advance(IMMUNITY_S - 2 - 0.001)
    assert back.checks() == []
    sibling = lab.online()
    lab.offline(back)  # and this time for good
    lab.clock.advance(0.001)
    assert asked_early(sibling) == [False], "the immunity ends within the grace"


def test_a_check_that_is_on_its_way_when_the_sender_returns_may_be_answered(lab: Lab) -> None:
    sender, sibling = lab.online(client_id="sender"), lab.online()
    half = decisive(lab, sender)
    lab.offline(sender)
    lab.clock.advance(1)
    back = lab.online(client_id="sender")
    assert asked_early(sibling) == [True]
    answer(lab, sibling, half, Resolution.ROLLBACK)
    assert lab.commit(back, half).refused is not None, "the sibling claimed the transaction: its commit must fail, too"
    assert lab.delivered() == []


def test_a_half_on_its_way_to_the_disk_when_the_connection_closes(lab: Lab) -> None:
    sender, sibling = lab.online(), lab.online()
    lab.disk.hold()
    decisive(lab, sender)
    lab.offline(sender)
    lab.clock.advance(2)
    assert sibling.checks() == []
    lab.disk.release()
    lab.clock.advance(0)
    assert asked_early(sibling) == [True]


def test_a_retry_on_a_new_connection_belongs_to_that_one(lab: Lab) -> None:
    first, sibling = lab.online(client_id="sender"), lab.online()
    half = decisive(lab, first)
    second = lab.online(client_id="sender")
    record = lab.message(half.key, **{properties.IMMUNE_WHILE_CONNECTED: GROUP})
    record.born_host = second.host
    lab.coordinator.put_half(record, GROUP, half.key, lambda half, error: None)
    lab.offline(second)
    lab.clock.advance(2)
    assert sibling.checks() == [], "the first connection is there"
    lab.offline(first)
    lab.clock.advance(GRACE_S)
    assert asked_early(sibling) == [True]


def test_after_a_restart_of_the_broker_the_immunity_counts(lab: Lab) -> None:
    """All connections are gone then, those of living senders as well."""
    sender = lab.online()
    decisive(lab, sender)
    lab.clock.advance(1)
    lab.coordinator.close()
    lab.crash()
    lab.producers.groups.clear()
    lab.clock.advance(1)
    lab.open()
    sibling = lab.online()
    lab.clock.advance(IMMUNITY_S - 2 - 0.001)
    assert sibling.checks() == []
    lab.clock.advance(0.001)
    assert asked_early(sibling) == [False]


def test_who_answers_unknown_early_is_asked_again_when_the_immunity_ends(lab: Lab) -> None:
    sender, sibling = lab.online(), lab.online()
    half = decisive(lab, sender)
    lab.offline(sender)
    lab.clock.advance(GRACE_S)
    answer(lab, sibling, half, Resolution.UNKNOWN)
    lab.clock.advance(IMMUNITY_S - GRACE_S - 0.001)
    assert asked_early(sibling) == [True]
    lab.clock.advance(0.001)
    assert asked_early(sibling) == [True, False]


def test_answers_to_early_checks_do_not_count(lab: Lab) -> None:
    sender, sibling = lab.online(), lab.online()
    half = decisive(lab, sender, CHECK_IMMUNITY_TIME_IN_SECONDS="3600")
    lab.offline(sender)
    lab.clock.advance(GRACE_S)
    early = 10
    for number in range(1, early + 1):
        assert asked_early(sibling) == [True] * number
        answer(lab, sibling, half, Resolution.UNKNOWN)
        lab.clock.advance(30)
    lab.clock.advance(3_600 - GRACE_S - 30 * early)
    for number in (1, 2, 3):
        assert asked_early(sibling).count(False) == number and lab.records(PARKED, 0) == []
        answer(lab, sibling, half, Resolution.UNKNOWN)
        lab.clock.advance(30)
    assert len(lab.records(PARKED, 0)) == 1


def test_when_the_sibling_dies_too_the_next_one_is_asked_at_once(lab: Lab) -> None:
    sender = lab.online()
    half = decisive(lab, sender)
    first = lab.online()
    lab.offline(sender)
    lab.clock.advance(GRACE_S)
    assert len(first.checks()) == 1
    second = lab.online()
    assert second.checks() == []
    lab.offline(first)
    lab.clock.advance(0)
    assert len(second.checks()) == 1
    answer(lab, second, half, Resolution.COMMIT)
    assert len(lab.delivered()) == 1


def test_a_check_that_ends_its_checkers_does_not_end_them_all_at_once(lab: Lab) -> None:
    lab.half()
    siblings = [lab.online() for _ in range(8)]
    lab.clock.advance(IMMUNITY_S)
    asked = 0
    for _ in siblings:
        for session in siblings:
            if session.alive and session.checks():
                lab.offline(session)
                lab.clock.advance(0)
                asked += 1
    assert asked == ASKED_AGAIN_AT_ONCE + 1
    lab.clock.advance(30)
    assert sum(bool(session.checks()) for session in siblings) == asked + 1


def test_a_check_that_was_answered_is_not_repeated_when_its_session_closes(lab: Lab) -> None:
    half = lab.half()
    first = lab.online()
    lab.clock.advance(IMMUNITY_S)
    answer(lab, first, half, Resolution.UNKNOWN)
    second = lab.online()
    lab.offline(first)
    lab.clock.advance(29)
    assert second.checks() == []


def test_the_grace_may_be_none_or_endless(lab: Lab) -> None:
    from dataclasses import replace

    sender, other, sibling = lab.online(), lab.online(), lab.online()
    decisive(lab, sender)
    decisive(lab, other)
    lab.coordinator.reconfigure(replace(lab.config, sender_grace_ms=0))
    lab.offline(sender)
    lab.clock.advance(0)
    assert asked_early(sibling) + asked_early(other) == [True]
    lab.coordinator.reconfigure(replace(lab.config, sender_grace_ms=-1))
    lab.offline(other)
    lab.clock.advance(IMMUNITY_S - 0.001)
    assert all(asked_early(sibling))


def test_a_loop_that_stood_still_hears_who_is_back_before_it_asks(lab: Lab) -> None:
    """All that was due while it stood runs at once; the steps of the grace do not, each waits for the one before it."""
    sender, sibling = lab.online(client_id="sender"), lab.online()
    decisive(lab, sender)
    lab.offline(sender)
    lab.clock._move_to(lab.clock.now + 3)
    lab.clock.run()
    back = lab.online(client_id="sender")
    lab.clock.advance(2)
    assert back.checks() == sibling.checks() == []
    assert GRACE_STEPS > 1


def test_a_connection_remembers_only_what_is_open(lab: Lab) -> None:
    sender, sibling = lab.online(), lab.online()
    kept = decisive(lab, sender)
    for _ in range(4 * CLEAN_AT_LEAST):
        lab.commit(sender, decisive(lab, sender))
    assert len(lab.coordinator._lost_senders._sent[sender.host].offsets) <= CLEAN_AT_LEAST
    lab.offline(sender)
    lab.clock.advance(GRACE_S)
    assert [check.queue_offset for check, _ in sibling.checks()] == [kept.place[0]]
    assert lab.coordinator._lost_senders._sent == {}
    lab.clock.advance(IMMUNITY_S)
    assert lab.coordinator._lost_senders._gone == {}


def test_the_mark_stays_on_the_message(lab: Lab) -> None:
    """As TRAN_MSG and PGROUP do: so it does when an Apache broker delivers it."""
    sender = lab.online()
    lab.commit(sender, decisive(lab, sender))
    (delivered,) = lab.delivered()
    assert properties.find(delivered.properties_text, properties.IMMUNE_WHILE_CONNECTED) == GROUP
    assert properties.EARLY_CHECK not in delivered.properties_text


# ---- a restart of the broker

START_GRACE_S = 5.001


def sent_by(lab: Lab, sender: LabClient, client_id: str, **more: str) -> Half:
    """As our client sends it: with its client id."""
    return decisive(lab, sender, **{properties.SENDING_CLIENT: client_id, properties.CHECK_IMMUNITY_SECONDS: "60"})


def restart(lab: Lab, *, crash: bool) -> None:
    """The broker dies or stops, with all connections, and starts again."""
    if not crash:
        lab.coordinator.close()
        lab.clock.run()
    lab.crash()
    lab.producers.groups.clear()
    lab.open()


@pytest.mark.parametrize("crash", [False, True])
def test_after_a_restart_a_sibling_is_asked_when_the_sender_does_not_come_back(lab: Lab, crash: bool) -> None:
    sent_by(lab, lab.online(client_id="sender"), "sender")
    restart(lab, crash=crash)
    sibling = lab.online()
    lab.clock.advance(START_GRACE_S - 0.002)
    assert sibling.checks() == []
    lab.clock.advance(0.002)
    assert asked_early(sibling) == [True]


@pytest.mark.parametrize("crash", [False, True])
def test_after_a_restart_a_sender_that_comes_back_keeps_its_immunity(lab: Lab, crash: bool) -> None:
    sent_by(lab, lab.online(client_id="sender"), "sender")
    restart(lab, crash=crash)
    sibling = lab.online()
    lab.clock.advance(START_GRACE_S - 0.1)
    sender = lab.online(client_id="sender")
    lab.clock.advance(50)
    assert sibling.checks() == sender.checks() == []
    lab.offline(sender)
    lab.clock.advance(GRACE_S)
    assert asked_early(sibling) == [True]


def test_after_a_restart_a_plain_half_keeps_its_immunity(lab: Lab) -> None:
    lab.half(lab.online(client_id="sender"), **{properties.SENDING_CLIENT: "sender"})
    lab.half(lab.online(client_id="sender"), **{properties.SENDING_CLIENT: "s", properties.IMMUNE_WHILE_CONNECTED: "?"})
    restart(lab, crash=True)
    sibling = lab.online()
    lab.clock.advance(IMMUNITY_S - 0.001)
    assert sibling.checks() == []


def test_after_a_restart_a_half_of_an_unknown_sender_keeps_its_immunity(lab: Lab) -> None:
    """Clients of earlier versions do not say who they are."""
    decisive(lab, lab.online(client_id="sender"))
    restart(lab, crash=True)
    sibling = lab.online()
    lab.clock.advance(IMMUNITY_S - 0.001)
    assert sibling.checks() == []


def test_after_a_restart_the_first_sibling_that_joins_later_is_asked(lab: Lab) -> None:
    sent_by(lab, lab.online(client_id="sender"), "sender")
    restart(lab, crash=True)
    lab.clock.advance(START_GRACE_S + 2)
    sibling = lab.online()
    lab.clock.advance(0)
    assert asked_early(sibling) == [True]


def test_a_sender_that_is_late_after_a_restart_has_its_half_again(lab: Lab) -> None:
    sent_by(lab, lab.online(client_id="sender"), "sender")
    restart(lab, crash=True)
    lab.clock.advance(START_GRACE_S + 2)
    sender = lab.online(client_id="sender")
    sibling = lab.online()
    lab.clock.advance(40)
    assert sibling.checks() == sender.checks() == []


def test_the_grace_at_the_start_may_be_endless(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "store", start_grace_ms=-1)
    sent_by(lab, lab.online(client_id="sender"), "sender")
    restart(lab, crash=True)
    sibling = lab.online()
    lab.clock.advance(50)
    assert sibling.checks() == []


def test_the_sender_is_in_the_notes_of_a_half_that_was_open_for_long(lab: Lab) -> None:
    """They are written after 5 s, and spare the next start to read the half message."""
    sent_by(lab, lab.online(client_id="sender"), "sender")
    lab.clock.advance(20)
    restart(lab, crash=True)
    (half,) = lab.coordinator.table
    assert half.sender == "sender"
    sibling = lab.online()
    lab.clock.advance(START_GRACE_S)
    assert asked_early(sibling) == [True]


def test_after_a_restart_no_sender_is_remembered_for_longer_than_the_immunity_of_its_halves(lab: Lab) -> None:
    sent_by(lab, lab.online(client_id="sender"), "sender")
    restart(lab, crash=True)
    lab.clock.advance(61)
    assert lab.coordinator._lost_senders._gone == {}


# ---- a member that leaves in order


def test_who_left_the_group_may_still_answer_the_check_that_it_was_asked(lab: Lab) -> None:
    sender, leaving = lab.online(), lab.online()
    half = decisive(lab, sender)
    lab.offline(sender)
    lab.clock.advance(GRACE_S)
    assert asked_early(leaving) == [True]
    lab.producers.groups[GROUP].remove(leaving)
    answer(lab, leaving, half, Resolution.COMMIT)
    assert len(lab.delivered()) == 1


def test_who_left_the_group_may_answer_nothing_else(lab: Lab) -> None:
    sender, leaving = lab.online(), lab.online()
    _, other = decisive(lab, sender), decisive(lab, lab.online())
    lab.offline(sender)
    lab.clock.advance(GRACE_S)
    lab.producers.groups[GROUP].remove(leaving)
    assert lab.end(leaving, other, Resolution.COMMIT, check=True).refused


def test_another_member_is_asked_when_one_that_left_closes_without_an_answer(lab: Lab) -> None:
    sender, leaving = lab.online(), lab.online()
    half = decisive(lab, sender)
    lab.offline(sender)
    lab.clock.advance(GRACE_S)
    assert asked_early(leaving) == [True]
    sibling = lab.online()
    lab.producers.groups[GROUP].remove(leaving)
    lab.clock.advance(3)
    assert sibling.checks() == [], "it may still answer"
    leaving.alive = False
    lab.coordinator.client_gone(leaving)
    lab.clock.advance(0)
    assert asked_early(sibling) == [True]
    answer(lab, sibling, half, Resolution.COMMIT)
    assert len(lab.delivered()) == 1


def test_the_place_of_a_half_that_was_not_stored_belongs_to_who_gets_it_next(lab: Lab) -> None:
    """A disk was full, so its queue offset was given to another sender's half. Found by simulation, seed 19012961."""
    refused, sender, sibling = lab.online(), lab.online(), lab.online()
    lab.disk.full = True
    assert decisive(lab, refused).error is not None
    lab.disk.full = False
    assert decisive(lab, sender).error is None
    lab.offline(refused)
    lab.clock.advance(IMMUNITY_S - 0.001)
    assert sender.checks() == sibling.checks() == []
