"""What the requests of all clients may do in one turn of the loop."""

from __future__ import annotations

import asyncio

from gantrymq.protocol.command import Command, encode_request, encode_response
from gantrymq.remoting.server import RemotingServer
from gantrymq.remoting.session import Session
from gantrymq.runtime.turns import TURN_S
from tests.support.connections import FakeLink
from tests.support.sim_clock import SimClock

SLOW = 7


class _WorkingClock(SimClock):
    """Its time passes while requests are executed."""

    def work(self, seconds: float) -> None:
        self._now += seconds


class _Link(FakeLink):
    def __init__(self) -> None:
        super().__init__()
        self.reading = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


async def _connected(server: RemotingServer) -> tuple[Session, _Link]:
    session, link = server._accept(), _Link()
    session.connected(link)
    return session, link


def _requests(number: int) -> bytes:
    return b"".join(encode_request(SLOW, opaque) for opaque in range(number))


def test_many_requests_share_the_turns_with_other_clients() -> None:
    """One client sends fifty requests of more than half a turn each; another one need not wait for all."""
    order: list[int] = []

    async def test() -> None:
        clock = _WorkingClock()

        def handler(session: Session, command: Command) -> bytes:
            order.append(session.id)
            clock.work(TURN_S * 0.6)
            return encode_response(command, 0)

        server = RemotingServer(object(), clock, {SLOW: handler})  # type: ignore[arg-type]
        clock.work(1)
        many, link = await _connected(server)
        one, _ = await _connected(server)
        many.received(_requests(50))
        assert order == [many.id] * 2, "then the turn was over"
        assert not link.reading, "what waits cannot grow"
        one.received(_requests(1))
        assert order == [many.id] * 2, "it waits behind what came before"
        for _ in range(3):
            await asyncio.sleep(0)
        assert one.id in order[:6], "it had its turn soon"
        for _ in range(60):
            await asyncio.sleep(0)
        assert order.count(many.id) == 50 and order.count(one.id) == 1
        assert link.reading

    asyncio.run(test())


def test_what_waits_for_a_turn_of_a_lost_connection_is_dropped() -> None:
    order: list[int] = []

    async def test() -> None:
        clock = _WorkingClock()

        def handler(session: Session, command: Command) -> bytes:
            order.append(command.opaque)
            clock.work(TURN_S)
            return encode_response(command, 0)

        server = RemotingServer(object(), clock, {SLOW: handler})  # type: ignore[arg-type]
        clock.work(1)
        session, _ = await _connected(server)
        session.received(_requests(3))
        session.lost("closed")
        for _ in range(5):
            await asyncio.sleep(0)
        assert order == [0]

    asyncio.run(test())
