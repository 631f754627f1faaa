"""The fast frames have the same content as the encoded typed header."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.client.sending.send_frame import SendFrames
from gantrymq.message import properties
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.command import decode_command, encode_request
from gantrymq.protocol.frame import FrameSplitter
from gantrymq.protocol.headers.send import SendMessage

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1, max_size=20)


@given(
    st.integers(0, 2**31 - 1), st.integers(0, 0x7FF), st.integers(0, 2**62), st.integers(-(2**31), 2**31 - 1),
    st.dictionaries(TEXT, TEXT, max_size=5), st.binary(max_size=50), st.booleans(), st.booleans(),
)  # fmt: skip
def test_like_the_typed_header(
    opaque: int, sys_flag: int, born: int, flag: int, values: dict[str, str], body: bytes, one_way: bool, again: bool
) -> None:
    queue = MessageQueue("T-1", 'broker "ä" 100%d', 3)
    text = properties.encode(values)
    frames = SendFrames("group", queue, 4)
    if again:  # the frame before was of the same ms, or of another
        frames.frame(1, sys_flag, born - opaque % 2, flag, b'""', b"before", not one_way)
    fast = frames.frame(opaque, sys_flag, born, flag, msgspec.json.encode(text), body, one_way)
    header = SendMessage(
        producer_group="group", topic="T-1", default_topic="TBW102", default_topic_queue_nums=4, queue_id=3,
        sys_flag=sys_flag, born_timestamp=born, flag=flag, properties=text, reconsume_times=0, unit_mode=False,
        batch=False, bname=queue.broker_name,
    )  # fmt: skip
    plain = encode_request(310, opaque, header, body, one_way=one_way)
    [one], [other] = FrameSplitter().feed(fast), FrameSplitter().feed(plain)
    fast_command, plain_command = decode_command(*one), decode_command(*other)
    assert fast_command.header(SendMessage) == plain_command.header(SendMessage) == header
    for name in ("code", "opaque", "flag", "version", "language", "body"):
        assert getattr(fast_command, name) == getattr(plain_command, name)
