from __future__ import annotations

import pytest

from gantrymq.errors import MessageIllegal
from gantrymq.message import system_topics
from gantrymq.message.message import Message
from gantrymq.message.sizes import MAX_BODY_BYTES
from gantrymq.message.validation import check_batch, check_message, is_delayed


def with_flag(flag: int) -> Message:
    """A flag that was changed after the message was made."""
    message = Message("orders", b"x")
    message.flag = flag
    return message


@pytest.mark.parametrize("body", [b"x", bytes(MAX_BODY_BYTES)])
def test_bodies_of_one_byte_to_4_mib_pass(body: bytes) -> None:
    check_message(Message("orders", body, flag=-(2**31)))


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        (Message("orders", b""), "at least one byte"),
        (Message("orders", bytes(MAX_BODY_BYTES + 1)), "raise maxMessageSize"),
        (Message("no spaces", b"x"), "use letters, digits"),
        (Message("", b"x"), "give it a name"),
        (with_flag(2**31), "32 bits"),
        *((Message(topic, b"x"), "send to a topic of your own") for topic in sorted(system_topics.NOT_SENDABLE)),
    ],
    ids=lambda value: value if isinstance(value, str) else value.topic[:20],
)
def test_what_may_not_be_sent_says_what_to_do(message: Message, advice: str) -> None:
    with pytest.raises(MessageIllegal, match=advice):
        check_message(message)


def test_the_limit_is_the_callers() -> None:
    with pytest.raises(MessageIllegal, match="the limit is 3"):
        check_message(Message("orders", b"1234"), max_body_bytes=3)


@pytest.mark.parametrize(
    ("messages", "advice"),
    [
        ([], "empty"),
        ([Message("a", b"x"), Message("b", b"x")], "one topic"),
        ([Message("%RETRY%g", b"x")], "retry topic"),
        ([Message("a", b"x"), Message("a", b"x", delay_level=3)], "delayed"),
        ([Message("a", b"12345")] * 3, "Split it"),
        ([Message("a", b"x"), Message("a", b"")], "at least one byte"),
    ],
)
def test_what_cannot_travel_as_one_batch(messages: list[Message], advice: str) -> None:
    with pytest.raises(MessageIllegal, match=advice):
        check_batch(messages, 14)
    check_batch([Message("a", b"12345")] * 2, 14)


def test_delay_level_0_is_no_delay() -> None:
    assert not is_delayed({"DELAY": "0"}) and not is_delayed({"TIMER_DELAY_MS": ""}) and is_delayed({"DELAY": "1"})
