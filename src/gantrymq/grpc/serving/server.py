"""A gRPC server on the port of a network: connections, calls and their deadlines.

It has no threads and no tasks of its own for calls: each is begun in the turn in which it came.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from functools import partial
from typing import Final

from gantrymq.grpc.serving.call import Call
from gantrymq.grpc.serving.deadlines import Deadlines
from gantrymq.grpc.serving.methods import Method
from gantrymq.grpc.serving.running import Running
from gantrymq.grpc.serving.session import Session
from gantrymq.grpc.serving.statuses import CallFailed, GrpcStatus
from gantrymq.runtime.clock import Clock, Timer, time_limit
from gantrymq.runtime.limits.client_limits import ClientLimits
from gantrymq.runtime.network import Listener, Network
from gantrymq.runtime.turns import Turns

log = logging.getLogger("gantrymq.grpc")

SWEEP_SECONDS: Final = 10.0


class GrpcServer:
    """``listen``, ``serve`` and ``close`` are called in this order, on one loop; ``close`` may be called again."""

    def __init__(self, network: Network, clock: Clock, client_limits: ClientLimits) -> None:
        self._network = network
        self.clock: Final = clock
        self.client_limits: Final = client_limits
        self.turns: Final = Turns(clock)
        self.serves = False
        self._listener: Listener | None = None
        self._methods: dict[str, Method] = {}
        self._deadlines: Final = Deadlines[Call](clock, _too_late)
        self._sessions: dict[Session, None] = {}
        self._sweeper: Timer | None = None
        self._calls = 0
        self._idle: asyncio.Event | None = None

    @property
    def sessions(self) -> list[Session]:
        return list(self._sessions)

    async def listen(self, host: str, port: int) -> str:
        """Take the port; ``host:port``. Nothing is answered yet. Raises Unreachable when the port is in use."""
        self._listener = await self._network.listen(host, port, self._accept, self.client_limits.connections)
        self._sweeper = self.clock.call_later(SWEEP_SECONDS, self._sweep)
        return self._listener.address

    def serve(self, services: Mapping[str, Mapping[str, Method]]) -> None:
        """Answer calls from now on, with these methods by service and name; again, when they are others."""
        self._methods = {
            f"/{service}/{name}": method for service, methods in services.items() for name, method in methods.items()
        }
        if not self.serves:
            self.serves = True
            for session in self.sessions:
                session.start()

    async def close(self, grace_s: float) -> None:
        """Take no more calls, and wait ``grace_s`` seconds for those that are under way."""
        if self._listener is not None:
            await self._listener.close()
            self._listener = None
        if self._sweeper is not None:
            self._sweeper.cancel()
        for session in self.sessions:
            session.finish()
        if grace_s > 0 and self._calls:
            self._idle = asyncio.Event()
            try:
                async with time_limit(self.clock, grace_s):
                    await self._idle.wait()
            except TimeoutError:
                log.info("%d calls of gRPC are given up", self._calls)
        self._deadlines.close()
        for session in self.sessions:
            session.close()

    def _accept(self) -> Session:
        session = Session(self)
        self._sessions[session] = None
        return session

    def _sweep(self) -> None:
        now = self.clock.monotonic()
        for session in self.sessions:
            session.look(now)
        self._sweeper = self.clock.call_later(SWEEP_SECONDS, self._sweep)

    # What sessions say.

    def method(self, path: str) -> Method | None:
        return self._methods.get(path)

    def began(self, call: Call) -> None:
        self._calls += 1
        remaining = call.remaining_s
        if remaining is not None:
            call.tick = self._deadlines.add(call, remaining)

    def execute(self, call: Call) -> None:
        if not call.is_over:
            running = call.running = Running(call.execute(), partial(_ended, call))
            running.begin()

    def over(self, call: Call) -> None:
        self._calls -= 1
        self._deadlines.remove(call, call.tick)
        if not self._calls and self._idle is not None:
            self._idle.set()

    def forget(self, session: Session) -> None:
        self._sessions.pop(session, None)


def _too_late(call: Call) -> None:
    call.finish(GrpcStatus.DEADLINE_EXCEEDED, "the deadline of the call is over")
    call.cancel()


def _ended(call: Call, error: BaseException | None) -> None:
    """The method has returned or raised."""
    call.running = None
    if error is None or isinstance(error, asyncio.CancelledError):
        if error is not None:
            call.finish(GrpcStatus.CANCELLED, "the call was given up")
    elif isinstance(error, CallFailed):
        call.finish(error.status, str(error))
    else:
        log.error("a call of gRPC hit a defect", exc_info=error)
        call.finish(GrpcStatus.INTERNAL, "the server could not answer; its log says why")
