"""The guarantee of ``poll``: its messages become consumed with the next poll, even if the program dies in between."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import gantrymq
from gantrymq.aio import ConsumeFromWhere, LitePullConsumer, Message, Producer
from gantrymq.errors import Closed, ConfigError
from gantrymq.message.message import MessageView
from gantrymq.message.queues import MessageQueue, QueueOffset
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import encode_response
from tests.client.peer import ScriptedCluster, cluster, run, until
from tests.client.real import server
from tests.client.test_sync import peers_in_a_thread
from tests.support.cancelling import at_every_step, cancelled_at

Q0, Q1 = (MessageQueue("T", "broker-a", number) for number in range(2))
BATCH = 4
SENT = 12


def consumer(address: str, **settings: Any) -> LitePullConsumer:
    more: dict[str, Any] = {
        "poll_batch_size": BATCH, "rebalance_interval_ms": 100, "from_where": ConsumeFromWhere.FIRST_OFFSET, **settings,
    }  # fmt: skip
    return LitePullConsumer("CG", name_servers=address, **more)


@contextlib.asynccontextmanager
async def filled(*queues: MessageQueue, count: int = SENT) -> AsyncIterator[ScriptedCluster]:
    """A scripted cluster with ``count`` messages in each queue."""
    async with cluster(topics={"T": 2}) as peers:
        async with Producer("PG", name_servers=peers.address) as producer:
            for queue in queues:
                for number in range(count):
                    await producer.send(Message("T", f"{number}"), queue)
        yield peers


def stored(peers: ScriptedCluster, queue: MessageQueue = Q0) -> int | None:
    return peers.broker.offsets.get(("CG", queue.topic, queue.queue_id))


def offsets(messages: list[MessageView]) -> list[int]:
    return [message.queue_offset for message in messages]


async def kill(member: LitePullConsumer) -> None:
    """Its process ends: connections break, nothing is said."""
    await member._endpoint.close()


# ---- what is stored


@pytest.mark.parametrize("polls", [0, 1, 2, 3])
def test_close_stores_what_was_polled_before_the_last_poll(polls: int) -> None:
    async def test() -> None:
        async with filled(Q0) as peers:
            async with consumer(peers.address) as member:
                await member.assign([Q0])
                for _ in range(polls):
                    assert len(await member.poll(5_000)) == BATCH
            await until(lambda: stored(peers) == max(0, polls - 1) * BATCH)

    run(test)


def test_an_exception_in_the_loop_loses_nothing() -> None:
    async def test() -> None:
        async with filled(Q0) as peers:
            done: list[int] = []
            crashes = 0
            for _ in range(SENT + 1):
                with contextlib.suppress(ZeroDivisionError):
                    async with consumer(peers.address) as member:
                        await member.assign([Q0])
                        while batch := await member.poll(200):
                            for message in batch:
                                if message.queue_offset == crashes:
                                    crashes += 1
                                    raise ZeroDivisionError
                                done.append(message.queue_offset)
            assert set(done) == set(range(SENT)), sorted(done)

    run(test)


def test_auto_commit_stores_only_what_was_consumed() -> None:
    async def test() -> None:
        async with filled(Q0) as peers, consumer(peers.address, auto_commit_interval_ms=0) as member:
            await member.assign([Q0])
            for number in range(3):
                assert len(await member.poll(5_000)) == BATCH
                await until(lambda before=number * BATCH: stored(peers) == before)
            assert await member.poll(0) == []
            await until(lambda: stored(peers) == SENT)

    run(test)


def test_tools_are_told_what_was_consumed() -> None:
    async def test() -> None:
        async with filled(Q0) as peers, consumer(peers.address) as member:
            await member.assign([Q0])
            for expected in (0, BATCH):
                await member.poll(5_000)
                assert member._queues.positions("T") == {Q0: expected}
                (state,) = member._queues.running().mq_table.values()
                assert state["commitOffset"] == expected

    run(test)


def test_the_start_of_a_queue_is_stored_at_once() -> None:
    """Else who takes it over from a member that was killed before it stored anything begins behind new messages."""

    async def test() -> None:
        last = ConsumeFromWhere.LAST_OFFSET
        async with filled(Q0) as peers, consumer(peers.address, from_where=last) as member:
            await member.assign([Q0])
            await until(lambda: stored(peers) == SENT)

    run(test)


# ---- commit


def test_commit_covers_the_last_batch_and_close_does_not_take_it_back() -> None:
    async def test() -> None:
        async with filled(Q0) as peers:
            async with consumer(peers.address) as member:
                await member.assign([Q0])
                await member.poll(5_000)
                await member.commit()
                assert stored(peers) == BATCH
            await asyncio.sleep(0.05)
            assert stored(peers) == BATCH

    run(test)


def test_a_committed_part_of_a_batch_counts() -> None:
    async def test() -> None:
        async with filled(Q0) as peers:
            async with consumer(peers.address) as member:
                await member.assign([Q0])
                assert len(await member.poll(5_000)) == BATCH
                await member.commit({Q0: 3})
                assert stored(peers) == 3
                member.give_back_last()
                assert offsets(await member.poll(5_000)) == [3, 4, 5, 6]
            await asyncio.sleep(0.05)
            assert stored(peers) == 3

    run(test)


def test_a_queue_that_is_given_up_while_commit_waits_is_not_committed() -> None:
    async def test() -> None:
        async with filled(Q0, Q1) as peers, consumer(peers.address, auto_commit=False) as member:
            await member.assign([Q0, Q1])
            polled = [*await member.poll(5_000), *await member.poll(5_000)]
            assert {message.queue for message in polled} == {Q0, Q1}
            held: list[tuple[Any, Any]] = []
            peers.broker.next(
                RequestCode.UPDATE_CONSUMER_OFFSET, lambda session, command: held.append((session, command))
            )
            waiting = asyncio.create_task(member.commit())
            await until(lambda: held)
            await member.assign([Q0])
            peers.broker.offsets["CG", "T", 1] = 1  # the new owner's
            session, command = held[0]
            session.send(encode_response(command, ResponseCode.SUCCESS))
            await waiting
            assert stored(peers, Q1) == 1

    run(test)


def test_a_cancelled_commit_loses_nothing() -> None:
    async def test() -> None:
        async with filled(Q0, Q1, count=60) as peers, consumer(peers.address, auto_commit=False) as member:
            await member.assign([Q0, Q1])
            await member.poll(5_000)
            done = {Q0: 0, Q1: 0}
            async for _ in at_every_step(member.commit):
                for queue in (Q0, Q1):
                    assert (stored(peers, queue) or 0) <= done[queue] + BATCH
                    done[queue] = max(done[queue], stored(peers, queue) or 0)
                await member.commit()
                await member.poll(5_000)

    run(test)


# ---- seek, reset, pause


@pytest.mark.parametrize("sought", [1, BATCH, 9])
def test_a_batch_from_before_a_seek_does_not_move_the_position(sought: int) -> None:
    async def test() -> None:
        async with filled(Q0) as peers:
            async with consumer(peers.address) as member:
                await member.assign([Q0])
                await member.poll(5_000)
                await member.seek(Q0, sought)
                member.give_back_last()
                assert member._queues.positions("T") == {Q0: sought}
                again = await member.poll(5_000)
                assert again[0].queue_offset == sought
            await until(lambda: stored(peers) == sought)

    run(test)


def test_an_operator_resets_the_offsets_of_a_batch_that_is_out() -> None:
    async def test() -> None:
        async with filled(Q0, Q1) as peers:
            async with consumer(peers.address) as member:
                await member.assign([Q0])
                await member.poll(5_000)
                await member.poll(5_000)
                await member._queues.go_to({Q0: QueueOffset(2), Q1: QueueOffset(3)})
                await until(lambda: stored(peers) == 2)
                member.give_back_last()
                assert offsets(await member.poll(5_000)) == [2, 3, 4, 5]
                await member.poll(5_000)
            # What was stored before the reset is stored again when it is reached again.
            await until(lambda: stored(peers) == 6)
            assert stored(peers, Q1) is None

    run(test)


def test_when_the_broker_moves_the_offset_the_batch_that_is_out_does_not_count() -> None:
    async def test() -> None:
        async with filled(Q0) as peers:
            async with consumer(peers.address) as member:
                await member.assign([Q0])
                await member.poll(5_000)
                del peers.broker.queues["T", 0][2:]  # the log is shorter after a power cut
                await until(lambda: member._queues.positions("T") == {Q0: 2})
                member.give_back_last()
                assert await member.poll(50) == []
            await until(lambda: stored(peers) == 2)

    run(test)


def test_a_pause_keeps_the_batch_that_is_out() -> None:
    async def test() -> None:
        async with filled(Q0) as peers, consumer(peers.address) as member:
            await member.assign([Q0])
            await member.poll(5_000)
            await member.pause([Q0])
            assert member._queues.positions("T") == {Q0: 0}
            member.give_back_last()
            assert await member.poll(50) == []
            await member.resume([Q0])
            assert offsets(await member.poll(5_000)) == [0, 1, 2, 3]

    run(test)


# ---- queues that change hands


def test_a_batch_that_is_out_when_its_queue_changes_hands_comes_again(tmp_path: Path) -> None:
    """The old and the new owner are killed right after the rebalance, before either has done anything with it."""

    async def test() -> None:
        async with server(tmp_path) as address, Producer("PG", name_servers=address) as producer:
            queues = await make(producer, 40)
            one, two, three = (
                consumer(address, poll_batch_size=10, instance_name=name).subscribe("T") for name in "abc"
            )
            await one.start()
            await until(lambda: one.assigned == queues)
            batch = await one.poll(5_000)
            while batch[0].queue != queues[-1]:  # the second member, later in the alphabet, will get the last ones
                batch = await one.poll(5_000)
            wanted = {message.body for message in batch}
            await two.start()
            await until(lambda: len(one.assigned) == len(two.assigned) == 2)
            assert batch[0].queue in two.assigned
            await kill(one)
            await kill(two)
            async with three:
                observed: set[bytes] = set()
                for _ in range(100):
                    observed |= {message.body for message in await three.poll(100)}
                    if wanted <= observed:
                        break
                assert wanted <= observed, sorted(observed)

    run(test)


async def make(producer: Producer, count: int) -> list[MessageQueue]:
    await producer.send(Message("T", "0"), None)
    queues = sorted(await producer.queues("T"))
    for number in range(1, count):
        await producer.send(Message("T", f"{number}"), queues[number % len(queues)])
    return queues


def test_a_queue_that_was_given_up_is_not_stored_again() -> None:
    async def test() -> None:
        async with filled(Q0, Q1) as peers:
            async with consumer(peers.address, auto_commit_interval_ms=0) as member:
                await member.assign([Q0])
                await member.poll(5_000)
                await member.assign([Q1])
                await until(lambda: stored(peers) == 0)
                peers.broker.offsets["CG", "T", 0] = 7  # the new owner's
                member.give_back_last()
                assert {message.queue for message in await member.poll(5_000)} == {Q1}
                await member.poll(5_000)
                await member.commit()
            await until(lambda: stored(peers, Q1) == 2 * BATCH)
            assert stored(peers) == 7

    run(test)


def test_a_cancelled_assign_changes_nothing() -> None:
    async def test() -> None:
        async with filled(Q0, Q1) as peers, consumer(peers.address) as member:
            await member.assign([Q0])
            assert len(await member.poll(5_000)) == BATCH
            async for _ in at_every_step(lambda: member.assign([Q1])):
                if member.assigned == [Q0]:
                    assert member._queues.positions("T") == {Q0: 0}
                else:
                    assert member.assigned == [Q1]
                    await member.assign([Q0])
                    await member.poll(5_000)
            await member.assign([Q1])
            assert offsets(await member.poll(5_000)) == [0, 1, 2, 3]

    run(test)


def test_the_later_of_two_assigns_counts() -> None:
    async def test() -> None:
        async with filled(Q0, Q1) as peers, consumer(peers.address) as member:
            await asyncio.gather(member.assign([Q0]), member.assign([Q1]))
            assert member.assigned == [Q1]

    run(test)


# ---- polls and closes that do not end as they should


def test_a_poll_that_is_given_back_returns_the_same_again() -> None:
    async def test() -> None:
        async with filled(Q0, count=SENT) as peers:
            async with consumer(peers.address, auto_commit_interval_ms=0) as member:
                await member.assign([Q0])
                observed: list[int] = []
                for number in range(9):
                    batch = await member.poll(5_000)
                    if number % 3 < 2:
                        member.give_back_last()
                        member.give_back_last()
                    else:
                        observed += offsets(batch)
                assert observed == list(range(SENT))
                member.give_back_last()
            await until(lambda: stored(peers) == 2 * BATCH)

    run(test)


def test_polls_that_are_cancelled_at_any_step_lose_nothing() -> None:
    async def test() -> None:
        async with filled(Q0, Q1, count=40) as peers:
            observed: set[tuple[MessageQueue, int]] = set()
            async with consumer(peers.address, auto_commit_interval_ms=0) as member:
                await member.assign([Q0, Q1])
                for pause in (0.0, 0.05):
                    async for batch in at_every_step(lambda: member.poll(500)):
                        observed |= {(message.queue, message.queue_offset) for message in batch or []}
                        observed |= {(message.queue, message.queue_offset) for message in await member.poll(500)}
                        await asyncio.sleep(pause)
                while batch := await member.poll(100):
                    observed |= {(message.queue, message.queue_offset) for message in batch}
            assert observed == {(queue, number) for queue in (Q0, Q1) for number in range(40)}

    run(test)


def test_one_task_polls() -> None:
    async def test() -> None:
        async with filled(Q0) as peers, consumer(peers.address) as member:
            first = asyncio.create_task(member.poll(5_000))
            await asyncio.sleep(0)
            with pytest.raises(ConfigError, match="another task or thread is polling"):
                await member.poll(0)
            await member.assign([Q0])
            assert offsets(await first) == [0, 1, 2, 3]
            assert offsets(await member.poll(5_000)) == [4, 5, 6, 7]

    run(test)


def test_a_poll_does_not_outlive_its_consumer() -> None:
    async def test() -> None:
        async with filled(Q0) as peers, consumer(peers.address) as member:
            polling = asyncio.create_task(member.poll(20_000))
            await asyncio.sleep(0)
            await member.close()
            with pytest.raises(Closed):
                await polling

    run(test)


def test_a_cancelled_close_can_be_called_again_and_leaves_nothing() -> None:
    async def test() -> None:
        async with filled(Q0) as peers:
            for late in (False, True):
                for step in range(40):
                    member = consumer(peers.address).subscribe("T")
                    await member.start()
                    await until(lambda: member.assigned)  # noqa: B023 used at once
                    await member.poll(5_000)
                    cancelled, _ = await cancelled_at(member.close(), step, late=late)
                    if cancelled:
                        await member.close()
                    assert member._endpoint.remoting.connected_addresses() == []
                    assert not member._endpoint.tasks._tasks
                    await until(lambda: not peers.broker.members or cancelled)  # noqa: B023
                    peers.broker.members.clear()
                    peers.broker.offsets.clear()
                    if not cancelled:
                        break
                else:
                    raise AssertionError("never ends")

    run(test, 60)


def test_a_cancelled_start_leaves_nothing() -> None:
    async def test() -> None:
        async with filled(Q0) as peers:
            for late in (False, True):
                for step in range(60):
                    member = consumer(peers.address).subscribe("T")
                    cancelled, _ = await cancelled_at(member.start(), step, late=late)
                    if not cancelled:
                        await member.close()
                        break
                    assert member._endpoint.remoting.connected_addresses() == []
                    assert not member._endpoint.tasks._tasks
                    with pytest.raises(Closed):
                        await member.poll(0)
                    await member.close()
                else:
                    raise AssertionError("never ends")

    run(test)


def test_a_blocking_program_that_raises_loses_nothing() -> None:
    done: list[int] = []
    with peers_in_a_thread() as peers, gantrymq.Producer("PG", name_servers=peers.address) as producer:
        for number in range(SENT):
            producer.send(Message("T", f"{number}"), Q0)
        for crash in range(SENT + 1):
            with (
                contextlib.suppress(ZeroDivisionError),
                gantrymq.LitePullConsumer(
                    "CG", name_servers=peers.address, poll_batch_size=BATCH,
                    from_where=ConsumeFromWhere.FIRST_OFFSET, poll_timeout_ms=200,
                ) as member,
            ):  # fmt: skip
                member.assign([Q0])
                while batch := member.poll():
                    for message in batch:
                        if message.queue_offset == crash:
                            raise ZeroDivisionError
                        done.append(message.queue_offset)
    assert set(done) == set(range(SENT)), sorted(done)
