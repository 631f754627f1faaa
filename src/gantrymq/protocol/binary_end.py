"""Decodes END_TRANSACTION requests with a binary header fast, by comparing them with earlier ones of the connection.

All requests of one producer have the same order of fields, and mostly the same texts. A regular expression (a layout)
is made of the first request. A request that matches it yields a shape: the positions of the offsets and ids in all
headers of the same size whose numbers have as many digits. Nearly all further requests have a known shape, which is
read in 2.3 us instead of 3.4 us by the regular expression. A header that fits neither is decoded by ``decode_command``.
Both ways give the same result for every header: tests/protocol/test_binary_end.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from struct import Struct
from typing import Any, Final

from gantrymq.errors import RemoteProtocolError
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import LANGUAGE_NAMES, Command, SerializeType, decode_command, ext_of
from gantrymq.protocol.headers.transaction import EndTransaction

END_TRANSACTION: Final = RequestCode.END_TRANSACTION.to_bytes(2, "big")
"""The first bytes of such a header."""
LAYOUTS_LIMIT: Final = 8
"""Layouts that a connection remembers: the first ones, one for each topic and producer group. They are never replaced,
because making one is slow."""
SHAPES_LIMIT: Final = 64
"""Shapes that a connection remembers. When there are more, all are forgotten, because the shapes of shorter numbers are
not needed again once the numbers have grown."""

_ROCKETMQ: Final = SerializeType.ROCKETMQ
_FIXED: Final = Struct(">hBhiiii")
_ENTRIES: Final = 21
"""The position of the extension map when there is no remark."""
_SHORT: Final = Struct(">h")
_INT: Final = Struct(">i")
_NUMBER: Final = rb"\0\0\0(?P<%b_size>.)(?P<%b>0|[1-9][0-9]{0,17})"
"""A number as Java writes it. Longer numbers, and other texts, are left to ``decode_command``."""
_FLAG: Final = rb"\0\0\0(?P<%b>\x04true|\x05false)"
_NUMBERS: Final = (b"tranStateTableOffset", b"commitLogOffset", b"commitOrRollback")
_TEXTS: Final = (b"msgId", b"transactionId")
_CHECK: Final = b"fromTransactionCheck"
_CONSTANT: Final = frozenset({b"producerGroup", b"topic", b"bname"})
_TRUE: Final = b"\x04true"


@dataclass(frozen=True, slots=True)
class _Layout:
    pattern: re.Pattern[bytes]
    groups: tuple[int, ...]
    """The groups of the pattern: size and digits of the three numbers, flag, message id, transaction id; 0: none."""
    header: EndTransaction
    """The values that all such headers have. The fields in ``groups`` are not valid."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """Headers of one size that differ only in the opaque, the two offsets and the two ids."""

    unpack: Callable[[bytes], tuple[Any, ...]]
    constants: Callable[[tuple[Any, ...]], tuple[bytes, ...]]
    """Takes the parts that are the same in all these headers."""
    expected: tuple[bytes, ...]
    variables: Callable[[tuple[Any, ...]], tuple[Any, ...]]
    """Takes opaque, half queue offset, log offset, message id, transaction id."""
    least: tuple[int, int]
    """The smallest values of the two offsets. A smaller number of as many digits begins with a zero, and Java does not
    write such numbers."""
    command: Command
    header: EndTransaction
    """The values that all these headers have."""


class BinaryEnds:
    """Decodes the END_TRANSACTION requests of one connection."""

    __slots__ = ("_layouts", "_shapes")

    def __init__(self) -> None:
        self._layouts: list[_Layout] = []
        self._shapes: dict[int, list[_Shape]] = {}
        """The shapes by the size of the header."""

    def decode(self, header: bytes, body: bytes) -> Command:
        """The same result as ``decode_command``."""
        for shape in self._shapes.get(len(header), ()):
            values = shape.unpack(header)
            if shape.constants(values) == shape.expected:
                command = _fill(shape, values, body)
                if command is not None:
                    return command
        for layout in self._layouts:
            found = layout.pattern.fullmatch(header, _ENTRIES)
            if found is not None:
                command = _read(layout, found, header, body)
                if command is not None:
                    self._learn_shape(layout, found, header, command)
                    return command
        command = decode_command(SerializeType.ROCKETMQ, header, body)
        if len(self._layouts) < LAYOUTS_LIMIT:
            learned = _learn(header, command)
            if learned is not None:
                self._layouts.append(learned)
        return command

    def _learn_shape(self, layout: _Layout, found: re.Match[bytes], header: bytes, command: Command) -> None:
        if all(layout.groups):
            if sum(map(len, self._shapes.values())) >= SHAPES_LIMIT:
                self._shapes.clear()
            self._shapes.setdefault(len(header), []).append(_shape_of(layout, found, header, command))


def _fill(shape: _Shape, values: tuple[Any, ...], body: bytes) -> Command | None:
    opaque, table, log, message_id, transaction_id = shape.variables(values)
    if not (table.isdigit() and log.isdigit()):
        return None
    queue_offset, log_offset = int(table), int(log)
    least_queue, least_log = shape.least
    if queue_offset < least_queue or log_offset < least_log:
        return None
    try:
        message = message_id.decode("ascii")
        transaction = message if transaction_id == message_id else transaction_id.decode("ascii")
    except UnicodeDecodeError:
        return None
    if not (message.isprintable() and transaction.isprintable()):
        return None
    known, header = shape.command, shape.header
    ext = EndTransaction(
        producer_group=header.producer_group, tran_state_table_offset=queue_offset, commit_log_offset=log_offset,
        commit_or_rollback=header.commit_or_rollback, from_transaction_check=header.from_transaction_check,
        msg_id=message, transaction_id=transaction, topic=header.topic, bname=header.bname,
    )  # fmt: skip
    return Command(
        code=known.code, opaque=opaque, flag=known.flag, version=known.version, language=known.language, ext=ext,
        body=body, serialize=_ROCKETMQ,
    )  # fmt: skip


def _shape_of(layout: _Layout, found: re.Match[bytes], header: bytes, command: Command) -> _Shape:
    """The shape of a header that matched a layout."""
    known = command.header(EndTransaction)
    _, table, _, log, _, _, _, message_id, transaction_id = layout.groups
    spans = {"opaque": _OPAQUE} | {group: found.span(group) for group in (table, log, message_id, transaction_id)}
    parts: list[str] = []
    at: dict[int | str, int] = {}
    """The index of each part by its name."""
    position = 0
    for name, (start, end) in sorted(spans.items(), key=lambda item: item[1]):
        at[name] = len(parts) + 1
        parts += [f"{start - position}s", "i" if name == "opaque" else f"{end - start}s"]
        position = end
    unpack = Struct(">" + "".join([*parts, f"{len(header) - position}s"])).unpack
    constants = itemgetter(*range(0, len(parts) + 1, 2))
    least = [10 ** (size - 1) if size > 1 else 0 for size in (len(found[table]), len(found[log]))]
    return _Shape(
        unpack, constants, constants(unpack(header)),
        itemgetter(at["opaque"], at[table], at[log], at[message_id], at[transaction_id]),
        (least[0], least[1]), command, known,
    )  # fmt: skip


_OPAQUE: Final = (5, 9)
"""The position of the opaque in a header."""


def _read(layout: _Layout, found: re.Match[bytes], header: bytes, body: bytes) -> Command | None:
    code, language, version, opaque, flag, remark_size, ext_size = _FIXED.unpack_from(header)
    table_size, table, log_size, log, end_size, end, check, message_id, transaction_id = found.group(*layout.groups)
    if (
        remark_size
        or ext_size != len(header) - _ENTRIES
        or table_size[0] != len(table)
        or log_size[0] != len(log)
        or end_size[0] != len(end)
        or len(end) > 2
    ):
        return None
    known = layout.header
    ext = EndTransaction(
        producer_group=known.producer_group, tran_state_table_offset=int(table), commit_log_offset=int(log),
        commit_or_rollback=int(end), from_transaction_check=check == _TRUE if layout.groups[6] else None,
        msg_id=message_id.decode("ascii"),
        transaction_id=transaction_id.decode("ascii") if layout.groups[8] else None,
        topic=known.topic, bname=known.bname,
    )  # fmt: skip
    return Command(
        code=code, opaque=opaque, flag=flag, version=version, language=LANGUAGE_NAMES[language], ext=ext, body=body,
        serialize=_ROCKETMQ,
    )  # fmt: skip


def _learn(header: bytes, command: Command) -> _Layout | None:
    """The layout of a header that was decoded; None when the header contains something unknown."""
    remark_size, ext_size = _INT.unpack_from(header, 13)[0], _INT.unpack_from(header, 17)[0]
    if remark_size or ext_size != len(header) - _ENTRIES:
        return None
    try:
        known = command.header(EndTransaction)
    except RemoteProtocolError:
        return None
    if ext_of(known) != command.ext_fields():
        return None
    position = _ENTRIES
    parts: list[bytes] = []
    names: set[bytes] = set()
    while position < len(header):
        name_end = position + 2 + _SHORT.unpack_from(header, position)[0]
        name = header[position + 2 : name_end]
        end = name_end + 4 + _INT.unpack_from(header, name_end)[0]
        part = _pattern_of(name, header[name_end:end])
        if part is None or name in names:
            return None
        names.add(name)
        parts.append(re.escape(header[position:name_end]) + part)
        position = end
    pattern = re.compile(b"".join(parts), re.DOTALL)
    group = {name.encode(): number for name, number in pattern.groupindex.items()}
    groups = [number for name in _NUMBERS for number in (group[name + b"_size"], group[name])]
    groups += [group.get(name, 0) for name in (_CHECK, *_TEXTS)]
    return _Layout(pattern, tuple(groups), known)


def _pattern_of(name: bytes, value: bytes) -> bytes | None:
    """A pattern for the value of a field, including its length; None for an unknown field."""
    if name in _NUMBERS:
        return _NUMBER % (name, name)
    if name == _CHECK:
        return _FLAG % name
    if name in _TEXTS and len(value) > 4:
        return re.escape(value[:4]) + rb"(?P<%b>[ -~]{%d})" % (name, len(value) - 4)
    return re.escape(value) if name in _CONSTANT else None
