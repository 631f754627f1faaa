"""Listeners with decisive checkers: how the producer declares them to the broker, and who answers an early check."""

from __future__ import annotations

from typing import Any

import pytest

from gantrymq.aio import DecisiveListener, Message, TransactionProducer
from gantrymq.client.connection import heartbeat
from gantrymq.client.listener import ListenerAnswer
from gantrymq.errors import ConfigError
from gantrymq.message import properties
from tests.client.peer import cluster, run, until
from tests.client.test_transaction_producer import COMMIT, UNKNOWN, Listener

EARLY = f"{properties.EARLY_CHECK}\x01true\x02"


class Decisive(Listener):
    decisive = True


def test_a_half_says_that_its_checkers_are_decisive_and_names_their_group() -> None:
    async def test() -> None:
        listener: DecisiveListener = Decisive()
        async with (
            cluster() as peers,
            TransactionProducer("tpg", name_servers=peers.address, listener=listener) as producer,
            TransactionProducer("plain", name_servers=peers.address, listener=Listener()) as plain,
        ):
            message = Message("T", b"x")
            await producer.send_in_transaction(message)
            await plain.send_in_transaction(Message("T", b"y"))
            sent = {body: properties.decode(header.properties or "") for header, body in peers.broker.halves}
            assert sent[b"x"][properties.IMMUNE_WHILE_CONNECTED] == "tpg" == sent[b"x"][properties.PRODUCER_GROUP]
            assert sent[b"x"][properties.SENDING_CLIENT] == producer.client_id, "also in its first message"
            assert {properties.IMMUNE_WHILE_CONNECTED, properties.SENDING_CLIENT}.isdisjoint(sent[b"y"])
            assert properties.IMMUNE_WHILE_CONNECTED not in message.properties

    run(test)


@pytest.mark.parametrize("decisive", ["yes", None, 1])
def test_decisive_is_true_or_false(decisive: Any) -> None:
    listener = Listener()
    listener.decisive = decisive  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="write True or False"):
        TransactionProducer("tpg", name_servers="127.0.0.1:1", listener=listener)


@pytest.mark.parametrize("name", [properties.IMMUNE_WHILE_CONNECTED, properties.SENDING_CLIENT])
def test_users_cannot_set_the_marks_themselves(name: str) -> None:
    with pytest.raises(Exception, match="reserved"):
        Message("T", b"x", properties={name: "tpg"})


@pytest.mark.parametrize("kind", [Decisive, Listener])
def test_an_early_check_is_answered_by_a_decisive_checker_only(kind: Any) -> None:
    """The process that declared the checkers of its group decisive may have another version than this one."""

    async def test() -> None:
        listener = kind(execute=UNKNOWN, check=COMMIT)
        async with (
            cluster() as peers,
            TransactionProducer("tpg", name_servers=peers.address, listener=listener) as producer,
        ):
            await producer.send_in_transaction(Message("T", b"x"))
            await until(lambda: peers.broker.ended_one_way)
            peers.broker.check(0, more=EARLY)
            if kind is Decisive:
                await until(lambda: peers.broker.ended)
                assert len(listener.checked) == 1
            else:
                await until(lambda: len(peers.broker.ended_one_way) == 2)
                assert peers.broker.ended_one_way[1].from_transaction_check and not listener.checked
                peers.broker.check(0)
                await until(lambda: peers.broker.ended)

    run(test)


def test_a_lost_connection_is_made_again_at_once_and_says_whose_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker would take a producer that is away for half a second for dead."""
    monkeypatch.setattr(heartbeat, "RECONNECT_INTERVAL_MS", 3_600_000)

    async def test() -> None:
        async with (
            cluster() as peers,
            TransactionProducer("tpg", name_servers=peers.address, listener=Decisive(), topics=["T"]),
        ):
            await until(lambda: peers.broker.beats)
            for number in (2, 3):
                peers.broker.sessions[-1].close()
                await until(lambda number=number: len(peers.broker.beats) == number)  # type: ignore[misc]
            assert len({beat.client_id for beat in peers.broker.beats}) == 1
            assert len(peers.broker.sessions) == 3

    run(test)


def test_a_broker_with_an_open_transaction_of_ours_hears_from_us_though_the_name_servers_have_forgotten_it() -> None:
    """It was down for longer than the interval of the routes. Back again, it waits some seconds for its senders."""

    async def test() -> None:
        async with (
            cluster() as peers,
            TransactionProducer("tpg", name_servers=peers.address, listener=Decisive(), topics=["T"]) as producer,
        ):
            half = await producer.begin(Message("T", b"x"))
            (gone,) = peers.brokers
            before = len(gone.beats)
            peers.brokers.clear()
            await producer._endpoint.routes.refresh()
            peers.brokers.append(gone)  # so that it is closed with the others
            assert producer._endpoint.routes.master(gone.name) is None
            gone.sessions[-1].close()
            await until(lambda: len(gone.beats) > before)
            await producer.finish(half, ListenerAnswer(COMMIT))
            peers.brokers.clear()
            await producer._endpoint.routes.refresh()
            peers.brokers.append(gone)
            assert list(producer._brokers()) == []

    run(test)
