"""POP, peek, notification and polling info as operations: values in, values out."""

from __future__ import annotations

from pathlib import Path

import pytest

from gantrymq.broker.pop.requests import MAX_WAIT_MS, TOO_LATE_MS
from gantrymq.broker.pop.values import (
    MAX_COUNT,
    MAX_INVISIBLE_MS,
    NotificationRequest,
    Notified,
    PopRequest,
    PopResult,
    PopStatus,
)
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.errors import StoreError
from gantrymq.message import system_topics
from gantrymq.protocol.files.groups import Group
from gantrymq.protocol.files.topics import PERM_WRITE
from gantrymq.protocol.stored_message import scan
from tests.broker.pop.lab import GROUP, TOPIC, PopLab
from tests.support.clients import PlainClient


class Consumer:
    """A client that pops in a lab; ``outcomes`` came by ``done``."""

    def __init__(self, lab: PopLab) -> None:
        self.lab = lab
        self.client = PlainClient()
        self.outcomes: list[PopResult | Refused] = []
        self.notified: list[Notified] = []

    def pop(self, **fields: object) -> PopResult | None:
        values: dict[str, object] = {
            "group": GROUP, "topic": TOPIC, "queue_id": -1, "count": 32, "invisible_ms": 60_000, "poll_ms": 0,
            "born_ms": 0, "from_start": True, "expression": "*",
        }  # fmt: skip
        request = PopRequest(**{**values, **fields})  # type: ignore[arg-type]
        result = self.lab.requests.pop(self.client, request, self.outcomes.append)
        self.lab.clock.run()
        return result

    def wait(self, poll_ms: int = 10_000, **fields: object) -> Notified | None:
        request = NotificationRequest(GROUP, TOPIC, -1, poll_ms, 0, **fields)  # type: ignore[arg-type]
        return self.lab.requests.notification(self.client, request, self.notified.append)

    def bodies(self) -> list[str]:
        """Of what came by ``done``."""
        return [
            message.body.decode()
            for outcome in self.outcomes
            if isinstance(outcome, PopResult)
            for batch in outcome.popped.batches
            for message in scan(batch.data)
        ]

    def refusal(self, **fields: object) -> Refusal:
        with pytest.raises(Refused) as caught:
            self.pop(**fields)
        assert self.outcomes == []
        return caught.value.reason


@pytest.fixture
def consumer(tmp_path: Path) -> Consumer:
    return Consumer(PopLab(tmp_path))


def test_messages_are_given_when_their_check_point_is_durable(consumer: Consumer) -> None:
    consumer.lab.send("a")
    consumer.lab.disk.hold()
    assert consumer.pop() is None
    assert consumer.outcomes == []
    consumer.lab.disk.release()
    (outcome,) = consumer.outcomes
    assert isinstance(outcome, PopResult)
    assert (outcome.status, consumer.bodies()) == (PopStatus.FOUND, ["a"])


def test_nothing_is_given_when_the_check_point_cannot_be_written(consumer: Consumer) -> None:
    consumer.lab.send("a")
    consumer.lab.disk.hold()
    consumer.pop()
    consumer.lab.disk.release(StoreError("the disk is gone"))
    (outcome,) = consumer.outcomes
    assert isinstance(outcome, Refused)
    assert outcome.reason is Refusal.FAILED


def test_an_orderly_pop_has_no_check_point(consumer: Consumer) -> None:
    consumer.lab.send("a")
    consumer.lab.disk.hold()
    assert consumer.pop(order=True) is None
    assert consumer.bodies() == ["a"]
    consumer.lab.disk.release()


def test_nothing_to_pop(consumer: Consumer) -> None:
    result = consumer.pop()
    assert result is not None
    assert (result.status, result.popped.batches) == (PopStatus.POLLING_NOT_FOUND, [])


def test_only_what_the_expression_selects(consumer: Consumer) -> None:
    consumer.lab.send("a", tags="A")
    consumer.lab.send("b", tags="B")
    consumer.pop(expression="B")
    assert consumer.bodies() == ["b"]


def test_a_held_pop_gets_the_message_that_comes(consumer: Consumer) -> None:
    assert consumer.pop(poll_ms=10_000) is None
    assert consumer.lab.requests.polling_count(GROUP, TOPIC, -1) == 1
    consumer.lab.send("news")
    assert consumer.bodies() == ["news"]
    assert len(consumer.lab.requests.waiting) == 0


def test_a_held_pop_ends_with_its_time(consumer: Consumer) -> None:
    assert consumer.pop(poll_ms=10 * MAX_WAIT_MS) is None
    consumer.lab.clock.advance(MAX_WAIT_MS / 1000 - 1)
    assert consumer.outcomes == []
    consumer.lab.clock.advance(1)
    (outcome,) = consumer.outcomes
    assert isinstance(outcome, PopResult)
    assert outcome.status is PopStatus.POLLING_NOT_FOUND


