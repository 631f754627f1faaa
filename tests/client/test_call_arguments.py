"""Arguments of calls: checked before anything is sent. And batches at the limit of a body."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import gantrymq
from gantrymq import aio
from gantrymq.aio import Message
from gantrymq.errors import ConfigError, MessageIllegal
from gantrymq.message.queues import MessageQueue
from gantrymq.message.sizes import MAX_BODY_BYTES
from gantrymq.protocol.codes import RequestCode
from tests.client.peer import run
from tests.client.real import server
from tests.client.test_sync import SEND, peers_in_a_thread
from tests.client.test_transaction_producer import Listener

NO_TIMES: list[Any] = [-1, "1", True, 1.5, 10**30]


def test_a_call_with_an_impossible_time_out_says_so(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            server(tmp_path) as address,
            aio.Producer("PG", name_servers=address) as producer,
            aio.LitePullConsumer("CG", name_servers=address).subscribe("T") as consumer,
        ):
            one = Message("T", b"x")
            for bad in NO_TIMES:
                with pytest.raises(ConfigError, match="timeout_ms must be"):
                    await consumer.poll(bad)
            for bad in [*NO_TIMES, 0]:
                for call in (
                    producer.send(one, None, bad),
                    producer.send_ordered(one, "k", bad),
                    producer.send_batch([one], None, bad),
                    producer.send_batches([one], None, bad),
                    producer.request(one, bad),
                ):
                    with pytest.raises(ConfigError, match="timeout_ms must be"):
                        await call
            assert await consumer.poll(0) == []

    run(test)


def test_batches_at_the_limit_of_a_body(tmp_path: Path) -> None:
    body = random.Random(4).randbytes(MAX_BODY_BYTES)

    async def test() -> None:
        async with (
            server(tmp_path, mapped_file_size_commit_log=16 * 1024 * 1024) as address,
            aio.Producer("PG", name_servers=address, send_timeout_ms=20_000) as producer,
        ):
            small = Message("T", b"x")
            assert len(await producer.send_batches([small, Message("T", body), small])) == 3
            with pytest.raises(MessageIllegal, match=r"the batch takes .* split it"):
                await producer.send_batch([Message("T", body[: MAX_BODY_BYTES // 4]) for _ in range(4)])

    run(test)


@pytest.mark.parametrize("wrong", ["hello", None, b"x", 5, {"topic": "T"}])
def test_what_is_no_message_is_refused_in_every_way_of_sending(wrong: Any) -> None:
    with peers_in_a_thread() as peers:
        listener = Listener()
        with gantrymq.TransactionProducer("pg", name_servers=peers.address, listener=listener) as producer:
            ways: list[Callable[[], Any]] = [
                lambda: producer.send(wrong),
                lambda: producer.send_oneway(wrong),
                lambda: producer.send_async(wrong).result(10),
                lambda: producer.send_ordered(wrong, "key"),
                lambda: producer.send_batch([wrong]),
                lambda: producer.send_in_transaction(wrong),
                lambda: producer.request(wrong),
            ]
            for way in ways:
                with pytest.raises(MessageIllegal, match="must be a Message"):
                    way()
            with pytest.raises(MessageIllegal, match="must be a list"):
                producer.send_batch(wrong)
        assert not peers.broker.requests or all(command.code != SEND for command in peers.broker.requests)


@pytest.mark.parametrize(
    ("queue", "words"), [(3, "must be a MessageQueue"), (MessageQueue("U", "broker-a", 0), "a queue of another one")]
)
def test_a_queue_that_is_none_of_the_topic_is_refused(queue: Any, words: str) -> None:
    """The message went to the topic of the queue."""
    with peers_in_a_thread() as peers, gantrymq.Producer("pg", name_servers=peers.address) as producer:
        message = Message("T", b"x")
        ways: list[Callable[[], Any]] = [
            lambda: producer.send(message, queue),
            lambda: producer.send_oneway(message, queue),
            lambda: producer.send_batch([message], queue),
            lambda: producer.request(message, queue=queue),
        ]
        for way in ways:
            with pytest.raises(MessageIllegal, match=words):
                way()


NO_QUEUES: list[Any] = ["orders-paid", 3, None, b"x", ("T", "broker-a", 0)]


def calls_about(consumer: object, kind: str) -> list[tuple[str, Callable[[Any], Any]]]:
    """The public calls whose first argument is a queue, or several, by the name of the call."""
    found: list[tuple[str, Callable[[Any], Any]]] = []
    for name, method in inspect.getmembers(consumer, inspect.ismethod):
        parameters = list(inspect.signature(method).parameters.values())
        if name.startswith("_") or not parameters or not str(parameters[0].annotation).startswith(kind):
            continue
        rest = [1 for one in parameters[1:] if one.default is one.empty and one.kind is not one.VAR_KEYWORD]
        found.append((name, partial(_with_rest, method, rest)))
    return found


def _with_rest(method: Callable[..., Any], rest: list[int], first: object) -> Any:
    return method(first, *rest)


@pytest.mark.parametrize(
    ("kind_of_client", "calls"),
    [
        (gantrymq.PullConsumer, {"MessageQueue": 8, "Iterable[MessageQueue]": 2}),
        (gantrymq.LitePullConsumer, {"MessageQueue": 5, "Iterable[MessageQueue]": 3, "Mapping[MessageQueue": 1}),
    ],
)
def test_what_is_no_queue_is_refused_by_every_call(kind_of_client: Any, calls: dict[str, int]) -> None:
    """The likeliest one is the name of a topic. It was an AttributeError from inside the library."""
    with peers_in_a_thread() as peers, kind_of_client("CG", name_servers=peers.address) as consumer:
        peers.broker.requests.clear()
        for kind, count in calls.items():
            found = calls_about(consumer, kind)
            assert len(found) == count, (kind, [name for name, _ in found])
            for name, call in found:
                for wrong in NO_QUEUES:
                    if kind.startswith("Mapping"):
                        values: list[Any] = [{wrong: 1}, *([] if wrong is None else [wrong])]
                    else:
                        values = [wrong] if kind == "MessageQueue" else [wrong, [wrong]]
                    for value in values:
                        with pytest.raises(ConfigError, match="MessageQueue"):
                            call(value)
                            pytest.fail(f"{name}({value!r}) was accepted")
        asked = {RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET, RequestCode.PULL_MESSAGE}
        assert asked.isdisjoint(peers.broker.codes())
