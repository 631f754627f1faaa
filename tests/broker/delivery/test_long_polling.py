"""Held pulls, without a network and in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Coroutine

from gantrymq.broker.delivery.long_polling import HeldPull, HeldPulls
from gantrymq.broker.delivery.pull_values import PullRequest
from gantrymq.broker.filtering.evaluation import compile_selector
from gantrymq.broker.filtering.predicate import Predicate
from gantrymq.broker.filtering.selection import Selection
from tests.support.clients import PlainClient
from tests.support.places import run
from tests.support.sim_clock import SimClock, settle

GATHER_SECONDS = 0.002


class Pulling:
    """Held pulls, and which of them were resumed with a result."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.answered: list[tuple[HeldPull, bool]] = []
        self.still_nothing = False
        self.held = HeldPulls(self.clock, self._resume, lambda: GATHER_SECONDS)

    def _resume(self, pull: HeldPull, expired: bool) -> bool:
        if self.still_nothing and not expired:
            return False
        self.answered.append((pull, expired))
        return True

    def pull(
        self,
        topic: str = "T",
        queue_id: int = 0,
        tags: frozenset[int] | None = None,
        wants: Predicate | None = None,
        group: str = "CG",
    ) -> HeldPull:
        request = PullRequest(group, topic, queue_id, 0, 32, 0)
        return HeldPull(PlainClient(), request, Selection(tags, wants), lambda result: None)

    def hold(
        self,
        queue_id: int = 0,
        tags: frozenset[int] | None = None,
        s: float = 5,
        wants: Predicate | None = None,
        group: str = "CG",
    ) -> HeldPull:
        pull = self.pull("T", queue_id, tags, wants, group)
        assert self.held.hold(pull, s)
        return pull


def in_virtual_time(work: Callable[[Pulling], Coroutine[None, None, None]]) -> None:
    async def start() -> None:
        await work(Pulling())

    run(start())


def test_arrival_in_the_queue_wakes_and_nothing_else_does() -> None:
    async def work(pulling: Pulling) -> None:
        pull = pulling.hold()
        pulling.held.arrived("T", 1, 0, 0, "")
        pulling.held.arrived("U", 0, 0, 0, "")
        await settle()
        assert pulling.answered == []
        pulling.held.arrived("T", 0, 0, 0, "")
        await settle()
        assert pulling.answered == [(pull, False)]
        assert len(pulling.held) == 0

    in_virtual_time(work)


def test_many_arrivals_of_one_turn_are_one_answer() -> None:
    async def work(pulling: Pulling) -> None:
        pulling.hold()
        for offset in range(100):
            pulling.held.arrived("T", 0, offset, 0, "")
        await settle()
        assert len(pulling.answered) == 1

    in_virtual_time(work)


def test_a_queue_that_was_answered_a_moment_ago_gathers_messages() -> None:
    async def work(pulling: Pulling) -> None:
        first = pulling.hold()
        pulling.held.arrived("T", 0, 0, 0, "")
        await settle()
        assert pulling.answered == [(first, False)], "the first message waits for nothing"
        second, other = pulling.hold(), pulling.hold(queue_id=1)
        for offset in range(1, 4):
            pulling.held.arrived("T", 0, offset, 0, "")
        pulling.held.arrived("T", 1, 0, 0, "")
        await settle()
        assert pulling.answered[1:] == [(other, False)], "queues wait for themselves only"
        await pulling.clock.advance(GATHER_SECONDS)
        assert pulling.answered[2:] == [(second, False)], "three messages, one answer"
        await pulling.clock.advance(GATHER_SECONDS)
        third = pulling.hold()
        pulling.held.arrived("T", 0, 4, 0, "")
        await settle()
        assert pulling.answered[3:] == [(third, False)]

    in_virtual_time(work)


