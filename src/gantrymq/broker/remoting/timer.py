"""Timer messages: RECALL_MESSAGE (370), GET_TIMER_CHECK_POINT (60), GET_TIMER_METRICS (61)."""

from __future__ import annotations

import msgspec

from gantrymq.broker.operations.recall import Timers
from gantrymq.broker.refusal import Refused
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.broker.remoting.refusals import rejected
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.headers.send import RecallMessage, RecallMessageAnswer


class TimerHandler:
    """What senders and tools ask about timer messages."""

    def __init__(self, timers: Timers, region: str) -> None:
        """``region``: where this broker is, which answers to senders say."""
        self._timers = timers
        self._region = region

    def recall(self, session: ClientSession, command: Command) -> None:
        """RECALL_MESSAGE."""
        header = command.header(RecallMessage)

        def done(result: str | Refused) -> None:
            if isinstance(result, Refused):
                session.answer(command, rejected(command, result))
                return
            answer = RecallMessageAnswer(msg_id=result, region=self._region)
            session.answer(command, encode_response(command, ResponseCode.SUCCESS, answer))

        self._timers.recall(session, header.topic, header.recall_handle, header.producer_group or "", done)

    def check_point(self, session: ClientSession, command: Command) -> bytes:
        """GET_TIMER_CHECK_POINT."""
        return encode_response(command, ResponseCode.SUCCESS, body=self._timers.check_point())

    def metrics(self, session: ClientSession, command: Command) -> bytes:
        """GET_TIMER_METRICS: the JSON of TimerMetrics."""
        found = self._timers.waiting()
        timing = {
            topic: {"count": count, "timeStamp": found.changed_ms} for topic, count in found.by_topic.items()
        }  # fmt: skip
        version = {"counter": found.changes, "stateVersion": 0, "timestamp": found.changed_ms}
        body = msgspec.json.encode({"dataVersion": version, "timingCount": timing})
        return encode_response(command, ResponseCode.SUCCESS, body=body)
