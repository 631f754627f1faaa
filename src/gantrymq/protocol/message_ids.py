"""The two ids of a message: the broker's (offset message id: where it is stored) and the sender's (UNIQ_KEY).

Both are upper-case hexadecimal digits of fixed-width binary fields:

    offset message id   store host (4 or 16 address bytes, 4-byte port), 8-byte log offset       32 or 56 digits
    UNIQ_KEY            4 or 16 address bytes, 2-byte process id, 4 bytes that tell instances
                        apart, 4-byte ms since the start of the month, 2-byte counter             32 or 56 digits

Source: MessageDecoder.createMessageId, MessageClientIDSetter; docs/protocol.md#message-ids.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from gantrymq.errors import LocalProtocolError, RemoteProtocolError
from gantrymq.message.queues import LogOffset
from gantrymq.protocol.hosts import host_text

if TYPE_CHECKING:
    from gantrymq.runtime.clock import Clock
    from gantrymq.runtime.rng import Rng

LENGTHS: Final = (32, 56)
"""Digits of either id. A client of gRPC makes ids of 34 digits, which are neither."""
_OFFSET_DIGITS: Final = 16
_COUNTER_BITS: Final = 16
_PAGE_SIZE: Final = 256
_LAST_DIGITS: Final = tuple([f"{number:02X}" for number in range(_PAGE_SIZE)])


def offset_message_id(host: bytes, log_offset: int) -> str:
    """The id that tells where a message is stored. ``host``: the packed store host, to which clients connect."""
    return f"{_host_digits(host)}{log_offset & 0xFFFFFFFFFFFFFFFF:016X}"


def parse_offset_message_id(message_id: str) -> tuple[str, LogOffset]:
    """(store host as ``address:port``, log offset). Raises RemoteProtocolError when it is not an offset message id."""
    raw = _bytes_of(message_id)
    return host_text(raw[:-8]), LogOffset(int.from_bytes(raw[-8:], "big", signed=True))


def log_offset_of(message_id: str) -> LogOffset:
    """The log offset alone, in a third of the time. Raises RemoteProtocolError when it is not an offset message id."""
    return LogOffset(int.from_bytes(_bytes_of(message_id)[-8:], "big", signed=True))


def _bytes_of(message_id: str) -> bytes:
    if len(message_id) not in LENGTHS:
        raise RemoteProtocolError(f"{message_id!r} is not an offset message id: it has neither 32 nor 56 digits")
    try:
        raw = bytes.fromhex(message_id)
    except ValueError as error:
        raise RemoteProtocolError(f"{message_id!r} is not an offset message id: {error}") from error
    if len(raw) * 2 != len(message_id):  # fromhex skips blanks
        raise RemoteProtocolError(f"{message_id!r} is not an offset message id: it contains blanks")
    return raw


@lru_cache(maxsize=1024)
def _host_digits(host: bytes) -> str:
    if len(host) not in (8, 20):
        raise LocalProtocolError("a packed host has 8 (IPv4) or 20 (IPv6) bytes")
    return host.hex().upper()


class UniqueIds:
    """Makes UNIQ_KEYs: one instance per client process.

    Two ids of one instance are never equal: within a month (time, counter) only grows, even if the clock goes back, and
    a new month takes new random bytes. The month starts at 00:00 UTC. (Java uses its local time zone; readers use the
    time in an id only to narrow a search.)
    """

    def __init__(self, rng: Rng, clock: Clock, address: bytes, process_id: int) -> None:
        """``address``: 4 or 16 bytes of this host's address. Of ``process_id`` the low 16 bits are used."""
        if len(address) not in (4, 16):
            raise LocalProtocolError("an address has 4 (IPv4) or 16 (IPv6) bytes")
        self._rng = rng
        self._clock = clock
        self._sender = address.hex().upper() + f"{process_id & 0xFFFF:04X}"
        self._prefix = ""
        self._month_start_ms = 0
        self._month_end_ms = 0
        self._last = -1
        """(ms since the start of the month) << 16 | counter of the last id, less its last two digits."""
        self._digit = 0
        """The number in the last two digits of the last id."""
        self._page_ms = -1
        """When ``_page`` was made."""
        self._page = ""
        """The digits of the last id without the last two."""

    def next(self, now_ms: int | None = None) -> str:
        """A new UNIQ_KEY. ``now_ms``: the wall time, if the caller has just read it."""
        if now_ms is None:
            now_ms = self._clock.wall_ms()
        digit = self._digit + 1
        # Under load most ids have the same ms as the id before, and differ from it only in two digits. Such an id takes
        # 0.3 us instead of 1.0 us.
        if now_ms != self._page_ms or digit >= _PAGE_SIZE:
            digit = self._turn_page(now_ms)
        self._digit = digit
        return self._page + _LAST_DIGITS[digit]

    def _turn_page(self, now_ms: int) -> int:
        if now_ms >= self._month_end_ms:
            self._start_month(now_ms)
        # If the clock stands still or goes back, or for more than 65536 ids in one ms, the ids run ahead of the time.
        number = max(self._last + self._digit + 1, (now_ms - self._month_start_ms) << _COUNTER_BITS)
        digit = number % _PAGE_SIZE
        self._last = number - digit
        self._page_ms = now_ms
        self._page = f"{self._prefix}{number // _PAGE_SIZE & 0xFFFFFFFFFF:010X}"
        return digit

    def _start_month(self, now_ms: int) -> None:
        first = datetime.fromtimestamp(now_ms / 1000, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        following = first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)
        self._month_start_ms = int(first.timestamp()) * 1000
        self._month_end_ms = int(following.timestamp()) * 1000
        self._prefix = self._sender + self._rng.token(4).hex().upper()
        self._last, self._digit = -1, 0
