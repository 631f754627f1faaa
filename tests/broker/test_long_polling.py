"""Held pulls, without a network and in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Coroutine

from gantrymq.broker.filtering.evaluation import Predicate, compile_selector
from gantrymq.broker.filtering.selection import Selection
from gantrymq.broker.long_polling import HeldPull, HeldPulls
from gantrymq.protocol.command import Command
from gantrymq.remoting.server import RemotingServer, Session
from gantrymq.runtime.network import TcpNetwork
from tests.support.brokers import pull_header
from tests.support.places import run
from tests.support.sim_clock import SimClock, settle


class Desk:
    """Answers what it is told to answer and keeps a record."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.answered: list[tuple[HeldPull, bool]] = []
        self.still_nothing = False
        self.held = HeldPulls(self.clock, self._resume)
        self._server = RemotingServer(TcpNetwork(), self.clock, {})

    def _resume(self, pull: HeldPull, expired: bool) -> bool:
        if self.still_nothing and not expired:
            return False
        self.answered.append((pull, expired))
        return True

    def hold(
        self,
        topic: str = "T",
        queue_id: int = 0,
        tags: frozenset[int] | None = None,
        s: float = 5,
        wants: Predicate | None = None,
    ) -> HeldPull:
        session = Session(self._server, len(self.answered) + 1)
        pull = HeldPull(
            session, Command(code=11), pull_header(topic, queue_id), Selection(tags, wants), topic, queue_id
        )
        self.held.hold(pull, s)
        return pull


def story(work: Callable[[Desk], Coroutine[None, None, None]]) -> None:
    async def start() -> None:
        await work(Desk())

    run(start())


def test_arrival_in_the_queue_wakes_and_nothing_else_does() -> None:
    async def work(desk: Desk) -> None:
        pull = desk.hold()
        desk.held.arrived("T", 1, 0, 0, "")
        desk.held.arrived("U", 0, 0, 0, "")
        await settle()
        assert desk.answered == []
        desk.held.arrived("T", 0, 0, 0, "")
        await settle()
        assert desk.answered == [(pull, False)]
        assert len(desk.held) == 0

    story(work)


def test_many_arrivals_of_one_turn_are_one_answer() -> None:
    async def work(desk: Desk) -> None:
        desk.hold()
        for offset in range(100):
            desk.held.arrived("T", 0, offset, 0, "")
        await settle()
        assert len(desk.answered) == 1

    story(work)


def test_only_who_wants_the_tag_is_woken() -> None:
    async def work(desk: Desk) -> None:
        a, b, everything = desk.hold(tags=frozenset({1})), desk.hold(tags=frozenset({2})), desk.hold()
        desk.held.arrived("T", 0, 0, 2, "")
        await settle()
        assert [pull for pull, _ in desk.answered] == [b, everything]
        assert len(desk.held) == 1
        desk.held.arrived("T", 0, 1, 1, "")
        await settle()
        assert [pull for pull, _ in desk.answered][-1] is a

    story(work)


def test_only_a_message_that_a_selector_wants_wakes() -> None:
    async def work(desk: Desk) -> None:
        pull = desk.hold(wants=compile_selector("amount > 5").wants)
        desk.held.arrived("T", 0, 0, 0, "amount\x015\x02")
        desk.held.arrived("T", 0, 1, 0, "")
        await settle()
        assert desk.answered == []
        desk.held.arrived("T", 0, 2, 0, "amount\x016\x02")
        await settle()
        assert desk.answered == [(pull, False)]

    story(work)


def test_a_pull_that_was_woken_for_nothing_still_ends_in_time() -> None:
    async def work(desk: Desk) -> None:
        pull = desk.hold(s=5)
        desk.still_nothing = True
        await desk.clock.advance(3)
        desk.held.arrived("T", 0, 0, 0, "")
        await settle()
        assert len(desk.held) == 1
        await desk.clock.advance(1.5)
        assert desk.answered == []
        await desk.clock.advance(1)
        assert desk.answered == [(pull, True)]
        assert desk.clock.waiting == 0, "no timer without work"

    story(work)


def test_without_time_to_wait_the_answer_is_immediate() -> None:
    async def work(desk: Desk) -> None:
        pull = desk.hold(s=0)
        assert desk.answered == [(pull, True)]

    story(work)


def test_a_closed_session_and_a_closed_desk_hold_nothing() -> None:
    async def work(desk: Desk) -> None:
        first, _second = desk.hold(), desk.hold(queue_id=1)
        desk.held.session_closed(first.session)
        assert len(desk.held) == 0 or desk.answered == []
        desk.hold()
        desk.held.close()
        assert len(desk.held) == 0
        await desk.clock.advance(60)
        assert desk.answered == []

    story(work)
