"""SEND_MESSAGE_V2 with a binary header, read at a twelfth of the usual cost (2 us instead of 25).

The headers of one producer differ in queue, flags, times and properties only. So the rest, in front of them and behind
them, is remembered as bytes when it was decoded once, and compared from then on. Whatever does not fit is decoded the
usual way, with the same result for every header: tests/protocol/test_quick_send.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from struct import error as StructError
from typing import Any, Final

from gantrymq.errors import RemoteProtocolError
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import LANGUAGE_NAMES, Command, SerializeType, decode_command, ext_of
from gantrymq.protocol.headers.send import SendMessage

SEND_V2: Final = RequestCode.SEND_MESSAGE_V2.to_bytes(2, "big")
"""How such a header begins."""
LAYOUTS_LIMIT: Final = 16
"""Remembered for one connection: one for each topic and producer group that it sends with, or two of many queues."""

_ROCKETMQ: Final = SerializeType.ROCKETMQ
_ENTRIES: Final = 21
"""Where the extension map begins when there is no remark."""
_SHORT: Final = Struct(">h")
_INT: Final = Struct(">i")
_ORDER: Final = [b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h", b"i"]
_F: Final = b"\0\x01f\0\0\0"
_G: Final = b"\0\x01g\0\0\0\x0d"
_H: Final = b"\0\x01h\0\0\0"
_I: Final = b"\0\x01i"
"""In front of system flag, born time, flag and properties: name and size, but for the size's last byte, which is read
with the digits."""
_MIDDLE: Final = re.compile(rb"(.\d+)%b(.\d+)%b\d{13}%b(.\d+)%b" % (_F, _G, _H, _I), re.DOTALL).match
_NUMBERS: Final = {bytes((len(str(number)),)) + b"%d" % number: number for number in range(1000)}
"""Numbers by the last byte of their length and their digits: a wrong length finds nothing."""


@dataclass(frozen=True, slots=True)
class _Layout:
    prefix: bytes
    """From the first entry to the last byte of the length of "e"."""
    unpack: Callable[[bytes], tuple[Any, ...]]
    """The numbers in front of the first entry, and what is between ``prefix`` and the properties."""
    begin: int
    """Where the properties begin."""
    suffix: bytes
    """Everything behind the properties."""
    header: SendMessage
    """What these bytes say; what is between them is not valid."""


class QuickSends:
    """Decodes the sends of one connection."""

    __slots__ = ("_layouts",)

    def __init__(self) -> None:
        self._layouts: list[_Layout] = []

    def decode(self, header: bytes, body: bytes) -> Command:
        """The same as ``decode_command``."""
        for layout in self._layouts:
            if header.startswith(layout.prefix, _ENTRIES):
                command = _read(layout, header, body)
                if command is not None:
                    return command
        command = decode_command(SerializeType.ROCKETMQ, header, body)
        found = _learn(header, command)
        if found is not None:
            self._layouts = [found, *self._layouts[: LAYOUTS_LIMIT - 1]]
        return command


def _read(layout: _Layout, header: bytes, body: bytes) -> Command | None:
    # One call for all numbers and texts of known sizes: half the cost of a pattern.
    try:
        (
            code, language, version, opaque, flag, remark_size, ext_size, queue, f, system, g, born, h, user, i, size,
        ) = layout.unpack(header)  # fmt: skip
    except StructError:
        return None
    begin = layout.begin
    end = begin + size
    if (
        f != _F or g != _G or h != _H or i != _I or remark_size or ext_size != len(header) - _ENTRIES or end <= begin
        or header[end:] != layout.suffix or not born.isdigit()
    ):  # fmt: skip
        return None
    try:
        known = layout.header
        ext = SendMessage(
            producer_group=known.producer_group, topic=known.topic, default_topic=known.default_topic,
            default_topic_queue_nums=known.default_topic_queue_nums, queue_id=_NUMBERS[queue],
            sys_flag=_NUMBERS[system], born_timestamp=int(born), flag=_NUMBERS[user],
            properties=header[begin:end].decode(), reconsume_times=known.reconsume_times, unit_mode=known.unit_mode,
            max_reconsume_times=known.max_reconsume_times, batch=known.batch, bname=known.bname,
        )  # fmt: skip
    except (KeyError, UnicodeDecodeError):
        return None
    return Command(
        code=code, opaque=opaque, flag=flag, version=version, language=LANGUAGE_NAMES[language], ext=ext, body=body,
        serialize=_ROCKETMQ,
    )  # fmt: skip


def _learn(header: bytes, command: Command) -> _Layout | None:
    """The layout of a header that was decoded; None when it has not the usual order, or anything unknown in it."""
    remark_size, ext_size = _INT.unpack_from(header, 13)[0], _INT.unpack_from(header, 17)[0]
    if remark_size or ext_size != len(header) - _ENTRIES:
        return None
    try:
        known = command.header(SendMessage)
    except RemoteProtocolError:
        return None
    if ext_of(known) != command.ext_fields():
        return None
    position = _ENTRIES
    names: list[bytes] = []
    starts: list[int] = []
    while position < len(header):
        name_end = position + 2 + _SHORT.unpack_from(header, position)[0]
        names.append(header[position + 2 : name_end])
        starts.append(name_end)
        position = name_end + 4 + _INT.unpack_from(header, name_end)[0]
    if names[:9] != _ORDER or set(names[9:]) & set(_ORDER) or position != len(header):
        return None
    properties_end = starts[9] - 2 - len(names[9]) if len(names) > 9 else len(header)
    start = starts[4] + 3
    found = _MIDDLE(header, start)
    if found is None:
        return None
    # Texts of other sizes, as of a queue with two digits, make another layout.
    queue, system, user = [len(number) for number in found.groups()]
    unpack = Struct(f">hBhiiii{start - _ENTRIES}x{queue}s{len(_F)}s{system}s{len(_G)}s13s{len(_H)}s{user}s{len(_I)}si")
    return _Layout(
        header[_ENTRIES : start + 1], unpack.unpack_from, found.end() + 4, header[properties_end:], known
    )  # fmt: skip
