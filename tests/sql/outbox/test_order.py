"""Ordering keys: rows of one key leave in the order of the commits, one after the other."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from gantrymq import ConsumeFromWhere, Message, MessageView, Producer, PushConsumer
from gantrymq.client.results import TransactionSendResult
from gantrymq.client.sending.transaction_sender import TransactionSender
from gantrymq.errors import Closed, ConfigError, MessageIllegal, Unreachable
from gantrymq.message import properties
from gantrymq.sql import ConnectionTransaction
from gantrymq.sql.rows.dialect import DatabaseKind
from gantrymq.sql.rows.outbox_table import drop_order_ddl, outbox_ddl
from gantrymq.sql.transaction import relay
from gantrymq.sql.transaction.relay import Relay
from tests.sql.outbox.rows_shop import TOPIC, RowsShop, shop, until

__all__ = ["shop"]
AWAY = pytest.mark.parametrize("away", ["refuse", "row", "always"])
PURE = pytest.mark.pure("it puts itself between a relay and the ends of its halves")
KEYS = ("a", "b", "c", "d")
NONE = "-"


def pay(shop: RowsShop, tx: ConnectionTransaction, number: int, key: str | None) -> None:
    tx.execute(f"INSERT INTO orders VALUES ({number})")
    tx.send(Message(TOPIC, b"%d" % number, properties={"of": str(key or NONE)}), order_key=key)


def sent(shop: RowsShop) -> dict[str, list[int]]:
    """The numbers of the messages of each key, in the order of their queue."""
    found: dict[str, list[int]] = {}
    for message in shop.gantry.messages(TOPIC):
        found.setdefault(message.properties["of"], []).append(int(message.body))
    return found


def column(shop: RowsShop, name: str) -> list[Any]:
    return [row[0] for row in shop.place.execute(f"SELECT {name} FROM gantrymq_outbox ORDER BY id")]


def make_old(shop: RowsShop) -> None:
    """The table is as it was before there were keys."""
    shop.place.execute("DROP TABLE gantrymq_outbox")
    for statement in outbox_ddl(DatabaseKind(shop.place.kind), ordered=False):
        shop.place.execute(statement)


@AWAY
def test_messages_of_a_key_leave_in_the_order_of_the_commits(shop: RowsShop, away: str) -> None:
    """Two processes commit by turns, and the broker is away for a while."""
    one, two = shop.service(away), shop.service(away)
    wanted: dict[str, list[int]] = {}

    def sell(numbers: range) -> None:
        for number in numbers:
            key = KEYS[number % 3 + number % 2]
            with (one, two)[number % 7 % 2].begin() as tx:
                pay(shop, tx, number, key)
            wanted.setdefault(key, []).append(number)

    sell(range(1, 20))
    with shop.broker_away():
        sell(range(20, 40))
        assert shop.rows() >= 20
    sell(range(40, 50))
    shop.wait_until_agreed()
    assert sent(shop) == wanted


def test_an_orderly_consumer_gets_them_in_that_order(shop: RowsShop) -> None:
    got: list[tuple[str, int]] = []

    def listen(messages: list[MessageView]) -> None:
        got.extend((message.properties["of"], int(message.body)) for message in messages)

    transactions = shop.service("refuse")
    consumer = PushConsumer(
        "readers", name_servers="127.0.0.1:9876", listener=listen, orderly=True,
        from_where=ConsumeFromWhere.FIRST_OFFSET,
    )  # fmt: skip
    consumer.subscribe(TOPIC)
    with consumer:
        for number in range(1, 31):
            with transactions.begin() as tx:
                pay(shop, tx, number, KEYS[number % 4])
        until(lambda: len(got) == 30, "all are consumed")
    for key in KEYS:
        numbers = [number for of, number in got if of == key]
        assert numbers == sorted(numbers) and numbers


def test_the_queue_is_that_of_a_producer(shop: RowsShop) -> None:
    transactions = shop.service("refuse")
    keys = [f"customer-{number}" for number in range(12)]
    with Producer("plain", name_servers="127.0.0.1:9876") as producer:
        queues = {key: producer.send_ordered(Message("other", b"x"), key).queue.queue_id for key in keys}
    assert len(set(queues.values())) > 1
    with transactions.begin() as tx:
        for number, key in enumerate(keys):
            pay(shop, tx, number, key)
    shop.wait_until_agreed()
    for message in shop.gantry.messages(TOPIC):
        assert message.queue.queue_id == queues[message.properties["of"]]
        assert message.properties[properties.SHARDING_KEY] == message.properties["of"]


def test_a_transaction_with_a_key_goes_by_row_as_a_whole(shop: RowsShop) -> None:
    transactions = shop.service("refuse", send_timeout_ms=300)
    with shop.broker_away():
        with transactions.begin() as tx:
            pay(shop, tx, 1, None)
            pay(shop, tx, 2, "a")
            with pytest.raises(ZeroDivisionError), tx.savepoint():
                pay(shop, tx, 3, "a")
                print(1 // 0)
            pay(shop, tx, 4, None)
        assert shop.paid() == [1, 2, 4] and shop.rows() == 3
    shop.wait_until_agreed()
    assert shop.outcomes().count(3) == 1


@PURE
@AWAY
def test_the_next_row_waits_until_the_commit_of_the_one_before_is_answered(
    shop: RowsShop, away: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The COMMIT of the first one does not reach its broker, and the process that has sent it ends. Another one finds
    the row, and repeats it."""
    finish, lost = TransactionSender.finish, threading.Event()

    async def lose(self: TransactionSender, half: Any, outcome: Any) -> TransactionSendResult:
        if half.given.body == b"1" and not lost.is_set():
            lost.set()
            await asyncio.Event().wait()
        return await finish(self, half, outcome)

    monkeypatch.setattr(TransactionSender, "finish", lose)
    monkeypatch.setattr(relay, "ENDS_S", 0.2)
    monkeypatch.setattr(relay, "RARE_LOOK_S", 0.5)
    dead = shop.service(away, close_timeout_ms=100)
    with dead.begin() as tx:
        for number in (1, 2, 3):
            pay(shop, tx, number, "a")
        pay(shop, tx, 4, "b")
    until(lambda: lost.is_set() and sent(shop).get("b") == [4], "the other key does not wait")
    until(lambda: [bool(half) for half in column(shop, "half")] == [True, False, False], "its half message is written")
    assert "a" not in sent(shop)
    shop.gantry.kill(dead._started()[1])
    shop.place.execute("UPDATE gantrymq_outbox SET taken_until = 0")  # its time is over
    shop.service(away).start()
    until(lambda: shop.rows() == 0, "somebody sends all rows")
    shop.wait_until_agreed()
    assert sent(shop)["a"] == [1, 2, 3]


