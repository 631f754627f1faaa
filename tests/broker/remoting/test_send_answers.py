"""Answers that are formatted are the ones that would be encoded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.broker.config import BrokerConfig
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.remoting.send_answers import SendAnswers
from gantrymq.broker.submission import Stored
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, SerializeType, decode_command, encode_response
from gantrymq.protocol.frame import FrameSplitter
from gantrymq.protocol.headers.send import SendMessageAnswer
from gantrymq.protocol.hosts import pack_host
from gantrymq.protocol.message_ids import offset_message_id

HOST = pack_host("127.0.0.1:10911")


@pytest.mark.parametrize("region", ["DefaultRegion", "nörd %s \x01"])
@given(
    form=st.sampled_from(SerializeType), opaque=st.integers(-(2**31), 2**31 - 1), queue_id=st.integers(0, 100_000),
    log_offset=st.integers(0, 2**62), queue_offset=st.integers(0, 2**62), key=st.text(min_size=1, max_size=400),
)  # fmt: skip
def test_formatted_and_encoded_answers_say_the_same(
    region: str, form: SerializeType, opaque: int, queue_id: int, log_offset: int, queue_offset: int, key: str
) -> None:
    command = Command(code=310, opaque=opaque, serialize=form)
    answers = SendAnswers(LiveConfig(BrokerConfig.of(region_id=region)), HOST)
    formatted = answers.stored(command, Stored(log_offset, queue_offset, queue_id, key))
    encoded = encode_response(
        command, ResponseCode.SUCCESS,
        SendMessageAnswer(
            msg_id=offset_message_id(HOST, log_offset), queue_id=queue_id, queue_offset=queue_offset,
            transaction_id=key, region=region, trace_on="true",
        ),
    )  # fmt: skip
    first, second = (decode_command(*FrameSplitter().feed(frame)[0]) for frame in (formatted, encoded))
    assert first.ext_fields() == second.ext_fields()
    assert (first.code, first.opaque, first.flag, first.version) == (second.code, opaque, 1, second.version)
    if form is SerializeType.ROCKETMQ:
        assert formatted == encoded
