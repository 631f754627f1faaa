from __future__ import annotations

import logging
import sys
import zlib

import pytest

from gantrymq.client.consuming.pulling import views
from gantrymq.client.results import PullStatus, RawPull
from gantrymq.message import flags
from gantrymq.message.queues import MessageQueue, QueueOffset
from gantrymq.protocol.compression import LibraryMissing
from gantrymq.protocol.stored_message import pack_host
from tests.support.records import encode_record

QUEUE = MessageQueue("Orders", "broker-a", 0)
HOST = pack_host("127.0.0.1:10911")


def pulled(*bodies: tuple[bytes, int]) -> RawPull:
    """An answer with these bodies and system flags."""
    data, at = b"", 0
    for number, (body, sys_flag) in enumerate(bodies):
        data += encode_record(b"Orders", body, b"", 0, number, at, 1, HOST, 2, HOST, sys_flag=sys_flag)
        at = len(data)
    end = QueueOffset(len(bodies))
    return RawPull(status=PullStatus.FOUND, data=data, next_offset=end, min_offset=QueueOffset(0), max_offset=end)


def test_a_body_that_is_not_what_its_flag_says_keeps_nobody_from_those_behind(caplog: pytest.LogCaptureFixture) -> None:
    """No checksum covers the flag, and a producer may set it wrongly: the queue would be stuck there for ever."""
    raw = pulled((b"plain", flags.COMPRESSED), (zlib.compress(b"packed"), flags.COMPRESSED), (b"last", 0))
    with caplog.at_level(logging.ERROR):
        found = views(raw, QUEUE)
    assert [view.body for view in found] == [b"plain", b"packed", b"last"]
    assert "offset 0 of" in caplog.text and "delivered as it is stored" in caplog.text


def test_a_library_that_is_not_installed_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(LibraryMissing, match="pip install"):
        views(pulled((b"x", flags.COMPRESSED | flags.COMPRESSION_ZSTD)), QUEUE)