def test_a_client_that_does_not_read_waits_on(consumer: Consumer) -> None:
    consumer.pop(poll_ms=5_000)
    consumer.client.writable = False
    consumer.lab.send("news")
    assert consumer.outcomes == []
    consumer.client.writable = True
    consumer.lab.clock.advance(6)
    assert consumer.bodies() == ["news"]


def test_a_client_that_is_gone_takes_nothing(consumer: Consumer) -> None:
    consumer.pop(poll_ms=5_000)
    consumer.lab.requests.waiting.client_gone(consumer.client)
    consumer.lab.send("news")
    assert consumer.outcomes == []


def test_so_many_requests_are_held_and_no_more(tmp_path: Path) -> None:
    consumer = Consumer(PopLab(tmp_path, pop_polling_size=1))
    assert consumer.pop(poll_ms=5_000) is None
    result = consumer.pop(poll_ms=5_000)
    assert result is not None
    assert result.status is PopStatus.POLLING_FULL
    assert consumer.wait() == Notified(False, polling_full=True)


def test_a_request_that_comes_too_late_is_not_executed(consumer: Consumer) -> None:
    now = consumer.lab.clock.wall
    consumer.lab.send("a")
    assert consumer.refusal(poll_ms=100, born_ms=now - 100 - TOO_LATE_MS - 1) is Refusal.WAIT_OVER
    consumer.pop(poll_ms=100, born_ms=now - 100 - TOO_LATE_MS)
    assert consumer.bodies() == ["a"]


def test_refusals(consumer: Consumer) -> None:
    assert consumer.refusal(count=MAX_COUNT + 1) is Refusal.PARAMETER_INVALID
    assert consumer.refusal(invisible_ms=-1) is Refusal.PARAMETER_INVALID
    assert consumer.refusal(invisible_ms=MAX_INVISIBLE_MS + 1) is Refusal.PARAMETER_INVALID
    assert consumer.refusal(topic="Nowhere") is Refusal.TOPIC_UNKNOWN
    assert consumer.refusal(queue_id=2) is Refusal.PARAMETER_INVALID
    assert consumer.refusal(queue_id=-2) is Refusal.PARAMETER_INVALID
    assert consumer.refusal(group="not a group!") is Refusal.GROUP_UNKNOWN
    assert consumer.refusal(expression="a >", expression_type="SQL92") is Refusal.SELECTOR_INVALID
    assert consumer.refusal(expression="a > 1", expression_type="SQL92") is Refusal.SWITCHED_OFF
    consumer.client.writable = False
    assert consumer.refusal() is Refusal.ANSWERS_UNREAD


def test_a_group_can_be_forbidden(consumer: Consumer) -> None:
    consumer.lab.groups.forbid(GROUP, TOPIC, True)
    assert consumer.refusal() is Refusal.NOT_PERMITTED
    consumer.lab.groups.forbid(GROUP, TOPIC, False)
    consumer.lab.groups.update(Group(group_name=GROUP, consume_enable=False))
    assert consumer.refusal() is Refusal.NOT_PERMITTED


def test_a_broker_can_be_closed_to_readers(tmp_path: Path) -> None:
    assert Consumer(PopLab(tmp_path, broker_permission=PERM_WRITE)).refusal() is Refusal.NOT_PERMITTED


@pytest.mark.parametrize("topic", sorted(system_topics.TRANSACTION_TOPICS))
def test_undecided_messages_are_for_nobody(consumer: Consumer, topic: str) -> None:
    consumer.lab.topics.ensure(topic, 1)
    assert consumer.refusal(topic=topic) is Refusal.NOT_PERMITTED


def test_peeking_takes_nothing(consumer: Consumer) -> None:
    consumer.lab.send("a")
    for _ in range(2):
        popped = consumer.lab.requests.peek(consumer.client, GROUP, TOPIC, -1, 100)
        assert [message.body for batch in popped.batches for message in scan(batch.data)] == [b"a"]
    with pytest.raises(Refused):
        consumer.lab.requests.peek(consumer.client, GROUP, "Nowhere", -1, 1)


def test_a_notification_comes_when_there_is_something(consumer: Consumer) -> None:
    assert consumer.wait(0) == Notified(False)
    assert consumer.wait() is None
    consumer.lab.send("a")
    assert consumer.notified == [Notified(True)]
    assert consumer.wait() == Notified(True)


def test_a_notification_says_when_nothing_came(consumer: Consumer) -> None:
    consumer.wait(5_000)
    consumer.lab.clock.advance(6)
    assert consumer.notified == [Notified(False)]


def test_a_message_that_was_notified_is_for_the_pop_behind_it(consumer: Consumer) -> None:
    consumer.wait()
    consumer.pop(poll_ms=10_000)
    consumer.lab.send("a")
    assert consumer.notified == [Notified(True)]
    assert consumer.bodies() == ["a"]


def test_pops_are_counted_when_they_are_given(consumer: Consumer) -> None:
    consumer.lab.send("a")
    consumer.lab.disk.hold()
    before = dict(consumer.lab.counters.deliveries)
    consumer.pop()
    assert dict(consumer.lab.counters.deliveries) == before
    consumer.lab.disk.release()
    assert dict(consumer.lab.counters.deliveries) != before
