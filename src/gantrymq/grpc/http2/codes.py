"""The numbers of HTTP/2, and the error that ends a connection. Source: RFC 9113, 6, 7 and 11."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from gantrymq.errors import RemoteProtocolError

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""What a client sends first."""
LARGEST_WINDOW: Final = 2**31 - 1
FIRST_WINDOW: Final = 65_535
"""Of a connection and of each stream, until a frame says otherwise."""
LEAST_FRAME: Final = 16_384
"""Every side takes frames of this size."""
LARGEST_FRAME: Final = 2**24 - 1


class Frame(IntEnum):
    """Types of frames."""

    DATA = 0
    HEADERS = 1
    PRIORITY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PUSH_PROMISE = 5
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9


class Flag:
    """ACK and END_STREAM are one bit: it depends on the type of the frame.

    Plain numbers: with an IntFlag, looking at the flags of one call cost seven microseconds.
    """

    ACK: Final = 1
    END_STREAM: Final = 1
    END_HEADERS: Final = 4
    PADDED: Final = 8
    PRIORITY: Final = 32


class Setting(IntEnum):
    """What one side tells the other about itself."""

    HEADER_TABLE_SIZE = 1
    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6


class ErrorCode(IntEnum):
    """Why a stream or a connection ends."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    CONNECT_ERROR = 10
    ENHANCE_YOUR_CALM = 11
    INADEQUATE_SECURITY = 12
    HTTP_1_1_REQUIRED = 13


class ConnectionFailed(RemoteProtocolError):
    """The peer broke a rule, so the connection ends. ``code``: what it is told."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.code = code
