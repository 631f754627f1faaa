"""What tools ask a client of gRPC: its stack traces, and what its listener makes of one message (Telemetry).

A command bears a nonce, and the client's answer repeats it. Source: GrpcClientChannel; docs/grpc.md#questions-of-tools.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gantrymq.broker.pushes import AnswerDone, ConsumerAnswer
from gantrymq.grpc.definition_pb2 import Code
from gantrymq.grpc.service_pb2 import TelemetryCommand
from gantrymq.message import properties, system_topics
from gantrymq.message.lite_topics import is_lite_queue, parent_of
from gantrymq.message.message import StoredMessage
from gantrymq.protocol.bodies.progress import ConsumedDirectly
from gantrymq.protocol.codes import ResponseCode
from gantrymq.runtime.clock import Clock, Timer

ANSWER_SECONDS: Final = 5.0
"""How long a client may take to answer, as in Apache's proxy. Some clients answer nothing to what they do not know."""
OPEN_MAX: Final = 100
"""Questions that one client may have open."""
_RESULTS: Final = {
    Code.OK: "CR_SUCCESS",
    Code.FAILED_TO_CONSUME_MESSAGE: "CR_LATER",
    Code.MESSAGE_CORRUPTED: "CR_RETURN_NULL",
}
_STACK: Final = "thread_stack_trace"
_VERIFIED: Final = "verify_message_result"

Read = Callable[[TelemetryCommand], ConsumerAnswer]


@dataclass(frozen=True, slots=True)
class _Question:
    member: str
    """The member of ``TelemetryCommand`` that answers it."""
    read: Read
    done: AnswerDone
    timer: Timer


class Questions:
    """Those that one client has not answered yet. Every ``done`` is called once."""

    def __init__(self, clock: Clock, client_id: str) -> None:
        self._clock = clock
        self._client_id = client_id
        self._open: dict[str, _Question] = {}
        self._asked = 0

    def stack(self, with_stack: Callable[[str], bytes], seconds: float, done: AnswerDone) -> str | None:
        """A question for the stack traces; the nonce for the command. ``with_stack``: makes the answer of the text.
        None: the client has too many open, and ``done`` was called."""

        def read(said: TelemetryCommand) -> ConsumerAnswer:
            return ConsumerAnswer(ResponseCode.SUCCESS, with_stack(said.thread_stack_trace.thread_stack_trace))

        return self._ask(_STACK, read, seconds, done)

    def verify(self, seconds: float, done: AnswerDone) -> str | None:
        """A question for what the listener makes of a message. See ``stack``."""
        began = self._clock.monotonic()

        def read(said: TelemetryCommand) -> ConsumerAnswer:
            result = ConsumedDirectly(
                consume_result=_RESULTS[said.status.code], remark=said.status.message or None,
                spent_time_mills=int((self._clock.monotonic() - began) * 1000),
            )  # fmt: skip
            return ConsumerAnswer(ResponseCode.SUCCESS, result.encode())

        return self._ask(_VERIFIED, read, seconds, done)

    def _ask(self, member: str, read: Read, seconds: float, done: AnswerDone) -> str | None:
        if len(self._open) >= OPEN_MAX:
            done(refused(f"the client {self._client_id} has not answered the {OPEN_MAX} questions before this one"))
            return None
        self._asked += 1
        # With the time, so that an answer to the door that was here before a restart answers nothing.
        nonce, seconds = f"{self._clock.wall_ms()}.{self._asked}", min(seconds, ANSWER_SECONDS)
        timer = self._clock.call_later(seconds, lambda: self._silent(nonce, seconds))
        self._open[nonce] = _Question(member, read, done, timer)
        return nonce

    def _silent(self, nonce: str, seconds: float) -> None:
        self._open.pop(nonce).done(
            refused(
                f"the client {self._client_id} did not answer within {seconds:g} s: it is busy, or a client of its "
                "language does not answer this question"
            )
        )

    def answered(self, said: TelemetryCommand) -> None:
        """The client says something. What answers no open question of its own is dropped."""
        member = said.WhichOneof("command")
        nonce = getattr(getattr(said, member or "", None), "nonce", "")
        question = self._open.pop(nonce, None)
        if question is None:
            return
        question.timer.cancel()
        understood = member == question.member and said.status.code in (_RESULTS if member == _VERIFIED else (Code.OK,))
        question.done(question.read(said) if understood else self._not_done(said))

    def _not_done(self, said: TelemetryCommand) -> ConsumerAnswer:
        """It has another code, or is of another kind: Node.js answers so what it does not know."""
        code = said.status.code
        name = Code.Name(code) if code in Code.values() else "unknown"
        remark = f"the client {self._client_id} did not do it: code {code} ({name})"
        return refused(f"{remark}: {said.status.message}" if said.status.message else remark)

    def close(self) -> None:
        """The client is gone."""
        questions, self._open = self._open, {}
        for question in questions.values():
            question.timer.cancel()
            question.done(None)


def refused(remark: str) -> ConsumerAnswer:
    """The answer that says why there is none."""
    return ConsumerAnswer(ResponseCode.SYSTEM_ERROR, b"", remark)


def sent_to(stored: StoredMessage, group: str) -> str:
    """The topic that a stored message was sent to: it may wait in the retry topic of the group, or in a lite topic."""
    topic = stored.topic
    if topic.startswith(system_topics.RETRY_PREFIX):
        return properties.find(stored.properties_text, properties.RETRY_TOPIC) or system_topics.normal_topic(
            topic, group
        )
    return parent_of(topic) if is_lite_queue(topic) else topic
