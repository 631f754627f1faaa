"""How remoting asks a producer about a half message."""

from __future__ import annotations

from gantrymq.broker.client import Check
from gantrymq.broker.remoting.client_session import check_frame
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import decode_command
from gantrymq.protocol.frame import FrameSplitter
from gantrymq.protocol.headers.transaction import CheckTransactionState
from gantrymq.protocol.message_ids import offset_message_id
from gantrymq.protocol.stored_message import pack_host

HOST = pack_host("192.0.2.7:10911")


def check(unique_key: str = "KEY", broker_name: str = "broker-a") -> Check:
    return Check("PG", unique_key, 7, 4711, "Orders", 2, 1, False, broker_name, HOST, b"record")


def test_a_check_is_a_one_way_request_with_the_message_as_its_body() -> None:
    command = decode_command(*FrameSplitter().feed(check_frame(check(), 99))[0])
    assert (command.code, command.opaque, command.is_one_way, command.body) == (
        RequestCode.CHECK_TRANSACTION_STATE, 99, True, b"record",
    )  # fmt: skip
    assert command.header(CheckTransactionState) == CheckTransactionState(
        tran_state_table_offset=7, commit_log_offset=4711, msg_id="KEY", transaction_id="KEY",
        offset_msg_id=offset_message_id(HOST, 4711), topic="Orders", bname="broker-a",
    )  # fmt: skip


def test_what_is_unknown_is_left_out() -> None:
    command = decode_command(*FrameSplitter().feed(check_frame(check("", ""), 99))[0])
    header = command.header(CheckTransactionState)
    assert (header.msg_id, header.transaction_id, header.bname) == (None, None, None)
