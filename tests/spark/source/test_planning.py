from __future__ import annotations

import pytest

from gantrymq.errors import ConfigError, GantryError, RouteNotFound
from gantrymq.message.queues import MessageQueue
from gantrymq.runtime.rng import SystemRng
from gantrymq.spark.options.bounds import Edge, Instant, Instants
from gantrymq.spark.options.table import SourceSettings
from gantrymq.spark.source.planning import Planner, is_internal
from tests.spark.fakes import START_MS, FakeBroker, SteppedClock, away

Q0, Q1 = MessageQueue("orders", "b", 0), MessageQueue("orders", "b", 1)


@pytest.fixture
def broker() -> FakeBroker:
    made = FakeBroker()
    made.fill(Q0, 10)
    made.fill(Q1, 20)
    return made


def planner(broker: FakeBroker, clock: SteppedClock | None = None, **settings: object) -> Planner:
    chosen = SourceSettings("h:1", **{"topics": ("orders",), **settings})  # type: ignore[arg-type]
    return Planner(chosen, broker, clock or SteppedClock(), SystemRng(1))


def test_bounds(broker: FakeBroker) -> None:
    broker.minimum[Q1] = 3
    plan = planner(broker)
    assert plan.resolve(Edge.EARLIEST, "starting") == {Q0: 0, Q1: 3}
    assert plan.resolve(Edge.LATEST, "ending") == {Q0: 10, Q1: 20}
    assert plan.resolve(Instant(START_MS + 5), "starting") == {Q0: 5, Q1: 5}
    assert plan.resolve({Q0: -1, Q1: 7}, "starting") == {Q0: 10, Q1: 7}
    assert plan.resolve({Q1: -2}, "starting") == {Q0: 0, Q1: 3}
    assert plan.resolve({Q0: 4}, "ending") == {Q0: 4, Q1: 20}


def test_a_queue_that_is_not_there(broker: FakeBroker) -> None:
    with pytest.raises(ConfigError, match="orders/b/9"):
        planner(broker).resolve({MessageQueue("orders", "b", 9): 1}, "starting")


def test_a_start_beyond_the_end(broker: FakeBroker) -> None:
    with pytest.raises(ConfigError, match=r"startingOffsets .* orders/b/0 ends at 10, and not at 11; choose an offset"):
        planner(broker).resolve({Q0: 11}, "starting")
    assert planner(broker).resolve({Q0: 10, Q1: -1}, "starting") == {Q0: 10, Q1: 20}


def test_an_unknown_topic_is_waited_for_a_short_time(broker: FakeBroker) -> None:
    clock = SteppedClock()
    with pytest.raises(RouteNotFound, match="mistyped"):
        planner(broker, clock, topics=("mistyped",)).queues()
    assert 2 < clock.now - 1000 < 4


def test_the_sizes_of_messages(broker: FakeBroker) -> None:
    broker.minimum[Q1] = 3
    broker.refusals += away(2)
    size = len(broker.logs[Q0][0])
    assert planner(broker).sizes([(Q0, 0), (Q1, 2), (Q1, 3), (Q0, 10)]) == {(Q0, 0): size, (Q1, 3): size}
    assert planner(broker).sizes([]) == {}


def test_new_queues_are_found_and_known_ones_kept(broker: FakeBroker) -> None:
    clock = SteppedClock()
    plan = planner(broker, clock)
    assert plan.queues() == [Q0, Q1]
    new = MessageQueue("orders", "c", 0)
    broker.fill(new, 1)
    del broker.logs[Q0]
    assert plan.queues() == [Q0, Q1]
    clock.now += 11
    assert plan.queues() == [Q0, Q1, new]


def test_known_queues_are_read_while_new_ones_cannot_be_looked_up(broker: FakeBroker) -> None:
    clock = SteppedClock()
    plan = planner(broker, clock)
    assert plan.queues() == [Q0, Q1]
    for _ in range(30):
        clock.now += 11
        broker.refusals = away(1)
        before = clock.now
        assert plan.queues() == [Q0, Q1]
        assert clock.now == before, "a stream does not wait for a name server that it does not need"
    new = MessageQueue("orders", "c", 0)
    broker.fill(new, 1)
    clock.now += 11
    assert plan.queues() == [Q0, Q1, new]


