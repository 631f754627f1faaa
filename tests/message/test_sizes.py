"""How the limits of size depend on each other: whoever changes one sees here which others it needs."""

from __future__ import annotations

import pytest

from gantrymq.broker.config import BrokerConfig
from gantrymq.message import sizes
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import SerializeType, encode_request
from gantrymq.protocol.hosts import pack_host
from gantrymq.protocol.stored_message import FIXED_SIZE, encode_record
from gantrymq.store.log.records import END_MARK_BYTES
from gantrymq.store.log.writer import BUFFER_LIMIT_BYTES
from gantrymq.transactions.records.half import OP_BYTES_MAX
from tests.support.brokers import send_header

TOPIC = "t" * sizes.MAX_TOPIC_CHARACTERS
PROPERTIES = "p" * sizes.MAX_PROPERTIES_BYTES
HOST = pack_host("127.0.0.1:10911")


def record_bytes(body_bytes: int) -> int:
    """Of the record of a message with so large a body, and all else as large as it may be."""
    birth = (0, HOST, 0, 0, 0)
    return len(encode_record(TOPIC.encode(), bytes(body_bytes), PROPERTIES.encode(), (0, 0, 0, 0, HOST), birth))


@pytest.mark.parametrize("form", list(SerializeType))
def test_the_largest_message_fits_into_a_frame(form: SerializeType) -> None:
    header = send_header(TOPIC, PROPERTIES)
    frame = encode_request(RequestCode.SEND_MESSAGE_V2, 1, header, bytes(sizes.LARGEST_BODY_BYTES), serialize=form)
    assert len(frame) - 4 <= sizes.MAX_FRAME_BYTES


def test_the_largest_record_fits_into_the_answer_to_a_pull() -> None:
    assert record_bytes(sizes.LARGEST_BODY_BYTES) + 64 * 1024 <= sizes.MAX_FRAME_BYTES


def test_the_largest_record_fits_into_a_file_of_the_log_and_is_believed() -> None:
    record = record_bytes(sizes.LARGEST_BODY_BYTES)
    assert record <= sizes.LARGEST_RECORD_BYTES
    file_bytes = BrokerConfig().store.mapped_file_size_commit_log
    assert file_bytes >= sizes.LARGEST_RECORD_BYTES + END_MARK_BYTES
    assert record_bytes(0) >= sizes.SMALLEST_RECORD_BYTES == FIXED_SIZE


def test_an_answer_that_has_all_it_may_and_one_usual_message_more_fits_into_a_frame() -> None:
    usual = record_bytes(sizes.MAX_BODY_BYTES)
    assert sizes.PULL_ANSWER_BYTES + usual <= sizes.MAX_FRAME_BYTES
    assert sizes.QUERY_ANSWER_BYTES + usual <= sizes.MAX_FRAME_BYTES


def test_what_a_setting_has_from_the_start_is_within_what_is_possible() -> None:
    assert BrokerConfig().topics.max_message_size == sizes.MAX_BODY_BYTES <= sizes.LARGEST_BODY_BYTES
    assert sizes.LARGEST_BODY_BYTES < sizes.LARGEST_READ_BODY_BYTES <= sizes.MAX_DECOMPRESSED_BYTES
    assert sizes.MAX_REQUEST_BODY_BYTES <= sizes.MAX_FRAME_BYTES
    assert OP_BYTES_MAX <= sizes.MAX_BODY_BYTES <= BUFFER_LIMIT_BYTES


def test_what_a_broker_adds_leaves_most_of_the_properties_to_the_sender() -> None:
    assert sizes.HALF_HEADROOM_BYTES + sizes.TIMER_HEADROOM_BYTES < sizes.MAX_PROPERTIES_BYTES // 16


def test_the_topic_of_a_sender_needs_no_record_of_version_2() -> None:
    assert sizes.MAX_TOPIC_CHARACTERS <= sizes.TOPIC_V1_MAX_BYTES
