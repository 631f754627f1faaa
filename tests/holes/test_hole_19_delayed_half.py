"""Hole 19: a half message with a delay.

Apache's brokers accept it, answer its commit with SUCCESS, and lose it; 4.9.7 also loses another half message. Ours
refuses the send.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial

from gantrymq.broker.operations.send_half import HalfSends
from gantrymq.message.properties import DELAY, TIMER_DELAY_SECONDS
from gantrymq.protocol.codes import ResponseCode
from tests.holes.actors import Refused
from tests.holes.case import Apache, Case, Mutant, Observed, both
from tests.holes.mutants import Patch
from tests.holes.stage import INTERVAL_S, Stage

TRIES = 5
DELAY_S = {DELAY: 1.0, TIMER_DELAY_SECONDS: 2.0}


async def _delayed(name: str, value: str, stage: Stage) -> Observed:
    """Refused, or delivered after its delay: anything else is wrong."""
    topic, producer = await stage.topic(), await stage.producer()
    taken = []
    for _ in range(TRIES):
        try:
            sent = await producer.half(topic, **{name: value})
        except Refused as refusal:
            assert refusal.code == ResponseCode.MESSAGE_ILLEGAL
        else:
            await producer.commit(sent)
            taken.append(sent)
    early = await stage.keys(topic)
    await stage.sleep(DELAY_S[name] + 3)
    keys = await stage.keys(topic)
    # A broker that does not know timers may deliver at once: the property means nothing to it.
    ignores = name == TIMER_DELAY_SECONDS and not stage.knows_timers
    broken = sum(keys.count(sent.key) != 1 or (sent.key in early and not ignores) for sent in taken)
    return Observed(broken, TRIES, f"{len(taken)} taken, {len(keys)} delivered, {len(early)} of them early")


async def others_beside_it(stage: Stage) -> Observed:
    """Open halves of another group, while delayed ones are sent and committed: they must be checked all the same.

    On 4.9.7 the answer to a delayed half names its place in the delay queue, and the commit settles the *half message*
    of that number, whoever sent it: it is never checked, never delivered and never discarded.
    """
    topic, other, producer = await stage.topic(), await stage.producer(), await stage.producer()
    halves = await other.halves(topic, 2 * TRIES)
    for _ in range(TRIES):
        with contextlib.suppress(Refused):
            await producer.commit(await producer.half(topic, **{DELAY: "1"}))
    await stage.comes_true(lambda: all(other.checks_of(half) for half in halves), 10 * INTERVAL_S)
    broken = [half.place[0] for half in halves if not other.checks_of(half)]
    return Observed(len(broken), len(halves), f"never checked: half queue offsets {broken}")


def _take_it(patch: Patch) -> None:
    patch.setattr(HalfSends, "check", lambda *facts: None)


NO_REFUSAL = (Mutant("the refusal of delayed halves", _take_it),)
CASES = [
    Case("delay level", partial(_delayed, DELAY, "1"), NO_REFUSAL, both(Apache.ALWAYS), alone=True),
    Case(
        "others beside a delayed half",
        others_beside_it,
        (),
        {"4.9.7": Apache.SOMETIMES, "5.5.0": Apache.NEVER},
        alone=True,
        first=True,
    ),
    Case(
        "timer",
        partial(_delayed, TIMER_DELAY_SECONDS, "2"),
        NO_REFUSAL,
        {"4.9.7": Apache.NEVER, "5.5.0": Apache.ALWAYS},
    ),
]


def test_hole_19_delayed_half(played: Callable[[], None]) -> None:
    played()
