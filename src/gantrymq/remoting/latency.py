"""How many requests of each kind a server answered, how, and how long that took.

The time begins when the request was read from its connection, and ends when its answer is written to it; that of a
one-way request ends when its handler has returned. Reading the clock for every request would cost more than all the
rest here. But what is read together is usually answered together and alike, so such answers are counted, and the time
is taken once for all of them.
"""

from __future__ import annotations

from typing import Final

from gantrymq.observability.metrics import Histogram, Reading
from gantrymq.observability.rpc_latency import ANSWERED, BOUNDS_MS, ONE_WAY, text_of
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command, response_code_of
from gantrymq.runtime.clock import Clock

REMOTING: Final = "remoting"
_NEVER: Final = -1.0
_UNKNOWN: Final = -1
"""Stands for all codes that RocketMQ does not have: a client may send any number."""


def _names(codes: type[RequestCode] | type[ResponseCode]) -> dict[int, str]:
    return {int(code): code.name.lower() for code in codes}


_REQUESTS: Final = _names(RequestCode)
_RESPONSES: Final = _names(ResponseCode)


class RequestLatency:
    """Measures the requests of one server."""

    __slots__ = ("_arrived", "_clock", "_code", "_held", "_measured", "_one_way", "_response", "_times")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._measured: dict[tuple[int, int, bool, bool], Histogram] = {}
        """By request code, response code, whether it was held, and whether it was one-way."""
        # The answers that are counted, and whose time is not taken yet.
        self._times = 0
        self._arrived = _NEVER
        self._code = self._response = 0
        self._held = self._one_way = False

    def answered(self, command: Command, frame: bytes, held: bool = False) -> None:
        """A request gets its answer, which is written before the next ``take``."""
        self._count(command, response_code_of(frame), held, False)

    def executed(self, command: Command, frame: bytes | None) -> None:
        """A one-way request was executed. ``frame``: the answer that is not sent, if its handler has returned one."""
        self._count(command, ResponseCode.SUCCESS if frame is None else response_code_of(frame), False, True)

    def _count(self, command: Command, response: int, held: bool, one_way: bool) -> None:
        if (
            command.arrived == self._arrived
            and command.code == self._code
            and response == self._response
            and held == self._held
            and one_way == self._one_way
        ):
            self._times += 1
            return
        self.take()
        self._arrived, self._code, self._response = command.arrived, command.code, response
        self._held, self._one_way = held, one_way
        self._times = 1

    def take(self) -> None:
        """Take the time of what was counted since the last call."""
        if not self._times:
            return
        code = self._code if self._code in _REQUESTS else _UNKNOWN
        key = (code, self._response, self._held, self._one_way)
        histogram = self._measured.get(key)
        if histogram is None:
            histogram = self._measured[key] = Histogram(BOUNDS_MS)
        histogram.observe((self._clock.monotonic() - self._arrived) * 1000, self._times)
        self._times, self._arrived = 0, _NEVER

    def read(self) -> list[Reading]:
        """For ``RPC_LATENCY``."""
        self.take()
        return [
            (
                (
                    REMOTING,
                    _REQUESTS.get(code, "unknown"),
                    _RESPONSES.get(response, str(response)),
                    text_of(held),
                    ONE_WAY if one_way else ANSWERED,
                ),
                histogram,
            )
            for (code, response, held, one_way), histogram in self._measured.items()
        ]
