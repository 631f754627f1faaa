"""How many requests of each kind a server answered, how, and how long that took."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gantrymq.errors import GantryError, RequestRejected
from gantrymq.observability.metrics import Histogram, Kind, Metric, Reading
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command
from gantrymq.remoting.server import Handler
from gantrymq.runtime.clock import Clock

BOUNDS_MS: Final = (1, 3, 5, 7, 10, 100, 1_000, 2_000, 3_000)
"""Those of Apache's servers (RemotingMetricsManager)."""
RPC_LATENCY: Final[Metric] = Metric(
    "rocketmq_rpc_latency", Kind.HISTOGRAM, "milliseconds",
    ("protocol_type", "request_code", "response_code", "is_long_polling"),
    "Time that a request took in this server; the codes have RocketMQ's names, and an answer that is none is error.",
)  # fmt: skip
"""Source: RemotingMetricsConstant. Apache's label ``result`` is left out: only what was executed is measured."""
REMOTING: Final = "remoting"
NOT_HELD: Final = "false"
"""Handlers that answer at once hold no request."""
FAILED: Final = "error"


def _names(codes: type[RequestCode] | type[ResponseCode]) -> dict[int, str]:
    return {int(code): code.name.lower() for code in codes}


_REQUESTS: Final = _names(RequestCode)
_RESPONSES: Final = _names(ResponseCode)


class RequestLatency:
    """Measures the handlers of one server that answer at once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._measured: dict[tuple[int, str], Histogram] = {}
        """By request code and the name of the answer."""

    def measuring(self, handlers: Mapping[int, Handler]) -> dict[int, Handler]:
        """The same handlers, measured."""
        return {code: self._measuring(code, handler) for code, handler in handlers.items()}

    def _measuring(self, code: int, handler: Handler) -> Handler:
        def measured(session: Any, command: Command) -> bytes | None:
            begun = self._clock.monotonic()
            answered = FAILED
            try:
                answer = handler(session, command)
                answered = "success"
                return answer
            except RequestRejected as refusal:
                answered = _RESPONSES.get(refusal.code, str(refusal.code))
                raise
            except GantryError:
                answered = "system_error"
                raise
            finally:
                self._observe(code, answered, (self._clock.monotonic() - begun) * 1000)

        return measured

    def _observe(self, code: int, answered: str, taken_ms: float) -> None:
        histogram = self._measured.get((code, answered))
        if histogram is None:
            histogram = self._measured[code, answered] = Histogram(BOUNDS_MS)
        histogram.observe(taken_ms)

    def read(self) -> list[Reading]:
        """For ``RPC_LATENCY``."""
        return [
            ((REMOTING, _REQUESTS.get(code, str(code)), answered, NOT_HELD), histogram)
            for (code, answered), histogram in self._measured.items()
        ]
