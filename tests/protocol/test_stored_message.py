from __future__ import annotations

from gantrymq.protocol import stored_message
from gantrymq.protocol.message_ids import offset_message_id, parse_offset_message_id

VECTOR = bytes.fromhex(
    "00000089daa320a73610a6860000000300000000000000000000002a0000000000000400000000000000018bcfe568000a0000020000c350"
    "0000018bcfe5687b0a00000100002a9f0000000000000000000000000000000568656c6c6f09546f70696354657374002054414753015461"
    "674102554e49515f4b45590137463030303030313030303102"
)


def test_golden_record_decodes_and_encodes_to_the_same_bytes() -> None:
    message = stored_message.decode_record(VECTOR)
    assert (message.topic, message.body, message.queue_id, message.queue_offset) == ("TopicTest", b"hello", 3, 42)
    assert (message.born_host, message.store_host) == ("10.0.0.2:50000", "10.0.0.1:10911")
    assert message.body_crc == 907060870
    assert stored_message.encode_stored(message) == VECTOR
    message_id = offset_message_id(stored_message.pack_host(message.store_host), message.log_offset)
    assert message_id == "0A00000100002A9F0000000000000400"
    assert parse_offset_message_id(message_id) == ("10.0.0.1:10911", 1024)
