"""Translates what brokers answer to refusals: the same table as the door of remoting, read the other way round."""

from __future__ import annotations

from typing import Final

from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.remoting.refusals import RESPONSE_CODES
from gantrymq.errors import GantryError
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command

REFUSALS: Final[dict[int, Refusal]] = {
    **{int(code): refusal for refusal, code in RESPONSE_CODES.items()},
    ResponseCode.SYSTEM_ERROR: Refusal.FAILED,
    ResponseCode.SERVICE_NOT_AVAILABLE: Refusal.UNAVAILABLE,
}
"""Some codes stand for several refusals: the one counts that says least."""


def refused_by(answer: Command, what: str) -> Refused:
    """``what``: was asked for."""
    remark = answer.remark or f"code {answer.code}"
    return Refused(REFUSALS.get(answer.code, Refusal.FAILED), f"{what}: the broker refused: {remark}")


def away(error: GantryError, what: str) -> Refused:
    """No broker answered."""
    return Refused(Refusal.UNAVAILABLE, f"{what}: {error}")
