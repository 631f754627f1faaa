"""Progress is the lowest offset that is not consumed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gantrymq.client.consuming.consume_window import ConsumeWindow
from gantrymq.message.message import MessageView
from gantrymq.message.queues import LogOffset, MessageQueue, QueueOffset


def view(offset: int) -> MessageView:
    queue = MessageQueue("T", "b", 0)
    return MessageView("T", b"xyz", {}, 0, queue, QueueOffset(offset), "", "", 0, "", 0, "", 0, LogOffset(0))


@given(st.lists(st.integers(1, 5), max_size=20), st.randoms(use_true_random=False))
def test_against_a_set(gaps: list[int], chance: object) -> None:
    offsets, at = [], 100
    for gap in gaps:
        offsets.append(at)
        at += gap
    window = ConsumeWindow(QueueOffset(100))
    window.add([view(offset) for offset in offsets])
    window.advance(QueueOffset(at))
    open_offsets = set(offsets)
    order = list(offsets)
    chance.shuffle(order)  # type: ignore[attr-defined]
    for offset in order:
        assert window.committable == min(open_offsets)
        assert window.count == len(open_offsets) and window.bytes_in_flight == 3 * len(open_offsets)
        assert window.span == max(offsets) - min(open_offsets)
        window.finish([view(offset)])
        open_offsets.discard(offset)
    assert window.committable == at and window.count == window.span == window.bytes_in_flight == 0


def test_filtered_messages_count_as_consumed() -> None:
    window = ConsumeWindow(QueueOffset(5))
    assert window.committable == 5
    window.advance(QueueOffset(9))
    assert window.committable == 9
    window.advance(QueueOffset(7))
    assert window.committable == 9


def test_a_message_that_the_listener_changed_gives_back_the_room_it_took() -> None:
    window = ConsumeWindow(QueueOffset(5))
    changed = view(5)
    window.add([changed])
    changed.body = b""
    window.finish([changed])
    assert window.bytes_in_flight == 0 and window.count == 0