def test_a_pull_whose_message_is_gathered_may_be_held_on() -> None:
    async def work(pulling: Pulling) -> None:
        pulling.hold()
        pulling.held.arrived("T", 0, 0, 0, "")
        await settle()
        pulling.still_nothing = True
        pull = pulling.hold(s=1)
        pulling.held.arrived("T", 0, 1, 0, "")
        await pulling.clock.advance(GATHER_SECONDS)
        assert len(pulling.answered) == 1 and len(pulling.held) == 1
        await pulling.clock.advance(2)
        assert pulling.answered[1:] == [(pull, True)]

    in_virtual_time(work)


def test_only_who_wants_the_tag_is_woken() -> None:
    async def work(pulling: Pulling) -> None:
        a, b, everything = (
            pulling.hold(tags=frozenset({1})),
            pulling.hold(tags=frozenset({2})),
            pulling.hold(),
        )
        pulling.held.arrived("T", 0, 0, 2, "")
        await settle()
        assert [pull for pull, _ in pulling.answered] == [b, everything]
        assert len(pulling.held) == 1
        pulling.held.arrived("T", 0, 1, 1, "")
        await pulling.clock.advance(GATHER_SECONDS)
        assert [pull for pull, _ in pulling.answered][-1] is a

    in_virtual_time(work)


def test_only_a_message_that_a_selector_wants_wakes() -> None:
    async def work(pulling: Pulling) -> None:
        pull = pulling.hold(wants=compile_selector("amount > 5").wants)
        pulling.held.arrived("T", 0, 0, 0, "amount\x015\x02")
        pulling.held.arrived("T", 0, 1, 0, "")
        await settle()
        assert pulling.answered == []
        pulling.held.arrived("T", 0, 2, 0, "amount\x016\x02")
        await settle()
        assert pulling.answered == [(pull, False)]

    in_virtual_time(work)


def test_a_pull_that_was_woken_for_nothing_still_ends_in_time() -> None:
    async def work(pulling: Pulling) -> None:
        pull = pulling.hold(s=5)
        pulling.still_nothing = True
        await pulling.clock.advance(3)
        pulling.held.arrived("T", 0, 0, 0, "")
        await settle()
        assert len(pulling.held) == 1
        await pulling.clock.advance(1.5)
        assert pulling.answered == []
        await pulling.clock.advance(1)
        assert pulling.answered == [(pull, True)]
        assert pulling.clock.waiting == 0, "no timer without work"

    in_virtual_time(work)


def test_a_pull_that_may_not_wait_is_not_held() -> None:
    async def work(pulling: Pulling) -> None:
        assert not pulling.held.hold(pulling.pull(), 0)
        assert len(pulling.held) == 0

    in_virtual_time(work)


def test_a_client_that_is_gone_and_a_broker_that_stops_hold_nothing() -> None:
    async def work(pulling: Pulling) -> None:
        first, second = pulling.hold(), pulling.hold(queue_id=1)
        pulling.held.client_gone(first.client)
        assert len(pulling.held) == 1
        pulling.held.arrived("T", 0, 0, 0, "")
        pulling.held.arrived("T", 1, 0, 0, "")
        await settle()
        assert pulling.answered == [(second, False)]
        pulling.hold()
        pulling.held.close()
        assert len(pulling.held) == 0
        await pulling.clock.advance(60)
        assert len(pulling.answered) == 1

    in_virtual_time(work)


def test_the_pulls_of_a_group_on_a_topic_can_be_released() -> None:
    async def work(pulling: Pulling) -> None:
        first, other, second = pulling.hold(), pulling.hold(group="CG2"), pulling.hold(queue_id=1)
        pulling.held.release("CG", "Elsewhere")
        assert pulling.answered == []
        pulling.held.release("CG", "T")
        assert pulling.answered == [(first, True), (second, True)]
        assert len(pulling.held) == 1
        await pulling.clock.advance(6)
        assert pulling.answered[-1] == (other, True)

    in_virtual_time(work)
