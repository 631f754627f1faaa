"""What the answer to a pop means, and what is asked about a delivery."""

from __future__ import annotations

import pytest

from gantrymq.client.consuming.filters import Filter
from gantrymq.client.consuming.popping import Handles, Place, ack_request, change_request, delivery_of, pop_request
from gantrymq.errors import ConfigError, RemoteProtocolError
from gantrymq.message.message import MessageView
from gantrymq.message.queues import LogOffset, MessageQueue, QueueOffset
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import Command, decode_command, encode_request
from gantrymq.protocol.frame import FrameSplitter
from gantrymq.protocol.headers.pop import PopMessageAnswer

GROUP = "CG"


def view(topic: str, queue_id: int, offset: int, **properties: str) -> MessageView:
    return MessageView(
        topic, b"x", {"MIN_OFFSET": "0", "MAX_OFFSET": "0", **properties}, 0, MessageQueue(topic, "broker-a", queue_id),
        QueueOffset(offset), "id", "place", 0, "", 0, "", 0, LogOffset(0),
    )  # fmt: skip


def answer(starts: str | None, counts: str | None = None) -> Command:
    header = PopMessageAnswer(
        pop_time=1000, invisible_time=60, revive_qid=3, rest_num=0, start_offset_info=starts, order_count_info=counts
    )
    return decode_command(*FrameSplitter().feed(encode_request(RequestCode.POP_MESSAGE, 1, header))[0])


def given(topic: str, queue_id: int, offset: int, command: Command, **properties: str) -> MessageView:
    found = view(topic, queue_id, offset, **properties)
    Handles(command, GROUP, "broker-a").give(found)
    return found


def test_a_handle_is_made_of_the_start_of_its_batch() -> None:
    found = given("T", 2, 17, answer("0 1 5;0 2 15"))
    assert found.properties == {"POP_CK": "15 1000 60 3 0 broker-a 2 17"}
    delivery = delivery_of(found, GROUP)
    ack = ack_request(GROUP, delivery)
    assert (ack.topic, ack.queue_id, ack.offset, ack.bname) == ("T", 2, 17, "broker-a")
    assert ack.extra_info == found.properties["POP_CK"]
    change = change_request(GROUP, delivery, 5, suspend=True)
    assert (change.topic, change.offset, change.invisible_time, change.suspend) == ("T", 17, 5, True)


@pytest.mark.parametrize(("topic", "kind"), [("%RETRY%CG_T", "1"), ("%RETRY%CG+T", "2")])
def test_a_message_of_a_retry_topic_is_under_its_own_and_ended_in_the_other(topic: str, kind: str) -> None:
    """Brokers name the retry topic (popResponseReturnActualRetryTopic), or the topic with a handle."""
    actual = given(topic, 0, 4, answer(f"0 0 9;{kind} 0 3"))
    renamed = given("T", 0, 4, answer("0 0 9"), POP_CK=f"3 1000 60 3 {kind} broker-a 0 4")
    for found in (actual, renamed):
        assert found.topic == "T"
        assert delivery_of(found, GROUP).topic == topic
        assert found.properties["POP_CK"] == f"3 1000 60 3 {kind} broker-a 0 4"


def test_earlier_deliveries_of_an_orderly_batch_are_counted() -> None:
    command = answer("0 1 5", "0 qo1%5 2;0 1 0;nonsense;1 qo%%")
    assert [given("T", 1, offset, command).reconsume_times for offset in (5, 6)] == [2, 0]


@pytest.mark.parametrize("starts", [None, "", "0 1 5", "1 2 5"])
def test_a_message_whose_batch_is_not_named_is_refused(starts: str | None) -> None:
    with pytest.raises(RemoteProtocolError, match="where its batch"):
        given("T", 2, 17, answer(starts))


@pytest.mark.parametrize("starts", ["0 1", "0 a 5", "0 1 -5", "x", "0 1 5;0 2"])
def test_damaged_texts_are_refused(starts: str) -> None:
    with pytest.raises(RemoteProtocolError, match="is not the start of a batch"):
        given("T", 2, 17, answer(starts))


@pytest.mark.parametrize("handle", ["", "x", "1 2 3", "15 1000 60 3 9 broker-a 2 17", "a 1000 60 3 0 broker-a 2 17"])
def test_a_handle_that_a_program_has_changed_is_named(handle: str) -> None:
    with pytest.raises(ConfigError, match="message id"):
        delivery_of(view("T", 2, 17, POP_CK=handle), GROUP)


def test_a_pop_does_not_wait_and_says_where_a_new_group_begins() -> None:
    for from_start, mode in ((True, 1), (False, 0)):
        header = pop_request(
            GROUP, Place("T", "broker-a"), 7, 500, Filter("a > 1", "SQL92"), 99, from_start=from_start, orderly=True
        )
        assert (header.poll_time, header.init_mode, header.born_time, header.order) == (0, mode, 99, True)
        assert (header.exp_type, header.exp, header.queue_id, header.max_msg_nums) == ("SQL92", "a > 1", -1, 7)
