"""A log is cut while its broker is a replica: when it is primary again, everything is as if the rest had never been."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from gantrymq.broker.roles import Role
from gantrymq.message import flags
from gantrymq.message.system_topics import HALF
from gantrymq.message.transaction import Resolution
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command
from gantrymq.protocol.headers.transaction import EndTransaction
from gantrymq.protocol.stored_message import scan
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk, Syncable
from tests.support.brokers import Cluster, on_broker, until


async def cut_at(c: Cluster, topic: str, queue_offset: int) -> None:
    """As a replica, at the record of a message; then the broker is primary again."""
    await c.broker.become(Role.REPLICA)
    entry = c.broker.store.entry(topic, 0, queue_offset)
    assert entry is not None
    await c.broker.store.truncate(entry.log_offset)
    await c.broker.become(Role.PRIMARY)


def end_of(c: Cluster, topic: str) -> int:
    return c.broker.store.queue_range(topic, 0)[1]


async def end(c: Cluster, half: tuple[int, int], resolution: Resolution) -> Command:
    header = EndTransaction(
        producer_group="PG", tran_state_table_offset=half[0], commit_log_offset=half[1],
        commit_or_rollback=int(resolution), msg_id="u1", transaction_id="u1",
    )  # fmt: skip
    return await c.ask(RequestCode.END_TRANSACTION, header)


def test_a_decision_that_was_cut_is_open_again_and_may_be_another_one(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.create_topic("orders", queues=1)
        marks = "TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01u1\x02"
        sent = await c.send("orders", b"body", marks, sys_flag=flags.PREPARED, producer_group="PG")
        assert sent.code == ResponseCode.SUCCESS
        entry = c.broker.store.entry(HALF, 0, 0)
        assert entry is not None
        half = (0, entry.log_offset)
        assert (await end(c, half, Resolution.COMMIT)).code == ResponseCode.SUCCESS
        assert len(c.broker.coordinator.table) == 0 and end_of(c, "orders") == 1
        await cut_at(c, "orders", 0)
        assert len(c.broker.coordinator.table) == 1 and end_of(c, "orders") == 0
        assert (await end(c, half, Resolution.ROLLBACK)).code == ResponseCode.SUCCESS
        assert (await end(c, half, Resolution.COMMIT)).code == ResponseCode.ILLEGAL_OPERATION
        for role in (Role.REPLICA, Role.PRIMARY):
            await c.broker.become(role)
        assert len(c.broker.coordinator.table) == 0 and end_of(c, "orders") == 0

    on_broker(work, tmp_path)


def delayed() -> str:
    return "DELAY\x011\x02"


def timed() -> str:
    return f"TIMER_DELIVER_MS\x01{SystemClock().wall_ms() + 600}\x02"


@pytest.mark.parametrize("kind", [delayed, timed])
def test_what_waits_is_delivered_once_behind_a_cut(tmp_path: Path, kind: object) -> None:
    """Of two that were delivered, the copy of the second one is cut: it alone is delivered again."""

    async def work(c: Cluster) -> None:
        await c.create_topic("orders", queues=1)
        for number in range(2):
            text = kind()  # type: ignore[operator]
            assert (await c.send("orders", b"%d" % number, text)).code == ResponseCode.SUCCESS
            await until(lambda number=number: end_of(c, "orders") == number + 1)
        await cut_at(c, "orders", 1)
        await until(lambda: end_of(c, "orders") == 2)
        for role in (Role.REPLICA, Role.PRIMARY):
            await c.broker.become(role)
        assert (await c.send("orders", b"2", kind())).code == ResponseCode.SUCCESS  # type: ignore[operator]
        await until(lambda: end_of(c, "orders") == 3)
        found = [message.body for message in scan((await c.pull("orders")).body)]
        assert found == [b"0", b"1", b"2"]

    on_broker(work, tmp_path)


class _Slow:
    def sync(self) -> None:
        time.sleep(0.3)


class SlowDisk(OsDisk):
    """Its syncs in the background take long."""

    def sync_later(self, files: Sequence[Syncable], done: Callable[[BaseException | None], None]) -> None:
        super().sync_later([_Slow(), *files], done)


@pytest.mark.slow
def test_a_role_changes_while_the_disk_is_slow(tmp_path: Path) -> None:
    """The timer log was closed before its sync had begun. That ended the thread of all syncs, so nothing was
    acknowledged any more, and the broker did not stop either."""

    async def work(c: Cluster) -> None:
        await c.create_topic("orders", queues=1)
        assert (await c.send("orders", b"0", timed())).code == ResponseCode.SUCCESS
        await until(lambda: end_of(c, "orders") == 1)
        timer = c.broker.timer
        assert timer is not None
        await until(lambda: bool(timer._syncing))
        for role in (Role.REPLICA, Role.PRIMARY):
            await c.broker.become(role)
        assert (await c.send("orders", b"1")).code == ResponseCode.SUCCESS

    on_broker(work, tmp_path, disk=SlowDisk())


def test_a_group_is_not_behind_the_end_of_a_queue_that_was_cut(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.create_topic("orders", queues=1)
        for number in range(4):
            await c.sent("orders", b"%d" % number)
        for group, offset in (("fast", 4), ("slow", 1)):
            c.broker.offsets.commit(group, "orders", 0, offset)
        await cut_at(c, "orders", 2)
        assert [c.broker.offsets.get(group, "orders", 0) for group in ("fast", "slow")] == [2, 1]

    on_broker(work, tmp_path)


def test_a_log_that_cannot_be_forgotten_is_not_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(c: Cluster) -> None:
        await c.create_topic("orders", queues=1)
        await c.sent("orders")
        await c.broker.become(Role.REPLICA)

        def fails(_position: int) -> None:
            raise OSError("the disk failed")

        c.broker.store.truncating.append(fails)
        with pytest.raises(OSError, match="the disk failed"):
            await c.broker.store.truncate(0)
        assert end_of(c, "orders") == 1
        c.broker.store.truncating.remove(fails)
        await c.broker.become(Role.PRIMARY)
        await c.sent("orders")
        assert end_of(c, "orders") == 2

    on_broker(work, tmp_path)
