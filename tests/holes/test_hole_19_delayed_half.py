"""Hole 19: a half message with a delay.

Apache's brokers accept it, answer its commit with SUCCESS, and lose it. Ours refuses it when it is sent.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from gantrymq.broker.processors.send import SendProcessor
from gantrymq.message.properties import DELAY, TIMER_DELAY_SECONDS
from gantrymq.protocol.codes import ResponseCode
from gantrymq.transactions import half
from tests.holes.actors import Refused
from tests.holes.case import Apache, Case, Mutant, Seen, both
from tests.holes.mutants import Patch
from tests.holes.stage import Stage

TRIES = 5
DELAY_S = {DELAY: 1.0, TIMER_DELAY_SECONDS: 2.0}


async def _delayed(name: str, value: str, stage: Stage) -> Seen:
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
    return Seen(broken, TRIES, f"{len(taken)} taken, {len(keys)} delivered, {len(early)} of them early")


def _take_it(patch: Patch) -> None:
    patch.setattr(SendProcessor, "_check_half", lambda *facts: None)
    patch.setattr(half, "_refuse_delay", lambda text: None)


NO_REFUSAL = (Mutant("the refusal of delayed halves", _take_it),)
CASES = [
    Case("delay level", partial(_delayed, DELAY, "1"), NO_REFUSAL, both(Apache.ALWAYS)),
    Case(
        "timer",
        partial(_delayed, TIMER_DELAY_SECONDS, "2"),
        NO_REFUSAL,
        {"4.9.7": Apache.NEVER, "5.5.0": Apache.ALWAYS},
    ),
]


def test_hole_19_delayed_half(played: Callable[[], None]) -> None:
    played()
