"""Byte strings that Apache's own classes (4.9.7 and 5.5.0) produced."""

from __future__ import annotations

import zlib

from gantrymq.message import properties
from gantrymq.message.message import Message
from gantrymq.message.transaction import Resolution
from gantrymq.protocol import stored_message
from gantrymq.protocol.batch import encode_batch, split_batch
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command, SerializeType, decode_command, encode_command, ext_of
from gantrymq.protocol.frame import FrameSplitter
from gantrymq.protocol.headers.nameserver import GetRoute
from gantrymq.protocol.headers.send import SendMessage
from gantrymq.protocol.headers.transaction import CheckTransactionState, EndTransaction
from gantrymq.protocol.message_ids import offset_message_id, parse_offset_message_id

ROUTE_JSON = bytes.fromhex(
    "00000087000000837b22636f6465223a3130352c226578744669656c6473223a7b22746f706963223a22546f70696354657374227d2c22666c"
    "6167223a302c226c616e6775616765223a224a415641222c226f7061717565223a372c2273657269616c697a655479706543757272656e7452"
    "5043223a224a534f4e222c2276657273696f6e223a3437397d"
)
ROUTE_COMPACT = bytes.fromhex(
    "0000002d0100002900690001df000000070000000000000000000000140005746f70696300000009546f70696354657374"
)
ANSWER_JSON = (
    b'{"code":17,"flag":1,"language":"JAVA","opaque":7,"remark":"no route","serializeTypeCurrentRPC":"JSON",'
    b'"version":479}'
)
RECORD = bytes.fromhex(
    "00000089daa320a73610a6860000000300000000000000000000002a0000000000000400000000000000018bcfe568000a0000020000c350"
    "0000018bcfe5687b0a00000100002a9f0000000000000000000000000000000568656c6c6f09546f70696354657374002054414753015461"
    "674102554e49515f4b45590137463030303030313030303102"
)
BATCH_ITEM_5 = bytes.fromhex("000000250000000000000000000000000000000568656c6c6f000a54414753015461674102")
BATCH_ITEM_4 = bytes.fromhex("000000240000000000000000000000000000000568656c6c6f0009544147530154616741")


def decode(frame: bytes) -> Command:
    ((serialization, header, body),) = FrameSplitter().feed(frame)
    return decode_command(serialization, header, body)


def test_route_request_in_both_serializations() -> None:
    for frame, serialize in ((ROUTE_JSON, SerializeType.JSON), (ROUTE_COMPACT, SerializeType.ROCKETMQ)):
        command = decode(frame)
        assert command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC
        assert (command.opaque, command.version, command.language, command.flag) == (7, 479, "JAVA", 0)
        assert command.serialize is serialize
        assert command.header(GetRoute) == GetRoute(topic="TopicTest")
        assert encode_command(command) == frame
        built = Command(
            code=105,
            opaque=7,
            version=479,
            language="JAVA",
            ext=ext_of(GetRoute(topic="TopicTest")),
            serialize=serialize,
        )
        assert encode_command(built) == frame


def test_answer_header() -> None:
    command = decode_command(0, ANSWER_JSON, b"")
    assert command.is_response
    assert (command.code, command.remark) == (ResponseCode.TOPIC_NOT_EXIST, "no route")
    assert encode_command(command)[8:] == ANSWER_JSON


def test_half_message_header() -> None:
    ext = {
        "a": "PG", "b": "T", "c": "TBW102", "d": "4", "e": "1", "f": "4", "g": "1700000000000", "h": "0",
        "i": "KEYS\x01k\x02TRAN_MSG\x01true\x02", "j": "0", "k": "false", "m": "false", "n": "broker-a",
    }  # fmt: skip
    header = Command(code=310, ext=ext).header(SendMessage)
    assert header.producer_group == "PG"
    assert (header.queue_id, header.sys_flag, header.born_timestamp) == (1, 4, 1700000000000)
    assert properties.decode(header.properties or "") == {"KEYS": "k", "TRAN_MSG": "true"}
    assert ext_of(header) == ext


def test_fields_of_the_transaction_requests() -> None:
    ended = EndTransaction(
        producer_group="PG", bname="b", commit_log_offset=1, topic="T", msg_id="M", tran_state_table_offset=2,
        commit_or_rollback=Resolution.COMMIT, transaction_id="X", from_transaction_check=False,
    )  # fmt: skip
    assert ext_of(ended) == {
        "producerGroup": "PG", "bname": "b", "commitLogOffset": "1", "topic": "T", "msgId": "M",
        "tranStateTableOffset": "2", "commitOrRollback": "8", "transactionId": "X", "fromTransactionCheck": "false",
    }  # fmt: skip
    check = CheckTransactionState(
        bname="b", commit_log_offset=1, topic="RMQ_SYS_TRANS_HALF_TOPIC", msg_id="M", tran_state_table_offset=2,
        offset_msg_id="O", transaction_id="X",
    )  # fmt: skip
    assert set(ext_of(check)) == {
        "bname", "commitLogOffset", "topic", "msgId", "tranStateTableOffset", "offsetMsgId", "transactionId",
    }  # fmt: skip


def test_stored_message() -> None:
    message = stored_message.decode_record(RECORD)
    assert (message.topic, message.body, message.queue_id, message.queue_offset) == ("TopicTest", b"hello", 3, 42)
    assert (message.log_offset, message.size, message.sys_flag, message.flag) == (1024, 137, 0, 0)
    assert (message.born_timestamp, message.born_host) == (1700000000000, "10.0.0.2:50000")
    assert (message.store_timestamp, message.store_host) == (1700000000123, "10.0.0.1:10911")
    assert properties.decode(message.properties_text) == {"TAGS": "TagA", "UNIQ_KEY": "7F0000010001"}
    assert message.body_crc == 907060870 == zlib.crc32(b"hello") & stored_message.CRC_MASK
    assert stored_message.encode_stored(message) == RECORD


def test_offset_message_id() -> None:
    message_id = offset_message_id(stored_message.pack_host("10.0.0.1:10911"), 1024)
    assert message_id == "0A00000100002A9F0000000000000400"
    assert parse_offset_message_id(message_id) == ("10.0.0.1:10911", 1024)


def test_batch_item() -> None:
    assert encode_batch([Message("TopicTest", b"hello", tags="TagA")]) == BATCH_ITEM_5
    for item in (BATCH_ITEM_5, BATCH_ITEM_4):
        (read,) = split_batch(item)
        assert (read.flag, read.body, properties.decode(read.properties_text)) == (0, b"hello", {"TAGS": "TagA"})
