"""Which queue a message goes to."""

from __future__ import annotations

from gantrymq.client.sending.faults import FaultTable
from gantrymq.client.sending.publish import PublishQueues
from gantrymq.message.queues import MessageQueue

QUEUES = [MessageQueue("T", broker, number) for broker in "ab" for number in range(2)]


def test_in_turn_from_the_start_given() -> None:
    publish = PublishQueues(QUEUES, start=3)
    assert [publish.choose(None, FaultTable(), 0.0) for _ in range(5)] == [QUEUES[3], *QUEUES]


def test_the_broker_that_just_failed_is_skipped() -> None:
    publish = PublishQueues(QUEUES)
    assert {publish.choose("a", FaultTable(), 0.0).broker_name for _ in range(8)} == {"b"}


def test_slow_brokers_are_skipped_until_their_time_is_over() -> None:
    publish, faults = PublishQueues(QUEUES), FaultTable()
    faults.failed("b", 0.0)
    assert {publish.choose(None, faults, 9.9).broker_name for _ in range(8)} == {"a"}
    assert {publish.choose(None, faults, 10.0).broker_name for _ in range(8)} == {"a", "b"}


def test_a_slow_broker_is_better_than_the_one_that_just_failed() -> None:
    publish, faults = PublishQueues(QUEUES), FaultTable()
    faults.failed("b", 0.0)
    assert publish.choose("a", faults, 1.0).broker_name == "b"


def test_when_there_is_nobody_else_the_same_broker_is_tried_again() -> None:
    publish = PublishQueues(QUEUES[:2])
    assert publish.choose("a", FaultTable(), 0.0).broker_name == "a"


def test_a_queue_of_a_given_broker() -> None:
    publish = PublishQueues(QUEUES)
    assert publish.choose_on("b") == QUEUES[2]
    assert publish.choose_on("c") is None


def test_a_queue_that_was_put_back_is_the_next_one() -> None:
    publish = PublishQueues(QUEUES, 1)
    taken = publish.next()
    publish.put_back()
    assert publish.choose(None, FaultTable(), 0.0) == taken
