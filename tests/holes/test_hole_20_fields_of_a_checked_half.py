"""Hole 20: a half message that was checked loses its flag and its reconsume times.

Apache's brokers write a half message again to check it, with both set to 0. A commit that answers the check delivers
that copy. Ours delivers the message as it was sent, however often it was checked.
"""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.message.transaction import Resolution
from tests.holes.actors import always
from tests.holes.case import Apache, Case, Observed, both
from tests.holes.mutants import PUT_BACK
from tests.holes.stage import Stage

TRIES = 5
FLAG, RECONSUME_TIMES = 777, 3


async def committed_by_an_answer(stage: Stage) -> Observed:
    """Halves with a flag and reconsume times, committed by the answer to a check."""
    topic, producer = await stage.topic(), await stage.producer()
    producer.answer = always(Resolution.COMMIT)
    for _ in range(TRIES):
        await producer.half(topic, flag=FLAG, reconsume_times=RECONSUME_TIMES)

    async def all_there() -> bool:
        return len(await stage.delivered(topic)) >= TRIES

    await stage.until(all_there, "the messages")
    got = [(message.flag, message.reconsume_times) for message in await stage.delivered(topic)]
    return Observed(sum(fields != (FLAG, RECONSUME_TIMES) for fields in got), TRIES, str(got))


CASES = [Case("committed by an answer", committed_by_an_answer, (PUT_BACK,), both(Apache.ALWAYS))]


def test_hole_20_fields_of_a_checked_half(played: Callable[[], None]) -> None:
    played()