def test_a_topic_that_name_servers_have_forgotten_is_an_error_when_it_stays_so(broker: FakeBroker) -> None:
    """Name servers that have just started know no topic until its broker registers again."""
    clock = SteppedClock()
    plan = planner(broker, clock, read_timeout_ms=30_000)
    assert plan.queues() == [Q0, Q1]
    broker.logs = {}
    for _ in range(3):
        clock.now += 11
        assert plan.queues() == [Q0, Q1]
    clock.now += 11
    with pytest.raises(RouteNotFound, match="orders"):
        plan.queues()


def test_topics_by_pattern_are_never_internal_ones(broker: FakeBroker) -> None:
    for topic in ("orders-old", "%RETRY%orders", "RMQ_SYS_TRANS_HALF_TOPIC"):
        broker.fill(MessageQueue(topic, "b", 0), 1)
    assert planner(broker, topics=(), pattern=".*orders.*").queues() == [Q0, Q1, MessageQueue("orders-old", "b", 0)]
    assert planner(broker, topics=(), pattern="nothing").queues() == []
    assert is_internal("SCHEDULE_TOPIC_XXXX") and not is_internal("orders")


def test_chosen_queues_must_exist(broker: FakeBroker) -> None:
    assert planner(broker, topics=(), queues=(Q1,)).queues() == [Q1]
    with pytest.raises(GantryError, match=r"orders/b/9, which does not exist; there are orders/b/0, orders/b/1"):
        planner(broker, topics=(), queues=(Q1, MessageQueue("orders", "b", 9))).queues()


def test_a_starting_time_behind_the_last_message(broker: FakeBroker) -> None:
    """Q0 ends at START + 9 ms, Q1 at START + 19 ms."""
    late = Instant(START_MS + 15)
    with pytest.raises(ConfigError, match=r"startingTimestamp: orders/b/0 has no message .*Strategy=latest"):
        planner(broker).resolve(late, "starting")
    assert planner(broker, late_start_at_end=True).resolve(late, "starting") == {Q0: 10, Q1: 15}
    assert planner(broker).resolve(late, "ending") == {Q0: 10, Q1: 15}


def test_a_time_for_some_queues(broker: FakeBroker) -> None:
    assert planner(broker).resolve(Instants({Q1: START_MS + 7}), "starting") == {Q0: 0, Q1: 7}
    assert planner(broker).resolve(Instants({Q1: START_MS + 7}), "ending") == {Q0: 10, Q1: 7}
    with pytest.raises(ConfigError, match="startingOffsetsByTimestamp: orders/b/0"):
        planner(broker).resolve(Instants({Q0: START_MS + 10}), "starting")
    with pytest.raises(ConfigError, match="endingOffsetsByTimestamp names orders/b/9"):
        planner(broker).resolve(Instants({MessageQueue("orders", "b", 9): 1}), "ending")


def test_asks_again_while_the_broker_restarts(broker: FakeBroker) -> None:
    plan = planner(broker)
    broker.refusals = away(4)
    assert plan.queues() == [Q0, Q1]
    broker.refusals = away(4)
    assert plan.latest([Q0, Q1], {}) == {Q0: 10, Q1: 20}


def test_a_queue_that_ends_before_what_was_read(broker: FakeBroker) -> None:
    with pytest.raises(GantryError, match="orders/b/0 end before what was already read"):
        planner(broker).latest([Q0, Q1], {Q0: 11})
    clock = SteppedClock()
    lenient = planner(broker, clock, fail_on_data_loss=False, read_timeout_ms=5_000)
    assert lenient.latest([Q0, Q1], {Q0: 11}) == {Q0: 10, Q1: 20}
    assert clock.now - 1000 > 4, "a broker that has just restarted gets the time to find its messages"
