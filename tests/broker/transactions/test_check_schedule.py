"""Changes of the check times apply to open half messages, too, and no half message is checked too early."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gantrymq.broker.replication.election.told import Told
from gantrymq.broker.transactions.check_schedule import HALVES_PER_TURN, CheckTurns
from gantrymq.message.system_topics import PARKED
from gantrymq.message.transaction import Resolution
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.transactions.rules.states import State
from gantrymq.transactions.table.decisions import Decision, DecisionLog
from gantrymq.transactions.table.open_halves import OpenHalf, TransactionTable
from tests.broker.transaction_lab import GROUP, TOPIC, Lab, LabClient, LabProducers
from tests.broker.transactions.test_lost_senders import decisive
from tests.support.brokers import Cluster, on_broker, until


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path / "store", timeout_ms=6_000, check_interval_ms=30_000, check_max=3)


def change(lab: Lab, **config: object) -> None:
    """As the operator does; a restart would take it from broker.conf."""
    lab.config = replace(lab.config, **config)  # type: ignore[arg-type]
    lab.coordinator.reconfigure(lab.config)
    lab.clock.run()


def checked_at(lab: Lab, seconds: float) -> None:
    """The first check of the only half comes exactly then, counted from now."""
    (session,) = lab.producers.members(GROUP)
    assert session.checks() == []
    lab.clock.advance(seconds - 0.001)
    assert session.checks() == [], "too early"
    lab.clock.advance(0.001)
    assert len(session.checks()) == 1, "too late"


@pytest.mark.parametrize(
    ("stored_before_s", "timeout_ms", "then_s"),
    [(2.0, 4_000, 2.0), (2.0, 60_000, 58.0), (5.0, 6_500, 1.5), (0.0, 1_000, 1.0), (2.0, 2_001, 0.001)],
)
def test_an_open_half_gets_the_new_immunity(lab: Lab, stored_before_s: float, timeout_ms: int, then_s: float) -> None:
    lab.online()
    lab.half()
    lab.clock.advance(stored_before_s)
    change(lab, timeout_ms=timeout_ms)
    checked_at(lab, then_s)


def test_one_that_is_overdue_by_the_new_immunity_is_asked_about_at_once(lab: Lab) -> None:
    session = lab.online()
    lab.half()
    lab.clock.advance(5)
    change(lab, timeout_ms=1_000)
    assert len(session.checks()) == 1


def test_an_immunity_of_its_own_stays(lab: Lab) -> None:
    lab.online()
    lab.half(CHECK_IMMUNITY_TIME_IN_SECONDS="10")
    change(lab, timeout_ms=1_000)
    lab.clock.advance(2)
    change(lab, timeout_ms=60_000)
    checked_at(lab, 8.0)


def test_several_changes_add_up_to_the_last_one(lab: Lab) -> None:
    lab.online()
    lab.half()
    for timeout_ms in (60_000, 7_000, 300_000, 2_500):
        change(lab, timeout_ms=timeout_ms)
    checked_at(lab, 2.5)


def test_a_half_that_was_asked_about_is_left_alone_again_when_the_immunity_gets_longer(lab: Lab) -> None:
    session = lab.online()
    half = lab.half()
    lab.clock.advance(6)
    assert len(session.checks()) == 1
    lab.end(session, half, Resolution.UNKNOWN, check=True, one_way=True)
    change(lab, timeout_ms=100_000)
    lab.clock.advance(93.999)
    assert len(session.checks()) == 1
    lab.clock.advance(0.001)
    assert len(session.checks()) == 2


def test_a_producer_that_comes_is_not_asked_before_the_new_immunity_ends(lab: Lab) -> None:
    lab.half()
    lab.clock.advance(10)
    change(lab, timeout_ms=20_000)
    lab.online()
    checked_at(lab, 10.0)


def test_after_a_restart_the_new_immunity_is_counted_from_the_storing_too(lab: Lab) -> None:
    lab.half()
    lab.clock.advance(1_000)
    lab.crash()
    lab.open()
    change(lab, timeout_ms=1_060_000)
    lab.online()
    checked_at(lab, 60.0)


def test_a_jump_of_the_wall_clock_does_not_count_as_time(lab: Lab) -> None:
    lab.online()
    lab.half()
    lab.clock.advance(1)
    lab.clock.wall += 3_600_000
    change(lab, timeout_ms=9_000)
    checked_at(lab, 8.0)


def test_a_half_on_its_way_to_the_disk_gets_it_too(lab: Lab) -> None:
    lab.online()
    lab.disk.hold()
    lab.half()
    change(lab, timeout_ms=2_000)
    lab.disk.release()
    checked_at(lab, 2.0)


@pytest.mark.parametrize("together", [False, True])
def test_a_half_that_others_confirm_late_is_immune_from_then_on(lab: Lab, *, together: bool) -> None:
    """Its sender is told only then that it is stored, and begins its local transaction."""
    session = lab.online()
    lab.end(session, lab.half(), Resolution.COMMIT)  # a run is taken when there is a half queue
    safety = lab.store.safety
    replica = Told(safety.position)
    safety.require([replica])
    if together:
        birth = (lab.clock.wall_ms(), session.host, 0, 4, 0)
        item = (b"paid", f"PGROUP\x01{GROUP}\x02UNIQ_KEY\x01K1\x02", 0, "K1", None)
        assert lab.coordinator.put_run(TOPIC, 1, GROUP, [item], "", birth, lambda *_: None)
        lab.clock.run()
    else:
        lab.half()
    lab.clock.advance(7)
    replica.confirm(lab.store.written)
    checked_at(lab, 6.0)


def test_a_sender_that_is_gone_longer_than_the_old_immunity_can_come_back_within_the_new_one(lab: Lab) -> None:
    """Who sent a decisive half is remembered until its immunity ends, also when that moves."""
    sender = lab.online(client_id="sender")
    decisive(lab, sender)
    lab.offline(sender)
    lab.clock.advance(1)
    change(lab, timeout_ms=60_000)
    lab.clock.advance(20)
    back = lab.online(client_id="sender")
    lab.clock.advance(30)
    assert back.checks() == [], "its sender is there again: left alone"
    lab.clock.advance(9)
    assert len(back.checks()) == 1


def test_a_shorter_interval_applies_to_checks_that_wait_for_their_answer(lab: Lab) -> None:
    session = lab.online()
    lab.half()
    lab.clock.advance(7)
    assert len(session.checks()) == 1
    change(lab, check_interval_ms=2_000)
    lab.clock.advance(1.999)
    assert len(session.checks()) == 1
    lab.clock.advance(0.001)
    assert len(session.checks()) == 2


def test_a_longer_interval_applies_from_the_next_check_on(lab: Lab) -> None:
    session = lab.online()
    lab.half()
    lab.clock.advance(7)
    change(lab, check_interval_ms=100_000)
    lab.clock.advance(29)
    assert len(session.checks()) == 2
    lab.clock.advance(99)
    assert len(session.checks()) == 2
    lab.clock.advance(1)
    assert len(session.checks()) == 3


@pytest.mark.parametrize(("check_max", "parked"), [(1, True), (2, False)])
def test_the_number_of_checks_applies_at_the_next_look(lab: Lab, check_max: int, parked: bool) -> None:
    session = lab.online()
    half = lab.half()
    lab.clock.advance(6)
    lab.end(session, half, Resolution.UNKNOWN, check=True, one_way=True)
    change(lab, check_max=check_max)
    lab.clock.advance(30)
    assert bool(lab.records(PARKED, 0)) is parked


def test_many_halves_are_moved_in_pieces_and_none_is_asked_about_too_early(lab: Lab) -> None:
    session = lab.online()
    count = HALVES_PER_TURN + 7
    for _ in range(count):
        lab.half()
    change(lab, timeout_ms=3_000)
    lab.clock.advance(2.999)
    assert session.checks() == []
    lab.clock.advance(0.001)
    lab.clock.run()
    assert len(lab.coordinator.table) == count == len({check.queue_offset for check, _ in session.checks()})


@pytest.mark.parametrize("seed", range(12))
def test_whatever_is_changed_no_check_comes_before_the_immunity_of_that_moment(lab: Lab, seed: int) -> None:
    """Also none comes later than that, while a producer is there: the table of due times is right after each change."""
    rng = random.Random(seed)
    session = lab.online()
    stored: dict[int, tuple[float, float | None]] = {}
    for _ in range(60):
        if rng.random() < 0.5:
            own = rng.choice([None, None, rng.randrange(1, 30)])
            half = lab.half(**({} if own is None else {"CHECK_IMMUNITY_TIME_IN_SECONDS": str(own)}))
            stored[half.place[0]] = (lab.clock.now, own)
        else:
            change(lab, timeout_ms=rng.randrange(1, 300) * 100)
        before = len(session.checks())
        at = lab.clock.now
        lab.clock.advance(rng.randrange(0, 80) / 10)
        timeout_s = lab.config.timeout_ms / 1000
        asked = {check.queue_offset for check, _ in session.checks()[before:]}
        ever = {check.queue_offset for check, _ in session.checks()}
        for offset, (since, own) in stored.items():
            ends = since + (own or timeout_s)
            if offset in asked:
                assert ends <= lab.clock.now + 1e-9, f"seed {seed}: {offset} too early"
            if ends < lab.clock.now - 1e-9:
                assert offset in ever, f"seed {seed}: {offset} too late, at {at}"


def test_a_tool_changes_it_on_a_running_broker(tmp_path: Path) -> None:
    """The half would be asked about after an hour; after the change it is at once."""

    async def work(c: Cluster) -> None:
        properties = "TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01ABC\x02"
        await c.sent("Orders", properties=properties)
        (half,) = c.broker.coordinator.table
        assert half.due > 0 and not half.looked_in_vain
        answer = await c.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"transactionTimeOut=1\n")
        assert answer.code == ResponseCode.SUCCESS
        await until(lambda: half.looked_in_vain > 0)  # it was looked at, and nobody is there to be asked

    on_broker(work, tmp_path, transaction_time_out=3_600_000)


LIMIT = 2


@pytest.fixture
def table() -> TransactionTable:
    table = TransactionTable(DecisionLog())
    for offset in range(6):
        table.add(OpenHalf(offset, 100 * offset, "PG", f"K{offset}", "T", 0, 0, 6_000, State.OPEN))
    return table


@pytest.fixture
def turns(table: TransactionTable) -> CheckTurns:
    producers: Any = LabProducers()
    producers.groups["PG"] = [LabClient()]
    return CheckTurns(table, producers, LIMIT)


def ask_all(turns: CheckTurns, table: TransactionTable) -> list[int]:
    """Asks about each half that may be asked about; the others wait. The offsets of those that were asked about."""
    asked = []
    for half in table:
        if turns.is_crowded(half):
            turns.wait(half)
        else:
            turns.take(half)
            asked.append(half.queue_offset)
    return asked


def test_a_group_gets_as_many_checks_as_its_members_can_keep(turns: CheckTurns, table: TransactionTable) -> None:
    assert ask_all(turns, table) == [0, 1]


def test_a_half_that_has_a_turn_may_be_asked_about_again(turns: CheckTurns, table: TransactionTable) -> None:
    ask_all(turns, table)
    assert [half.queue_offset for half in table if not turns.is_crowded(half)] == [0, 1]


def test_the_turn_goes_to_the_half_that_has_waited_longest_and_is_still_open(
    turns: CheckTurns, table: TransactionTable
) -> None:
    ask_all(turns, table)
    first, second, third = (table.get(offset) for offset in (0, 1, 2))
    assert first is not None and second is not None and third is not None
    table.end(third, Decision.COMMITTED)
    assert turns.give_back(first) is table.get(3)
    assert turns.give_back(first) is None, "it has none any more"
    assert turns.give_back(second) is table.get(4)


def test_when_nobody_waits_there_is_room_again(turns: CheckTurns, table: TransactionTable) -> None:
    ask_all(turns, table)
    following = table.get(0)
    given_back = 0
    while following is not None or (following := next((half for half in table if half.has_turn), None)) is not None:
        following, given_back = turns.give_back(following), given_back + 1
    assert given_back == 6
    assert not any(turns.is_crowded(half) for half in table)
