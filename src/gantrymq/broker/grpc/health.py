"""The health service of gRPC, which load balancers ask. It is open to all and says nothing about messages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from gantrymq.grpc.common_messages import HEALTH, NOT_SERVING, SERVING, common_message
from gantrymq.grpc.pool import SERVICE
from gantrymq.grpc.serving.methods import Context, Method
from gantrymq.grpc.serving.statuses import CallFailed, GrpcStatus
from gantrymq.runtime.clock import Clock

LOOK_SECONDS: Final = 5.0
"""How often a watcher's broker is looked at."""
NAME: Final = f"{HEALTH}.Health"
_REQUEST: Final = common_message(f"{HEALTH}.HealthCheckRequest")
_ANSWER: Final = common_message(f"{HEALTH}.HealthCheckResponse")


class Health:
    """``refuses``: whether the broker takes no messages now."""

    def __init__(self, clock: Clock, refuses: Callable[[], bool]) -> None:
        self._clock = clock
        self._refuses = refuses

    def methods(self) -> dict[str, Method]:
        return {"Check": Method(_REQUEST, self.check), "Watch": Method(_REQUEST, self.watch, False, True)}

    def _status(self) -> int:
        return NOT_SERVING if self._refuses() else SERVING

    async def check(self, request: Any, context: Context) -> Any:
        _known(request.service)
        return _ANSWER(status=self._status())

    async def watch(self, request: Any, context: Context) -> AsyncIterator[Any]:
        """The status now, and each time it changes."""
        _known(request.service)
        before = -1
        while True:
            if (status := self._status()) != before:
                before = status
                yield _ANSWER(status=status)
            await self._clock.sleep(LOOK_SECONDS)


def _known(service: str) -> None:
    if service not in ("", SERVICE):
        raise CallFailed(GrpcStatus.NOT_FOUND, f"the service {service[:200]} is not there")
