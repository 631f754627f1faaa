"""Local transactions on DB-API connections: what goes wrong at the commit, and what check-backs answer."""

from __future__ import annotations

import sqlite3
import threading
from dataclasses import replace
from typing import Any

import pytest

from gantrymq import Message
from gantrymq.errors import OutcomeUnknown, TransactionClaimed
from gantrymq.sql import ConnectionTransactions
from gantrymq.sql.rows.failures import Failure
from gantrymq.sql.rules.claim import Failed, Query
from tests.sql.cutting_proxy import CuttingProxy, Moment
from tests.sql.databases import Place
from tests.sql.shop import NETWORKED, SOON, Shop, service, shop

__all__ = ["shop"]


# A commit that fails.


def through(proxy: CuttingProxy, place: Place, **options: Any) -> ConnectionTransactions:
    return service(replace(place, port=proxy.port), **options)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("database", NETWORKED, indirect=True)
def test_a_connection_lost_at_the_commit_is_settled_by_asking_the_database(shop: Shop, moment: Moment) -> None:
    with CuttingProxy(shop.place.port) as proxy, through(proxy, shop.place) as transactions:
        block = transactions.begin()
        if moment == "before":
            with pytest.raises(Exception, match=r"(?i)lost|closed"), block as tx:
                shop.pay(tx, 1)
                proxy.cut(moment)
            assert shop.nothing_happened()
        else:
            with block as tx:
                shop.pay(tx, 1)
                proxy.cut(moment)
            assert (shop.paid(), shop.bodies()) == ([1], [b"1"])
        assert proxy.cuts == 1
        assert shop.outcomes() == [2 if moment == "before" else 1]
        assert not shop.gantry.open_transactions()


@pytest.mark.slow
@SOON
@pytest.mark.parametrize("database", NETWORKED, indirect=True)
def test_a_commit_that_nobody_can_be_asked_about_is_unknown_and_settled_later(shop: Shop) -> None:
    with CuttingProxy(shop.place.port) as proxy, through(proxy, shop.place, longest_transaction=1) as transactions:
        connect = transactions._database.connect
        with pytest.raises(OutcomeUnknown) as caught, transactions.begin() as tx:
            shop.pay(tx, 1)
            proxy.cut("after")
            transactions._database.connect = replace(shop.place, port=1).connect
        assert caught.value.transaction_id == tx.transaction_id
        transactions._database.connect = connect
        shop.gantry.wait_until(lambda: not shop.gantry.open_transactions(), 60)
    assert (shop.paid(), shop.bodies()) == ([1], [b"1"])


@pytest.mark.parametrize("database", NETWORKED, indirect=True)
def test_a_connection_that_the_database_ends_inside_the_block(shop: Shop) -> None:
    with pytest.raises(Exception, match=r"(?i)terminat|lost|closed|killed"), shop.transactions.begin() as tx:
        shop.pay(tx, 1)
        shop.place.kill_connections()
        tx.execute(shop.insert, (2,))
    assert shop.nothing_happened()


@pytest.mark.parametrize("database", NETWORKED, indirect=True)
def test_a_lost_connection_whose_error_was_caught_is_no_commit(shop: Shop) -> None:
    """psycopg's own block leaves without an error then."""
    with pytest.raises(Exception, match=r"(?i)lost|closed|gone|\(0, ''\)"), shop.transactions.begin() as tx:
        shop.pay(tx, 1)
        shop.place.kill_connections()
        with pytest.raises(Exception, match=r"(?i)terminat|lost|killed"):
            tx.execute(shop.insert, (2,))
    assert shop.nothing_happened()


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_commit_that_waits_for_a_reader_in_vain_is_rolled_back(shop: Shop) -> None:
    reader = shop.place.connect()
    with pytest.raises(sqlite3.OperationalError, match="locked"), shop.transactions.begin() as tx:
        tx.execute("PRAGMA busy_timeout = 1")
        shop.pay(tx, 1)
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM gantrymq_outcomes").fetchall()
    assert not shop.gantry.open_transactions(), "it is rolled back for sure, and needs no claim, which would wait, too"
    reader.close()
    assert shop.nothing_happened()


@pytest.mark.parametrize("when", ["before", "within", "after"])
def test_ctrl_c_at_the_commit_is_raised_when_the_transaction_is_settled(
    shop: Shop, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shop.transactions.begin() as tx:
        kind = type(tx._driver)
    commit = kind.commit

    def interrupted(self: Any, *_: Any) -> None:
        if when == "after":
            commit(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(kind, "verify" if when == "before" else "commit", interrupted)
    with pytest.raises(KeyboardInterrupt), shop.transactions.begin() as tx:
        shop.pay(tx, 1)
    assert not shop.gantry.open_transactions()
    assert shop.paid() == ([1] if when == "after" else [])
    assert shop.bodies() == ([b"1"] if when == "after" else [])


# Check-backs.


@pytest.mark.slow
def test_a_check_back_claims_a_transaction_whose_process_is_gone(shop: Shop) -> None:
    with shop.sibling():
        with pytest.raises(TransactionClaimed), shop.transactions.begin() as tx:
            tx.send(Message("orders", b"1"))
            shop.gantry.wait_until(lambda: len(shop.gantry.open_transactions()) == 1)
            shop.gantry.kill(shop.transactions._started()[1])
            shop.gantry.wait_until(lambda: not shop.gantry.open_transactions(), 60)
            tx.execute(shop.insert, (1,))
        assert shop.outcomes() == [2]
    assert shop.nothing_happened()


@pytest.mark.slow
def test_a_sibling_answers_commit_for_a_process_that_died_behind_its_commit(shop: Shop) -> None:
    with shop.sibling():
        with shop.transactions.begin() as tx:
            shop.pay(tx, 1)
            tx.send(Message("points", b"10"))
            shop.gantry.wait_until(lambda: len(shop.gantry.open_transactions()) == 2)
            shop.gantry.kill(shop.transactions._started()[1])
        shop.gantry.wait_until(lambda: not shop.gantry.open_transactions(), 60)
    assert (shop.paid(), shop.bodies(), shop.bodies("points")) == ([1], [b"1"], [b"10"])


def test_a_claim_does_not_wait_long_for_a_running_transaction(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    with shop.sibling(claim_timeout=0.2) as sibling:
        answers: list[Any] = []

        def commit_late(self: Any) -> None:
            asked = threading.Thread(
                target=lambda: answers.append(sibling._started()[0].ask(Query.CLAIM, tx.transaction_id or ""))
            )
            asked.start()
            asked.join()
            commit(self)

        with shop.transactions.begin() as tx:
            kind = type(tx._driver)
        commit = kind.commit
        monkeypatch.setattr(kind, "commit", commit_late)
        with shop.transactions.begin() as tx:
            shop.pay(tx, 1)
    assert isinstance(answers[0], Failed), answers
    assert answers[0].failure is Failure.LOCKED, answers
    assert shop.bodies() == [b"1"]
