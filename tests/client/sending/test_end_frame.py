"""The fast frames are equal, byte for byte, to the encoded typed header."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from gantrymq.client.sending.end_frame import EndFrames
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import encode_request
from gantrymq.protocol.headers.transaction import EndTransaction

NUMBER = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.just('","msgId":"","opaque":0 100%d')


@given(
    st.tuples(TEXT, TEXT, TEXT), st.integers(0, 2**31 - 1), NUMBER, NUMBER, st.sampled_from([0, 8, 12]), TEXT, TEXT,
    st.booleans(),
)  # fmt: skip
@example(("g", '"msgId":""', '"opaque":0'), 1, 2, 3, 8, "K", "K", False)
def test_like_the_typed_header(
    names: tuple[str, str, str], opaque: int, queue_offset: int, log_offset: int, resolution: int, message_id: str,
    transaction_id: str, same: bool,
) -> None:  # fmt: skip
    group, topic, broker_name = names
    transaction_id = message_id if same else transaction_id
    fast = EndFrames(group, topic, broker_name).frame(
        opaque, queue_offset, log_offset, resolution, message_id, transaction_id
    )
    header = EndTransaction(
        producer_group=group, tran_state_table_offset=queue_offset, commit_log_offset=log_offset,
        commit_or_rollback=resolution, from_transaction_check=False, msg_id=message_id, transaction_id=transaction_id,
        topic=topic, bname=broker_name,
    )  # fmt: skip
    assert fast == encode_request(RequestCode.END_TRANSACTION, opaque, header)
