"""SEND_HALVES and END_HALVES: many half messages in one request, and many ends. Only GantryMQ has these requests.

A transaction that is sent and ended alone costs a frame and an answer each time. A program with many half messages that
are decided together, such as a job of Spark, saves most of that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from gantrymq.broker.client import Client
from gantrymq.broker.operations.half_messages import PlacedHalf
from gantrymq.broker.operations.send_halves import HALVES_MAX, HalvesSends
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.broker.remoting.refusals import RESPONSE_CODES, rejected
from gantrymq.broker.transactions.end_request import EndRequest
from gantrymq.message.transaction import Resolution
from gantrymq.protocol.batch import split_batch
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import ONE_WAY_FLAG, Command, encode_response
from gantrymq.protocol.halves import decode_ends, encode_codes, encode_places
from gantrymq.protocol.headers.send import SendMessage
from gantrymq.protocol.headers.transaction import EndHalves

EndMany = Callable[[Client, Sequence[EndRequest], Callable[[int, Refused | None], None]], None]
"""The operation ``EndOperation.end_many``."""

_RESOLUTIONS: Final = {int(resolution): resolution for resolution in Resolution}


class HalvesHandler:
    """Translates both requests, and their answers."""

    def __init__(self, sends: HalvesSends, end_many: EndMany) -> None:
        self._sends = sends
        self._end_many = end_many

    def send(self, session: ClientSession, command: Command) -> None:
        """Answered when all half messages are safe."""
        header = command.header(SendMessage)
        answered = None if command.flag & ONE_WAY_FLAG else partial(_answer_places, session, command)
        self._sends.send(session, header, len(command.body), split_batch(command.body), answered)

    def end(self, session: ClientSession, command: Command) -> None:
        """Answered when all decisions are safe, with a response code for each."""
        header = command.header(EndHalves)
        resolution = _RESOLUTIONS.get(header.commit_or_rollback)
        if resolution is None:
            raise Refused(Refusal.FAILED, "commitOrRollback field wrong; it is 0, 8 or 12")
        ends = decode_ends(command.body)
        if not 0 < len(ends) <= HALVES_MAX:
            raise Refused(Refusal.PARAMETER_INVALID, f"end 1 to {HALVES_MAX} half messages in one request")
        group, answers_check = header.producer_group, bool(header.from_transaction_check)
        requests = [
            EndRequest(
                group, end.queue_offset, end.log_offset, end.unique_key, end.unique_key, resolution, answers_check
            )
            for end in ends
        ]  # fmt: skip
        self._end_many(session, requests, _Codes(session, command, len(ends)).ended)


class _Codes:
    """The response codes of one request, until all of them are known."""

    __slots__ = ("_codes", "_command", "_left", "_remark", "_session")

    def __init__(self, session: ClientSession, command: Command, count: int) -> None:
        self._session = session
        self._command = command
        self._codes = [0] * count
        self._left = count
        self._remark: str | None = None

    def ended(self, index: int, refused: Refused | None) -> None:
        self._left -= 1
        if refused is not None:
            self._codes[index] = RESPONSE_CODES[refused.reason]
            self._remark = self._remark or refused.remark
        if not self._left and not self._command.flag & ONE_WAY_FLAG:
            body = encode_codes(self._codes)
            self._session.send(encode_response(self._command, ResponseCode.SUCCESS, body=body, remark=self._remark))


def _answer_places(session: ClientSession, command: Command, result: Sequence[PlacedHalf] | Refused) -> None:
    if isinstance(result, Refused):
        session.send(rejected(command, result))
    else:
        places = [(half.queue_offset, half.log_offset) for half in result]
        session.send(encode_response(command, ResponseCode.SUCCESS, body=encode_places(places)))
