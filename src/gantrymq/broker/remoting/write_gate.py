"""The gate of a replica at the remoting door: every request that is a write is refused, as Apache's slaves do."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from gantrymq.access import operations as does
from gantrymq.access.operations import Operation
from gantrymq.access.remoting.requests import BROKER_ROWS
from gantrymq.broker.write_gate import READ_ONLY
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.remoting.server import Handler

VERSION_5_0_0: Final = 413
"""Source: MQVersion.V5_0_0."""
_SENDS: Final = (does.SEND, does.REPLY, does.SEND_BACK)
_ENDS: Final = (does.END, does.DECIDE)
_TABLES: Final = (does.CREATE_TOPIC, does.DELETE_TOPIC, does.CREATE_GROUP, does.DELETE_GROUP, does.CHANGE_USERS)


def behind_gate(table: Mapping[int, Handler], reason: str = READ_ONLY) -> Mapping[int, Handler]:
    """The handlers of a broker whose gate is closed; ``reason``: why. A request that nobody has named is a write."""
    return {code: handler if _reads(code) else partial(_refuse, reason, code) for code, handler in table.items()}


def _reads(code: int) -> bool:
    row = BROKER_ROWS.get(code)
    return row is not None and not any(operation.writes for operation in row.operations)


def _refuse(reason: str, code: int, _session: object, command: Command) -> bytes:
    row = BROKER_ROWS.get(code)
    operation = None if row is None else row.operations[0]
    return encode_response(command, refused_with(operation, command.version), remark=reason)


def refused_with(operation: Operation | None, version: int) -> ResponseCode:
    """The code that a slave of the version of whoever asks answers with. Both codes for sends make a client try another
    broker. Source: SendMessageProcessor and NettyRemotingAbstract (rejectRequest), EndTransactionProcessor,
    AdminBrokerProcessor (validateSlave)."""
    if operation in _SENDS:
        return ResponseCode.SYSTEM_BUSY if version >= VERSION_5_0_0 else ResponseCode.SERVICE_NOT_AVAILABLE
    if operation in _ENDS:
        return ResponseCode.SLAVE_NOT_AVAILABLE
    return ResponseCode.SYSTEM_ERROR if operation in _TABLES else ResponseCode.SERVICE_NOT_AVAILABLE