@PURE
def test_a_commit_that_is_not_answered_is_repeated(shop: RowsShop, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the same process, and the broker has carried it out the first time."""
    finish, times = TransactionSender.finish, []

    async def unheard(self: TransactionSender, half: Any, outcome: Any) -> TransactionSendResult:
        result = await finish(self, half, outcome)
        times.append(half.given.body)
        if len(times) == 1:
            raise Unreachable("127.0.0.1:10911", "the answer was lost")
        return result

    monkeypatch.setattr(TransactionSender, "finish", unheard)
    monkeypatch.setattr(relay, "TAKEN_MS", 100)
    monkeypatch.setattr(relay, "LOOK_S", 0.2)
    with shop.service("always").begin() as tx:
        for number in (1, 2, 3):
            pay(shop, tx, number, "a")
    shop.wait_until_agreed()
    assert sent(shop) == {"a": [1, 2, 3]}
    assert times == [b"1", b"1", b"2", b"3"]


@pytest.mark.gantry(broker={"autoCreateTopicEnable": "false"})
@pytest.mark.parametrize("database", ["sqlite", "postgresql"], indirect=True)
def test_a_row_that_is_refused_stops_the_later_ones_of_its_key_only(
    shop: RowsShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "LOOK_S", 0.2)
    transactions = shop.service("refuse")
    with transactions.begin() as tx:
        tx.send(Message("no-such-topic", b"x"), order_key="a")
    for number, key in enumerate("abab", start=1):
        with transactions.begin() as tx:
            pay(shop, tx, number, key)
    until(lambda: sent(shop) == {"b": [2, 4]}, "those of the other key are sent")
    until(lambda: shop.rows() == 3, "the row of a message goes when its commit is answered")
    shop.gantry.create_topic("no-such-topic")

    def is_sent() -> bool:
        shop.place.execute("UPDATE gantrymq_outbox SET taken_until = 0 WHERE half = ''")  # its pause is over
        return shop.rows() == 0

    until(is_sent, "it is sent as soon as its topic is there")
    assert sent(shop) == {"a": [1, 3], "b": [2, 4]}


@AWAY
def test_a_table_from_before_works_without_keys_and_says_what_to_do(shop: RowsShop, away: str) -> None:
    make_old(shop)
    transactions = shop.service(away)
    with pytest.raises(ConfigError, match="--add-ordering"), transactions.begin() as tx:
        pay(shop, tx, 1, "a")
    with transactions.begin() as tx:
        pay(shop, tx, 2, None)
    shop.wait_until_agreed()
    transactions.create_table()
    transactions.create_table()
    again = shop.service(away)
    with again.begin() as tx:
        pay(shop, tx, 3, "a")
        pay(shop, tx, 4, "a")
    shop.wait_until_agreed()
    assert sent(shop) == {NONE: [2], "a": [3, 4]}


@pytest.mark.parametrize("database", ["sqlite", "postgresql"], indirect=True)
def test_what_was_added_can_be_dropped_again(shop: RowsShop) -> None:
    make_old(shop)
    shop.service("refuse").create_table()
    assert column(shop, "half") == []
    for statement in drop_order_ddl(DatabaseKind(shop.place.kind)):
        shop.place.execute(statement)
    with shop.service("always").begin() as tx:
        pay(shop, tx, 1, None)
    shop.wait_until_agreed()


def test_without_the_table_it_says_what_to_do(shop: RowsShop) -> None:
    shop.place.execute("DROP TABLE gantrymq_outbox")
    with pytest.raises(ConfigError, match="create_table"), shop.service("refuse").begin() as tx:
        pay(shop, tx, 1, "a")
    assert shop.paid() == []


def test_a_process_that_knows_no_keys_yet_sends_no_row_out_of_order(
    shop: RowsShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has started before the migration."""
    make_old(shop)
    monkeypatch.setattr(relay, "LOOK_S", 0.1)
    early = shop.service("always")
    early.start()
    assert not early._started()[0].outbox.ordered
    early.create_table()
    taken: list[list[str]] = []
    take = Relay._take

    async def noted(self: Relay, count: int) -> Any:
        rows = await take(self, count)
        taken.append([row.order_key for row in rows])
        return rows

    monkeypatch.setattr(Relay, "_take", noted)
    with shop.broker_away():
        late = shop.service("always")
        with late.begin() as tx:
            for number in range(1, 11):
                pay(shop, tx, number, KEYS[number % 2])
        late.close()
        shop.place.execute("UPDATE gantrymq_outbox SET taken_until = 0")  # what it has taken is free
    until(lambda: shop.rows() == 0, "the other one sends them")
    shop.wait_until_agreed()
    assert sent(shop) == {"a": [2, 4, 6, 8, 10], "b": [1, 3, 5, 7, 9]}
    assert all(len(set(keys)) == len(keys) for keys in taken), "only the oldest row of a key is taken"


@pytest.mark.parametrize("key", ["", "  ", "k" * 256, "a\0b", 7])
@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_keys_that_the_table_cannot_hold_are_refused(shop: RowsShop, key: Any) -> None:
    with pytest.raises(MessageIllegal, match=r"order_key|key"), shop.service("refuse").begin() as tx:
        pay(shop, tx, 1, key)
    assert shop.paid() == []


def test_keys_of_any_letters_are_kept(shop: RowsShop) -> None:
    keys = ["k" * 255, "größe", "中文 🐘", "it's"]
    with shop.service("refuse").begin() as tx:
        for number in range(8):
            pay(shop, tx, number, keys[number % 4])
    shop.wait_until_agreed()
    assert sent(shop) == {key: [number, number + 4] for number, key in enumerate(keys)}


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_key_that_comes_while_halves_are_committed_is_refused(shop: RowsShop) -> None:
    """From another thread, for example."""
    with shop.service("refuse") as service:
        enlistment = service._enlist()
        enlistment.send(Message(TOPIC, b"1"))
        enlistment.prepare(lambda statement: 1)
        with pytest.raises(Closed, match="before the commit begins"):
            enlistment.send(Message(TOPIC, b"2"), None, "a")
        enlistment.rolled_back()


def in_turn(count: int, work: Callable[[int], None]) -> None:
    """Call ``work`` in threads, all at the same time."""
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("database", ["postgresql", "mariadb"], indirect=True)
def test_transactions_that_wait_for_each_other_keep_their_order(shop: RowsShop) -> None:
    """Each one changes the row of its customer, and sends the number that it has read there."""
    shop.place.execute("CREATE TABLE customers (id VARCHAR(10) PRIMARY KEY, orders INTEGER)")
    for key in KEYS:
        shop.place.execute(f"INSERT INTO customers VALUES ('{key}', 0)")
    services = [shop.service(away) for away in ("refuse", "row", "always")]

    def sell(thread: int) -> None:
        for number in range(12):
            key = KEYS[number % 2]
            with services[thread % 3].begin() as tx:
                tx.execute("UPDATE customers SET orders = orders + 1 WHERE id = %s", (key,))
                cursor = tx.execute("SELECT orders FROM customers WHERE id = %s", (key,))
                [count] = cursor.fetchone()
                tx.execute(f"INSERT INTO orders VALUES ({1000 * KEYS.index(key) + count})")
                body = b"%d" % (1000 * KEYS.index(key) + count)
                tx.send(Message(TOPIC, body, properties={"of": key}), order_key=key)

    in_turn(6, sell)
    shop.wait_until_agreed()
    assert sent(shop) == {"a": list(range(1, 37)), "b": list(range(1001, 1037))}
