"""Pulls as an operation: values in, values out."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from gantrymq.broker.delivery.pull import MAX_SUSPEND_MS
from gantrymq.broker.delivery.pull_values import InlineSubscription, PullResult, PullStatus
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.clients import Member
from gantrymq.message import system_topics
from gantrymq.message.heartbeat import ConsumerData, MessageModel, SubscriptionData
from gantrymq.protocol.files.topics import PERM_WRITE
from gantrymq.store.values import NewRecord
from tests.broker.delivery.pull_lab import GROUP, TOPIC, PullLab
from tests.broker.transaction_lab import HOST
from tests.support.clients import PlainClient


@pytest.fixture
def lab(tmp_path: Path) -> PullLab:
    return PullLab(tmp_path)


def refusal(lab: PullLab, **fields: object) -> Refusal:
    with pytest.raises(Refused) as caught:
        lab.pull(**fields)  # type: ignore[arg-type]
    return caught.value.reason


def test_a_pull_gets_the_records_of_the_store_and_where_to_go_on(lab: PullLab) -> None:
    lab.send("a", "b", "c")
    result = lab.pull(1)
    assert result is not None
    assert (result.status, result.reason) == (PullStatus.FOUND, "FOUND")
    assert (result.next_offset, result.min_offset, result.max_offset) == (3, 0, 3)
    assert lab.bodies(result) == ["b", "c"]
    assert lab.bodies(lab.pull(0, count=1)) == ["a"]
    assert lab.bodies(lab.pull(0, max_bytes=1)) == ["a"]


@pytest.mark.parametrize(
    ("stored", "offset", "status", "reason"),
    [
        (2, 2, PullStatus.NO_NEW_MESSAGE, "OFFSET_OVERFLOW_ONE"),
        (2, 3, PullStatus.OFFSET_ILLEGAL, "OFFSET_OVERFLOW_BADLY"),
        (2, -1, PullStatus.OFFSET_ILLEGAL, "OFFSET_TOO_SMALL"),
        (0, 0, PullStatus.NO_NEW_MESSAGE, "NO_MATCHED_LOGIC_QUEUE"),
        (0, 5, PullStatus.OFFSET_ILLEGAL, "NO_MATCHED_LOGIC_QUEUE"),
    ],
)
def test_offsets_without_a_message(lab: PullLab, stored: int, offset: int, status: PullStatus, reason: str) -> None:
    lab.send(*"ab"[:stored])
    result = lab.pull(offset)
    assert result is not None
    assert (result.status, result.reason, result.records) == (status, reason, b"")


def test_what_is_not_wanted_is_passed_over(lab: PullLab) -> None:
    lab.send("a", tag="A")
    result = lab.pull(0, subscription=InlineSubscription("B", "TAG"))
    assert result is not None
    assert (result.status, result.next_offset) == (PullStatus.NO_MATCHED_MESSAGE, 1)


def test_a_pull_commits_what_it_carries(lab: PullLab) -> None:
    lab.send("a")
    lab.pull(1)
    assert lab.offsets.get(GROUP, TOPIC, 0) is None
    lab.pull(1, commit_offset=1)
    assert lab.offsets.get(GROUP, TOPIC, 0) == 1


def test_the_first_pull_after_a_reset_is_sent_to_the_new_offset(lab: PullLab) -> None:
    lab.send("a", "b")
    lab.offsets.reset(GROUP, TOPIC, 0, 1)
    result = lab.pull(0)
    assert result == PullResult(PullStatus.OFFSET_ILLEGAL, "OFFSET_RESET", 1, 0, 2, b"")
    assert lab.bodies(lab.pull(1)) == ["b"]


# Long polling.


def test_a_held_pull_of_a_group_that_is_reset_is_asked_again(lab: PullLab) -> None:
    """After a rebalance two members may wait for one queue: the one that still reads it must learn the new offset."""
    lab.send("a", "b")
    former, present = PlainClient(2), PlainClient(3)
    for client in (former, present):
        assert lab.pull(2, client, wait_ms=20_000) is None
    lab.offsets.reset(GROUP, TOPIC, 0, 1)
    lab.pulls.held.release(GROUP, TOPIC)
    again = PullResult(PullStatus.NO_NEW_MESSAGE, "OFFSET_RESET", 2, 0, 2, b"")
    assert lab.done == [again, again]
    moved = lab.pull(2, present)
    assert moved == PullResult(PullStatus.OFFSET_ILLEGAL, "OFFSET_RESET", 1, 0, 2, b"")


def test_a_message_that_comes_with_a_reset_is_not_read_from_the_old_offset(lab: PullLab) -> None:
    lab.send("a", "b")
    assert lab.pull(2, wait_ms=20_000) is None
    lab.store.append([NewRecord(TOPIC, 0, b"c", "TAGS\x01A\x02", lab.clock.wall, HOST)])
    lab.offsets.reset(GROUP, TOPIC, 0, 0)
    lab.clock.run()
    assert lab.done == [PullResult(PullStatus.NO_NEW_MESSAGE, "OFFSET_RESET", 2, 0, 3, b"")]
    moved = lab.pull(2)
    assert moved is not None and (moved.status, moved.next_offset) == (PullStatus.OFFSET_ILLEGAL, 0)


def test_a_held_pull_gets_its_result_when_a_message_comes(lab: PullLab) -> None:
    assert lab.pull(wait_ms=20_000) is None
    lab.send("other", queue_id=1)
    assert lab.done == []
    lab.send("news")
    assert [lab.bodies(outcome) for outcome in lab.done] == [["news"]]
    assert len(lab.pulls.held) == 0


def test_a_held_pull_gets_its_result_when_its_time_is_over(lab: PullLab) -> None:
    assert lab.pull(wait_ms=2 * MAX_SUSPEND_MS) is None
    lab.clock.advance(MAX_SUSPEND_MS / 1000 - 1)
    assert lab.done == []
    lab.clock.advance(2)
    (outcome,) = lab.done
    assert isinstance(outcome, PullResult)
    assert outcome.status is PullStatus.NO_NEW_MESSAGE


def test_without_long_polling_a_pull_waits_for_a_second_at_most(tmp_path: Path) -> None:
    lab = PullLab(tmp_path, long_polling_enable=False)
    assert lab.pull(wait_ms=20_000) is None
    lab.clock.advance(1.5)
    assert len(lab.done) == 1


def test_a_pull_that_may_not_wait_gets_its_result_at_once(lab: PullLab) -> None:
    for wait_ms in (None, 0, -1):
        result = lab.pull(wait_ms=wait_ms)
        assert result is not None
        assert result.status is PullStatus.NO_NEW_MESSAGE


def test_whoever_is_gone_gets_nothing(lab: PullLab) -> None:
    gone, stays = PlainClient(2), PlainClient(3)
    lab.pull(client=gone, wait_ms=20_000)
    lab.pull(client=stays, wait_ms=20_000)
    gone.alive = False
    lab.send("news")
    assert len(lab.done) == 1
    assert len(lab.pulls.held) == 0


def test_pulls_are_counted_when_they_get_their_results(lab: PullLab) -> None:
    lab.pull(wait_ms=20_000)
    assert lab.counters.missed == 0
    lab.pull()
    assert lab.counters.missed == 1
    lab.send("news")
    assert lab.counters.missed == 1


# Subscriptions that heartbeats brought.


def subscribe(lab: PullLab, data: SubscriptionData, model: MessageModel = MessageModel.CLUSTERING) -> None:
    group = ConsumerData(group_name=GROUP, subscription_data_set=[data], message_model=model)
    lab.consumers.register(group, Member(PlainClient(), "client-1", "JAVA", 1, 0.0))  # type: ignore[arg-type]


def test_the_subscription_of_the_group_selects(lab: PullLab) -> None:
    lab.send("a", tag="A")
    lab.send("b", tag="B")
    assert refusal(lab, subscription=None) is Refusal.SUBSCRIPTION_UNKNOWN
    subscribe(lab, SubscriptionData.of_tags(TOPIC, "B", 10))
    assert lab.bodies(lab.pull(subscription=None, subscription_version=10)) == ["b"]
    assert refusal(lab, subscription=None, subscription_version=11) is Refusal.SUBSCRIPTION_OUTDATED
    lab.topics.ensure("Other", 1)
    assert refusal(lab, topic="Other", subscription=None) is Refusal.SUBSCRIPTION_UNKNOWN


def test_an_expression_of_the_group_selects_when_that_is_allowed(tmp_path: Path) -> None:
    lab = PullLab(tmp_path, enable_property_filter=True)
    lab.send("a", "b")
    data = SubscriptionData(topic=TOPIC, sub_string="TAGS = 'Z'", expression_type="SQL92", sub_version=3)
    subscribe(lab, data)
    assert refusal(lab, subscription=None, subscription_version=3) is Refusal.SELECTOR_UNKNOWN
    lab.filters.subscribed(GROUP, [data])
    result = lab.pull(subscription=None, subscription_version=3)
    assert result is not None
    assert result.status is PullStatus.NO_MATCHED_MESSAGE
    assert refusal(lab, subscription=None, subscription_version=4) is Refusal.SUBSCRIPTION_OUTDATED


def test_an_expression_of_the_group_is_refused_where_properties_may_not_select(lab: PullLab) -> None:
    data = SubscriptionData(topic=TOPIC, sub_string="TAGS = 'Z'", expression_type="SQL92", sub_version=3)
    subscribe(lab, data)
    lab.filters.subscribed(GROUP, [data])
    assert refusal(lab, subscription=None, subscription_version=3) is Refusal.SWITCHED_OFF


# Refusals.


def test_refusals(lab: PullLab) -> None:
    assert refusal(lab, topic="Nowhere") is Refusal.TOPIC_UNKNOWN
    assert refusal(lab, group="not a group!") is Refusal.GROUP_UNKNOWN
    assert refusal(lab, queue_id=2) is Refusal.PARAMETER_INVALID
    assert refusal(lab, queue_id=-1) is Refusal.PARAMETER_INVALID
    assert refusal(lab, subscription=InlineSubscription("a >", "SQL92")) is Refusal.SELECTOR_INVALID
    assert refusal(lab, subscription=InlineSubscription("a > 1", "SQL92")) is Refusal.SWITCHED_OFF
    assert refusal(lab, client=PlainClient(writable=False)) is Refusal.ANSWERS_UNREAD


def test_a_group_can_be_forbidden(lab: PullLab) -> None:
    group = lab.groups.find(GROUP)
    assert group is not None
    lab.groups.update(msgspec.structs.replace(group, consume_broadcast_enable=False))
    subscribe(lab, SubscriptionData.of_tags(TOPIC, "*", 1), MessageModel.BROADCASTING)
    assert refusal(lab, subscription=None) is Refusal.NOT_PERMITTED
    lab.groups.forbid(GROUP, TOPIC, True)
    assert refusal(lab) is Refusal.NOT_PERMITTED
    lab.groups.forbid(GROUP, TOPIC, False)
    lab.groups.update(msgspec.structs.replace(group, consume_enable=False))
    assert refusal(lab) is Refusal.NOT_PERMITTED


def test_a_broker_can_be_closed_to_readers(tmp_path: Path) -> None:
    assert refusal(PullLab(tmp_path, broker_permission=PERM_WRITE)) is Refusal.NOT_PERMITTED


@pytest.mark.parametrize("topic", sorted(system_topics.TRANSACTION_TOPICS))
def test_undecided_messages_are_for_tools_only(lab: PullLab, topic: str) -> None:
    lab.topics.ensure(topic, 1)
    assert refusal(lab, topic=topic) is Refusal.NOT_PERMITTED
    for group in (system_topics.TOOLS_CONSUMER, system_topics.TRANSACTION_GROUP):
        result = lab.pull(topic=topic, group=group)
        assert result is not None
        assert result.status is PullStatus.NO_NEW_MESSAGE
