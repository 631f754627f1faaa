"""A checker that could not tell an outcome is asked again within seconds, long before the broker asks again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from gantrymq import LocalTransactionState, Message, MessageView, TransactionProducer
from gantrymq.client.listener import ListenerAnswer
from gantrymq.client.sending.check_again import WAITS_S
from gantrymq.testing import LocalCluster

COMMIT, ROLLBACK, UNKNOWN = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK, LocalTransactionState.UNKNOWN
INTERVAL_S: Final = 1000.0
AWAY: Final = ListenerAnswer(UNKNOWN, remark="the database is away", ask_again=True)
NO_IDEA: Final = ListenerAnswer(UNKNOWN, remark="no idea")
pytestmark = pytest.mark.gantry(
    virtual_time=True, broker={"transactionTimeOut": 1000, "transactionCheckInterval": int(INTERVAL_S * 1000)}
)


class Checker:
    """Gives these answers to its checks, and the last one for ever."""

    decisive: Final = True

    def __init__(self, *answers: ListenerAnswer) -> None:
        self._answers = list(answers)
        self.asked = 0

    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        return UNKNOWN

    def check_local_transaction(self, message: MessageView) -> ListenerAnswer:
        self.asked += 1
        return self._answers[min(self.asked, len(self._answers)) - 1]


@pytest.fixture
def topic(gantry: LocalCluster) -> Iterator[str]:
    gantry.create_topic("orders")
    yield "orders"


def asked_about_one(gantry: LocalCluster, checker: Checker) -> TransactionProducer:
    """A producer that was asked once about its half message."""
    producer = TransactionProducer("service", name_servers=gantry.name_servers, listener=checker)
    producer.start()
    producer.send_in_transaction(Message("orders", b"1"))
    while not checker.asked:
        gantry.advance(0.1)
    return producer


@pytest.mark.parametrize("outcome", [COMMIT, ROLLBACK])
def test_the_broker_learns_the_outcome_as_soon_as_the_checker_can_tell(
    gantry: LocalCluster, topic: str, outcome: LocalTransactionState
) -> None:
    checker = Checker(AWAY, AWAY, AWAY, ListenerAnswer(outcome))
    with asked_about_one(gantry, checker):
        assert len(gantry.open_transactions()) == 1
        gantry.advance(sum(WAITS_S[:3]) + 0.3)
        assert (checker.asked, gantry.open_transactions()) == (4, [])
        assert len(gantry.messages(topic)) == (outcome is COMMIT)
        gantry.advance(sum(WAITS_S))
        assert checker.asked == 4, "it is known"


def test_without_ask_again_the_broker_asks_when_it_is_time(gantry: LocalCluster, topic: str) -> None:
    checker = Checker(NO_IDEA)
    with asked_about_one(gantry, checker):
        gantry.advance(sum(WAITS_S))
        assert (checker.asked, len(gantry.open_transactions())) == (1, 1)


def test_it_ends_with_the_first_answer_that_gives_no_hope(gantry: LocalCluster, topic: str) -> None:
    checker = Checker(AWAY, NO_IDEA)
    with asked_about_one(gantry, checker):
        gantry.advance(sum(WAITS_S))
        assert (checker.asked, len(gantry.open_transactions())) == (2, 1)


def test_it_ends_after_the_last_wait_and_begins_anew_with_the_next_check(gantry: LocalCluster, topic: str) -> None:
    checker = Checker(AWAY)
    with asked_about_one(gantry, checker):
        gantry.advance(sum(WAITS_S) + 1)
        assert checker.asked == 1 + len(WAITS_S)
        gantry.advance(INTERVAL_S / 2)
        assert checker.asked == 1 + len(WAITS_S)
        gantry.advance(INTERVAL_S / 2)
        assert checker.asked > 1 + len(WAITS_S)


def test_a_producer_that_is_closed_meanwhile_asks_nobody(gantry: LocalCluster, topic: str) -> None:
    checker = Checker(AWAY)
    producer = asked_about_one(gantry, checker)
    producer.close()
    gantry.advance(sum(WAITS_S))
    assert checker.asked == 1
