"""Hole 17: deletion removes half messages that are still open.

When the disk fills up, Apache's brokers delete their oldest files, whatever they contain. The commit of a half message
in such a file is answered SYSTEM_ERROR, and the message is lost. Ours never deletes the file of the oldest open half
message.
"""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.broker.parts import WaitingMessages
from gantrymq.protocol.codes import ResponseCode
from tests.holes.case import Case, Mutant, NotRepeated, Observed
from tests.holes.stage import OurStage, require

TRIES = 5
BALLAST = 60
BODY = bytes(4096)


def fill(stage: OurStage) -> None:
    """Other files take most of the disk."""
    stage.disk.used_bytes = round(stage.disk.total_bytes * 0.88)
    stage.disk.now_ms = stage.wall_ms()


async def disk_nearly_full(stage: OurStage) -> Observed:
    """Open halves, many files of the log behind them, and a disk that is filled to 88 %."""
    topic, other, producer = await stage.topic(), await stage.topic(), await stage.producer()
    halves = await producer.halves(topic, TRIES, CHECK_IMMUNITY_TIME_IN_SECONDS="3600")
    for _ in range(BALLAST):
        await producer.commit(await producer.half(other, BODY))
    files = len(stage.disk.list("/store/commitlog"))
    require(files >= 4, f"only {files} files")
    fill(stage)
    await stage.sleep(120)
    await producer.leave()
    await stage.restart()  # so that nothing is answered from memory
    fill(stage)
    member = await stage.producer(producer.group)
    codes = [(await member.commit(half)).code for half in halves]
    keys = await stage.keys(topic)
    broken = sum(
        code != ResponseCode.SUCCESS or keys.count(half.key) != 1 for half, code in zip(halves, codes, strict=True)
    )
    await stage.sleep(120)
    require(len(stage.disk.list("/store/commitlog")) < files, "nothing was deleted when all halves had ended")
    return Observed(broken, TRIES, f"commits answered {codes}, {len(keys)} delivered")


CASES = [
    Case(
        "disk nearly full",
        disk_nearly_full,
        (
            Mutant(
                "the limit of retention",
                lambda patch: patch.setattr(WaitingMessages, "keep_from", lambda waiting: None),
            ),
        ),
        NotRepeated("needs a full disk: seen by hand on both versions, 10 of 10 commits answered SYSTEM_ERROR"),
    )
]


def test_hole_17_forced_deletion(played: Callable[[], None]) -> None:
    played()
