"""How a remoting request names its operator: in its remark."""

from __future__ import annotations

from gantrymq.broker.client import Operator
from gantrymq.message.transaction import OPERATOR_REMARK
from gantrymq.protocol.command import Command


def operator_of(command: Command) -> Operator | None:
    """The person who sent a request by a tool, with the note; None when a program sent it."""
    remark = command.remark
    if remark and remark.startswith(OPERATOR_REMARK):
        return Operator(remark.removeprefix(OPERATOR_REMARK))
    return None
