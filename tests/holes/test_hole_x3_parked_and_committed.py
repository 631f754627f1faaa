"""X3: a half message that was discarded can still be committed.

Apache's brokers answer SUCCESS and deliver the message, and the discard record stays: two outcomes. Ours: a parked half
message is decided, and a late end is answered ILLEGAL_OPERATION. An operator can resume it; then it is open again, and
can be ended.
"""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.message.transaction import Resolution
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.headers.tools import ResumeCheck
from gantrymq.protocol.message_ids import offset_message_id
from gantrymq.protocol.stored_message import pack_host
from tests.holes.actors import Half, Producer, always
from tests.holes.case import Apache, Case, NotRepeated, Observed, both
from tests.holes.mutants import NO_MEMORY
from tests.holes.stage import CHECK_MAX, INTERVAL_S, Stage, key_of, require

TRIES = 3


async def _parked(stage: Stage, topic: str) -> tuple[Producer, list[Half]]:
    """Halves that nobody could decide. UNKNOWN to every check: ours parks for nothing less."""
    producer = await stage.producer()
    producer.answer = always(Resolution.UNKNOWN)
    halves = await producer.halves(topic, TRIES)
    await stage.sleep(stage.timeout_s + (CHECK_MAX + 1) * INTERVAL_S)
    await stage.until(lambda: _all_parked(stage, halves), "all are parked")
    return producer, halves


async def _all_parked(stage: Stage, halves: list[Half]) -> bool:
    keys = {key_of(message) for message in await stage.parked()}
    return all(half.key in keys for half in halves)


async def _committed_late(stage: Stage) -> Observed:
    topic = await stage.topic()
    producer, halves = await _parked(stage, topic)
    producer.answer = lambda _check: None
    codes = [(await producer.commit(producer.checks_of(half)[-1])).code for half in halves]
    await stage.comes_true(lambda: _any(stage, topic), INTERVAL_S)
    keys = await stage.keys(topic)
    wrong = sum(half.key in keys or code == 0 for half, code in zip(halves, codes, strict=True))
    return Observed(wrong, TRIES, f"answers {codes}")


async def _any(stage: Stage, topic: str) -> bool:
    return len(await stage.keys(topic)) >= TRIES


async def _resumed(stage: Stage) -> Observed:
    topic = await stage.topic()
    producer, halves = await _parked(stage, topic)
    producer.answer = always(Resolution.COMMIT)
    for message in await stage.parked():
        if key_of(message) in {half.key for half in halves}:
            name = offset_message_id(pack_host(message.store_host), message.log_offset)
            answer = await stage.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, ResumeCheck(msg_id=name))
            require(answer.code == ResponseCode.SUCCESS, f"it was not resumed: {answer.remark}")
    await stage.sleep(stage.timeout_s + 2 * INTERVAL_S)
    keys = await stage.keys(topic)
    return Observed(sum(keys.count(half.key) != 1 for half in halves), TRIES, f"{len(keys)} delivered")


CASES = [
    Case("a late commit of a parked half", _committed_late, (NO_MEMORY,), both(Apache.ALWAYS)),
    Case(
        "a parked half is resumed", _resumed, (),
        NotRepeated("is our promise to operators; what Apache's brokers resume is in tests/interop"),
    ),
]  # fmt: skip


def test_hole_x3_parked_and_committed(played: Callable[[], None]) -> None:
    played()
