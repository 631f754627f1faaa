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
from gantrymq.broker.transactions.end_many import ManyEnds, Results
from gantrymq.errors import MessageIllegal
from gantrymq.message.transaction import Resolution
from gantrymq.protocol.batch import split_batch
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import ONE_WAY_FLAG, Command, encode_response
from gantrymq.protocol.halves import decode_ends, encode_codes, encode_places
from gantrymq.protocol.headers.send import SendMessage
from gantrymq.protocol.headers.transaction import EndHalves

EndMany = Callable[[Client, ManyEnds, Callable[[Results], None]], None]
"""The operation ``EndManyOperation.end``."""

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
        try:
            items = split_batch(command.body, HALVES_MAX)
        except MessageIllegal as error:
            raise Refused(Refusal.PARAMETER_INVALID, str(error)) from error
        self._sends.send(session, header, len(command.body), items, answered)

    def end(self, session: ClientSession, command: Command) -> None:
        """Answered when all decisions are safe, with a response code for each."""
        header = command.header(EndHalves)
        resolution = _RESOLUTIONS.get(header.commit_or_rollback)
        if resolution is None:
            raise Refused(Refusal.FAILED, "commitOrRollback field wrong; it is 0, 8 or 12")
        ends = decode_ends(command.body, HALVES_MAX + 1)
        if not 0 < len(ends) <= HALVES_MAX:
            raise Refused(Refusal.PARAMETER_INVALID, f"end 1 to {HALVES_MAX} half messages in one request")
        request = ManyEnds(header.producer_group, ends, resolution, bool(header.from_transaction_check))
        self._end_many(session, request, partial(_answer_codes, session, command))


def _answer_codes(session: ClientSession, command: Command, results: Results) -> None:
    if command.flag & ONE_WAY_FLAG:
        return
    codes = [0 if refused is None else RESPONSE_CODES[refused.reason] for refused in results]
    remark = next((refused.remark for refused in results if refused is not None), None)
    session.answer(command, encode_response(command, ResponseCode.SUCCESS, body=encode_codes(codes), remark=remark))


def _answer_places(session: ClientSession, command: Command, result: Sequence[PlacedHalf] | Refused) -> None:
    if isinstance(result, Refused):
        session.answer(command, rejected(command, result))
    else:
        places = [(half.queue_offset, half.log_offset) for half in result]
        session.answer(command, encode_response(command, ResponseCode.SUCCESS, body=encode_places(places)))
