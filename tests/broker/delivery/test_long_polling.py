"""Held pulls, without a network and in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Coroutine

from gantrymq.broker.delivery.long_polling import HeldPull, HeldPulls
from gantrymq.broker.filtering.evaluation import compile_selector
from gantrymq.broker.filtering.predicate import Predicate
from gantrymq.broker.filtering.selection import Selection
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
    async def work(coordinator: Desk) -> None:
        pull = coordinator.hold()
        coordinator.held.arrived("T", 1, 0, 0, "")
        coordinator.held.arrived("U", 0, 0, 0, "")
        await settle()
        assert coordinator.answered == []
        coordinator.held.arrived("T", 0, 0, 0, "")
        await settle()
        assert coordinator.answered == [(pull, False)]
        assert len(coordinator.held) == 0

    story(work)


def test_many_arrivals_of_one_turn_are_one_answer() -> None:
    async def work(coordinator: Desk) -> None:
        coordinator.hold()
        for offset in range(100):
            coordinator.held.arrived("T", 0, offset, 0, "")
        await settle()
        assert len(coordinator.answered) == 1

    story(work)


def test_only_who_wants_the_tag_is_woken() -> None:
    async def work(coordinator: Desk) -> None:
        a, b, everything = (
            coordinator.hold(tags=frozenset({1})),
            coordinator.hold(tags=frozenset({2})),
            coordinator.hold(),
        )
        coordinator.held.arrived("T", 0, 0, 2, "")
        await settle()
        assert [pull for pull, _ in coordinator.answered] == [b, everything]
        assert len(coordinator.held) == 1
        coordinator.held.arrived("T", 0, 1, 1, "")
        await settle()
        assert [pull for pull, _ in coordinator.answered][-1] is a

    story(work)


def test_only_a_message_that_a_selector_wants_wakes() -> None:
    async def work(coordinator: Desk) -> None:
        pull = coordinator.hold(wants=compile_selector("amount > 5").wants)
        coordinator.held.arrived("T", 0, 0, 0, "amount\x015\x02")
        coordinator.held.arrived("T", 0, 1, 0, "")
        await settle()
        assert coordinator.answered == []
        coordinator.held.arrived("T", 0, 2, 0, "amount\x016\x02")
        await settle()
        assert coordinator.answered == [(pull, False)]

    story(work)


def test_a_pull_that_was_woken_for_nothing_still_ends_in_time() -> None:
    async def work(coordinator: Desk) -> None:
        pull = coordinator.hold(s=5)
        coordinator.still_nothing = True
        await coordinator.clock.advance(3)
        coordinator.held.arrived("T", 0, 0, 0, "")
        await settle()
        assert len(coordinator.held) == 1
        await coordinator.clock.advance(1.5)
        assert coordinator.answered == []
        await coordinator.clock.advance(1)
        assert coordinator.answered == [(pull, True)]
        assert coordinator.clock.waiting == 0, "no timer without work"

    story(work)


def test_without_time_to_wait_the_answer_is_immediate() -> None:
    async def work(coordinator: Desk) -> None:
        pull = coordinator.hold(s=0)
        assert coordinator.answered == [(pull, True)]

    story(work)


def test_a_closed_session_and_a_closed_desk_hold_nothing() -> None:
    async def work(coordinator: Desk) -> None:
        first, _second = coordinator.hold(), coordinator.hold(queue_id=1)
        coordinator.held.session_closed(first.session)
        assert len(coordinator.held) == 0 or coordinator.answered == []
        coordinator.hold()
        coordinator.held.close()
        assert len(coordinator.held) == 0
        await coordinator.clock.advance(60)
        assert coordinator.answered == []

    story(work)
