"""What becomes of halves and rows: one relay, two relays, a broker that refuses, and a half whose message is a row."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from gantrymq import Message
from gantrymq.message import properties
from gantrymq.message.transaction import LocalTransactionState
from gantrymq.sql.rows.outbox_statements import portions
from gantrymq.sql.rows.outbox_table import BYTES_AT_ONCE, ROWS_AT_ONCE, decode, encode, row_id, started_ms
from gantrymq.sql.rows.transaction_id import make
from gantrymq.sql.rules import steps
from gantrymq.sql.rules.claim import COMMIT, COMMIT_BY_ROW, ROLLBACK, read_rows
from gantrymq.sql.rules.steps import Away
from gantrymq.sql.transaction.checker import OutcomeChecker
from gantrymq.sql.transaction.relay import Relay
from tests.sql.message_views import view
from tests.sql.outbox.rows_shop import RowsShop, shop, until

__all__ = ["shop"]


def made_by(work: Any, *answers: Any) -> list[Any]:
    """The steps of a generator that gets these answers."""
    given, found = iter(answers), []
    try:
        step = next(work)
        while True:
            found.append(step)
            step = work.send(next(given, None))
    except StopIteration:
        return found


@pytest.mark.parametrize(
    ("away", "stored", "by_row", "waits"),
    [
        (Away.REFUSE, True, False, True), (Away.REFUSE, None, False, True), (Away.ROW, True, False, True),
        (Away.ROW, False, True, True), (Away.ALWAYS, None, True, False),
    ],
)  # fmt: skip
def test_which_way_messages_go(away: Away, stored: bool | None, by_row: bool, waits: bool) -> None:
    found = made_by(steps.prepare("t", away), *([stored] if waits else []))
    wanted: list[Any] = [steps.HalvesStored()] if waits else []
    wanted += [steps.InsertOutcome("t", by_row), *([steps.InsertRows()] if by_row else [])]
    assert found == wanted


def test_an_outcome_by_row_is_a_commit_and_a_rollback_of_its_halves() -> None:
    rows = [("#database", 0, "here"), ("t", 3, "g")]
    answer = read_rows(rows, "t", "here")
    assert answer is COMMIT_BY_ROW
    assert (answer.state, answer.of_halves) == (LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK)
    assert COMMIT.of_halves is LocalTransactionState.COMMIT and ROLLBACK.of_halves is LocalTransactionState.ROLLBACK


def test_a_message_comes_back_from_its_row_as_it_was() -> None:
    message = Message("t", b"\0\xff", keys=["a", "b"], tags="x", properties={"key": "värde"}, flag=-7, unique_key="u")
    row = decode("id", "t", memoryview(encode(message)))
    assert row.message == message


def test_rows_are_inserted_in_portions() -> None:
    small = [(str(number), "t", b"x", "") for number in range(2 * ROWS_AT_ONCE + 1)]
    assert [len(some) for some in portions(small)] == [ROWS_AT_ONCE, ROWS_AT_ONCE, 1]
    large = [(str(number), "t", b"x" * BYTES_AT_ONCE, "") for number in range(3)]
    assert [len(some) for some in portions(large)] == [1, 1, 1]


def test_an_id_of_a_row_tells_its_age() -> None:
    assert started_ms(row_id(make(1_700_000_000_123, 5), 3)) == 1_700_000_000_123


@pytest.mark.parametrize("database", ["postgresql", "sqlite"], indirect=True)
def test_a_half_of_a_transaction_by_row_is_answered_rollback(shop: RowsShop) -> None:
    transactions = shop.service("always")
    with transactions.begin() as tx:
        shop.pay(tx, 1)
        transaction_id = tx.transaction_id
    local = transactions._started()[0]
    half = view(**{properties.LOCAL_TRANSACTION: f"{transaction_id} {local.identity}"})
    answer = OutcomeChecker(local.ask).check_local_transaction(half)
    assert answer.state is LocalTransactionState.ROLLBACK
    shop.wait_until_agreed()


def test_halves_that_a_slow_broker_has_stored_after_all_are_rolled_back(shop: RowsShop) -> None:
    """Nobody waits for the broker at all, so each half message is stored behind the decision for rows."""
    transactions = shop.service("row", row_after_ms=1, send_timeout_ms=30_000)
    for number in range(1, 6):
        with transactions.begin() as tx:
            shop.pay(tx, 10 * number, 10 * number + 1)
        transactions._started()[0].waiting.away = False  # so that the next one tries its halves, too
    shop.wait_until_agreed()


def test_two_relays_with_the_same_row_deliver_it_once(shop: RowsShop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have sent the half message of the row before one of them deletes it."""
    both = threading.Barrier(2)
    together = Relay._together

    async def at_the_same_time(self: Relay, pairs: Any, halves: Any) -> Any:
        def wait() -> None:
            both.wait(30)

        if len(pairs) == 1 and not both.broken:
            import asyncio

            await asyncio.to_thread(wait)
        return await together(self, pairs, halves)

    one, two = shop.service("always"), shop.service("always")
    one.start()
    two.start()
    with shop.broker_away():
        with one.begin() as tx:
            shop.pay(tx, 1)
        until(lambda: one._started()[0].waiting.away, "the relay has found that no broker answers")
    shop.wait_until_agreed()
    monkeypatch.setattr(Relay, "_together", at_the_same_time)
    relays = [service._relaying.relay for service in (one, two) if service._relaying is not None]
    inserted = one.begin()
    with inserted as tx:
        shop.pay(tx, 2)
        transaction = tx.transaction_id
    portal = one._started()[1]._open_portal()
    row = decode(row_id(str(transaction), 0), "orders", encode(Message("orders", b"2")))
    portal.post(relays[1].committed, [row])  # the other one believes that the row is its own
    shop.wait_until_agreed()
    assert both.n_waiting == 0
    assert shop.paid() == [1, 2]


@pytest.mark.gantry(broker={"autoCreateTopicEnable": "false"})
@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_row_that_is_refused_stops_no_other(shop: RowsShop) -> None:
    transactions = shop.service("always")
    with transactions.begin() as tx:
        tx.send(Message("no-such-topic", b"x"))
        shop.pay(tx, 1)
    with transactions.begin() as tx:
        shop.pay(tx, 2)
    until(lambda: shop.bodies() == [1, 2], "the others are sent")
    until(lambda: shop.rows() == 1, "the row that is refused is left")
    shop.gantry.create_topic("no-such-topic")

    def is_sent() -> bool:
        shop.place.execute("UPDATE gantrymq_outbox SET taken_until = 0")  # its pause is over
        return shop.rows() == 0

    until(is_sent, "it is sent as soon as its topic is there")

    def sent() -> list[bytes]:
        return [message.body for message in shop.gantry.messages("no-such-topic")]

    until(lambda: bool(sent()), "its half message is committed behind the row")
    assert sent() == [b"x"]
